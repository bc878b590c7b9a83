"""Progress of a run whose ranks are other processes: read from what they write."""

from __future__ import annotations

from collections.abc import Callable

from purigraph.progress import Reporter


class Watcher:
    """Called again and again while a run goes on; reports when there is something new.

    Args:
        latest: Returns the number of finished steps, and the figures of the last one.
        report: Where to report.
    """

    def __init__(self, latest: Callable[[], tuple[int, dict[str, float]]], report: Reporter) -> None:
        self._latest, self._report, self._seen = latest, report, 0

    def __call__(self) -> None:
        """Look, and report what is new."""
        done, figures = self._latest()
        if done > self._seen:
            self._seen = done
            self._report.update(done, **figures)
