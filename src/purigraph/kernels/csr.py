"""Sparsity patterns by rows: the structure that all kernels run over, built by counting instead of sorting.

Indices are int32 wherever they fit: this halves the memory traffic, and PyTorch's sparse products on the CPU take them
without a conversion at every call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from purigraph.kernels import compiled
from purigraph.kernels.compiled import array


class Pattern:
    """Where a sparse matrix has entries, by rows; and by columns on demand.

    Args:
        rowptr: (R+1,) integer; row i holds the entries rowptr[i] to rowptr[i+1].
        col: (M,) integer. Entries listed more than once add up.
        num_cols: C, the number of columns.

    Attributes:
        rowptr: (R+1,) int32, or int64 if that is too small.
        col: (M,) of the same dtype.
    """

    def __init__(self, rowptr: Tensor, col: Tensor, num_cols: int) -> None:
        dtype = _index_dtype(max(len(col), num_cols))
        self.rowptr, self.col, self.num_cols = rowptr.to(dtype), col.to(dtype), num_cols

    @property
    def num_rows(self) -> int:
        """Return R, the number of rows."""
        return len(self.rowptr) - 1

    @property
    def num_entries(self) -> int:
        """Return M, the number of entries."""
        return len(self.col)

    @cached_property
    def row(self) -> Tensor:
        """Return the row of every entry, (M,) int64."""
        if self.rowptr.device.type == "cpu" and compiled.AVAILABLE:
            row = torch.empty(self.num_entries, dtype=torch.int64)
            _expand(array(self.rowptr), array(row))
            return row
        rows = torch.arange(self.num_rows, device=self.rowptr.device)
        return torch.repeat_interleave(rows, self.rowptr.diff(), output_size=self.num_entries)

    @cached_property
    def by_column(self) -> tuple[Pattern, Tensor]:
        """Return the transposed pattern, and which entry of this pattern each of its entries is, (M,) int64."""
        colptr, order = counting_order(self.col, self.num_cols)
        return Pattern(colptr, self.row.index_select(0, order), self.num_rows), order

    def to(self, device: torch.device | str) -> Pattern:
        """Return the pattern on another device."""
        return Pattern(self.rowptr.to(device), self.col.to(device), self.num_cols)


class SymmetricPattern(Pattern):
    """The pattern of a symmetric N x N matrix without a diagonal, given by its pairs, each with an entry in two rows.

    Columns are ascending within a row.

    Args:
        pairs: (2, E) int64 with `pairs[0] < pairs[1]`, sorted by (i, j), without repetitions.
        num_nodes: N, the number of nodes.

    Attributes:
        pairs: (2, E) as given.
        pair: (2E,) integer, the pair that an entry comes from; both entries have the pair's value.
        entries: (2, E) int64, the two entries of every pair: (j, i) and (i, j).
    """

    def __init__(self, pairs: Tensor, num_nodes: int) -> None:
        self.pairs = pairs
        count = pairs.shape[1]
        dtype = _index_dtype(max(2 * count, num_nodes))
        rowptr = torch.zeros(num_nodes + 1, dtype=dtype, device=pairs.device)
        if pairs.device.type == "cpu" and compiled.AVAILABLE:
            col, self.pair = torch.empty(2 * count, dtype=dtype), torch.empty(2 * count, dtype=dtype)
            self.entries = torch.empty((2, count), dtype=torch.int64)
            i, j = pairs.contiguous()
            _place(*map(array, (i, j, rowptr, col, self.pair, self.entries)))
        else:
            i, j = pairs
            # A row's smaller neighbours come from pairs that end in it, its larger ones from pairs that start in it.
            # Both lists are ascending already, so one stable sort by row gives ascending columns too.
            pointer, order = counting_order(torch.cat([j, i]), num_nodes)
            rowptr = pointer.to(dtype)
            col = torch.cat([i, j])[order].to(dtype)
            self.pair = torch.arange(count, device=pairs.device, dtype=dtype).repeat(2)[order]
            self.entries = torch.empty_like(order)
            self.entries[order] = torch.arange(2 * count, device=pairs.device)
            self.entries = self.entries.view(2, count)
        super().__init__(rowptr, col, num_nodes)

    @cached_property
    def by_column(self) -> tuple[Pattern, Tensor]:
        """Return the pattern itself, and the entry (j, i) of every entry (i, j), (2E,) int64."""
        mirrored = torch.empty(self.num_entries, dtype=torch.int64, device=self.entries.device)
        mirrored[self.entries[0]] = self.entries[1]
        mirrored[self.entries[1]] = self.entries[0]
        return self, mirrored


def counting_order(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Sort integers below `size` stably, in linear time on the CPU.

    Returns:
        (size+1,) where each integer begins in sorted order, and (M,) int64, the sorting permutation.
    """
    if index.device.type == "cpu" and compiled.AVAILABLE:
        pointer = torch.zeros(size + 1, dtype=torch.int64)
        order = torch.empty(len(index), dtype=torch.int64)
        _count(array(index.contiguous()), array(pointer), array(order))
        return pointer, order
    return row_pointers(index, size), torch.argsort(index, stable=True)


def row_pointers(row: Tensor, num_rows: int) -> Tensor:
    """Return where the entries of every row begin, (num_rows+1,) int64, given the row (M,) of each entry."""
    pointers = torch.zeros(num_rows + 1, dtype=torch.int64, device=row.device)
    torch.cumsum(torch.bincount(row, minlength=num_rows), 0, out=pointers[1:])
    return pointers


def _index_dtype(largest: int) -> torch.dtype:
    return torch.int32 if largest <= torch.iinfo(torch.int32).max else torch.int64


@compiled.kernel
def _expand(rowptr: Any, row: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(rowptr) - 1):
        for e in range(rowptr[i], rowptr[i + 1]):
            row[e] = i


@compiled.kernel
def _count(index: Any, pointer: Any, order: Any) -> None:  # pragma: no cover - compiled
    size = len(pointer) - 1
    for e in range(len(index)):
        pointer[index[e] + 1] += 1
    for node in range(size):
        pointer[node + 1] += pointer[node]
    place = pointer[:-1].copy()
    for e in range(len(index)):
        node = index[e]
        order[place[node]] = e
        place[node] += 1


@compiled.kernel
def _place(i: Any, j: Any, rowptr: Any, col: Any, pair_of: Any, entries: Any) -> None:  # pragma: no cover - compiled
    """Place the two entries of every pair, given that the pairs are sorted.

    A row's smaller neighbours come from pairs that end in it, its larger ones from pairs that start in it; both come
    in ascending order.
    """
    num_nodes, num_pairs = len(rowptr) - 1, len(i)
    for pair in range(num_pairs):
        rowptr[i[pair] + 1] += 1
        rowptr[j[pair] + 1] += 1
    for node in range(num_nodes):
        rowptr[node + 1] += rowptr[node]
    place = rowptr[:-1].astype(np.int64)
    for pair in range(num_pairs):
        at = place[j[pair]]
        place[j[pair]] += 1
        col[at], pair_of[at], entries[0, pair] = i[pair], pair, at
    for pair in range(num_pairs):
        at = place[i[pair]]
        place[i[pair]] += 1
        col[at], pair_of[at], entries[1, pair] = j[pair], pair, at
