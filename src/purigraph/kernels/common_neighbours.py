"""How many neighbours the two ends of every edge share."""

from __future__ import annotations

from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from purigraph.kernels import compiled
from purigraph.kernels.compiled import array
from purigraph.kernels.csr import SymmetricPattern


def common_neighbours(pattern: SymmetricPattern, pairs: Tensor) -> Tensor:
    r"""Return $|N(i) \cap N(j)|$ for pairs of nodes (2, E), (E,) int64; O(degrees) per pair, and no memory beside."""
    rowptr, col = pattern.rowptr.cpu(), pattern.col.cpu()
    if compiled.AVAILABLE:
        count = torch.zeros(pairs.shape[1], dtype=torch.int64)
        _count(*(array(part.contiguous()) for part in (rowptr, col, pairs[0].cpu(), pairs[1].cpu(), count)))
        return count
    nodes = len(rowptr) - 1
    adjacency = sparse.csr_array((torch.ones(len(col)).numpy(), col.numpy(), rowptr.numpy()), shape=(nodes, nodes))
    first, second = (adjacency[part.cpu().numpy()] for part in pairs)
    return torch.from_numpy(first.multiply(second).sum(axis=1)).long().reshape(-1)


@compiled.kernel
def _count(rowptr: Any, col: Any, first: Any, second: Any, count: Any) -> None:  # pragma: no cover - compiled
    for e in range(len(first)):
        a, end_a = rowptr[first[e]], rowptr[first[e] + 1]
        b, end_b = rowptr[second[e]], rowptr[second[e] + 1]
        shared = 0
        while a < end_a and b < end_b:
            if col[a] < col[b]:
                a += 1
            elif col[a] > col[b]:
                b += 1
            else:
                shared += 1
                a += 1
                b += 1
        count[e] = shared
