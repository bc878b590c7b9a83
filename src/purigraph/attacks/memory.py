"""Where a long attack keeps its state, so that an interrupted one goes on to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from purigraph import checkpoints
from purigraph.checkpoints import Checkpointer

State: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]


class Memory:
    """The checkpoint of one attack.

    Args:
        path: of the file; None keeps nothing.
        purpose: one line that names the run; the file of another run is refused.
        generator: the attack's only source of randomness, whose state belongs to the attack's.
    """

    def __init__(self, path: str | Path | None, purpose: str, generator: torch.Generator) -> None:
        self._generator = generator
        folder, name = (None, "") if path is None else (Path(path).parent, Path(path).name)
        self._file = Checkpointer(folder, name, purpose)

    def recall(self) -> State | None:
        """What was kept last, with the generator as it was then; None at the beginning.

        Raises:
            ModelFileError: when the file is damaged or belongs to another run.
        """
        found = self._file.resume()
        if found is None:
            return None
        tensors = dict(found.tensors)
        self._generator.set_state(tensors.pop("generator"))
        return tensors, dict(found.values)

    def keep(self, state: Callable[[], State]) -> None:
        """Write the state if the last one is old; it is asked for only then."""

        def whole() -> checkpoints.State:
            tensors, values = state()
            return checkpoints.State({**tensors, "generator": self._generator.get_state()}, values)

        self._file.offer(whole)

    def forget(self) -> None:
        """Remove the file: the attack is over."""
        self._file.clear()
