"""What a piece of work costs: its time, and the memory that it adds to the process at its peak."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from purigraph.errors import InputError
from purigraph.memory import forget_memory_peak, memory_now, memory_peak


@dataclass
class Footprint:
    """The cost of a block of code, known at its end.

    Attributes:
        seconds: Its duration.
        megabytes: How far the resident memory rose above what it was before; None where Linux's /proc is not there.
    """

    seconds: float = 0.0
    megabytes: float | None = None


@contextmanager
def footprint() -> Iterator[Footprint]:
    """Measure the block. Blocks of one process must not overlap: the peak is the whole process's."""
    found = Footprint()
    forget_memory_peak()
    before, started = _known(memory_now), time.monotonic()
    yield found
    found.seconds = time.monotonic() - started
    peak = _known(memory_peak)
    if before is not None and peak is not None:
        found.megabytes = max(0.0, peak - before)


def _known(measure: Callable[[], float]) -> float | None:
    """Return a size in MB, or None on a machine that does not tell."""
    try:
        return measure()
    except (OSError, InputError):
        return None
