r"""From hops to the input of the edge scores: filter, activate, project, in blocks of rows.

$$H_k = \sum_m \gamma_{k,m} H^{(m)}, \qquad [P \| Q] = \mathrm{elu}(H_0 \| \dots \| H_K)\, W + c$$

The activated filters, (N, (K+1) Z1), exist for one block of rows at a time, forward and backward: only the hops are
kept for the backward pass. The matrix product is the one cost of a purification step that can't be avoided.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from purigraph.kernels import buffers, compiled, threads
from purigraph.kernels.compiled import array

# Rows per block: large enough for a matrix product at full speed, small enough to stay near the caches.
BLOCK_ROWS = 2048


def node_codes(
    hops: Tensor,
    gamma: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    nodes: Tensor | None = None,
) -> Tensor:
    """Filter, activate and project every node's hops.

    Args:
        hops: (M, N, Z1).
        gamma: (F, M), the coefficients of F filters.
        weight: (F Z1, C) W.
        bias: (C,) a constant for all nodes, or one for each node, in the shape of the result.
        nodes: (B,) int64, distinct, the nodes to compute. Default: all.

    Returns:
        (B, C), or (N, C) for all nodes.
    """
    return cast(Tensor, _NodeCodes.apply(hops, gamma, weight, bias, nodes))  # type: ignore[no-untyped-call]


def add_node_codes(out: Tensor, hops: Tensor, gamma: Tensor, weight: Tensor) -> None:
    """Add the codes of some channels of the hops to `out` (N, C): over all channels, the sum is `node_codes`.

    Nothing is kept for a backward pass, and there is never more than one block of activated filters.

    Args:
        out: (N, C), contiguous.
        hops: (M, N, Z), some of the Z1 channels.
        gamma: (F, M).
        weight: (F Z, C), the rows of W that belong to these channels.
    """
    active = hops.new_empty(min(BLOCK_ROWS, len(out)), weight.shape[0])
    for start in range(0, len(out), BLOCK_ROWS):
        rows = out[start : start + BLOCK_ROWS]
        block = active[: len(rows)]
        _activate(hops, gamma, None, start, block)
        rows.addmm_(block, weight)


class _NodeCodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hops: Tensor, gamma: Tensor, weight: Tensor, bias: Tensor, nodes: Tensor | None) -> Tensor:
        ctx.save_for_backward(hops, gamma, weight, nodes)
        ctx.bias_is_row = bias.dim() == 1
        count = hops.shape[1] if nodes is None else len(nodes)
        out = buffers.empty(count, weight.shape[1], like=hops)
        active = hops.new_empty(min(BLOCK_ROWS, count), weight.shape[0])
        for start in range(0, count, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, count))
            block = active[: rows.stop - start]
            _activate(hops, gamma, nodes, start, block)
            constant = bias if ctx.bias_is_row else bias[rows]
            torch.addmm(constant, block, weight, out=out[rows])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad = gradients[0].contiguous()
        hops, gamma, weight, nodes = ctx.saved_tensors
        wants_hops, wants_gamma, wants_weight, wants_bias = ctx.needs_input_grad[:4]
        count = len(grad)
        grad_hops = buffers.empty(*hops.shape, like=hops) if nodes is None else torch.zeros_like(hops)
        grad_gamma, grad_weight = torch.zeros_like(gamma), None
        active = hops.new_empty(min(BLOCK_ROWS, count), weight.shape[0])
        for start in range(0, count, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, count))
            block = active[: rows.stop - start]
            if wants_weight:
                _activate(hops, gamma, nodes, start, block)
                if grad_weight is None:
                    grad_weight = block.t() @ grad[rows]
                else:
                    grad_weight.addmm_(block.t(), grad[rows])
            if wants_hops or wants_gamma:
                torch.mm(grad[rows], weight.t(), out=block)
                share = _activate_backward(hops, gamma, nodes, start, block, grad_hops, wants_gamma)
                if share is not None:
                    grad_gamma += share
        grad_bias = None
        if wants_bias:
            grad_bias = grad.sum(0) if ctx.bias_is_row else grad
        if wants_weight and grad_weight is None:
            grad_weight = torch.zeros_like(weight)
        return (
            grad_hops if wants_hops else None,
            grad_gamma if wants_gamma else None,
            grad_weight,
            grad_bias,
            None,
        )


def _activate(hops: Tensor, gamma: Tensor, nodes: Tensor | None, start: int, out: Tensor) -> None:
    """Write elu of the filters of the rows (or listed nodes) from `start` on to `out` (B, F Z1)."""
    if compiled.usable(hops):
        parts = threads.even_parts(len(out), out.shape[1] * 8)
        threads.run(_filter, parts, array(hops), array(gamma), _listed(nodes), start, array(out))
        return
    piece = _rows(hops, nodes, start, len(out))
    mixed = torch.einsum("fm,mbz->bfz", gamma, piece)
    out.copy_(functional.elu(mixed).reshape(len(out), -1))


def _activate_backward(
    hops: Tensor,
    gamma: Tensor,
    nodes: Tensor | None,
    start: int,
    grad: Tensor,
    grad_hops: Tensor,
    wants_gamma: bool,
) -> Tensor | None:
    """Write dL/dhops of these rows, given dL/d(active) (B, F Z1); return their share of dL/dgamma if wanted."""
    if compiled.usable(hops):
        parts = threads.even_parts(len(grad), grad.shape[1] * 16)
        shape = gamma.shape if wants_gamma else (0, 0)
        partial = gamma.new_zeros(len(parts), *shape)
        arrays = (array(hops), array(gamma), _listed(nodes), start, array(grad), array(grad_hops))
        threads.run(_filter_backward, parts, *arrays, partial=array(partial))
        return partial.sum(0) if wants_gamma else None
    piece = _rows(hops, nodes, start, len(grad))
    mixed = torch.einsum("fm,mbz->bfz", gamma, piece)
    slope = grad.view_as(mixed) * mixed.clamp(max=0).exp()
    result = torch.einsum("fm,bfz->mbz", gamma, slope)
    if nodes is None:
        grad_hops[:, start : start + len(grad)] = result
    else:
        grad_hops[:, nodes[start : start + len(grad)]] = result
    return torch.einsum("bfz,mbz->fm", slope, piece) if wants_gamma else None


def _rows(hops: Tensor, nodes: Tensor | None, start: int, count: int) -> Tensor:
    return hops[:, start : start + count] if nodes is None else hops[:, nodes[start : start + count]]


def _listed(nodes: Tensor | None) -> Any:
    return array(torch.empty(0, dtype=torch.int64) if nodes is None else nodes)


@compiled.kernel
def _mix(hops: Any, coefficients: Any, node: int, out: Any) -> None:  # pragma: no cover - compiled
    """Write one filter of one node, the weighted sum of its hops."""
    out[:] = 0
    for m in range(len(coefficients)):
        coefficient = coefficients[m]
        if coefficient != 0:
            hop = hops[m, node]
            for z in range(len(out)):
                out[z] += coefficient * hop[z]


@compiled.kernel
def _filter(
    hops: Any, gamma: Any, nodes: Any, offset: int, out: Any, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    channels = hops.shape[2]
    zero, one = compiled.zero_and_one(gamma)
    for b in range(start, stop):
        node = nodes[offset + b] if len(nodes) > 0 else offset + b
        for k in range(len(gamma)):
            row = out[b, k * channels : (k + 1) * channels]
            _mix(hops, gamma[k], node, row)
            for z in range(channels):
                x = row[z]
                row[z] = max(x, zero) + compiled.exp_of_min0(x) - one


@compiled.kernel
def _filter_backward(
    hops: Any,
    gamma: Any,
    nodes: Any,
    offset: int,
    grad: Any,
    grad_hops: Any,
    grad_gamma: Any,
    start: int,
    stop: int,
) -> None:  # pragma: no cover - compiled
    filters, terms = gamma.shape
    channels = hops.shape[2]
    zero, _ = compiled.zero_and_one(gamma)
    mixed = hops[0, 0, :].copy()
    for b in range(start, stop):
        node = nodes[offset + b] if len(nodes) > 0 else offset + b
        for m in range(terms):
            grad_hops[m, node, :] = 0
        for k in range(filters):
            slope = grad[b, k * channels : (k + 1) * channels]
            _mix(hops, gamma[k], node, mixed)
            for z in range(channels):
                slope[z] *= compiled.exp_of_min0(mixed[z])
            for m in range(terms):
                coefficient = gamma[k, m]
                target, hop = grad_hops[m, node], hops[m, node]
                if coefficient != 0:
                    for z in range(channels):
                        target[z] += coefficient * slope[z]
                if len(grad_gamma) > 0:
                    total = zero
                    for z in range(channels):
                        total += slope[z] * hop[z]
                    grad_gamma[k, m] += total
