"""A weighted adjacency that is known by its factors: a matrix to multiply with, not a list of edges."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.errors import GraphError


class LowRankAdjacency:
    r"""An adjacency $A = L R^\top = R L^\top$ of low rank; products with it need nothing of size N x N.

    Almost all of its entries are small and not 0, some are negative, and it has a diagonal.

    The gradient goes through $R$ alone: products are $\frac12 (L R^\top + R L^\top) H$, so that what arrives at $R$ is
    $\frac12 (G H^\top + H G^\top) L$ for an incoming gradient $G$, which is all that the derivative of a best
    approximation needs (see `purigraph.purifiers.low_rank`).

    Args:
        left: (N, r), $L$, without gradient.
        right: (N, r), $R$, such that the product is symmetric, as $L$ times a diagonal matrix is.
    """

    def __init__(self, left: Tensor, right: Tensor) -> None:
        if left.dim() != 2 or left.shape != right.shape:
            raise GraphError(
                f"The factors of an adjacency must have the same shape (N, r), not {tuple(left.shape)} and "
                f"{tuple(right.shape)}."
            )
        self.left = left.detach()
        self.right = right

    @property
    def num_nodes(self) -> int:
        """Return N, the number of nodes."""
        return self.left.shape[0]

    @property
    def rank(self) -> int:
        """Return r, the number of columns of the factors."""
        return self.left.shape[1]

    def to(self, like: Tensor) -> LowRankAdjacency:
        """Return the same adjacency with the dtype and on the device of a tensor."""
        return LowRankAdjacency(self.left.to(like), self.right.to(like))

    def times(self, h: Tensor) -> Tensor:
        """Return the product with h (N, Z), in 4 N r Z floating point operations; 8 if there is a gradient to pass."""
        product = self.right @ (self.left.t() @ h)
        if not self.right.requires_grad:
            return product
        return 0.5 * (product + self.left @ (self.right.t() @ h))

    def degree(self) -> Tensor:
        """Return the sum of every row, (N,)."""
        return self.times(self.left.new_ones(self.num_nodes, 1)).squeeze(1)

    def dense(self) -> Tensor:
        """Return the matrix itself, (N, N): for small graphs."""
        return self.times(torch.eye(self.num_nodes, dtype=self.left.dtype, device=self.left.device))
