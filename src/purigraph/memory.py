"""The memory of this process, as Linux counts it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from purigraph.errors import InputError

# Writing 5 to it sets the peak back to the current size (Linux).
_CLEAR = Path("/proc/self/clear_refs")


def memory_now() -> float:
    """Return the resident memory of this process, in MB."""
    return _memory("VmRSS")


def memory_peak() -> float:
    """Return the peak resident memory of this process, in MB: so far, or since `forget_memory_peak`."""
    return _memory("VmHWM")


def forget_memory_peak() -> None:
    """Let the peak begin again at the current size, where Linux can do that."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def _memory(field: str) -> float:
    # Not getrusage: its peak is inherited from the parent process.
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise InputError(f"/proc/self/status has no {field}: memory can only be measured on Linux.")
