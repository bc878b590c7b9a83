"""Tables for the terminal, for `print` and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions
from rich.markup import escape
from rich.table import Table as RichTable

# Text that does not fit is wrapped into lines of at least this many characters.
_LEAST_TEXT = 24


@dataclass(frozen=True)
class Table:
    """A title, columns, rows and notes.

    Numbers are right-aligned and never wrapped; on a narrow terminal, headings are wrapped instead.

    Attributes:
        title: The title above the table.
        columns: The headings.
        rows: One cell per column; anything that can be printed.
        notes: Lines below the table.
        text_columns: The number of columns, from the left, that hold text and are left-aligned.
        strong: The indices of highlighted rows.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    notes: Sequence[str] = ()
    text_columns: int = 1
    strong: Sequence[int] = field(default=())

    def render(self, width: int) -> RichTable:
        """Return the table laid out for a terminal of `width` characters."""
        cells = [[str(cell) for cell in row] for row in self.rows]
        widths = self._widths(width)
        gaps = len(self.columns) - 1
        gap = 2 if sum(widths) + 2 * gaps + 2 <= width else 1
        _widen(widths, self.columns, width - sum(widths) - gap * gaps - 2)
        table = RichTable(
            title=escape(self.title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
        )
        table.padding = (0, gap - 1)
        for index, (name, size) in enumerate(zip(self.columns, widths, strict=True)):
            justify: Any = "left" if index < self.text_columns else "right"
            table.add_column(escape(name), justify=justify, width=size, overflow="fold")
        for index, row in enumerate(cells):
            table.add_row(*map(escape, row), style="bold" if index in self.strong else None)
        table.caption = escape("\n".join(self.notes)) or None
        table.caption_justify = "left"
        return table

    def print(self) -> None:
        """Print to standard output, as wide as the terminal allows."""
        console = Console()
        # On a terminal that is too narrow, lines are wrapped by the terminal itself, not cut off.
        width = max(console.width, self._least_width(console.width))
        Console(width=width).print(self.render(console.width), crop=False)

    def markdown(self) -> str:
        """Return the table as Markdown, without title and notes."""
        aligned = ["---" if index < self.text_columns else "---:" for index in range(len(self.columns))]
        lines = [self.columns, aligned, *([str(cell) for cell in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable]:
        yield self.render(options.max_width)

    def __str__(self) -> str:
        console = Console(width=max(120, self._least_width(120)))
        with console.capture() as capture:
            console.print(self.render(120))
        return capture.get().rstrip()

    def _widths(self, width: int) -> list[int]:
        """Return the column widths: numbers are never wrapped, text only in the widest column if it does not fit."""
        columns = zip(self.columns, *([str(cell) for cell in row] for row in self.rows), strict=True)
        widths = [max(len(text) for text in (name[:4], *cells)) for name, *cells in columns]
        excess = sum(widths) + len(widths) + 1 - width
        if excess > 0:
            widest = max(range(self.text_columns), key=widths.__getitem__)
            widths[widest] = min(widths[widest], max(widths[widest] - excess, _LEAST_TEXT))
        return widths

    def _least_width(self, width: int) -> int:
        return sum(self._widths(width)) + len(self.columns) + 1


def _widen(widths: list[int], headings: Sequence[str], spare: int) -> None:
    """Give spare width to headings: first to those with broken words, then to those with the most lines."""

    def need(index: int) -> tuple[bool, float]:
        words = headings[index].split()
        return max(map(len, words), default=0) > widths[index], len(headings[index]) / widths[index]

    for _ in range(spare):
        index = max(range(len(widths)), key=need)
        if need(index)[1] <= 1:
            return
        widths[index] += 1
