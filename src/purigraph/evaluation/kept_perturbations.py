"""Saved perturbations, from which an interrupted evaluation resumes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from purigraph._version import __version__
from purigraph.attacks import Attack, Model, Race
from purigraph.checkpoints import seconds_in
from purigraph.errors import CheckpointWarning, OutputError
from purigraph.fingerprint import fingerprint
from purigraph.graph import PairGraph
from purigraph.graph.budget import Budget, Limits
from purigraph.graph.perturbation import Perturbation
from purigraph.tensor_files import read_header


@dataclass(frozen=True)
class Slot:
    """Where one perturbation is saved: a file, and a folder next to it for the attack's state while it runs.

    Attributes:
        path: The file; None saves nothing, so that callers need no special case.
    """

    path: Path | None

    @property
    def checkpoint(self) -> Path | None:
        """Return the folder for the attack's state; `keep` removes it."""
        return None if self.path is None else self.path.with_suffix(".checkpoint")

    def load(self, graph: PairGraph, limits: Limits) -> Perturbation | None:
        """Return the saved perturbation, checked again, or None if there is none yet."""
        if self.path is None or not self.path.exists():
            return None
        found = Perturbation.load(self.path)
        found.check(graph)
        limits.check(found)
        return found

    @property
    def seconds(self) -> float:
        """Return the time that earlier runs have spent on this perturbation, finished or not."""
        if self.path is None or not self.path.exists():
            return seconds_in(self.checkpoint)
        return _seconds(read_header(self.path).metadata.get("seconds", "0"))

    @property
    def given_up(self) -> bool:
        """Return whether the saved perturbation is that of an attack that was given up."""
        return self.path is not None and read_header(self.path).metadata.get("given_up") == "True"

    def keep(self, found: Perturbation, seconds: float, *, given_up: bool = False) -> None:
        """Save the perturbation and remove the attack's folder if it is empty, as it is after a run.

        If it can't be written (the disk is full), the evaluation goes on after a `CheckpointWarning`.
        """
        if self.path is None or self.checkpoint is None:
            return
        try:
            found.save(self.path, {"seconds": repr(seconds), "given_up": repr(given_up)})
        except OutputError as error:
            warnings.warn(
                f"The flips were not kept: {error} The evaluation goes on, but an interruption would lose them.",
                CheckpointWarning,
                stacklevel=3,
            )
        if self.checkpoint.is_dir() and not any(self.checkpoint.iterdir()):
            self.checkpoint.rmdir()


def _seconds(text: str) -> float:
    try:
        return float(text) if 0 <= float(text) < math.inf else 0.0
    except ValueError:
        return 0.0


class KeptPerturbations:
    """A folder of perturbations; each file name identifies everything that the perturbation depends on.

    Args:
        folder: Where they are saved; None saves nothing.
        model: The attacked model. It is identified by its parameters and its outputs; the latter also reflect its code
            and the values that a function closes over.
        outputs: Computes the model's outputs on the clean graph; only called if there is a folder.
        subject: What else all attacks have in common: graph, features, labels, targets.
    """

    def __init__(
        self, folder: str | Path | None, model: Model, outputs: Callable[[], Tensor], subject: Sequence[Tensor | str]
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        if folder is None:
            return
        parts: list[Tensor | str] = [__version__, *subject, outputs(), type(model).__name__]
        if isinstance(model, nn.Module):
            parts.append(repr(model))
            parts += [part for name_and_value in model.state_dict().items() for part in name_and_value]
        self._base = fingerprint(*parts)

    def slot(
        self, attack: Attack, budget: Budget, seed: int, start: Perturbation | None, race: Race | None = None
    ) -> Slot:
        """Return where the perturbation of one run of an attack is saved."""
        if self._folder is None:
            return Slot(None)
        begin = "" if start is None else start.digest
        against = [] if race is None else [f"against {race.beat}"]
        key = fingerprint(self._base, repr(attack), repr(budget), str(seed), begin, *against)
        name = f"{type(attack).__name__.lower()}-{budget.amount:g}-{seed}-{key[:16]}.safetensors"
        return Slot(self._folder / name)
