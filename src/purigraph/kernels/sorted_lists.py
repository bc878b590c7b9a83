"""Sorted lists of integers, merged and searched by walking along both instead of sorting or bisecting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from purigraph.kernels import compiled
from purigraph.kernels.compiled import array

# Bisection is faster if there are more values per query than this.
_WALK_BELOW = 16


def merge(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge two ascending lists of int64, each without repetitions; shared elements appear once.

    Returns:
        (K,) the merged list, and the positions of each side's elements in it: (L,) and (R,) int64.
    """
    if left.device.type == "cpu" and compiled.AVAILABLE:
        merged = left.new_empty(len(left) + len(right))
        at_left, at_right = torch.empty_like(left), torch.empty_like(right)
        size = _merge(*map(array, (left.contiguous(), right.contiguous(), merged, at_left, at_right)))
        return merged[:size], at_left, at_right
    merged = torch.unique(torch.cat([left, right]))
    return merged, torch.searchsorted(merged, left), torch.searchsorted(merged, right)


def count_below(values: Tensor, queries: Tensor, *, or_equal: bool = False) -> Tensor:
    """Return how many of the ascending `values` (K,) are below each query (Q,), int64; fast for ascending queries.

    The same as `torch.searchsorted(values, queries, right=or_equal)`.
    """
    if queries.device.type != "cpu" or not compiled.AVAILABLE or len(values) > _WALK_BELOW * len(queries):
        return torch.searchsorted(values, queries, right=or_equal)
    count = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _walk(array(values.contiguous()), array(queries.contiguous()), or_equal, array(count))
    return count


@compiled.kernel
def _merge(left: Any, right: Any, merged: Any, at_left: Any, at_right: Any) -> int:  # pragma: no cover - compiled
    i, j, size = 0, 0, 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        merged[size] = min(a, b)
        if a <= b:
            at_left[i] = size
            i += 1
        if b <= a:
            at_right[j] = size
            j += 1
        size += 1
    while i < len(left):
        merged[size], at_left[i] = left[i], size
        i += 1
        size += 1
    while j < len(right):
        merged[size], at_right[j] = right[j], size
        j += 1
        size += 1
    return size


@compiled.kernel
def _walk(values: Any, queries: Any, or_equal: bool, count: Any) -> None:  # pragma: no cover - compiled
    at = 0
    for q in range(len(queries)):
        query = queries[q]
        if q > 0 and query < queries[q - 1]:  # not ascending: bisect to find the new start
            low, high = 0, at
            while low < high:
                middle = (low + high) // 2
                if values[middle] < query:
                    low = middle + 1
                else:
                    high = middle
            at = low
        while at < len(values) and (values[at] < query or (or_equal and values[at] == query)):
            at += 1
        count[q] = at
