r"""Work along the entries of a block of rows, whose columns may be rows of other blocks.

A matrix that is split by rows over several processes is not symmetric within a block, so these kernels take a plain
`Pattern` and one value per entry (instead of one per pair). They have no backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from purigraph.kernels import compiled, threads
from purigraph.kernels.compiled import array
from purigraph.kernels.csr import Pattern
from purigraph.kernels.prefetch import AHEAD, LINE, prefetch

# The PyTorch version of the scores processes this many elements of entries x channels at a time.
_CHUNK_ELEMENTS = 1 << 22


def row_sums(pattern: Pattern, value: Tensor) -> Tensor:
    """Return the sum of the values (M,) of every row, (R,)."""
    out = value.new_zeros(pattern.num_rows)
    if compiled.usable(value):
        threads.run(_sum, threads.row_parts(array(pattern.rowptr), 1, 1), *map(array, (pattern.rowptr, value, out)))
        return out
    return out.index_add_(0, pattern.row, value)


def scaled(pattern: Pattern, value: Tensor, row_scale: Tensor, col_scale: Tensor) -> Tensor:
    """Return row_scale_i value_e col_scale_j for every entry e = (i, j), (M,)."""
    if compiled.usable(value):
        out = torch.empty_like(value)
        arrays = map(array, (pattern.rowptr, pattern.col, value, row_scale, col_scale, out))
        threads.run(_scale, threads.row_parts(array(pattern.rowptr), 1, 1), *arrays)
        return out
    return value * row_scale[pattern.row] * col_scale[pattern.col.long()]


def add_row_scores(out: Tensor, pattern: Pattern, codes: Tensor, first: int, q: Tensor, weight: Tensor) -> None:
    r"""Add $\sum_z w_z\, \mathrm{elu}(P_{iz} + Q_{jz})$ over some channels z to `out` (M,) at every entry (i, j).

    Args:
        out: (M,) the scores so far.
        pattern: Which entries there are, R x C.
        codes: (R, ...), contiguous, with P of these channels in the columns from `first` on.
        first: The first of these columns.
        q: (C, Z), contiguous, Q of these channels.
        weight: (Z,) w of these channels.
    """
    if compiled.usable(q):
        arrays = (array(one) for one in (pattern.rowptr, pattern.col, codes))
        parts = threads.row_parts(array(pattern.rowptr), 2 * len(weight), 1)
        threads.run(_add_scores, parts, *arrays, first, *map(array, (q, weight, out)))
        return
    step = max(_CHUNK_ELEMENTS // max(len(weight), 1), 1)
    p = codes[:, first : first + len(weight)]
    for start in range(0, len(out), step):
        entries = slice(start, start + step)
        total = p[pattern.row[entries]] + q[pattern.col[entries].long()]
        out[entries] += functional.elu(total) @ weight


@compiled.kernel
def _sum(rowptr: Any, value: Any, out: Any, start: int, stop: int) -> None:  # pragma: no cover - compiled
    for i in range(start, stop):
        total = 0.0  # in double precision: a hub has millions of entries
        for e in range(rowptr[i], rowptr[i + 1]):
            total += value[e]
        out[i] = total


@compiled.kernel
def _scale(
    rowptr: Any, col: Any, value: Any, row_scale: Any, col_scale: Any, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    for i in range(start, stop):
        mine = row_scale[i]
        for e in range(rowptr[i], rowptr[i + 1]):
            out[e] = value[e] * mine * col_scale[col[e]]


@compiled.kernel
def _add_scores(
    rowptr: Any, col: Any, codes: Any, first: int, q: Any, weight: Any, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    channels = len(weight)
    zero, one = compiled.zero_and_one(weight)
    last = rowptr[stop] - 1
    for i in range(start, stop):
        p = codes[i, first : first + channels]
        for e in range(rowptr[i], rowptr[i + 1]):
            ahead = col[min(e + AHEAD, last)]
            for z in range(0, channels, LINE):
                prefetch(q, ahead, z)
            other = q[col[e]]
            total = zero
            for z in range(channels):
                x = p[z] + other[z]
                total += weight[z] * (max(x, zero) + compiled.exp_of_min0(x) - one)
            out[e] += total
