r"""An edge list as classifiers see it: checked, ordered by target, and normalised.

All classifiers share these rules. An edge (j, i) of weight $w$ carries from j to i. Self-loops in the list are
ignored: a classifier that uses self-loops gives every node exactly one, of weight 1. An edge of weight 0 is
no edge, and no weights are weights of 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.classifiers.propagation import Pattern, counting_order
from purigraph.errors import GraphError
from purigraph.graph import inverse_sqrt


class Edges:
    """The weighted adjacency of an edge list by targets; the weights keep their gradient.

    Args:
        edge_index: (2, M) int64, sources and targets.
        edge_weight: (M,) floating point, not negative; ones when left out.
        num_nodes: N.
        dtype: of the weights.

    Attributes:
        pattern: N x N, a row per target.
        source: (M,) int64, ordered by target.
        target: (M,) int64, ascending.
        weight: (M,) in the same order; 0 for self-loops.

    Raises:
        GraphError: When the shapes don't fit or a node does not exist.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> None:
        _check(edge_index, edge_weight, num_nodes)
        edge_index = edge_index.long()
        rowptr, order = counting_order(edge_index[1], num_nodes)
        self.num_nodes = num_nodes
        self.source = edge_index[0].index_select(0, order)
        self.target = edge_index[1].index_select(0, order)
        self.pattern = Pattern(rowptr, self.source, num_nodes)
        is_edge = self.source != self.target
        if edge_weight is None:
            self.weight = is_edge.to(dtype)
        else:
            self.weight = edge_weight.to(dtype).index_select(0, order) * is_edge

    def degree(self) -> Tensor:
        """(N,) the sum of the weights of the edges into each node."""
        return self.weight.new_zeros(self.num_nodes).index_add(0, self.target, self.weight)

    def normalised(self) -> Tensor:
        r"""(M,) the entries of $D^{-1/2} A D^{-1/2}$; 0 at nodes without edges."""
        return self._scaled(inverse_sqrt(self.degree()))

    def normalised_with_loops(self) -> tuple[Tensor, Tensor]:
        r"""(M,) and (N,): $(D+I)^{-1/2} (A+I) (D+I)^{-1/2}$ off and on the diagonal."""
        scale = (self.degree() + 1).rsqrt()
        return self._scaled(scale), scale * scale

    def _scaled(self, scale: Tensor) -> Tensor:
        return self.weight * scale.index_select(0, self.source) * scale.index_select(0, self.target)


def _check(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise GraphError(
            "edge_index must be an integer tensor of shape (2, number of edges), not "
            f"{edge_index.dtype} of shape {tuple(edge_index.shape)}."
        )
    if edge_weight is not None and edge_weight.shape != (edge_index.shape[1],):
        raise GraphError(
            f"edge_weight must have one entry per column of edge_index, shape ({edge_index.shape[1]},), "
            f"not {tuple(edge_weight.shape)}."
        )
    if edge_index.numel() == 0:
        return
    low, high = (int(bound) for bound in edge_index.aminmax())
    if low < 0 or high >= num_nodes:
        raise GraphError(
            f"edge_index holds node {low if low < 0 else high}, but x has {num_nodes} rows: nodes are "
            f"numbered from 0 to {num_nodes - 1}."
        )
