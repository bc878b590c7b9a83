r"""An edge list as classifiers see it: checked, sorted by target, and normalised.

All classifiers share these rules. An edge (j, i) of weight $w$ carries messages from j to i. Self-loops in the list are
ignored: a classifier that uses self-loops gives every node exactly one, of weight 1. An edge of weight 0 is the same as
no edge, and weights default to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.classifiers.base import Adjacency
from purigraph.errors import UnsupportedModelError
from purigraph.graph import LowRankAdjacency
from purigraph.graph.edge_structure import structure_of
from purigraph.graph.edge_weights import LARGEST_WEIGHT, check_weight_form, check_weight_range
from purigraph.graph.pair_graph import inverse_sqrt


class Edges:
    """The weighted adjacency of an edge list, sorted by target; the weights keep their gradient.

    Args:
        edge_index: (2, M) integer, sources and targets. It is sorted once per tensor (see `structure_of`).
        edge_weight: (M,) floating point, non-negative and at most 1e15. Default: ones.
        num_nodes: N, the number of nodes.
        dtype: The dtype of the weights.

    Attributes:
        pattern: N x N, one row per target.
        weight: (M,) in the order of the pattern's entries; 0 for self-loops.

    Raises:
        UnsupportedModelError: If there are no edges, only the factors of an adjacency.
        GraphError: If the shapes don't match, a node does not exist, or a weight is not finite or too large.
    """

    def __init__(self, edge_index: Adjacency, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> None:
        if isinstance(edge_index, LowRankAdjacency):
            raise UnsupportedModelError(
                "This classifier needs a list of edges, and an adjacency known by its factors has none: those with "
                "takes_factors (GCN, APPNP, GPRGNN) do with the factors."
            )
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
        """Return N, the number of nodes."""
        return self.pattern.num_rows

    @property
    def source(self) -> Tensor:
        """Return the sources, (M,) integer, in the order of the pattern's entries."""
        return self.pattern.col

    @property
    def target(self) -> Tensor:
        """Return the targets, (M,) int64, ascending."""
        return self.pattern.row

    def degree(self) -> Tensor:
        """Return the sum of the weights of the edges into each node, (N,)."""
        return self.weight.new_zeros(self.num_nodes).index_add(0, self.target, self.weight)

    def normalised(self) -> Tensor:
        r"""Return the entries of $D^{-1/2} A D^{-1/2}$, (M,); 0 at nodes without edges."""
        return self._scaled(inverse_sqrt(self.degree()))

    def normalised_with_loops(self) -> tuple[Tensor, Tensor]:
        r"""Return the entries of $(D+I)^{-1/2} (A+I) (D+I)^{-1/2}$ off, (M,), and on the diagonal, (N,)."""
        scale = (self.degree() + 1).rsqrt()
        return self._scaled(scale), scale * scale

    def _scaled(self, scale: Tensor) -> Tensor:
        return self.weight * scale.index_select(0, self.source) * scale.index_select(0, self.target)
