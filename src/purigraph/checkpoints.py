"""Checkpoints of training: tensors and counters in one safetensors file, from which a run resumes to the same bits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from purigraph.errors import ModelFileError
from purigraph.files import read_tensors, write_tensors


@dataclass
class Checkpoint:
    """What a run needs to go on.

    Attributes:
        purpose: one line that names the run (its settings and its data); a checkpoint of another run is refused.
        tensors: by name.
        values: whatever JSON can hold: the epoch, the best score.
    """

    purpose: str
    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def save(self, path: str | Path) -> None:
        """Write atomically: an interruption leaves the previous checkpoint."""
        write_tensors(path, self.tensors, {"purpose": self.purpose, "values": json.dumps(self.values)})

    @classmethod
    def load(cls, path: str | Path, purpose: str) -> Checkpoint | None:
        """Read a checkpoint of this very run; None where there is no file.

        Raises:
            ModelFileError: for a damaged file or one of another run.
        """
        if not Path(path).exists():
            return None
        tensors, metadata = read_tensors(path)
        if metadata.get("purpose") != purpose:
            raise ModelFileError(
                f"{path} is the checkpoint of another run (other settings, seed or data). Delete it to start anew, "
                "or give another path."
            )
        return cls(purpose, tensors, json.loads(metadata["values"]))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as named tensors, `optimizer/<parameter>/<name>`."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer/{index}/{name}": torch.as_tensor(value)
        for index, entry in state.items()
        for name, value in entry.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, *rest = key.split("/")
        if kind == "optimizer":
            state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    optimizer.load_state_dict({**whole, "state": state})


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, each name behind `prefix/`; cloned, so that later steps don't change them."""
    return {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that stand behind `prefix/`."""
    start = f"{prefix}/"
    return {name[len(start) :]: tensor for name, tensor in tensors.items() if name.startswith(start)}
