"""Inner products of pairs of rows, without the N x N matrix of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from purigraph.errors import InputError
from purigraph.kernels import compiled
from purigraph.kernels.compiled import array
from purigraph.kernels.csr import Pattern, row_pointers

# What a block of pairs may hold at a time, in elements of 8 bytes: some 100 MB with the copies that it needs.
_BLOCK_ELEMENTS = 1 << 22
# Measured with 128 columns: below this share of non-zeros walking along both rows is the faster way.
_SPARSE_BELOW = 0.2


class Rows:
    r"""The rows of a matrix (N, F), of which pairs are multiplied: $\langle x_i, x_j \rangle$, in double precision.

    A row of which few entries are not 0 is kept as their list. The products then cost the lengths of the two lists and
    no further memory; those of dense rows are taken in blocks of pairs, of bounded size.

    Args:
        x: (N, F) dense, or in one of PyTorch's sparse layouts (COO, CSR).
    """

    def __init__(self, x: Tensor) -> None:
        if x.dim() != 2:
            raise InputError(f"Node features must be a matrix (nodes, features), not of shape {tuple(x.shape)}.")
        x = x.detach()
        self.num_rows, self.num_columns = x.shape
        self._dense: Tensor | None = None
        if x.layout == torch.strided:
            if int(torch.count_nonzero(x)) >= _SPARSE_BELOW * x.numel():
                self._dense = x.double()
                _check_finite(self._dense)
                return
            x = x.to_sparse_coo()
        coo = (x if x.layout == torch.sparse_coo else x.to_sparse_coo()).coalesce()
        row, col = coo.indices()
        stored = coo.values() != 0  # a sparse matrix may hold zeros, which no pattern should have
        row, col, value = row[stored], col[stored], coo.values()[stored]
        self._pattern, self._value = Pattern(row_pointers(row, self.num_rows), col, self.num_columns), value.double()
        _check_finite(self._value)

    def binary(self) -> Rows:
        """Return the same rows with 1 wherever there is a value."""
        return self._with(lambda value: (value != 0).double())

    def squared_norms(self) -> Tensor:
        r"""(N,) $\langle x_i, x_i \rangle$; of binary rows the number of their ones."""
        if self._dense is not None:
            return self._dense.square().sum(1)
        norms = self._value.new_zeros(self.num_rows)
        return norms.index_add(0, self._pattern.row, self._value.square())

    def products(self, pairs: Tensor) -> Tensor:
        """(M,) float64, the products of the rows that the pairs (2, M) name; the same for (i, j) and (j, i)."""
        out = torch.empty(pairs.shape[1], dtype=torch.float64, device=pairs.device)
        if self._dense is not None:
            size = max(_BLOCK_ELEMENTS // max(self.num_columns, 1), 1)
            for part, block in zip(pairs.split(size, dim=1), out.split(size), strict=True):
                torch.sum(self._dense[part[0]] * self._dense[part[1]], dim=1, out=block)
        elif compiled.usable(self._value):
            i, j = pairs.contiguous()
            _walk(*map(array, (self._pattern.rowptr, self._pattern.col, self._value, i, j, out)))
        else:
            self._search(pairs, out)
        return out

    def _search(self, pairs: Tensor, out: Tensor) -> None:
        """Find every entry of the one row in the other; where nothing is compiled, as on a GPU."""
        lengths = self._pattern.rowptr.diff().long()
        longest = max(int(lengths.max()) if len(lengths) else 0, 1)
        size = max(_BLOCK_ELEMENTS // longest, 1)
        for part, block in zip(pairs.split(size, dim=1), out.split(size), strict=True):
            (keys, values, owner), (other_keys, other_values, _) = (self._entries(rows, lengths) for rows in part)
            if not len(other_keys):
                block.zero_()
                continue
            at = torch.searchsorted(other_keys, keys).clamp_(max=len(other_keys) - 1)
            found = torch.where(other_keys[at] == keys, values * other_values[at], 0.0)
            block.copy_(torch.zeros_like(block).index_add(0, owner, found))

    def _entries(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return an ascending key and the value of every entry of the rows (M,), and the row's place among them."""
        counts = lengths[rows]
        owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        begins = torch.cumsum(counts, 0) - counts
        entry = torch.arange(len(owner), device=rows.device) + (self._pattern.rowptr.long()[rows] - begins)[owner]
        return owner * self.num_columns + self._pattern.col[entry], self._value[entry], owner

    def _with(self, change: Callable[[Tensor], Tensor]) -> Rows:
        other = object.__new__(Rows)
        other.num_rows, other.num_columns, other._dense = self.num_rows, self.num_columns, None
        if self._dense is not None:
            other._dense = change(self._dense)
        else:
            other._pattern, other._value = self._pattern, change(self._value)
        return other


def _check_finite(values: Tensor) -> None:
    if not torch.isfinite(values).all():
        raise InputError("Node features hold NaN or infinite values: clean them before they are compared.")


@compiled.kernel
def _walk(rowptr: Any, col: Any, value: Any, i: Any, j: Any, out: Any) -> None:  # pragma: no cover - compiled
    for pair in range(len(i)):
        a, end_a = rowptr[i[pair]], rowptr[i[pair] + 1]
        b, end_b = rowptr[j[pair]], rowptr[j[pair] + 1]
        total = 0.0
        while a < end_a and b < end_b:
            if col[a] == col[b]:
                total += value[a] * value[b]
                a += 1
                b += 1
            elif col[a] < col[b]:
                a += 1
            else:
                b += 1
        out[pair] = total
