"""Memory for large intermediate results.

Rows are gathered from them at random. On pages of 4 KB nearly every gather misses the TLB, and first touching gigabytes
costs a fault per page; on huge pages both are rare. Linux provides huge pages on request, but PyTorch does not request
them.
"""

from __future__ import annotations

import math
import mmap

import torch
from torch import Tensor

_LARGE = 32 << 20


def empty(*shape: int, like: Tensor) -> Tensor:
    """Return uninitialised memory with the dtype and device of `like`; on huge pages if it is large."""
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < _LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return like.new_empty(shape)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=like.dtype).view(shape)
