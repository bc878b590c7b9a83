"""How alike two nodes are, from a row of numbers of each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from purigraph.kernels.row_products import Rows


class Similarities:
    """How alike the rows of a matrix are; holds what all pairs share, the rows and their norms.

    Args:
        x: (N, F).
        kind: What is compared: which entries are not 0 ("jaccard"), or all values ("cosine").
    """

    def __init__(self, x: Tensor, kind: Literal["jaccard", "cosine"]) -> None:
        rows = Rows(x)
        self._kind, self._rows = kind, rows.binary() if kind == "jaccard" else rows
        self._norms = self._rows.squared_norms()

    def of(self, pairs: Tensor) -> Tensor:
        """Return the similarities of the pairs (2, E), (E,) float64; 0 where there is nothing to compare."""
        common = self._rows.products(pairs)
        first, second = self._norms[pairs[0]], self._norms[pairs[1]]
        size = first + second - common if self._kind == "jaccard" else (first * second).sqrt()
        return torch.where(size > 0, common / size.clamp(min=torch.finfo(size.dtype).tiny), 0.0)
