"""Recognising nodes by their features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Drawn once for each number of features; the values are part of saved models and must not change.
_SEED = 20250713


def row_keys(x: Tensor) -> Tensor:
    r"""Return a 64-bit key of every row of x (N, F), (N,) int64: equal rows have equal keys, in any layout.

    $\sum_f r_f b_f \bmod 2^{64}$ over the non-zeros, with their 32 bits $b$ and random odd $r$: rows that differ share
    a key with a probability of about $2^{-32}$ at most.
    """
    if x.layout == torch.strided:
        row, column = x.nonzero(as_tuple=True)
        value = x[row, column]
    else:
        coo = (x.to_sparse_coo() if x.layout != torch.sparse_coo else x).coalesce()
        (row, column), value = coo.indices(), coo.values()
    bits = value.detach().float().contiguous().view(torch.int32).long()
    generator = torch.Generator().manual_seed(_SEED)
    factors = torch.randint(-(2**62), 2**62, (x.shape[1],), generator=generator) * 2 + 1
    keys = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    keys.index_add_(0, row, factors.to(x.device)[column] * bits)
    return keys


class KnownRows(nn.Module):
    """What is known about rows of features, such as a classifier's answers at the nodes of a trusted graph.

    Args:
        num_rows: M, the number of different rows.
        width: C, how many numbers are known of each.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, num_rows: int = 0, width: int = 0) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(num_rows, dtype=torch.int64))
        self.register_buffer("values", torch.zeros(num_rows, width))

    @classmethod
    def of(cls, x: Tensor, values: Tensor) -> KnownRows:
        """Remember values (N, C) of the rows of x (N, F); rows that are equal share their mean."""
        known = cls()
        known.keys, place = torch.unique(row_keys(x), return_inverse=True)
        total = values.new_zeros(len(known.keys), values.shape[1]).index_add(0, place, values)
        known.values = total / torch.bincount(place, minlength=len(known.keys)).unsqueeze(1).to(values.dtype)
        return known

    def __len__(self) -> int:
        return len(self.keys)

    def recognised(self, keys: Tensor) -> Tensor:
        """Return which rows, by their keys (N,), are known: (N,) bool."""
        return torch.isin(keys, self.keys)

    def replaced(self, x: Tensor, values: Tensor) -> Tensor:
        """Return values (N, C) for the rows of x (N, F), with what is known in place of the given ones."""
        if not len(self):
            return values
        keys = row_keys(x)
        place = torch.searchsorted(self.keys, keys).clamp(max=len(self) - 1)
        known = (self.keys[place] == keys).unsqueeze(1)
        return torch.where(known, self.values[place].to(values.dtype), values)
