r"""K hops over a graph with a fixed structure and changing weights.

$$H^{(m)} = \hat A\, H^{(m-1)}, \qquad m = 1, \dots, K$$

with a symmetric $\hat A$ given by one value per pair and one per node for the diagonal. The backward pass gives
gradients to the values (a sampled dense-dense product along the edges) and to $H^{(0)}$ (the same hops again, as
$\hat A$ is symmetric). All hops share one buffer; nothing of size |E| x Z is allocated and nothing is sorted.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from purigraph.kernels import buffers
from purigraph.kernels.csr import SymmetricPattern
from purigraph.kernels.products import add_sampled_product, product_into


def all_hops(h: Tensor, pattern: SymmetricPattern, value: Tensor, diagonal: Tensor | None, hops: int) -> Tensor:
    """Apply all powers of a symmetric sparse matrix to `h`.

    Args:
        h: (N, Z), hop 0.
        pattern: Where the matrix has entries off the diagonal.
        value: (E,) the value of every pair.
        diagonal: (N,) the diagonal, or None for zeros.
        hops: K, the number of hops.

    Returns:
        (K+1, N, Z): h, A h, ..., A^K h.
    """
    return cast(Tensor, _AllHops.apply(h, value, diagonal, pattern, hops))  # type: ignore[no-untyped-call]


class _AllHops(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, value: Tensor, diagonal: Tensor | None, pattern: SymmetricPattern, hops: int
    ) -> Tensor:
        entry_value = value.detach().index_select(0, pattern.pair)
        result = buffers.empty(hops + 1, *h.shape, like=h)
        result[0] = h
        for m in range(1, hops + 1):
            product_into(result[m], pattern, entry_value, result[m - 1], diagonal)
        ctx.pattern = pattern
        ctx.save_for_backward(result, value, diagonal)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_hops = gradients[0].contiguous()
        result, value, diagonal = ctx.saved_tensors
        pattern: SymmetricPattern = ctx.pattern
        wants_h, wants_value = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        wants_diagonal = diagonal is not None and ctx.needs_input_grad[2]
        entry_value = value.detach().index_select(0, pattern.pair)
        grad_entry = torch.zeros_like(entry_value)
        grad_diagonal = torch.zeros_like(diagonal) if diagonal is not None else None
        last = len(result) - 1
        upper = grad_hops[last]  # dL/dH^(m), the sum over all paths
        turns = [torch.empty_like(upper), torch.empty_like(upper)]
        for m in range(last, 0, -1):
            if wants_value or wants_diagonal:
                add_sampled_product(grad_entry, pattern, upper, result[m - 1])
                if grad_diagonal is not None:
                    grad_diagonal += (upper * result[m - 1]).sum(1)
            if m > 1 or wants_h:
                lower = turns[m % 2]
                product_into(lower, pattern, entry_value, upper, diagonal)
                upper = lower.add_(grad_hops[m - 1])
        grad_value = None
        if wants_value:
            grad_value = torch.zeros_like(value).index_add_(0, pattern.pair, grad_entry)
        return upper if wants_h else None, grad_value, grad_diagonal if wants_diagonal else None, None, None
