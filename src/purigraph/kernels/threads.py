"""Running a compiled kernel over the rows of a graph on several threads.

The kernels are plain `nogil` functions of a row range; they are split over threads here instead of with numba's
`parallel=True`. Compilation is several times faster, there is no threading layer to configure (numba's default one
aborts when two threads use it at once), and the number of threads is PyTorch's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

# Below this many elementary operations a second thread costs more (about 30 microseconds) than it saves.
_WORTH_A_THREAD = 1 << 18

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def row_parts(rowptr: npt.NDArray[np.integer[Any]], work_per_entry: int, work_per_row: int) -> list[tuple[int, int]]:
    """Split the rows into contiguous ranges of about equal work, one per thread."""
    num_rows = len(rowptr) - 1
    work = int(rowptr[-1]) * work_per_entry + num_rows * work_per_row
    threads = min(torch.get_num_threads(), num_rows, work // _WORTH_A_THREAD + 1)
    if threads <= 1:
        return [(0, num_rows)]
    cost = rowptr.astype(np.int64) * work_per_entry + np.arange(num_rows + 1) * work_per_row
    cuts = np.searchsorted(cost, work * np.arange(1, threads) / threads).tolist()
    bounds = [0, *cuts, num_rows]
    return list(pairwise(bounds))


def even_parts(num_rows: int, work_per_row: int) -> list[tuple[int, int]]:
    """Split rows of equal cost into contiguous ranges, one per thread."""
    return row_parts(np.zeros(num_rows + 1, dtype=np.int64), 0, work_per_row)


def run(
    kernel: Callable[..., None],
    parts: list[tuple[int, int]],
    *arguments: Any,
    partial: npt.NDArray[Any] | None = None,
) -> None:
    """Call `kernel(*arguments, start, stop)` for every range, the first one on this thread.

    With `partial` (one row per range), a kernel that sums over all rows gets its own row of it as the argument before
    the range: threads don't wait for each other, and the total does not depend on which finishes first.
    """
    calls = [
        (*arguments, *part) if partial is None else (*arguments, partial[index], *part)
        for index, part in enumerate(parts)
    ]
    if len(calls) == 1:
        kernel(*calls[0])
        return
    pool = _pool(len(calls) - 1)
    others = [pool.submit(kernel, *call) for call in calls[1:]]
    kernel(*calls[0])
    for other in others:
        other.result()


def _pool(workers: int) -> ThreadPoolExecutor:
    with _lock:
        if workers not in _pools:
            _pools[workers] = ThreadPoolExecutor(workers, thread_name_prefix="purigraph-kernel")
        return _pools[workers]
