"""Edge lists: CSV, TSV or Parquet tables with a row per edge, whatever the nodes are called and other columns hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from purigraph.errors import GraphError
from purigraph.graph.edge_weights import LARGEST_WEIGHT
from purigraph.graph.file_formats.collapse import collapse, count
from purigraph.graph.file_formats.document import WEIGHT, GraphDocument, RowVerdict
from purigraph.graph.file_formats.feature_files import FeatureFile, read_feature_file, require_layout
from purigraph.graph.file_formats.features import STRUCTURAL, FeatureLayout
from purigraph.graph.file_formats.libraries import require
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.file_formats.structural_features import structural_features
from purigraph.graph.file_formats.tables import (
    EDGE_TABLES,
    ParquetSource,
    Source,
    TextSource,
    as_ids,
    first_bad_number,
    open_table,
)
from purigraph.graph.file_formats.text_tables import explained

#: Names of the two columns with the ends of an edge, in any case.
ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("head", "tail"),
    ("u", "v"),
    ("i", "j"),
    ("node1", "node2"),
    ("id1", "id2"),
    ("node_1", "node_2"),
    ("id_1", "id_2"),
    ("start", "end"),
    ("source_id", "target_id"),
    ("fromnodeid", "tonodeid"),
)
WEIGHTS = (WEIGHT, "edge_weight", "w")
#: What the weight column of a file is called in a copy that has purified weights.
GIVEN_WEIGHT = "weight_before"


@dataclass(frozen=True)
class Columns:
    """The positions of the columns that are read."""

    source: int
    target: int
    weight: int | None


@dataclass
class EdgeList(GraphDocument):
    """An edge list.

    The two ends are the columns of known names (source and target, src and dst, from and to, u and v, ...), or else the
    first two; a column `weight` (or `edge_weight`, `w`) has the weights. All other columns are copied.
    """

    source: Source | None = None
    columns: Columns | None = None

    suffixes: ClassVar[tuple[str, ...]] = EDGE_TABLES

    @classmethod
    def read(
        cls,
        path: Path,
        features: str | Path | None = None,
        expected: FeatureLayout | None = None,
        *,
        bare: bool = False,
    ) -> EdgeList:
        """Read an edge list, and the features of its nodes from a file of their own if there is one.

        Raises:
            GraphError: If a row is malformed, a weight is not a number from 0 to 1e15, or a node has no features. The
                message names the file and the row.
        """
        own = None if features is None else read_feature_file(features, expected)
        source = open_table(path, _is_header)
        columns = _columns(source)
        ids, edges, weight = _read_rows(source, columns, own)
        if edges.shape[1] == 0:
            raise GraphError(f"{path} has no rows: an edge list has one for every edge.")
        found = collapse(edges, weight, len(ids))
        notes = found.notes()
        if source.names is None:
            notes.append(
                f"{path} has no header: its first two columns are the ends of the edges; weights are read from a "
                "column of that name only."
            )
        if own is None:
            x = torch.zeros(len(ids), 0) if bare else structural_features(ids)
            layout = FeatureLayout(STRUCTURAL)
            notes.append(
                "There are no node features: the purifier works by the graph's structure alone, which is weaker."
            )
        else:
            x, layout = own.x, own.layout
            notes += own.notes
            touched = torch.unique(found.graph.pairs)
            alone = len(ids) - len(touched)
            if alone:
                notes.append(f"{count(alone, 'node has', 'nodes have')} features but no edge.")
        require_layout(layout, expected, path if features is None else features)
        return cls(path, ids, found.graph, found.pair, weight, x, layout, {}, notes, source, columns)

    def save(self, path: Path, verdict: RowVerdict) -> None:
        """Write the rows again, in their order, with new columns; see `GraphDocument.save`."""
        assert self.source is not None
        assert self.columns is not None
        arrow = require("pyarrow", self.path)
        as_text = isinstance(self.source, TextSource)
        added = {name: _array(values, arrow, as_text=as_text) for name, values in verdict.columns().items()}
        keep = None if verdict.kept_rows is None else arrow.array(verdict.kept_rows.numpy())
        names = self._renamed(list(added))
        row = 0
        with open(path, "wb") as file, explained(self.path), self._writer(file, names, added) as write:
            for batch in self.source.raw_batches():
                part = slice(row, row + batch.num_rows)
                row += batch.num_rows
                if row > self.num_rows:
                    break
                columns = [*batch.columns, *(values[part] for values in added.values())]
                write(columns if keep is None else [column.filter(keep[part]) for column in columns])
        if row != self.num_rows:
            raise GraphError(f"{self.path} was changed while it was read: purify it again.")

    @contextmanager
    def _writer(self, file: Any, names: list[str] | None, added: Mapping[str, Any]) -> Iterator[Callable[[Any], None]]:
        """Yield what writes a batch of columns."""
        whole = None if names is None else [*names, *added]
        if isinstance(self.source, TextSource):
            yield self.source.table.writer(file, whole).write
            return
        assert isinstance(self.source, ParquetSource)
        assert names is not None
        arrow, parquet = require("pyarrow", self.path), require("pyarrow.parquet", self.path)
        old = self.source.schema
        fields = [one.with_name(name) for one, name in zip(old, names, strict=True)]
        fields += [arrow.field(name, values.type) for name, values in added.items()]
        schema = arrow.schema(fields, metadata=old.metadata)
        with parquet.ParquetWriter(file, schema, compression=self.source.compression) as writer:
            yield lambda columns: writer.write_batch(arrow.RecordBatch.from_arrays(columns, schema=schema))

    def _renamed(self, added: Sequence[str]) -> list[str] | None:
        """Return the names of the file's own columns, with others for those that take the name of a new one."""
        assert self.source is not None
        if self.source.names is None:
            return None
        taken = {*self.source.names, *added}
        names = []
        for name in self.source.names:
            if name in added:
                name = GIVEN_WEIGHT if name == WEIGHT else f"{name}_before"
                while name in taken:
                    name += "_"
                taken.add(name)
            names.append(name)
        return names


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: by names that are known, or as it has texts above numbers."""
    first = [cell.strip() for cell in rows[0]]
    lower = [cell.lower() for cell in first]
    if any(a in lower and b in lower for a, b in ENDS):
        return True
    for column, cell in enumerate(first):
        below = [row[column].strip() for row in rows[1:] if len(row) > column]
        if below and not _is_number(cell) and all(map(_is_number, below)):
            return True
    return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _columns(source: Source) -> Columns:
    if source.width < 2:
        raise GraphError(
            f"{source.path} has one column: an edge list has two, for the ends of every edge. (Between the cells of a "
            "row there must be a comma, a tab, a semicolon or a bar.)"
        )
    lower = [name.strip().lower() for name in source.names or []]
    ends = next(((lower.index(a), lower.index(b)) for a, b in ENDS if a in lower and b in lower), (0, 1))
    weight = next((lower.index(name) for name in WEIGHTS if name in lower), None)
    return Columns(*ends, None if weight in ends else weight)


def _read_rows(source: Source, columns: Columns, own: FeatureFile | None) -> tuple[NodeIds, Tensor, Tensor | None]:
    """Return the nodes, the rows (2, M) as numbers of nodes, and their weights (M,) if there are any."""
    arrow = require("pyarrow", source.path)
    wanted = [columns.source, columns.target]
    types = dict.fromkeys(wanted, arrow.string())
    if columns.weight is not None:
        wanted.append(columns.weight)
        types[columns.weight] = arrow.float64()
    chunks: list[Any] = []
    weights, row = [], 0
    try:
        for batch in source.batches(wanted, types):
            for column, what in zip(batch[:2], ("first end", "second end"), strict=True):
                chunks.append(as_ids(column, source.path, what, row).dictionary_encode())
            if columns.weight is not None:
                weights.append(_weights(batch[2], source.path, row))
            row += len(batch[0])
    except GraphError as error:
        cell = None if columns.weight is None else first_bad_number(source, [columns.weight])
        if cell is None:
            raise
        raise GraphError(
            f"{source.path}, row {cell[0]}: the weight {cell[2]!r} is not a number: correct it."
        ) from error
    with explained(source.path):
        unified = arrow.chunked_array(chunks, arrow.dictionary(arrow.int32(), arrow.string())).unify_dictionaries()
        names = unified.chunk(0).dictionary.to_pylist() if chunks else []
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in unified.chunks]
    ends = [np.concatenate(parts[k::2]).astype(np.int64) if parts else np.zeros(0, dtype=np.int64) for k in (0, 1)]
    ids = NodeIds(names)
    if own is not None:
        position = own.ids.positions(names)
        _check_known(source.path, position, names, ends, own.ids)
        ends = [position[end] for end in ends]
        ids = own.ids
    weight = torch.from_numpy(np.concatenate(weights).astype(np.float32)) if weights else None
    return ids, torch.from_numpy(np.stack(ends)), weight


def _check_known(path: Path, position: Any, names: list[str], ends: list[Any], known: NodeIds) -> None:
    missing = np.flatnonzero(position < 0)
    if not len(missing):
        return
    lost = np.isin(ends[0], missing) | np.isin(ends[1], missing)
    row = int(np.flatnonzero(lost)[0])
    name = names[int(next(end[row] for end in ends if end[row] in missing))]
    why = (
        f"the features have {len(known):,} rows, so nodes are the numbers 0 to {len(known) - 1}"
        if known.numbered
        else "it has no row in the feature file"
    )
    raise GraphError(
        f"{path}, row {row + 1}: there are no features for node {name!r} ({why}). In all, {len(missing):,} nodes in "
        f"{int(lost.sum()):,} rows have none: add them (zeros where nothing is known), or remove the rows."
    )


def _weights(column: Any, path: Path, first_row: int) -> Any:
    if column.null_count:
        at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise GraphError(f"{path}, row {first_row + at + 1}: the weight is missing: fill it in, for example with 1.")
    values = column.to_numpy(zero_copy_only=False)
    bad = ~((values >= 0) & (values <= LARGEST_WEIGHT))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"{path}, row {first_row + at + 1}: the weight is {values[at]:g}: weights must be finite, not negative and "
            f"at most {LARGEST_WEIGHT:g} ({int(bad.sum())} are not among the rows read so far). Correct or remove it."
        )
    return values


def _array(values: Tensor, arrow: Any, *, as_text: bool) -> Any:
    """Return a column to add; truth values are 0 and 1 in texts."""
    array = values.detach().cpu().numpy()
    if values.is_floating_point():
        return arrow.array(array.astype(np.float32))
    return arrow.array(array.astype(np.int8) if as_text else array)
