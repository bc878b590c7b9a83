"""Node features in a file of their own: CSV, TSV or Parquet (wide or long), `.npy`, or a SciPy `.npz`.

- wide: a column of node ids and one column per feature;
- long: a header with the names node, feature, value, and one row per entry that is not 0;
- `.npy` (N, F) and SciPy `.npz` (N, F): row k is node k, so nodes must be the numbers 0 to N-1.

Large features with few entries (below `SPARSE_BELOW`) are kept as a torch CSR tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from purigraph.errors import GraphError
from purigraph.graph.file_formats.features import MATRIX, NAMED, STRUCTURAL, FeatureLayout
from purigraph.graph.file_formats.libraries import require
from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.file_formats.tables import EDGE_TABLES, Source, as_ids, first_bad_number, open_table
from purigraph.graph.npz_archive import DAMAGE, Array, check_memory, open_archive, open_regular, read_arrays
from purigraph.graph.sparse_features import csr_from_scipy
from purigraph.kernels.feature_matrix import LARGEST_FEATURE

NODE_NAMES = ("node", "node_id", "nodeid", "id", "name")
_FEATURE_NAMES = ("feature", "column", "attribute", "key", "word", "term")
_VALUE_NAMES = ("value", "count", "weight", "val")
SUFFIXES = (*EDGE_TABLES, ".npy", ".npz")
#: A matrix of more than `LARGE` entries, of which less than this share are not 0, is kept sparse.
SPARSE_BELOW, LARGE = 0.1, 5_000_000


@dataclass(frozen=True)
class FeatureFile:
    """The features that a file holds.

    Attributes:
        ids: The nodes, in the order of the rows.
        x: (N, F) float32, dense or CSR.
        layout: What the columns are.
        notes: Sentences on what was left out.
    """

    ids: NodeIds
    x: Tensor
    layout: FeatureLayout
    notes: list[str] = field(default_factory=list)


def read_feature_file(path: str | Path, expected: FeatureLayout | None = None) -> FeatureFile:
    """Read a feature file.

    Args:
        path: The file.
        expected: The layout that a model was fitted to; named columns are put into its order. Default: any.

    Raises:
        GraphError: If it can't be read, or a value is missing, not a number, not finite or too large, or a node appears
            twice, or a column of the expected layout is missing.
    """
    place = Path(path)
    suffix = place.suffix.lower()
    if suffix == ".npy":
        found = FeatureFile(*_matrix(_npy(place), place))
    elif suffix == ".npz":
        found = FeatureFile(*_matrix(_scipy_npz(place), place))
    elif suffix in EDGE_TABLES:
        found = _table(place, expected)
    else:
        raise GraphError(
            f"{path}: features are read from {', '.join(SUFFIXES)}; {suffix or 'a name without an ending'} is unknown."
        )
    return found


def require_layout(found: FeatureLayout, expected: FeatureLayout | None, path: str | Path) -> None:
    """Raise `GraphError` if a model was fitted to features of another kind."""
    if expected is None or found.kind == expected.kind:
        return
    if expected.kind == STRUCTURAL:
        raise GraphError(
            f"{path}: the model was fitted to a graph without features, by its structure alone: leave the features "
            "out, or fit a model to them."
        )
    if found.kind == STRUCTURAL:
        raise GraphError(
            f"{path} has no node features, but the model was fitted to some: give them with --features FILE."
        )
    if expected.kind in NAMED and expected.names is not None and found.kind == MATRIX:
        raise GraphError(
            f"{path} has no names of features, but the model was fitted to named ones "
            f"({', '.join(expected.names[:3])}, ...): give a table with these names."
        )


def _table(path: Path, expected: FeatureLayout | None) -> FeatureFile:
    source = open_table(path, is_header=_is_header)
    names = source.names
    lower = [name.lower() for name in names or []]
    if len(lower) == 3 and lower[0] in NODE_NAMES and lower[1] in _FEATURE_NAMES and lower[2] in _VALUE_NAMES:
        return _long(path, source, expected)
    return _wide(path, source, expected)


def _is_header(rows: list[list[str]]) -> bool:
    first = [cell.strip() for cell in rows[0]]
    if first[0].lower() in NODE_NAMES:
        return True
    numbers = [_is_number(cell) for cell in first[1:]]
    counted = [str(k) for k in range(len(first))]
    # Some programs number the columns; of a few values that could be chance.
    return not all(numbers) or (len(first) > 4 and first[1:] in (counted[:-1], counted[1:]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("", "na", "null")
    return True


def _wide(path: Path, source: Source, expected: FeatureLayout | None) -> FeatureFile:
    names, width = source.names, source.width
    if width < 2:
        raise GraphError(f"{path} has one column: a feature file has node ids and at least one feature.")
    own = next((k for k, name in enumerate(names or []) if name.lower() in NODE_NAMES), 0)
    columns = [k for k in range(width) if k != own]
    notes: list[str] = []
    layout = FeatureLayout("wide", None if names is None else [names[k] for k in columns])
    if layout.names is not None:
        twice = _first_repeated(layout.names)
        if twice is not None:
            raise GraphError(f"{path} has two columns {twice!r}: rename or remove one of them.")
        if expected is not None and expected.names is not None and expected.kind in NAMED:
            columns, notes = _in_order(path, dict(zip(layout.names, columns, strict=True)), expected.names)
            layout = FeatureLayout("wide", list(expected.names))
    arrow = require("pyarrow", path)
    parts: list[Any] = []
    chunks, row = [], 0
    size = 0
    for batch in _numbers(path, source, own, columns, arrow):
        ids = as_ids(batch[0], path, "node", row)
        block = np.empty((len(ids), len(columns)), dtype=np.float32)
        for k, column in enumerate(batch[1:]):
            if column.null_count:
                at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise GraphError(
                    f"{path}, row {row + at + 1}: feature {_name(layout, k)} is missing: fill it in, for example "
                    "with 0."
                )
            with np.errstate(over="ignore"):
                block[:, k] = column.to_numpy(zero_copy_only=False)
        _check(path, block, row, layout)
        compact = sparse.csr_array(block)
        thin = block.size and compact.nnz < SPARSE_BELOW * block.size
        parts.append(compact if thin else block)
        size += compact.nnz * 12 if thin else block.nbytes
        check_memory(size, f"{path}: its features take", "use fewer features or a larger machine")
        chunks.append(ids)
        row += len(ids)
    if not row:
        raise GraphError(f"{path} has no rows: a feature file has one for every node.")
    return FeatureFile(_unique_ids(chunks, path), _stacked(parts, path), layout, notes)


def _numbers(path: Path, source: Source, own: int, columns: list[int], arrow: Any) -> Iterator[list[Any]]:
    """Yield batches of the ids and the features as numbers; say which cell is none."""
    types = {own: arrow.string(), **{k: arrow.float64() for k in columns}}
    try:
        yield from source.batches([own, *columns], types)
    except GraphError as error:
        cell = first_bad_number(source, columns)
        if cell is None:
            raise
        row, column, text = cell
        name = source.names[column] if source.names else str(column + 1)
        raise GraphError(
            f"{path}, row {row}, column {name!r}: {text!r} is not a number. Features must be numbers: encode texts and "
            "categories (one column per category, 0 or 1), or remove the column."
        ) from error


def _long(path: Path, source: Source, expected: FeatureLayout | None) -> FeatureFile:
    arrow = require("pyarrow", path)
    nodes, features, values, row = [], [], [], 0
    for batch in _numbers_long(path, source, arrow):
        nodes.append(as_ids(batch[0], path, "node", row))
        features.append(as_ids(batch[1], path, "feature", row))
        if batch[2].null_count:
            at = int(np.flatnonzero(batch[2].is_null().to_numpy(zero_copy_only=False))[0])
            raise GraphError(f"{path}, row {row + at + 1}: the value is missing: fill it in, or remove the row.")
        value = batch[2].to_numpy(zero_copy_only=False).astype(np.float64)
        _check_values(path, value, row)
        values.append(value.astype(np.float32))
        row += len(value)
    if not row:
        raise GraphError(f"{path} has no rows: a long feature file has one for every entry that is not 0.")
    node_names, node = _encoded(nodes, arrow)
    feature_names, feature = _encoded(features, arrow)
    value = np.concatenate(values)
    notes: list[str] = []
    if expected is not None and expected.names is not None and expected.kind in NAMED:
        order = NodeIds(list(expected.names)).positions(feature_names)
        chosen = order[feature] >= 0
        unknown = int((order < 0).sum())
        if unknown:
            notes.append(f"{unknown:,} features of {path} were not there when the model was fitted: they are left out.")
        names = list(expected.names)
        node, feature, value = node[chosen], order[feature][chosen], value[chosen]
    else:
        # Sorted, so that the order of the rows does not matter.
        ranked = sorted(range(len(feature_names)), key=lambda k: feature_names[k])
        position = np.empty(len(ranked), dtype=np.int64)
        position[ranked] = np.arange(len(ranked))
        names, feature = [feature_names[k] for k in ranked], position[feature]
    shape = (len(node_names), len(names))
    check_memory(value.size * 16, f"{path}: its features take", "use fewer features or a larger machine")
    matrix = sparse.coo_array((value, (node, feature)), shape=shape).tocsr()
    if matrix.nnz < len(value):
        key = node.astype(np.int64) * shape[1] + feature
        ordered = np.sort(key)
        twice = int(ordered[1:][ordered[1:] == ordered[:-1]][0])
        raise GraphError(
            f"{path}: node {node_names[twice // shape[1]]!r} has two values of feature {names[twice % shape[1]]!r}: "
            "add them up, or remove one."
        )
    return FeatureFile(NodeIds(node_names), _stacked([matrix], path), FeatureLayout("long", names), notes)


def _numbers_long(path: Path, source: Source, arrow: Any) -> Iterator[list[Any]]:
    try:
        yield from source.batches([0, 1, 2], {0: arrow.string(), 1: arrow.string(), 2: arrow.float64()})
    except GraphError as error:
        cell = first_bad_number(source, [2])
        if cell is None:
            raise
        raise GraphError(f"{path}, row {cell[0]}: the value {cell[2]!r} is not a number.") from error


def _encoded(chunks: list[Any], arrow: Any) -> tuple[list[str], Any]:
    """Return the distinct texts of all chunks, in order of appearance, and the position of each among them."""
    unified = arrow.chunked_array([chunk.dictionary_encode() for chunk in chunks]).unify_dictionaries()
    names = unified.chunk(0).dictionary.to_pylist() if unified.num_chunks else []
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in unified.chunks]
    return names, np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _in_order(path: Path, found: dict[str, int], expected: Any) -> tuple[list[int], list[str]]:
    missing = [name for name in expected if name not in found]
    if missing:
        raise GraphError(
            f"{path} lacks {len(missing)} of the {len(expected)} features that the model was fitted to; the first is "
            f"{missing[0]!r}. Add the columns, or fit a model to this file."
        )
    unknown = len(found) - len(expected)
    notes = []
    if unknown:
        notes.append(f"{unknown:,} columns of {path} were not there when the model was fitted: they are left out.")
    return [found[name] for name in expected], notes


def _npy(path: Path) -> Array:
    with open_regular(path) as file:
        size = path.stat().st_size
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            expected = int(np.prod(np.array(shape, dtype=object))) * dtype.itemsize if shape else dtype.itemsize
            if dtype.hasobject or expected != size - file.tell():
                raise ValueError("it holds pickled objects, or more or less than its header says")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
        except DAMAGE as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise GraphError(f"{path} is not a .npy array of numbers ({reason}): it is damaged or foreign.") from None


def _scipy_npz(path: Path) -> Any:
    with open_archive(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
    if "format" not in names:
        if names == {"arr_0"} or names == {"x"}:
            (only,) = names
            return read_arrays(path, lambda key: key == only, lambda _: None)[only]
        raise GraphError(
            f"{path} is no matrix of scipy.sparse.save_npz (it has: {', '.join(sorted(names)[:8])}): save the features "
            "with it, or as .npy."
        )
    wanted = ("format", "shape", "data", "indices", "indptr", "row", "col")
    arrays = read_arrays(path, wanted.__contains__, lambda _: None)
    try:
        kind = arrays["format"].item()
        kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
        shape = tuple(int(size) for size in arrays["shape"])
        if len(shape) != 2 or min(shape) < 0 or max(shape) >= 1 << 40:
            raise ValueError(f"its shape is {shape}")
        if kind == "coo":
            built = sparse.coo_array((arrays["data"], (arrays["row"], arrays["col"])), shape=shape)
        elif kind in ("csr", "csc"):
            parts = (arrays["data"], arrays["indices"], arrays["indptr"])
            built = (sparse.csr_array if kind == "csr" else sparse.csc_array)(parts, shape=shape)
            built.check_format(full_check=True)
        else:
            raise ValueError(f"its format is {kind}, not csr, csc or coo")
        check_memory(16 * built.nnz + 8 * shape[0], f"{path}: its features take", "use a larger machine")
        return built.tocsr()
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, UnicodeDecodeError) as error:
        raise GraphError(
            f"{path} is not a matrix of scipy.sparse.save_npz ({error}): it is damaged or foreign."
        ) from None


def _matrix(matrix: Any, path: Path) -> tuple[NodeIds, Tensor, FeatureLayout]:
    values = matrix.data if sparse.issparse(matrix) else matrix
    if matrix.ndim != 2 or values.dtype.kind not in "fiub":
        raise GraphError(f"{path} must be (N, F) numbers, one row per node; it is {matrix.shape} {values.dtype}.")
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise GraphError(f"{path} is {matrix.shape}: at least one node and one feature are needed.")
    with np.errstate(over="ignore"):
        single = matrix.astype(np.float32)
    if sparse.issparse(matrix):
        _check_values(path, matrix.data.astype(np.float64), None)
    else:
        _check(path, single, 0, FeatureLayout(MATRIX))
    return NodeIds(matrix.shape[0]), _stacked([single], path), FeatureLayout(MATRIX)


def _stacked(parts: list[Any], path: Path) -> Tensor:
    """Return the rows of all parts, sparse if that is worth it."""
    rows, columns = sum(part.shape[0] for part in parts), parts[0].shape[1]
    entries = sum(part.nnz if sparse.issparse(part) else int(np.count_nonzero(part)) for part in parts)
    if rows * columns > LARGE and entries < SPARSE_BELOW * rows * columns:
        return csr_from_scipy(sparse.vstack([sparse.csr_array(part) for part in parts], format="csr"))
    check_memory(4 * rows * columns, f"{path}: its features take", "use fewer features or a larger machine")
    whole = np.empty((rows, columns), dtype=np.float32)
    at = 0
    for part in parts:
        whole[at : at + part.shape[0]] = part.toarray() if sparse.issparse(part) else part
        at += part.shape[0]
    return torch.from_numpy(whole)


def _unique_ids(chunks: list[Any], path: Path) -> NodeIds:
    names = [name for chunk in chunks for name in chunk.to_pylist()]
    twice = _first_repeated(names)
    if twice is not None:
        rows = [row for row, name in enumerate(names, 1) if name == twice][:2]
        raise GraphError(f"{path}: node {twice!r} has two rows ({rows[0]} and {rows[1]}): keep one of them.")
    return NodeIds(names)


def _first_repeated(names: Any) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return str(name)
        seen.add(name)
    return None


def _check(path: Path, block: Array, first_row: int, layout: FeatureLayout) -> None:
    bad = ~(np.abs(block) <= LARGEST_FEATURE)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        raise GraphError(
            f"{path}, row {first_row + row + 1}, feature {_name(layout, column)} is {block[row, column]:g}: features "
            f"must be finite and at most {LARGEST_FEATURE:g} in size. Replace or scale it ({int(bad.sum())} such cells "
            "among the first read)."
        )


def _check_values(path: Path, values: Array, first_row: int | None) -> None:
    bad = ~(np.abs(values) <= LARGEST_FEATURE)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        where = f"entry {at}" if first_row is None else f"row {first_row + at + 1}"
        raise GraphError(
            f"{path}, {where}: the value is {values[at]:g}: features must be finite and at most {LARGEST_FEATURE:g} in "
            f"size. Replace or scale it ({int(bad.sum())} such values among the first read)."
        )


def _name(layout: FeatureLayout, column: int) -> str:
    return repr(layout.names[column]) if layout.names is not None else f"number {column + 1}"
