"""Tables of any supported file format (CSV, TSV, Parquet) behind one interface: names, and columns in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from purigraph.errors import GraphError
from purigraph.graph.file_formats.libraries import require
from purigraph.graph.file_formats.text_tables import TextTable, explained, read_dialect
from purigraph.graph.npz_archive import check_memory, open_regular

TEXT_TABLES = (".csv", ".tsv")
PARQUET = (".parquet", ".pq")
EDGE_TABLES = (*TEXT_TABLES, *PARQUET)
# Few enough that a batch of thousands of columns stays small, and enough that one of three is fast.
_CELLS_OF_BATCH = 1 << 21
_MOST_COLUMNS = 200_000


class Source(Protocol):
    """A table that can be read from its beginning any number of times."""

    path: Path

    @property
    def names(self) -> list[str] | None:
        """The names of the columns; None if the file has none."""

    @property
    def width(self) -> int:
        """The number of columns."""

    def batches(self, columns: Sequence[int], types: dict[int, Any]) -> Iterator[list[Any]]:
        """Yield the columns as Arrow arrays of these types."""

    def raw_batches(self) -> Iterator[Any]:
        """Yield whole batches as they are in the file, to be written again."""


class TextSource:
    """A CSV or TSV file."""

    def __init__(self, table: TextTable) -> None:
        self.table, self.path = table, table.path

    @property
    def names(self) -> list[str] | None:
        """The names of the columns; None if the file has none."""
        return self.table.names

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.table.dialect.width

    def batches(self, columns: Sequence[int], types: dict[int, Any]) -> Iterator[list[Any]]:
        """Yield the columns as Arrow arrays of these types."""
        for batch in self.table.batches(columns, types):
            yield [batch.column(k) for k in range(len(columns))]

    def raw_batches(self) -> Iterator[Any]:
        """Yield whole batches of texts."""
        yield from self.table.batches()


class ParquetSource:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parquet = require("pyarrow.parquet", path)
        with self._opened() as file:
            self.schema = file.schema_arrow
            self.num_rows = file.metadata.num_rows
            group = file.metadata.row_group(0) if file.metadata.num_row_groups else None
            compression = group.column(0).compression if group is not None and group.num_columns else "SNAPPY"
        self.compression = "NONE" if compression == "UNCOMPRESSED" else compression
        if not 0 < len(self.schema.names) <= _MOST_COLUMNS:
            raise GraphError(f"{path} has {len(self.schema.names):,} columns; 1 to {_MOST_COLUMNS:,} can be read.")
        check_memory(8 * max(self.num_rows, 0), f"{path}: its {self.num_rows:,} rows take", "use a smaller graph")

    @property
    def names(self) -> list[str] | None:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.schema.names)

    def batches(self, columns: Sequence[int], types: dict[int, Any]) -> Iterator[list[Any]]:
        """Yield the columns as Arrow arrays of these types."""
        for batch in self.raw_batches([self.schema.names[k] for k in columns]):
            found = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
            with explained(self.path):
                yield [_cast(found[self.schema.names[k]], types[k]) for k in columns]

    def raw_batches(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield whole batches, or those of some columns."""
        rows = max(_CELLS_OF_BATCH // max(self.width if names is None else len(names), 1), 256)
        with self._opened() as file, explained(self.path):
            yield from file.iter_batches(batch_size=rows, columns=names, use_threads=False)

    def _opened(self) -> Any:
        with open_regular(self.path) as file:  # refuses pipes and devices
            if file.read(4) != b"PAR1":
                raise GraphError(f"{self.path} is not a Parquet file: it is empty, damaged or foreign.")
        with explained(self.path):
            return self._parquet.ParquetFile(self.path, pre_buffer=False)


def open_table(path: Path, is_header: Callable[[list[list[str]]], bool], header: bool | None = None) -> Source:
    """Open a table; `is_header` says from the first rows of a text whether the first is a header."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        source = ParquetSource(path)
        names = source.schema.names
        if len(set(names)) < len(names):
            raise GraphError(f"{path} has several columns of the same name: rename them.")
        return source
    dialect = read_dialect(path)
    return TextSource(TextTable(path, dialect, header=is_header(dialect.first_rows) if header is None else header))


def as_ids(column: Any, path: Path, what: str, first_row: int) -> Any:
    """Return a column of ids as texts without spaces around them; raise for one that is missing."""
    arrow, compute = require("pyarrow", path), require("pyarrow.compute", path)
    with explained(path):
        if arrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if arrow.types.is_floating(column.type):
            column = _whole(column, path, what, first_row, arrow, compute)
        texts = compute.utf8_trim_whitespace(compute.cast(column, arrow.string()))
    empty = compute.fill_null(compute.equal(texts, ""), True)
    if compute.any(empty).as_py():
        at = int(np.flatnonzero(empty.to_numpy(zero_copy_only=False))[0])
        raise GraphError(f"{path}, row {first_row + at + 1}: the {what} is missing: fill it in, or remove the row.")
    broken = compute.match_substring(texts, "\n")
    if compute.any(broken).as_py():
        at = int(np.flatnonzero(broken.to_numpy(zero_copy_only=False))[0])
        raise GraphError(
            f"{path}, row {first_row + at + 1}: the {what} goes over several lines: is a quote never closed?"
        )
    return texts


def first_bad_number(source: Source, columns: Sequence[int]) -> tuple[int, int, str] | None:
    """Return the row, column and text of the first cell of a text table that is no number; None if there is none."""
    if not isinstance(source, TextSource):
        return None
    row = 0
    try:
        for batch in source.table.batches(columns):
            for position, column in enumerate(columns):
                for at, text in enumerate(batch.column(position).to_pylist()):
                    if not _reads(text):
                        return row + at + 1, column, text[:60]
            row += batch.num_rows
    except GraphError:
        pass  # another mistake, which the caller's own error tells
    return None


def _reads(text: str) -> bool:
    try:
        float(text.replace("_", "?"))
    except ValueError:
        return text in ("", "NA", "null")
    return True


def _whole(column: Any, path: Path, what: str, first_row: int, arrow: Any, compute: Any) -> Any:
    values = column.to_numpy(zero_copy_only=False)
    bad = ~(np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"{path}, row {first_row + at + 1}: the {what} is {values[at]}: ids must be texts or whole numbers."
        )
    return compute.cast(column, arrow.int64())


def _cast(column: Any, kind: Any) -> Any:
    arrow, compute = require("pyarrow", ""), require("pyarrow.compute", "")
    if arrow.types.is_string(kind):
        return column  # ids are turned into texts later, whatever they are
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)):
        if not (arrow.types.is_boolean(column.type) or arrow.types.is_decimal(column.type)):
            raise GraphError(f"a column is of type {column.type}: numbers are expected. Encode texts and categories.")
        column = compute.cast(column, kind)
    return compute.cast(column, kind, safe=False)
