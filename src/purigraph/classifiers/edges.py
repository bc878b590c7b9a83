r"""An edge list as classifiers see it: checked, ordered by target, and normalised.

All classifiers share these rules. An edge (j, i) of weight $w$ carries from j to i. Self-loops in the list are
ignored: a classifier that uses self-loops gives every node exactly one, of weight 1. An edge of weight 0 is
no edge, and no weights are weights of 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.graph.edge_structure import structure_of
from purigraph.graph.edge_weights import LARGEST_WEIGHT, check_weight_form, check_weight_range
from purigraph.graph.pair_graph import inverse_sqrt


class Edges:
    """The weighted adjacency of an edge list by targets; the weights keep their gradient.

    Args:
        edge_index: (2, M) integer, sources and targets. It is ordered once per tensor (see `structure_of`).
        edge_weight: (M,) floating point, not negative and at most 1e15. Default: ones.
        num_nodes: N.
        dtype: Of the weights.

    Attributes:
        pattern: N x N, a row per target.
        weight: (M,) in the order of the pattern's entries; 0 for self-loops.

    Raises:
        GraphError: If the shapes don't fit, a node does not exist, or a weight is not finite or too large.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> None:
        self.pattern, order, is_edge = structure_of(edge_index, num_nodes).by_target
        if edge_weight is None:
            given = torch.ones(len(order), dtype=dtype, device=order.device)
        else:
            check_weight_form(edge_weight, len(order))
            # Slightly negative weights are left to the caller: numerical derivatives at 0 need them.
            check_weight_range(edge_weight, lowest=-LARGEST_WEIGHT)
            given = edge_weight.to(dtype).index_select(0, order)
        self.weight = given if is_edge is None else given * is_edge

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.pattern.num_rows

    @property
    def source(self) -> Tensor:
        """(M,) integer, in the order of the pattern's entries."""
        return self.pattern.col

    @property
    def target(self) -> Tensor:
        """(M,) int64, ascending."""
        return self.pattern.row

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
