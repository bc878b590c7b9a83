r"""K hops over a graph whose structure is fixed and whose weights change.

$$H^{(m)} = \hat A\, H^{(m-1)}, \qquad m = 1, \dots, K$$

with a symmetric $\hat A$ given by one value per pair and one per node for the diagonal. The backward pass gives
gradients to the values (a sampled dense-dense product along the edges) and to $H^{(0)}$ (the same hops again, as
$\hat A$ is symmetric). All hops live in one buffer; nothing of size |E| x Z exists and nothing is sorted.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from purigraph.graph import PairGraph, SymmetricCSR
from purigraph.kernels import buffers, compiled, threads
from purigraph.kernels.compiled import array
from purigraph.kernels.sparse_product import sparse_product

# The PyTorch version handles this many elements of entries x channels at a time.
_CHUNK_ELEMENTS = 1 << 24


def propagate(h: Tensor, graph: PairGraph, value: Tensor, diagonal: Tensor | None, hops: int) -> Tensor:
    """All powers of a symmetric sparse matrix applied to `h`.

    Args:
        h: (N, Z), the hop 0.
        graph: gives the structure; its own weights are not used.
        value: (E,) the matrix' value for every pair.
        diagonal: (N,) its diagonal, or None for zeros.
        hops: K.

    Returns:
        (K+1, N, Z): h, A h, ..., A^K h.
    """
    return cast(Tensor, _Propagate.apply(h, value, diagonal, graph.csr, hops))  # type: ignore[no-untyped-call]


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, value: Tensor, diagonal: Tensor | None, csr: SymmetricCSR, hops: int) -> Tensor:
        entry_value = value.detach().index_select(0, csr.pair)
        all_hops = buffers.empty(hops + 1, *h.shape, like=h)
        all_hops[0] = h
        for m in range(1, hops + 1):
            sparse_product(csr.rowptr, csr.col, entry_value, all_hops[m - 1], all_hops[m], diagonal)
        ctx.csr = csr
        ctx.save_for_backward(all_hops, value, diagonal)
        return all_hops

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_hops = gradients[0].contiguous()
        all_hops, value, diagonal = ctx.saved_tensors
        csr = ctx.csr
        wants_h, wants_value = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        wants_diagonal = diagonal is not None and ctx.needs_input_grad[2]
        entry_value = value.detach().index_select(0, csr.pair)
        grad_entry = torch.zeros_like(entry_value)
        grad_diagonal = torch.zeros_like(diagonal) if diagonal is not None else None
        last = len(all_hops) - 1
        upper = grad_hops[last]  # dL/dH^(m), the sum over all paths
        buffers = [torch.empty_like(upper), torch.empty_like(upper)]
        for m in range(last, 0, -1):
            if wants_value or wants_diagonal:
                _sampled_product(csr, upper, all_hops[m - 1], grad_entry)
                if grad_diagonal is not None:
                    grad_diagonal += (upper * all_hops[m - 1]).sum(1)
            if m > 1 or wants_h:
                lower = buffers[m % 2]
                sparse_product(csr.rowptr, csr.col, entry_value, upper, lower, diagonal)
                upper = lower.add_(grad_hops[m - 1])
        grad_value = None
        if wants_value:
            grad_value = torch.zeros_like(value).index_add_(0, csr.pair, grad_entry)
        return upper if wants_h else None, grad_value, grad_diagonal if wants_diagonal else None, None, None


def _sampled_product(csr: SymmetricCSR, left: Tensor, right: Tensor, out: Tensor) -> None:
    """Add <left_i, right_j> to out for every entry (i, j). Shapes: (N, Z), (N, Z), (2E,)."""
    if compiled.usable(left):
        parts = threads.row_parts(array(csr.rowptr), left.shape[1], 1)
        threads.run(_sample, parts, *map(array, (csr.rowptr, csr.col, left, right, out)))
        return
    step = max(_CHUNK_ELEMENTS // max(left.shape[1], 1), 1)
    for start in range(0, len(out), step):
        entries = slice(start, start + step)
        out[entries] += (left[csr.row[entries]] * right[csr.col[entries].long()]).sum(1)


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
