"""Products with a normalised adjacency, whether it is given by its edges or by its factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from purigraph.classifiers.base import Adjacency
from purigraph.classifiers.edges import Edges
from purigraph.errors import GraphError
from purigraph.graph import LowRankAdjacency
from purigraph.kernels.propagation import propagate

#: Maps h (N, Z) to the product (N, Z).
Product: TypeAlias = Callable[[Tensor], Tensor]


def product_with_loops(adjacency: Adjacency, edge_weight: Tensor | None, like: Tensor) -> Product:
    r"""Return $H \mapsto (D+I)^{-1/2} (A+I) (D+I)^{-1/2} H$, differentiable in the weights or factors and in H.

    An adjacency given by its factors can have rows whose sum is negative, and no root below -1: such a sum counts as
    0, so that the node has the degree of its self-loop alone.

    Args:
        adjacency: The edges (2, M), or the factors of the adjacency.
        edge_weight: (M,) for edges. Default: ones.
        like: (N, ...), which gives the number of nodes, the dtype and the device.

    Raises:
        GraphError: If there are factors for another number of nodes, or edge weights beside factors.
    """
    if isinstance(adjacency, LowRankAdjacency):
        if adjacency.num_nodes != like.shape[0]:
            raise GraphError(f"The factors are those of {adjacency.num_nodes} nodes, but x has {like.shape[0]} rows.")
        if edge_weight is not None:
            raise GraphError("Factors of an adjacency have their weights in them: leave out edge_weight.")
        return _of_factors(adjacency.to(like))
    edges = Edges(adjacency, edge_weight, like.shape[0], like.dtype)
    value, loop = edges.normalised_with_loops()
    return lambda h: propagate(edges.pattern, value, h, loop)


def product_without_loops(adjacency: Adjacency, edge_weight: Tensor | None, like: Tensor) -> Product:
    r"""Return $H \mapsto D^{-1/2} A D^{-1/2} H$, differentiable in the weights and in H (see `product_with_loops`).

    For edges only: the rows of an approximation can sum to almost 0, and without a self-loop nothing bounds what is
    then divided by the root.
    """
    edges = Edges(adjacency, edge_weight, like.shape[0], like.dtype)
    value = edges.normalised()
    return lambda h: propagate(edges.pattern, value, h)


def _of_factors(adjacency: LowRankAdjacency) -> Product:
    scale = (adjacency.degree().clamp(min=0) + 1).rsqrt().unsqueeze(1)

    def product(h: Tensor) -> Tensor:
        scaled = scale * h
        return scale * (adjacency.times(scaled) + scaled)

    return product
