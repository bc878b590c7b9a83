"""What a piece of work costs: its time, and the memory that it adds to the process at its peak."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


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
    with suppress(OSError):
        _CLEAR.write_text("5")  # sets the peak back to the current size
    before, started = resident("VmRSS"), time.monotonic()
    yield found
    found.seconds = time.monotonic() - started
    peak = resident("VmHWM")
    if before is not None and peak is not None:
        found.megabytes = max(0.0, peak - before)


def resident(field: str = "VmRSS") -> float | None:
    """Return the resident memory of this process in MB, now ("VmRSS") or at its peak ("VmHWM"); None if unknown."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), None)
