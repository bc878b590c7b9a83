"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere, nothing when asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Reporter:
    """What a loop calls once per step. This base says nothing, so that loops never ask whether to report."""

    def update(self, done: int, **values: float) -> None:
        """Report that `done` steps are finished, with the loop's current figures."""


class _Bar(Reporter):
    def __init__(self, bar: Progress, title: str, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task(title, total=total, figures="")

    def update(self, done: int, **values: float) -> None:
        self._bar.update(self._task, completed=done, figures=_figures(values))


class _Lines(Reporter):
    """A line every `seconds`, and one for the last step."""

    def __init__(self, console: Console, title: str, total: int, seconds: float = 10.0) -> None:
        self._console, self._title, self._total, self._seconds = console, title, total, seconds
        self._start = self._last = time.monotonic()
        self._first: int | None = None

    def update(self, done: int, **values: float) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = done - 1
        if done < self._total and now - self._last < self._seconds:
            return
        self._last = now
        left = (now - self._start) / max(done - self._first, 1) * (self._total - done)
        parts = [f"{self._title} {done}/{self._total}", _figures(values), f"{left:.0f} s left"]
        self._console.print(*filter(None, parts), highlight=False, soft_wrap=True)


@contextmanager
def progress(title: str, total: int, enabled: bool = True) -> Iterator[Reporter]:
    """Report on a loop of `total` steps, on the error stream.

    >>> with progress("counting", 3, enabled=False) as report:
    ...     for step in range(3):
    ...         report.update(step + 1, loss=0.5)
    """
    if not enabled:
        yield Reporter()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, title, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar, title, total)


def _figures(values: dict[str, float]) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in values.items())
