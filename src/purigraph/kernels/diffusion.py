r"""Personalised PageRank of every node, truncated to its largest entries and differentiable in the edge weights.

$$S = \alpha \bigl(I - (1-\alpha) P\bigr)^{-1}, \qquad P = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

S is dense even when P is sparse. On small graphs the inverse itself is computed, on others its rows one by one, by
local pushes (`purigraph.kernels.pushes`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from purigraph.kernels.csr import Pattern
from purigraph.kernels.products import add_sampled_product, product
from purigraph.kernels.pushes import pushed_rows

# Of an inverse, so many rows at a time.
_BLOCK = 128
# How much longer an entry of a product of two dense matrices takes alone than as one of all.
_SAMPLED_COST = 5


class Diffusion(NamedTuple):
    """The largest entries of every row of S.

    Attributes:
        neighbour: (N, k) int64, columns; rows with fewer than k entries are padded with their own index.
        weight: (N, k) the values, 0 where padded; differentiable.
    """

    neighbour: Tensor
    weight: Tensor

    @property
    def pattern(self) -> Pattern:
        """Where a matrix with these entries, N x N, has them: k in every row."""
        num_nodes, width = self.neighbour.shape
        rowptr = torch.arange(0, num_nodes * width + 1, width, device=self.neighbour.device)
        return Pattern(rowptr, self.neighbour.reshape(-1), num_nodes)


def pagerank(
    pattern: Pattern,
    value: Tensor,
    loop: Tensor,
    *,
    alpha: float,
    top_k: int,
    tolerance: float = 1e-4,
    exact_below: int = 1000,
) -> Diffusion:
    r"""Return the `top_k` largest entries of every row of S.

    Args:
        pattern: Where P has entries, one row per target.
        value: (M,) the values of these entries; 0 for listed self-loops.
        loop: (N,) the diagonal of P, $1 / d_i$.
        alpha: The teleport probability.
        top_k: The number k of entries to keep per row.
        tolerance: Tolerance of the pushes: entry (i, j) of S is at most `tolerance` $\sqrt{d_i d_j}$ too small, with
            degrees d that include the self-loop.
        exact_below: With fewer nodes than this, the inverse itself is computed.
    """
    if pattern.num_rows < exact_below:
        rows = _Inverse.apply(pattern, value, loop, alpha, top_k)  # type: ignore[no-untyped-call]
        return Diffusion(*cast(tuple[Tensor, Tensor], rows))
    return Diffusion(*pushed_rows(pattern, value, loop, alpha=alpha, top_k=top_k, tolerance=tolerance))


class _Inverse(torch.autograd.Function):
    r"""The inverse itself: $\partial / \partial P = \frac{1-\alpha}{\alpha} S^T G S^T$, where G has k entries a row.

    Where an attack has 250,000 candidates at Cora's size, it takes a quarter of the time of autograd through a general
    inverse (`purigraph bench --only diffusion_gradient`), and a third of that of pushes.
    """

    @staticmethod
    def forward(
        ctx: Any, pattern: Pattern, value: Tensor, loop: Tensor, alpha: float, top_k: int
    ) -> tuple[Tensor, Tensor]:
        matrix = torch.diag(1 - (1 - alpha) * loop)
        matrix.view(-1).index_add_(0, pattern.row * len(loop) + pattern.col, value, alpha=alpha - 1)
        inverse = _inverted(matrix).mul_(alpha)
        weight, neighbour = inverse.topk(min(top_k, len(loop)), dim=1)
        ctx.pattern, ctx.alpha = pattern, alpha
        ctx.save_for_backward(inverse, neighbour)
        ctx.mark_non_differentiable(neighbour)
        # Rounding leaves entries between components slightly above or below 0; their gradient is already right.
        return neighbour, weight.clamp(min=0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inverse, neighbour = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        num_nodes, kept = len(neighbour), Diffusion(neighbour, gradients[1]).pattern
        gradient = gradients[1].reshape(-1) * ((1 - ctx.alpha) / ctx.alpha)
        blocks = range(0, num_nodes, _BLOCK)
        # In blocks that stay in the cache.
        around = torch.cat([product(kept, gradient, inverse[i : i + _BLOCK].t()) for i in blocks], dim=1)
        grad_loop = (inverse * around).sum(0)
        if len(pattern.col) * _SAMPLED_COST > num_nodes**2:
            return None, (inverse.t() @ around)[pattern.row, pattern.col.long()], grad_loop, None, None
        grad_value = inverse.new_zeros(len(pattern.col))
        for i in blocks:
            block = slice(i, i + _BLOCK)
            left, right = inverse[block].t().contiguous(), around[block].t().contiguous()
            add_sampled_product(grad_value, pattern, left, right)
        return None, grad_value, grad_loop, None, None


def _inverted(matrix: Tensor) -> Tensor:
    """Return the inverse (N, N) of a matrix, in a third of the time where it is symmetric and positive definite."""
    if ((matrix - matrix.t()).abs() <= 4 * torch.finfo(matrix.dtype).eps).all():
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not failed:
            return torch.cholesky_inverse(factor)
    return cast(Tensor, torch.linalg.inv(matrix))
