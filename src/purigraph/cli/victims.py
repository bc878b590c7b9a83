"""What the attacking commands attack: a saved classifier, behind a saved purifier or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import nn

ClassifierOption = Annotated[
    Path, typer.Option("--classifier", "-c", help="The folder of a trained classifier (`purigraph train`).")
]
PurifierOption = Annotated[
    Path | None, typer.Option("--purifier", "-m", help="The folder of a trained purifier (`purigraph fit`).")
]


def load_victim(classifier: Path, purifier: Path | None, device: str) -> nn.Module:
    """The classifier alone, or protected."""
    from purigraph import classifiers
    from purigraph.protection import protect
    from purigraph.purifiers import GPRGAE

    model = classifiers.load(classifier).to(device)
    return model if purifier is None else protect(model, GPRGAE.from_pretrained(purifier).to(device))
