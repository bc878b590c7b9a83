r"""The best approximation of an adjacency matrix by one of low rank, and its gradient.

The singular vectors of a symmetric matrix are its eigenvectors, and its singular values the eigenvalues' magnitudes:
the best approximation of rank r is $\hat A = \sum_{k \le r} \lambda_k u_k u_k^\top$ over the r eigenvalues of largest
magnitude. SciPy's `svds` finds them through $A^\top A$, whose eigenvalues are the squares; `eigsh` on $A$ itself does
with half of the products, is exact to rounding, and gives a result that is symmetric and free of signs by construction.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import ArpackError, eigsh
from torch import Tensor

from purigraph.errors import PurigraphError
from purigraph.graph import LowRankAdjacency, PairGraph
from purigraph.graph.border import to_scipy

Array = npt.NDArray[np.float64]

# Up to so many nodes the full decomposition takes no longer.
_FULL_UP_TO = 256
# Where the iterations fail, the full decomposition takes minutes at most.
_FULL_IF_NEEDED_UP_TO = 5000
# ARPACK keeps 2 r + 1 vectors of float64.
_BYTES_PER_VALUE = 8
# Pairs whose values are computed at a time, times the rank: blocks of 32 MB.
_BLOCK_ELEMENTS = 1 << 22
# The gradient's equations are solved to this share of their right-hand sides, in so many iterations at the most.
_TOLERANCE, _MAX_ITERATIONS = 1e-8, 300


def reconstruct(graph: PairGraph, wanted: PairGraph, rank: int, *, seed: int, hold_vectors: bool) -> Tensor:
    r"""Return the entries (M,) of $\hat A$ at some pairs, differentiable in the graph's weights.

    The derivative of $\hat A$ in the direction $B$, with $P$ the projection on the leading eigenvectors, is
    $$P B P + \sum_{k \le r} \sum_{l > r} \frac{\lambda_k}{\lambda_k - \lambda_l}
      (u_k^\top B u_l) (u_k u_l^\top + u_l u_k^\top).$$
    Held constant, the eigenvectors give that of $P A + A P - P A P$, which equals $\hat A$: the fraction is then 1.

    Args:
        graph: $A$.
        wanted: M pairs on the same nodes; their weights mean nothing.
        rank: r. From the number of nodes on, the approximation is the matrix itself.
        seed: Of the vector that the iterations begin from.
        hold_vectors: Compute gradients with constant eigenvectors.
    """
    matrix, vectors, values = _decompose(graph, rank, seed)
    apply: Any = _Reconstruction.apply
    return cast(Tensor, apply(graph.weight, graph.pairs, wanted, vectors, values, matrix, hold_vectors))


def factorise(graph: PairGraph, rank: int, *, seed: int, hold_vectors: bool) -> LowRankAdjacency:
    r"""Return $\hat A = U (U \Lambda)^\top$ by its factors, differentiable in the graph's weights (see `reconstruct`).

    Args:
        graph: $A$.
        rank: r.
        seed: Of the vector that the iterations begin from.
        hold_vectors: Compute gradients with constant eigenvectors.
    """
    matrix, vectors, values = _decompose(graph, rank, seed)
    apply: Any = _Factors.apply
    left = torch.from_numpy(vectors).to(graph.weight)
    return LowRankAdjacency(left, apply(graph.weight, graph.pairs, vectors, values, matrix, hold_vectors))


class LowRank:
    """The approximation of rank r, decomposed once: its entries at any pairs, without gradients.

    Args:
        graph: $A$.
        rank: r.
        seed: Of the vector that the iterations begin from.
    """

    def __init__(self, graph: PairGraph, rank: int, *, seed: int) -> None:
        _, self._vectors, self._values = _decompose(graph, rank, seed)

    def entries(self, pairs: Tensor) -> Tensor:
        """Return the entries (M,) float64 at pairs (2, M)."""
        found = _entries(self._vectors * self._values, self._vectors, pairs)
        return torch.from_numpy(found).to(pairs.device)


class _Reconstruction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, given: Tensor, wanted: PairGraph, u: Array, values: Array, matrix: Any, hold: bool
    ) -> Tensor:
        ctx.given, ctx.wanted, ctx.u, ctx.values, ctx.matrix, ctx.hold = given, wanted, u, values, matrix, hold
        entries = _entries(u * values, u, wanted.pairs)
        return torch.from_numpy(entries).to(weight.device, weight.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        # Half on either side of the diagonal: the derivative is symmetric and its own adjoint.
        incoming = ctx.wanted.with_weight(0.5 * gradient.detach().double())
        weight = _pull_back(to_scipy(incoming) @ ctx.u, ctx.given, ctx.u, ctx.values, ctx.matrix, ctx.hold)
        return torch.from_numpy(weight).to(gradient), None, None, None, None, None, None


class _Factors(torch.autograd.Function):
    r"""$U \Lambda$; what comes back to it is $\frac12 (G + G^\top) U$ (see `LowRankAdjacency`)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, given: Tensor, u: Array, values: Array, matrix: Any, hold: bool) -> Tensor:
        ctx.given, ctx.u, ctx.values, ctx.matrix, ctx.hold = given, u, values, matrix, hold
        return torch.from_numpy(u * values).to(weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        pulled = gradient.detach().double().cpu().numpy()
        weight = _pull_back(pulled, ctx.given, ctx.u, ctx.values, ctx.matrix, ctx.hold)
        return torch.from_numpy(weight).to(gradient), None, None, None, None, None


def _pull_back(pulled: Array, given: Tensor, u: Array, values: Array, matrix: Any, hold: bool) -> Array:
    r"""Apply the derivative's adjoint to a symmetric gradient $B$, of which only $B U$ (N, r) is needed.

    Returns:
        (E,) the gradient of the weights of the given pairs.
    """
    inner = u.T @ pulled
    across = pulled - u @ inner
    if not hold:
        across = _across(matrix, u, values, across)
    return 2 * (_entries(u @ inner + across, u, given) + _entries(u, across, given))


def _decompose(graph: PairGraph, rank: int, seed: int) -> tuple[Any, Array, Array]:
    """The adjacency (N, N) as a SciPy matrix, and its leading eigenvectors and eigenvalues."""
    matrix = to_scipy(graph).astype(np.float64)
    return matrix, *_leading(matrix, min(rank, graph.num_nodes), seed)


def _leading(matrix: Any, rank: int, seed: int) -> tuple[Array, Array]:
    """The eigenvectors (N, r) and eigenvalues (r,) of largest magnitude; none of a matrix of zeros."""
    size = matrix.shape[0]
    if not matrix.count_nonzero():
        return np.zeros((size, 0)), np.zeros(0)
    try:
        if size <= max(_FULL_UP_TO, 2 * rank + 1):
            return _leading_of_all(matrix, rank)
        return _leading_by_iterations(matrix, rank, seed)
    except MemoryError as error:
        raise PurigraphError(
            f"The {rank} leading singular vectors of a graph with {size:,} nodes take about "
            f"{_BYTES_PER_VALUE * size * min(2 * rank + 1, size) / 1e9:,.1f} GB while they are found, which this "
            "machine does not have: use a lower rank."
        ) from error


def _leading_by_iterations(matrix: Any, rank: int, seed: int) -> tuple[Array, Array]:
    size = matrix.shape[0]
    start = np.random.default_rng(seed).standard_normal(size)
    try:
        values, vectors = eigsh(matrix, k=rank, which="LM", v0=start)
    except ArpackError as error:
        if size <= _FULL_IF_NEEDED_UP_TO:
            return _leading_of_all(matrix, rank)
        raise PurigraphError(
            f"The {rank} leading singular values of a graph with {size:,} nodes were not found ({error}): try another "
            "rank or seed."
        ) from error
    return vectors, values


def _leading_of_all(matrix: Any, rank: int) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(matrix.toarray())
    chosen = np.argsort(-np.abs(values), kind="stable")[:rank]
    return vectors[:, chosen], values[chosen]


def _entries(left: Array, right: Array, pairs: Tensor) -> Array:
    """(M,) the products of rows of two matrices (N, r) that the pairs (2, M) name, in blocks."""
    i, j = pairs.cpu().numpy()
    out = np.empty(len(i))
    size = max(_BLOCK_ELEMENTS // max(left.shape[1], 1), 1)
    for begin in range(0, len(i), size):
        part = slice(begin, begin + size)
        out[part] = np.einsum("er,er->e", left[i[part]], right[j[part]])
    return out


def _across(matrix: Any, u: Array, values: Array, right: Array) -> Array:
    r"""Solve $(\lambda_k - A) z_k = \lambda_k b_k$ for all k, right-hand sides and solutions (N, r) orthogonal to `u`.

    There, the eigenvalues of $A$ are smaller than $|\lambda_k|$, so that the matrix (times the sign of $\lambda_k$) is
    positive definite: conjugate gradients, all columns at once.
    """
    scale = np.abs(values)
    # Nothing flows through an eigenvalue of 0; all that are left out are 0 as well.
    live = scale > scale.max(initial=0) * 1e-10
    safe = np.where(live, scale, 1.0)
    sign = np.sign(np.where(live, values, 1.0))

    def operator(z: Array) -> Array:
        product = matrix @ z
        product -= u @ (u.T @ product)
        image: Array = z - product * (sign / safe)
        return image

    solution = np.where(live, right, 0.0)  # exact where the eigenvalues that are left out are 0
    residual = np.where(live, right - operator(solution), 0.0)
    direction = residual.copy()
    size = np.einsum("nr,nr->r", residual, residual)
    enough = _TOLERANCE**2 * np.einsum("nr,nr->r", right, right)
    for _ in range(_MAX_ITERATIONS):
        going = size > enough
        if not going.any():
            break
        image = operator(direction)
        curvature = np.einsum("nr,nr->r", direction, image)
        # No curvature is left where an eigenvalue equals one that was left out: no derivative, stay where we are.
        step = np.where(going & (curvature > 0), size / np.where(curvature > 0, curvature, 1.0), 0.0)
        solution += step * direction
        residual -= step * image
        new_size = np.einsum("nr,nr->r", residual, residual)
        direction = residual + np.where(going, new_size / np.where(size > 0, size, 1.0), 0.0) * direction
        size = np.where(step > 0, new_size, 0.0)
    return solution
