"""The folder of a purification over ranks: its steps so far, and at the end its result.

```
OUT/run.json                            which run this is, and its finished steps
OUT/purifier/                           the purifier
OUT/steps/0002/part-00001.safetensors   the weights after a step, by rank; only those of the last finished one are kept
OUT/edges/part-00001.parquet            the result: source, target, weight
OUT/manifest.json                       written last: the result is whole
```

A step counts once `run.json` lists it, which happens after all ranks have written theirs.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from purigraph.distributed.parts import MANIFEST, Part, parquet
from purigraph.distributed.parts_writer import write_table
from purigraph.errors import GraphError, InputError, ModelFileError
from purigraph.files import read_json, write_json
from purigraph.tensor_files import read_tensors, write_tensors

RUN_FORMAT = "purigraph.distributed-run/1"
RESULT_FORMAT = "purigraph.purified-parts/1"
_ROW_GROUP = 1 << 18


@dataclass(frozen=True)
class FinishedStep:
    """A step that all ranks have finished.

    Attributes:
        relative_change: The norm of the step's direction over the norm of the weights before it.
        pairs: The number of pairs in the file of every rank.
    """

    relative_change: float
    pairs: list[int]


class RunFolder:
    """The folder of one purification.

    Args:
        folder: Where it is.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def begin(self, identity: str) -> bool:
        """Start the run, or find out that it was started before; return whether its result is there already.

        Raises:
            InputError: If the folder holds another run, its result or other files.
        """
        if (self.folder / "run.json").exists():
            if self._document()["identity"] != identity:
                raise InputError(
                    f"{self.folder} holds another purification (other edges, features, purifier or settings): choose "
                    "another folder, or delete it."
                )
            return self.result() is not None
        if self.folder.exists() and any(self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty and holds no purification: choose another folder.")
        write_json(self.folder / "run.json", {"format": RUN_FORMAT, "identity": identity, "steps": []})
        return False

    def steps(self) -> list[FinishedStep]:
        """Return the finished steps."""
        found = self._document()["steps"]
        return [FinishedStep(read_change(one["relative_change"]), list(one["pairs"])) for one in found]

    def save_weights(self, step: int, rank: int, weight: Tensor) -> None:
        """Write the weights of the pairs of one rank after a step."""
        write_tensors(self._weights(step, rank), {"weight": weight})

    def finish_step(self, step: FinishedStep) -> None:
        """List a step as finished, after all ranks have written its weights; remove those of the step before."""
        document = self._document()
        document["steps"].append(vars(step))
        write_json(self.folder / "run.json", document)
        shutil.rmtree(self._step(len(document["steps"]) - 1), ignore_errors=True)

    def load_weights(self, first: int, last: int) -> Tensor:
        """Return the weights of the pairs `first` to `last` (in the order of all ranks' pairs) after the last step.

        The number of ranks may have changed since they were written.
        """
        steps = self.steps()
        found = [torch.empty(0)]
        for rank, (begin, end) in enumerate(pairwise([0, *accumulate(steps[-1].pairs)])):
            if begin < last and first < end:
                path = self._weights(len(steps), rank)
                weight = read_tensors(path)[0].get("weight")
                if weight is None or weight.shape != (end - begin,):
                    raise ModelFileError(f"{path} is damaged: delete {self.folder} to start again.")
                found.append(weight[max(first - begin, 0) : last - begin])
        return torch.cat(found)

    def save_part(self, rank: int, columns: Mapping[str, Tensor]) -> Part:
        """Write the edges of one rank with their purified weights."""
        arrays = {name: values.cpu().numpy() for name, values in columns.items()}
        return write_table(self.folder, f"edges/part-{rank:05}.parquet", arrays, _ROW_GROUP)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the manifest, after all parts: the result is whole."""
        write_json(self.folder / MANIFEST, {"format": RESULT_FORMAT, **result})
        shutil.rmtree(self.folder / "steps", ignore_errors=True)

    def result(self) -> dict[str, Any] | None:
        """Return the manifest of the result, or None if it is not whole yet."""
        if not (self.folder / MANIFEST).is_file():
            return None
        document = read_json(self.folder / MANIFEST)
        if not isinstance(document, dict) or document.get("format") != RESULT_FORMAT:
            raise GraphError(f"{self.folder / MANIFEST} does not describe a purified graph ({RESULT_FORMAT!r}).")
        return document

    def _document(self) -> dict[str, Any]:
        document = read_json(self.folder / "run.json")
        if not isinstance(document, dict) or document.get("format") != RUN_FORMAT:
            raise InputError(
                f"{self.folder / 'run.json'} is not that of a purification over ranks: choose another folder."
            )
        return document

    def _step(self, step: int) -> Path:
        return self.folder / "steps" / f"{step:04}"

    def _weights(self, step: int, rank: int) -> Path:
        return self._step(step) / f"part-{rank:05}.safetensors"


def read_change(value: float | None) -> float:
    """Return a relative change as it was before it was written: JSON has no infinity (the weights were all 0)."""
    return float("inf") if value is None else float(value)


def read_purified(folder: str | Path) -> tuple[Tensor, Tensor]:
    """Return the edges (2, E) int64 of a purified graph and their weights (E,) float32, as they are in its files.

    For graphs that fit into memory; others are read part by part, as Parquet files with source, target and weight.
    """
    document = RunFolder(folder).result()
    if document is None:
        raise GraphError(f"{folder} holds no purified graph, or not a whole one: run the purification (again).")
    tables = [parquet().read_table(Path(folder) / part["file"]) for part in document["edges"]]
    names = ("source", "target", "weight")
    source, target, weight = (
        torch.cat([torch.from_numpy(table.column(name).to_numpy().copy()) for table in tables]) for name in names
    )
    return torch.stack([source, target]), weight
