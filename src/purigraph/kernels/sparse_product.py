"""A sparse matrix times a dense one, by rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from purigraph.kernels import compiled, threads
from purigraph.kernels.compiled import array


def sparse_product(
    rowptr: Tensor, col: Tensor, value: Tensor, dense: Tensor, out: Tensor, diagonal: Tensor | None = None
) -> None:
    """Out = A dense, or (A + diag) dense.

    Args:
        rowptr: (R+1,) int64.
        col: (M,) int32.
        value: (M,) of A's entries.
        dense: (C, Z).
        out: (R, Z), overwritten.
        diagonal: (R,) added to a square A.
    """
    if compiled.usable(dense):
        none = dense.new_empty(0)
        arrays = map(array, (rowptr, col, value, none if diagonal is None else diagonal, dense, out))
        threads.run(_product, threads.row_parts(array(rowptr), dense.shape[1], dense.shape[1]), *arrays)
        return
    row = torch.repeat_interleave(torch.arange(len(out), device=rowptr.device), rowptr.diff())
    indices = torch.stack([row, col.long()])
    matrix = torch.sparse_coo_tensor(indices, value, (len(out), len(dense)), is_coalesced=True, check_invariants=False)
    out.copy_(torch.sparse.mm(matrix, dense.detach()))
    if diagonal is not None:
        out.addcmul_(diagonal.unsqueeze(1), dense)


@compiled.kernel
def _product(
    rowptr: Any, col: Any, value: Any, diagonal: Any, dense: Any, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    channels = dense.shape[1]
    for i in range(start, stop):
        row = out[i]
        if len(diagonal) > 0:
            for z in range(channels):
                row[z] = diagonal[i] * dense[i, z]
        else:
            row[:] = 0
        for e in range(rowptr[i], rowptr[i + 1]):
            v = value[e]
            if v != 0:
                other = dense[col[e]]
                for z in range(channels):
                    row[z] += v * other[z]
