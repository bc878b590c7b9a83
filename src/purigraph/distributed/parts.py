"""A graph as a folder of Parquet files, of which every rank reads its own share.

```
FOLDER/manifest.json              what is in the folder
FOLDER/edges/part-00000.parquet   source, target: integers; weight: float, optional
FOLDER/features/part-00000.parquet    x: a list of F floats per row; node: integer, optional
```

Nodes are numbered by their rows of the features, one part after the other. Every undirected edge is listed once, in
either direction, or twice, in both; there are no self-loops. The column `node` holds other names of the nodes (as after
a reordering); results are written with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from purigraph.errors import GraphError, InputError
from purigraph.files import read_json, write_json

FORMAT = "purigraph.graph-parts/1"
MANIFEST = "manifest.json"
# The rows of features that are read at a time, in numbers.
_BATCH_NUMBERS = 1 << 17

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One Parquet file.

    Attributes:
        file: Its path in the folder.
        rows: The number of its rows.
        bytes: Its size.
    """

    file: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class EdgeBatch:
    """Some rows of an edge file.

    Attributes:
        source: (B,) int64.
        target: (B,) int64.
        weight: (B,) float32, or None.
    """

    source: Tensor
    target: Tensor
    weight: Tensor | None


@dataclass(frozen=True)
class GraphParts:
    """A graph in Parquet files.

    Attributes:
        folder: Where it is.
        num_nodes: N, the number of nodes.
        num_features: F, the number of features of a node.
        edges: The files of the edges.
        features: The files of the features, in the order of the nodes.
        weighted: Whether edges have weights.
        named: Whether nodes have names.
    """

    folder: Path
    num_nodes: int
    num_features: int
    edges: tuple[Part, ...]
    features: tuple[Part, ...]
    weighted: bool
    named: bool

    @classmethod
    def open(cls, folder: str | Path) -> GraphParts:
        """Read the manifest of a folder.

        Raises:
            GraphError: If there is none, or a file is missing or has another size than the manifest says.
        """
        folder = Path(folder)
        if not (folder / MANIFEST).is_file():
            raise GraphError(
                f"{folder} has no {MANIFEST}: write a graph with purigraph.distributed.write_parts(data, folder), or "
                "describe Parquet files that are there already with purigraph.distributed.describe_parts(folder)."
            )
        document = read_json(folder / MANIFEST)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise GraphError(f"{folder / MANIFEST} does not describe a graph in parts (format {FORMAT!r}).")
        try:
            parts = cls(
                folder,
                int(document["num_nodes"]),
                int(document["num_features"]),
                _read_list(document["edges"]),
                _read_list(document["features"]),
                bool(document["weighted"]),
                bool(document["named"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise GraphError(f"{folder / MANIFEST} is damaged ({error}): describe the folder again.") from None
        parts._check()
        return parts

    def _check(self) -> None:
        for part in (*self.edges, *self.features):
            path = self.folder / part.file
            if not path.is_file() or path.stat().st_size != part.bytes:
                raise GraphError(
                    f"{path} is missing or not the file that {MANIFEST} describes: write the graph again, or call "
                    "purigraph.distributed.describe_parts(folder) if the new file is right."
                )
        rows = sum(part.rows for part in self.features)
        if rows != self.num_nodes:
            raise GraphError(f"{self.folder}: the features have {rows} rows, but there are {self.num_nodes} nodes.")

    def save(self) -> None:
        """Write the manifest, which makes the folder a whole graph."""
        write_json(self.folder / MANIFEST, self.record())

    def record(self) -> dict[str, Any]:
        """Return the contents of the manifest."""
        return {
            "format": FORMAT,
            "num_nodes": self.num_nodes,
            "num_features": self.num_features,
            "weighted": self.weighted,
            "named": self.named,
            "edges": [vars(part) for part in self.edges],
            "features": [vars(part) for part in self.features],
        }

    def edge_batches(self, share: int = 0, of: int = 1) -> Iterator[EdgeBatch]:
        """Read one of `of` shares of the edges: whole row groups, about the same number of rows in every share.

        Raises:
            GraphError: If an edge is a self-loop, leads to a node that does not exist or has no valid weight; the
                message names the file and the row.
        """
        whole = sum(part.rows for part in self.edges)
        before = 0
        for part in self.edges:
            file = _open(self.folder / part.file, self._edge_columns())
            in_file = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if rows and (2 * before + rows) * of // (2 * whole) == share:
                    table = file.read_row_group(group, columns=self._edge_columns(), use_threads=False)
                    yield self._checked(table, part.file, in_file)
                before, in_file = before + rows, in_file + rows

    def _edge_columns(self) -> list[str]:
        return ["source", "target", "weight"] if self.weighted else ["source", "target"]

    def _checked(self, table: Any, file: str, first: int) -> EdgeBatch:
        ends = [_integers(table, name, file) for name in ("source", "target")]
        source, target = ends
        wrong = (source < 0) | (source >= self.num_nodes) | (target < 0) | (target >= self.num_nodes)
        wrong |= source == target
        if wrong.any():
            row = int(wrong.argmax())
            pair = [int(source[row]), int(target[row])]
            what = "is a self-loop: leave those out" if pair[0] == pair[1] else f"does not fit {self.num_nodes} nodes"
            raise GraphError(f"{self.folder / file}, row {first + row}: edge {pair} {what}.")
        weight = None
        if self.weighted:
            values = table.column("weight").combine_chunks().to_numpy(zero_copy_only=False).astype(np.float32)
            if not ((values >= 0) & (values <= 1e15)).all():
                row = int((~((values >= 0) & (values <= 1e15))).argmax())
                raise GraphError(
                    f"{self.folder / file}, row {first + row}: the weight {values[row]} is not a number from 0 to 1e15."
                )
            weight = torch.from_numpy(values)
        return EdgeBatch(torch.from_numpy(source), torch.from_numpy(target), weight)

    def feature_batches(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Read the features (B, F) float32 of the nodes from `start` to `stop`, and their names (B,), in batches."""
        columns = ["x", "node"] if self.named else ["x"]
        batch = max(_BATCH_NUMBERS // max(self.num_features, 1), 1)
        first = 0
        for part in self.features:
            if start < first + part.rows and first < stop:
                file = _open(self.folder / part.file, columns)
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if start < first + rows and first < stop:
                        table = file.read_row_group(group, columns=columns, use_threads=False)
                        low, high = max(start - first, 0), min(stop - first, rows)
                        for begin in range(low, high, batch):
                            yield self._features(table.slice(begin, min(batch, high - begin)), part.file, first + begin)
                    first += rows
            else:
                first += part.rows

    def _features(self, table: Any, file: str, first: int) -> tuple[Tensor, Tensor | None]:
        values = table.column("x").combine_chunks()
        flat = values.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
        if len(flat) != len(values) * self.num_features:
            raise GraphError(f"{self.folder / file}: some rows of x do not hold {self.num_features} numbers.")
        x = torch.from_numpy(np.array(flat, copy=True)).view(len(values), self.num_features)
        if not torch.isfinite(x).all():
            row = first + int((~torch.isfinite(x)).any(1).nonzero()[0])
            raise GraphError(f"{self.folder / file}: the features of node {row} are not finite. Replace them first.")
        return x, torch.from_numpy(_integers(table, "node", file)) if self.named else None


def describe_parts(folder: str | Path) -> GraphParts:
    """Write the manifest of Parquet files that are there already, from their footers; return the graph.

    Args:
        folder: A folder with `edges/*.parquet` and `features/*.parquet`, in the order of their names; see this module.
    """
    folder = Path(folder)
    edges, features = (_listed(folder, name) for name in ("edges", "features"))
    if not features:
        raise GraphError(f"{folder / 'features'} has no Parquet files: a graph needs the features of its nodes.")
    schema = _open(folder / features[0].file, ["x"]).schema_arrow
    width = getattr(schema.field("x").type, "list_size", None)
    if width is None:
        file = _open(folder / features[0].file, ["x"])
        first = next(file.iter_batches(batch_size=1, columns=["x"]), None)
        width = 0 if first is None else len(first.column(0)[0])
    weighted = bool(edges) and "weight" in _open(folder / edges[0].file, ["source", "target"]).schema_arrow.names
    nodes = sum(part.rows for part in features)
    parts = GraphParts(folder, nodes, width, edges, features, weighted, "node" in schema.names)
    parts.save()
    return parts


def part_of(folder: Path, file: str, rows: int) -> Part:
    """Return the description of a file that was just written."""
    return Part(file, rows, (folder / file).stat().st_size)


def parquet() -> Any:
    """Return pyarrow's Parquet module, or raise an error that says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Graphs in parts are Parquet files, which need pyarrow: pip install 'purigraph[files]'."
        ) from None
    return pyarrow.parquet


def _listed(folder: Path, name: str) -> tuple[Part, ...]:
    paths = sorted((folder / name).glob("*.parquet"))
    return tuple(part_of(folder, f"{name}/{path.name}", _open(path, []).metadata.num_rows) for path in paths)


def _read_list(entries: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    return tuple(Part(str(one["file"]), int(one["rows"]), int(one["bytes"])) for one in entries)


def _open(path: Path, columns: Sequence[str]) -> Any:
    import pyarrow

    try:
        file = parquet().ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise GraphError(f"{path} can't be read as a Parquet file: {str(error).splitlines()[0]}") from None
    missing = [name for name in columns if name not in file.schema_arrow.names]
    if missing:
        raise GraphError(f"{path} has no column {missing[0]!r}, but {', '.join(file.schema_arrow.names)}.")
    return file


def _integers(table: Any, name: str, file: str) -> Integers:
    column = table.column(name).combine_chunks()
    if column.null_count or not str(column.type).lstrip("u").startswith("int"):
        raise GraphError(f"{file}: the column {name!r} must hold integers without gaps; it holds {column.type}.")
    values: Integers = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values
