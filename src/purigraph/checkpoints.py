"""Checkpoints, from which all long runs resume bit-identically."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from purigraph.checkpoint_layout import Layout
from purigraph.errors import CheckpointWarning, ModelFileError, OutputError
from purigraph.fingerprint import fingerprint
from purigraph.tensor_files import read_header, read_tensors, write_tensors

# Steps take from milliseconds to minutes, so checkpoints are written by time: an interruption loses at most this much
# work, and writing takes a few thousandths of it.
SECONDS_BETWEEN = 20.0

_FORMAT = "purigraph.checkpoint/2"


@dataclass(frozen=True)
class State:
    """What a run needs to resume.

    Attributes:
        tensors: Tensors by name.
        values: JSON values by name, such as counters and the best score.
    """

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any]


class Checkpointer:
    """The checkpoint of one run: a file in a folder, written when due and removed or kept at the end.

    Args:
        folder: The folder of the file; None disables checkpoints, so callers need not check.
        name: The name of the file without its extension; one folder may hold the checkpoints of several stages.
        purpose: Text that identifies the run: its settings, seed and data. The file of another run is refused.
    """

    def __init__(self, folder: str | Path | None, name: str, purpose: str) -> None:
        self.path = None if folder is None else Path(folder) / f"{name}.safetensors"
        self._purpose = fingerprint(purpose)
        self._earlier = 0.0
        self._begun = self._saved = time.monotonic()
        self._warned = False

    @property
    def seconds(self) -> float:
        """Return the time that the run has taken, including the time before an interruption."""
        return self._earlier + time.monotonic() - self._begun

    def resume(self, layout: Layout | None = None) -> State | None:
        """Return the last saved state, or None if there is none.

        Args:
            layout: The tensors and values that the state of this run has. Default: they are not checked.

        Raises:
            ModelFileError: If the file is damaged, belongs to another run or does not have the layout.
        """
        if self.path is None or not self.path.exists():
            return None
        tensors, header = read_tensors(self.path)
        if header.get("format") != _FORMAT:
            raise ModelFileError(
                f"{self.path} is not a checkpoint of this version of purigraph: delete it to start again, or use "
                "another folder."
            )
        if header.get("purpose") != self._purpose:
            raise ModelFileError(
                f"{self.path} is the checkpoint of another run (other settings, seed or data): delete it to start "
                "again, or use another folder."
            )
        text = header.get("values", "")
        if header.get("sha256") != _digest(tensors, text):
            raise ModelFileError(
                f"{self.path} is damaged: its contents do not match the hash stored in it. Delete it to start again."
            )
        with self.restoring():
            values = json.loads(text)
            earlier = float(values.pop("seconds"))
            if not 0 <= earlier < math.inf:
                raise ValueError(f"it took {earlier} seconds")
            if layout is not None:
                layout.check(tensors, values)
        self._earlier = earlier
        return State(tensors, values)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Turn errors while a state is restored into a `ModelFileError`: what was saved is not the state of a run."""
        try:
            yield
        except ModelFileError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error).splitlines()[0]
            raise ModelFileError(
                f"{self.path} does not hold a state of this run ({reason}): delete it to start again."
            ) from error

    def offer(self, state: Callable[[], State]) -> None:
        """Save the state if a checkpoint is due; `state` is called only then."""
        if self.path is not None and time.monotonic() - self._saved >= SECONDS_BETWEEN:
            self.save(state())

    def save(self, state: State) -> None:
        """Save the state now and atomically: an interruption leaves the previous checkpoint intact.

        If it can't be written (the disk is full), the run goes on after a `CheckpointWarning`; the next one is tried.
        """
        if self.path is None:
            return
        text = json.dumps({**state.values, "seconds": self.seconds})
        header = {
            "format": _FORMAT,
            "purpose": self._purpose,
            "values": text,
            "sha256": _digest(state.tensors, text),
        }
        self._saved = time.monotonic()
        try:
            write_tensors(self.path, state.tensors, header)
        except OutputError as error:
            self._warn(error)

    def _warn(self, error: OutputError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"No checkpoint was saved: {error} The run goes on, but an interruption would lose its work since the "
                "last checkpoint.",
                CheckpointWarning,
                stacklevel=4,
            )

    def clear(self) -> None:
        """Remove the file, when the run is finished and its result is saved elsewhere."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def seconds_in(folder: str | Path | None) -> float:
    """Return the time that the interrupted runs in a folder have taken, as far as their checkpoints tell."""
    return 0.0 if folder is None else math.fsum(_seconds(path) for path in Path(folder).glob("*.safetensors"))


def _seconds(path: Path) -> float:
    try:
        told = float(json.loads(read_header(path).metadata["values"])["seconds"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0.0  # a damaged file is refused when it is resumed from
    return told if 0 <= told < math.inf else 0.0


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    return fingerprint(text, *(part for name in sorted(tensors) for part in (name, tensors[name])))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as named tensors, `optimizer/<parameter>/<name>`."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer/{index}/{name}": torch.as_tensor(value)
        for index, entry in state.items()
        for name, value in entry.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore what `optimizer_tensors` returned."""
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, *rest = key.split("/")
        if kind == "optimizer":
            state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    optimizer.load_state_dict({**whole, "state": state})


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the tensors, named `prefix/name`, that later steps do not change."""
    return {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors named `prefix/name`, by `name`."""
    start = f"{prefix}/"
    return {name[len(start) :]: tensor for name, tensor in tensors.items() if name.startswith(start)}
