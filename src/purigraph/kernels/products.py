r"""Two products along the entries of a sparse matrix: with a dense matrix, and of two dense ones sampled there.

The first has two versions, as neither is faster everywhere. `product_into` traverses the rows in compiled code on all
threads, writes into existing memory, adds a diagonal in the same pass and skips entries of value 0. `product` uses
PyTorch, which calls MKL: measured with 2,708 rows, 30,556 entries and one thread, it takes 250 instead of 330
microseconds with 64 channels, 46 instead of 240 with 7.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from purigraph.kernels import compiled, threads
from purigraph.kernels.compiled import array
from purigraph.kernels.csr import Pattern
from purigraph.kernels.prefetch import AHEAD, CACHED, LINE, prefetch

# The PyTorch version of the sampled product processes this many elements of entries x channels at a time.
_CHUNK_ELEMENTS = 1 << 24

with warnings.catch_warnings():
    # PyTorch warns once per process that CSR tensors are in beta. Users can't act on that, so trigger the warning here,
    # where it is suppressed.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(2, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0))


def product(pattern: Pattern, value: Tensor, dense: Tensor, diagonal: Tensor | None = None) -> Tensor:
    """Return the product A dense, or (A + diag) dense.

    Args:
        pattern: Where A has entries, R x C.
        value: (M,) the values of these entries.
        dense: (C, Z).
        diagonal: (R,) added to the diagonal of a square A.

    Returns:
        (R, Z).
    """
    dense = dense.contiguous()
    known_to_mkl = torch.backends.mkl.is_available() and dense.dtype in (torch.float32, torch.float64)
    if dense.device.type == "cpu" and not known_to_mkl:
        out = dense.new_empty(pattern.num_rows, dense.shape[1])
        product_into(out, pattern, value.contiguous(), dense, diagonal)
        return out
    size = (pattern.num_rows, pattern.num_cols)
    matrix = torch.sparse_csr_tensor(pattern.rowptr, pattern.col, value, size=size, check_invariants=False)
    out = torch.mm(matrix, dense)
    return out if diagonal is None else out.addcmul_(diagonal.unsqueeze(1), dense)


def product_into(out: Tensor, pattern: Pattern, value: Tensor, dense: Tensor, diagonal: Tensor | None = None) -> None:
    """Overwrite `out` (R, Z) with A dense, or (A + diag) dense; all contiguous. See `product`."""
    if compiled.usable(dense):
        none = dense.new_empty(0)
        arrays = map(array, (pattern.rowptr, pattern.col, value, none if diagonal is None else diagonal, dense, out))
        threads.run(_product, threads.row_parts(array(pattern.rowptr), dense.shape[1], dense.shape[1]), *arrays)
        return
    indices = torch.stack([pattern.row, pattern.col.long()])
    matrix = torch.sparse_coo_tensor(indices, value, (len(out), len(dense)), is_coalesced=True, check_invariants=False)
    out.copy_(torch.sparse.mm(matrix, dense.detach()))
    if diagonal is not None:
        out.addcmul_(diagonal.unsqueeze(1), dense)


def add_sampled_product(out: Tensor, pattern: Pattern, left: Tensor, right: Tensor) -> None:
    """Add <left_i, right_j> to `out` at every entry (i, j). Shapes: left (R, Z), right (C, Z), out (M,); contiguous."""
    if compiled.usable(left):
        parts = threads.row_parts(array(pattern.rowptr), left.shape[1], 1)
        threads.run(_sample, parts, *map(array, (pattern.rowptr, pattern.col, left, right, out)))
        return
    step = max(_CHUNK_ELEMENTS // max(left.shape[1], 1), 1)
    for start in range(0, len(out), step):
        entries = slice(start, start + step)
        out[entries] += (left.index_select(0, pattern.row[entries]) * right.index_select(0, pattern.col[entries])).sum(
            1
        )


@compiled.kernel
def _product(
    rowptr: Any, col: Any, value: Any, diagonal: Any, dense: Any, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    channels = dense.shape[1]
    last, is_far = rowptr[stop] - 1, dense.size > CACHED
    for i in range(start, stop):
        row = out[i]
        if len(diagonal) > 0:
            for z in range(channels):
                row[z] = diagonal[i] * dense[i, z]
        else:
            row[:] = 0
        for e in range(rowptr[i], rowptr[i + 1]):
            if is_far:
                ahead = col[min(e + AHEAD, last)]
                for z in range(0, channels, LINE):
                    prefetch(dense, ahead, z)
            v = value[e]
            if v != 0:
                other = dense[col[e]]
                for z in range(channels):
                    row[z] += v * other[z]


@compiled.kernel
def _sample(
    rowptr: Any, col: Any, left: Any, right: Any, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    channels = left.shape[1]
    zero, _ = compiled.zero_and_one(left)
    for i in range(start, stop):
        mine = left[i]
        for e in range(rowptr[i], rowptr[i + 1]):
            other = right[col[e]]
            total = zero
            for z in range(channels):
                total += mine[z] * other[z]
            out[e] += total
