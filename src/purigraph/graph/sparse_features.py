"""Node features as a torch CSR tensor: conversion from and to SciPy, and row selection.

Bag-of-words features are 1-2 % dense, and a CSR tensor takes about that share of the memory. PyTorch can't select
rows of such a tensor, which every split of a graph needs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor


def csr_from_scipy(matrix: Any) -> Tensor:
    """Convert a SciPy sparse matrix or an array (N, F) to a torch CSR tensor of the same shape and values."""
    csr = sparse.csr_array(matrix)
    csr.sum_duplicates()
    values = torch.from_numpy(np.array(csr.data))
    return _csr(
        torch.from_numpy(csr.indptr.astype(np.int64)),
        torch.from_numpy(csr.indices.astype(np.int64)),
        values,
        csr.shape,
    )


def csr_to_scipy(x: Tensor) -> Any:
    """Convert a torch CSR tensor (N, F) to a SciPy CSR array of the same shape and values."""
    parts = (x.values(), x.col_indices(), x.crow_indices())
    return sparse.csr_array(tuple(part.detach().cpu().numpy() for part in parts), shape=tuple(x.shape))


def select_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return `x[rows]` for a strided or CSR tensor. Shapes: x (N, ...), rows (M,) int64, result (M, ...)."""
    if x.layout != torch.sparse_csr:
        return x.index_select(0, rows)
    crow, col, values = x.crow_indices(), x.col_indices(), x.values()
    counts = crow.diff()[rows]
    new_crow = torch.zeros(len(rows) + 1, dtype=crow.dtype, device=crow.device)
    torch.cumsum(counts, 0, out=new_crow[1:])
    # Entry k of a selected row is k positions after that row's start in x: shift each row's run of positions.
    shift = torch.repeat_interleave(crow[:-1][rows] - new_crow[:-1], counts)
    entries = torch.arange(len(shift), device=crow.device) + shift
    return _csr(new_crow, col[entries], values[entries], (len(rows), x.shape[1]))


def _csr(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        # PyTorch warns once per process that CSR is in beta; users who load a graph can't act on that.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)
