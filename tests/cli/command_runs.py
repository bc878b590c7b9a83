"""How the tests of the command line call it, and the files that they call it with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from purigraph.cli import app
from purigraph.errors import PurigraphError

#: A purifier and an attack that take a moment.
SMALL = ["--set", "hops=2", "--set", "node_channels=8", "--set", "edge-channels=8"]
QUICK = ["--set", "epochs=2", "--set", "fine_tune_epochs=1", "--set", "block_size=300"]


@dataclass(frozen=True)
class Workshop:
    """Small graphs and models trained for a moment.

    Attributes:
        graph: labels and a split.
        bare: neither masks nor anything else that can be left out, but labels.
        untested: a split without test nodes.
        splits: two splits, of which the first has no test nodes.
        gcn: trained on `graph`.
        seeded: trained on synthetic-citation with seed 3.
        purifier: trained on `graph`.
    """

    graph: Path
    bare: Path
    untested: Path
    splits: Path
    gcn: Path
    seeded: Path
    purifier: Path


def invoke(*arguments: object) -> str:
    """What a command prints when all is well."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(message: str, *arguments: object) -> None:
    """Hold a command to being refused on purpose, with these words."""
    with pytest.raises(PurigraphError, match=message):
        invoke(*arguments)
