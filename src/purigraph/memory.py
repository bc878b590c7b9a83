"""The memory of this process, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

from purigraph.errors import InputError


def memory_now() -> float:
    """Return the resident memory of this process, in MB."""
    return _memory("VmRSS")


def memory_peak() -> float:
    """Return the peak resident memory of this process so far, in MB."""
    return _memory("VmHWM")


def _memory(field: str) -> float:
    # Not getrusage: its peak is inherited from the parent process.
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise InputError(f"/proc/self/status has no {field}: memory can only be measured on Linux.")
