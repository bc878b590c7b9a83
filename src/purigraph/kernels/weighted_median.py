"""The dimension-wise weighted median of every node's neighbours, and the distances to it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from purigraph.kernels import compiled, threads
from purigraph.kernels.compiled import array
from purigraph.kernels.csr import Pattern
from purigraph.kernels.products import product_into

# The PyTorch versions process this many elements of rows x neighbours x channels at a time.
_CHUNK_ELEMENTS = 1 << 22


def median_index(h: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    r"""Return which neighbour is the weighted median, in every dimension.

    In each dimension it is the neighbour with the smallest value at which the weights, summed in ascending order of the
    values, reach half of their total.

    Args:
        h: (N, Z) values.
        index: (N, k) int64, neighbours.
        weight: (N, k) their weights, non-negative.

    Returns:
        (N, Z) int64: `h.gather(0, result)` is the median.
    """
    if not compiled.usable(h):
        return _median_index_by_sorting(h, index, weight)
    out = torch.empty(h.shape, dtype=torch.int64)
    arrays = map(array, (h.contiguous(), index.contiguous(), weight.contiguous(), out))
    work = 4 * index.shape[1] * h.shape[1]
    threads.run(_select, threads.even_parts(h.shape[0], work), *arrays)
    return out


def _median_index_by_sorting(h: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    step = max(_CHUNK_ELEMENTS // max(index.shape[1] * h.shape[1], 1), 1)
    parts = []
    for start in range(0, h.shape[0], step):
        rows = index[start : start + step]
        order = h[rows].argsort(dim=1, stable=True)
        mass = weight[start : start + step].unsqueeze(2).expand_as(order).gather(1, order).cumsum(1)
        place = (mass < mass[:, -1:] / 2).sum(1, keepdim=True).clamp(max=index.shape[1] - 1)
        parts.append(rows.gather(1, order.gather(1, place).squeeze(1)))
    return torch.cat(parts)


def distance_to_neighbours(center: Tensor, h: Tensor, pattern: Pattern) -> Tensor:
    r"""Return $\lVert c_i - h_j \rVert_2$ at every entry (i, j); its gradient is 0 where it is 0.

    Shapes: center (R, Z), h (C, Z), a pattern R x C with M entries give (M,). Nothing of size M x Z is kept.
    """
    return cast(Tensor, _Distance.apply(center, h, pattern))  # type: ignore[no-untyped-call]


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, center: Tensor, h: Tensor, pattern: Pattern) -> Tensor:
        distance = _distance(center.contiguous(), h.contiguous(), pattern)
        ctx.pattern = pattern
        ctx.save_for_backward(center, h, distance)
        return distance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        center, h, distance = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        # The gradient of c_i is sum_j f_ij (c_i - h_j) with f = gradient / distance: a product with the matrix f.
        factor = torch.where(distance > 0, gradients[0] / distance, 0.0)
        transposed, order = pattern.by_column
        return (
            _pull(pattern, factor, center, h),
            _pull(transposed, factor.index_select(0, order), h, center),
            None,
        )


def _pull(pattern: Pattern, factor: Tensor, mine: Tensor, others: Tensor) -> Tensor:
    total = factor.new_zeros(pattern.num_rows).index_add_(0, pattern.row, factor)
    out = torch.empty_like(mine)
    product_into(out, pattern, factor, others.contiguous())
    return mine * total.unsqueeze(1) - out


def _distance(center: Tensor, h: Tensor, pattern: Pattern) -> Tensor:
    if compiled.usable(h):
        out = h.new_empty(pattern.num_entries)
        parts = threads.row_parts(array(pattern.rowptr), h.shape[1], 1)
        threads.run(_measure, parts, *map(array, (pattern.rowptr, pattern.col, center, h, out)))
        return out
    step = max(_CHUNK_ELEMENTS // max(h.shape[1], 1), 1)
    entries = [slice(start, start + step) for start in range(0, pattern.num_entries, step)]
    return torch.cat([(center[pattern.row[part]] - h[pattern.col[part]]).norm(dim=1) for part in entries])


@compiled.kernel
def _measure(
    rowptr: Any, col: Any, center: Any, h: Any, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    channels = h.shape[1]
    for i in range(start, stop):
        mine = center[i]
        for e in range(rowptr[i], rowptr[i + 1]):
            other = h[col[e]]
            total = h.dtype.type(0)
            for z in range(channels):
                total += (mine[z] - other[z]) * (mine[z] - other[z])
            out[e] = np.sqrt(total)


@compiled.kernel
def _select(h: Any, index: Any, weight: Any, out: Any, start: int, stop: int) -> None:  # pragma: no cover - compiled
    """Select the largest value with less than half of the mass below it.

    A candidate is compared with all others in one vectorised sum; candidates outside the bounds found so far are
    skipped, which leaves a number logarithmic in the number of neighbours.
    """
    width, channels = index.shape[1], h.shape[1]
    columns = np.empty((channels, width), h.dtype)
    nodes, masses = np.empty(width, np.int64), np.empty(width, h.dtype)
    for i in range(start, stop):
        size, total = 0, 0.0
        for t in range(width):
            if weight[i, t] > 0:
                nodes[size], masses[size] = index[i, t], weight[i, t]
                total += weight[i, t]
                size += 1
        nodes[size:] = index[i, 0]
        for t in range(size):
            row = h[nodes[t]]
            for z in range(channels):
                columns[z, t] = row[z]
        for z in range(channels):
            values = columns[z]
            chosen = 0
            floor, ceiling = -np.inf, np.inf
            for t in range(size):
                value = values[t]
                if value <= floor or value >= ceiling:
                    continue
                below = h.dtype.type(0)
                for s in range(size):
                    below += masses[s] if values[s] < value else h.dtype.type(0)
                if below < total / 2:
                    floor, chosen = value, t
                else:
                    ceiling = value
            out[i, z] = nodes[chosen]
