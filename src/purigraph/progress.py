"""Progress reports of long work, shown by default once the work has taken some seconds.

They are a bar on a terminal and occasional plain lines elsewhere, always on the error stream. `progress=True` shows
them immediately, `progress=False` never, and None, the default everywhere, only if the work takes long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: The number of seconds before progress is shown by default.
PATIENCE_SECONDS = 5.0


class Reporter:
    """Called by a loop once per step. This base class does nothing, so loops need not check whether to report."""

    def update(self, done: int, **values: float) -> None:
        """Report that `done` steps are finished, with the current figures of the loop."""

    def close(self) -> None:
        """Remove the progress bar, if any."""


class _Bar(Reporter):
    def __init__(self, console: Console, title: str, total: int) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(title, total=total, figures="")
        self._bar.start()

    def update(self, done: int, **values: float) -> None:
        self._bar.update(self._task, completed=done, figures=_figures(values))

    def close(self) -> None:
        self._bar.stop()


class _Lines(Reporter):
    """Prints a line every `seconds`, and one for the last step."""

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


class _Patient(Reporter):
    """Prints nothing until the work has taken `seconds`, then becomes a bar or lines."""

    def __init__(self, console: Console, title: str, total: int, seconds: float) -> None:
        self._console, self._title, self._total = console, title, total
        self._due = time.monotonic() + seconds
        self._shown: Reporter | None = None

    def update(self, done: int, **values: float) -> None:
        if self._shown is None and time.monotonic() >= self._due:
            kind = _Bar if self._console.is_terminal else _Lines
            self._shown = kind(self._console, self._title, self._total)
        if self._shown is not None:
            self._shown.update(done, **values)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.close()


@contextmanager
def progress(title: str, total: int, show: bool | None = None) -> Iterator[Reporter]:
    """Report the progress of a loop of `total` steps on the error stream.

    Args:
        title: The name of the work.
        total: The number of steps.
        show: True to report from the first step, False to never report. Default: after `PATIENCE_SECONDS`.

    >>> with progress("counting", 3) as report:
    ...     for step in range(3):
    ...         report.update(step + 1, loss=0.5)
    """
    if show is False:
        reporter = Reporter()
    else:
        reporter = _Patient(Console(stderr=True), title, total, 0.0 if show else PATIENCE_SECONDS)
    try:
        yield reporter
    finally:
        reporter.close()


def _figures(values: dict[str, float]) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in values.items())
