"""Where a long attack keeps its state, so that an interrupted one goes on to the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from purigraph.checkpoints import Checkpoint

# An attack's epoch takes from milliseconds to a minute: by the clock, then, and not by epochs.
_SECONDS_BETWEEN = 20.0

State: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]


class Memory:
    """The checkpoint of one attack.

    Args:
        path: of the file; None keeps nothing.
        purpose: one line that names the run; the file of another run is refused.
        generator: the attack's only source of randomness, whose state belongs to the attack's.
    """

    def __init__(self, path: str | Path | None, purpose: str, generator: torch.Generator) -> None:
        self._path, self._purpose, self._generator = path, purpose, generator
        self._kept = time.monotonic()

    def recall(self) -> State | None:
        """What was kept last, with the generator as it was then; None at the beginning.

        Raises:
            ModelFileError: when the file is damaged or belongs to another run.
        """
        found = None if self._path is None else Checkpoint.load(self._path, self._purpose)
        if found is None:
            return None
        self._generator.set_state(found.tensors.pop("generator"))
        return found.tensors, found.values

    def keep(self, state: Callable[[], State]) -> None:
        """Write the state if the last one is old; it is asked for only then."""
        if self._path is None or time.monotonic() - self._kept < _SECONDS_BETWEEN:
            return
        tensors, values = state()
        Checkpoint(self._purpose, {**tensors, "generator": self._generator.get_state()}, values).save(self._path)
        self._kept = time.monotonic()

    def forget(self) -> None:
        """Remove the file: the attack is over."""
        if self._path is not None:
            Path(self._path).unlink(missing_ok=True)
