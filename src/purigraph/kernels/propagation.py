r"""A sparse matrix times node features, differentiable in both: the building block of the classifiers.

$$\mathrm{out}_i = \sum_{e:\, \mathrm{row}(e) = i} v_e\, x_{\mathrm{col}(e)} + l_i\, x_i$$

An attack calls a classifier thousands of times and needs the gradient with respect to $v$ every time. Measured with
2,708 nodes and 30,556 entries (Cora and 20,000 more, as in an attack), 64 channels and one thread, forward and backward
take 1.3 ms, instead of 10.6 ms with gather and `index_add`; a GCN from its first product on takes 3.1 ms instead of
18.6 ms with PyG's `GCNConv`. Nothing of size entries x channels is allocated, and the order by columns, which only the
backward pass needs, comes from counting instead of sorting.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from purigraph.kernels.csr import Pattern
from purigraph.kernels.products import add_sampled_product, product


def propagate(pattern: Pattern, value: Tensor, x: Tensor, loop: Tensor | None = None) -> Tensor:
    """Multiply a sparse matrix with `x`; differentiable once, in `value`, `x` and `loop`.

    Args:
        pattern: Where the matrix has entries, R x C.
        value: (M,) the values of these entries.
        x: (C, Z).
        loop: (R,) added to the diagonal of a square matrix.

    Returns:
        (R, Z).
    """
    return cast(Tensor, _Propagate.apply(pattern, value, x, loop))  # type: ignore[no-untyped-call]


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, value: Tensor, x: Tensor, loop: Tensor | None) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(value, x, loop)
        return product(pattern, value, x, loop)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, pattern = gradients[0].contiguous(), ctx.pattern
        value, x, loop = ctx.saved_tensors
        _, wants_value, wants_x, wants_loop = ctx.needs_input_grad
        grad_value = grad_x = None
        if wants_value:
            grad_value = torch.zeros_like(value)
            add_sampled_product(grad_value, pattern, gradient, x.contiguous())
        if wants_x:
            transposed, order = pattern.by_column
            grad_x = product(transposed, value.index_select(0, order), gradient, loop)
        grad_loop = (gradient * x).sum(1) if wants_loop else None
        return None, grad_value, grad_x, grad_loop
