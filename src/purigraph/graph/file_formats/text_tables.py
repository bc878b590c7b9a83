"""CSV and TSV files: how one is written (delimiter, header, comments), and its columns as text, in batches."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from purigraph.errors import GraphError
from purigraph.graph.file_formats.libraries import require
from purigraph.graph.npz_archive import open_regular

#: Bytes of a file that are parsed at a time; a row must be shorter.
BLOCK = 16 << 20
_LONGEST_LINE = 8 << 20
_DELIMITERS = (",", "\t", ";", "|")
_COMMENTS = (b"#", b"%")
_LINES_TO_SEE = 50
_MOST_COLUMNS = 200_000
# Arrow's words for a row with too few or too many cells.
_WRONG_WIDTH = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+): ?(.*)")


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    Attributes:
        delimiter: What stands between cells.
        first_rows: The cells of the first rows, the header included if there is one.
        preamble: The bytes before the table: comment lines and a byte order mark.
        skipped_lines: How many lines those are.
        line_end: What rows end with.
    """

    delimiter: str
    first_rows: list[list[str]]
    preamble: bytes
    skipped_lines: int
    line_end: str = "\n"

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.first_rows[0]) if self.first_rows else 0


def read_dialect(path: str | Path) -> Dialect:
    """Find out how a text table is written, from its first lines.

    Raises:
        GraphError: If it is missing, empty, not UTF-8 text, or without columns.
    """
    with open_regular(path) as file:
        head = file.read(1 << 16)
        while b"\n" not in head[-(1 << 16) :] and len(head) < _LONGEST_LINE:
            more = file.read(1 << 20)
            if not more:
                break
            head += more
        at_end = len(head) < 1 << 16 or not file.read(1)
    if not head.strip():
        raise GraphError(f"{path} is empty: an edge list has a row for every edge, a feature file one for every node.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GraphError(f"{path} is UTF-16 text: save it as UTF-8.")
    if b"\0" in head:
        raise GraphError(
            f"{path} is not a text table: it holds zero bytes. Is it of another format than its name says?"
        )
    mark = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    lines = head[mark:].splitlines(keepends=True)
    if not at_end and len(lines) > 1:
        lines.pop()  # it may be cut
    skipped = 0
    while skipped < len(lines) and (lines[skipped].startswith(_COMMENTS) or not lines[skipped].strip()):
        skipped += 1
    if skipped == len(lines):
        raise GraphError(f"{path} has only comments and empty lines at its beginning: no row was found.")
    preamble = head[:mark] + b"".join(lines[:skipped])
    try:
        text = b"".join(lines[skipped : skipped + _LINES_TO_SEE]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{path} is not UTF-8 text ({error.reason} near byte {error.start}): save it as UTF-8."
        ) from None
    first_line = text.splitlines()[0]
    delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else max(_DELIMITERS, key=first_line.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except csv.Error as error:
        raise GraphError(f"{path} is not a text table: {error}.") from None
    if not rows or len(rows[0]) > _MOST_COLUMNS:
        found = len(rows[0]) if rows else 0
        raise GraphError(f"{path} has {found:,} columns in its first row; 1 to {_MOST_COLUMNS:,} can be read.")
    return Dialect(delimiter, rows, preamble, skipped, "\r\n" if lines[skipped].endswith(b"\r\n") else "\n")


class TextTable:
    """The rows below the header of a text table.

    Columns are `c0`, `c1`, ..., as names in a file may repeat. Nothing is read before `batches`, and then in blocks of
    some megabytes, so a large file never is in memory as a whole.

    Args:
        path: The file.
        dialect: How it is written.
        header: Whether the first row is a header.
    """

    def __init__(self, path: str | Path, dialect: Dialect, *, header: bool) -> None:
        self.path, self.dialect, self.header = Path(path), dialect, header
        self._csv = require("pyarrow.csv", path)

    @property
    def names(self) -> list[str] | None:
        """The names of the columns; None without a header."""
        return [name.strip() for name in self.dialect.first_rows[0]] if self.header else None

    def batches(self, columns: Sequence[int] | None = None, types: dict[int, Any] | None = None) -> Iterator[Any]:
        """Yield the columns (all if None) as Arrow batches; texts unless `types` says otherwise.

        Raises:
            GraphError: If a row has too few or too many cells, or a value is not of its type, or bytes are no UTF-8.
        """
        arrow = require("pyarrow", self.path)
        width = self.dialect.width
        names = [f"c{k}" for k in range(width)]
        skipped = self.dialect.skipped_lines + int(self.header)
        wanted = list(range(width)) if columns is None else list(columns)
        column_types = {names[k]: arrow.string() for k in wanted}
        column_types.update({names[k]: kind for k, kind in (types or {}).items()})
        with open_regular(self.path) as file, explained(self.path, skipped=skipped):
            reader = self._csv.open_csv(
                file,
                read_options=self._csv.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK,
                    column_names=names,
                    skip_rows=skipped,
                ),
                parse_options=self._csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True),
                convert_options=self._csv.ConvertOptions(
                    column_types=column_types,
                    include_columns=[names[k] for k in wanted],
                    strings_can_be_null=False,
                    null_values=["", "NA", "null"],
                ),
            )
            with reader:
                yield from reader

    def writer(self, file: Any, names: Sequence[str] | None) -> TextWriter:
        """Write comments and header to an open file, and return a writer of the rows below."""
        file.write(self.dialect.preamble)
        writer = TextWriter(file, self.dialect, self.path)
        if names is not None:
            arrow = require("pyarrow", self.path)
            writer.write([arrow.array([name]) for name in names])
        return writer


class TextWriter:
    """Writes columns as rows of text, with quotes only where they are needed, as most programs do."""

    def __init__(self, file: Any, dialect: Dialect, path: Path) -> None:
        self._file, self._dialect = file, dialect
        self._arrow, self._compute = require("pyarrow", path), require("pyarrow.compute", path)
        self._special = f'["\n\r{re.escape(dialect.delimiter)}]|^\\s|\\s$'

    def write(self, columns: Sequence[Any]) -> None:
        """Write one batch of rows from Arrow arrays of the same length."""
        cells = [self._quoted(self._compute.cast(column, self._arrow.string())) for column in columns]
        lines = self._compute.binary_join_element_wise(*cells, self._dialect.delimiter)
        end = self._dialect.line_end
        if len(lines):
            self._file.write((end.join(lines.to_pylist()) + end).encode("utf-8"))

    def _quoted(self, cells: Any) -> Any:
        compute = self._compute
        special = compute.match_substring_regex(cells, self._special)
        if not compute.any(special).as_py():
            return cells
        doubled = compute.replace_substring(cells, '"', '""')
        return compute.if_else(special, compute.binary_join_element_wise('"', doubled, '"', ""), cells)


@contextmanager
def explained(path: str | Path, *, skipped: int = 0) -> Iterator[None]:
    """Turn Arrow's errors into a `GraphError` that names the file and, if it is known, the row.

    Args:
        path: The file.
        skipped: How many lines there are before the rows; Arrow counts them too.
    """
    arrow = require("pyarrow", path)
    try:
        yield
    except GraphError:
        raise
    except (MemoryError, arrow.ArrowMemoryError):
        raise GraphError(
            f"{path}: there is not enough memory to read it: use a smaller file, or a larger machine."
        ) from None
    except (arrow.ArrowException, ValueError, KeyError, TypeError, OverflowError) as error:
        raise GraphError(_reason(path, error, skipped)) from None
    except OSError as error:
        if error.errno is not None and not isinstance(error, arrow.ArrowException):
            raise
        raise GraphError(_reason(path, error, skipped)) from None


def _reason(path: str | Path, error: Exception, skipped: int) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    wrong = _WRONG_WIDTH.search(text)
    if wrong:
        row, expected, found, cells = wrong.groups()
        where = "a row" if row is None else f"row {int(row) - skipped}"
        cells = cells if len(cells) <= 60 else f"{cells[:60]}..."
        return (
            f"{path}: {where} has {found} cells where {expected} are expected ({cells!r}): complete it or remove it; "
            "cells that hold the delimiter must be quoted. Was the file cut short?"
        )
    if "straddling" in text:
        return f"{path} has a row of more than {BLOCK >> 20} MB, or a quote that is never closed: it can't be read."
    if "UTF8" in text:
        return f"{path} is not UTF-8 text ({text}): save it as UTF-8."
    return f"{path} can't be read: {text}. It is damaged, cut short, or of another format than its name says."
