"""A graph overlaid with a block of pairs whose flips are weighted."""

from __future__ import annotations

from torch import Tensor

from purigraph.graph import pair_codes
from purigraph.graph.edge_structure import list_edges
from purigraph.graph.pair_graph import PairGraph


class Overlay:
    r"""The edges of a graph and the pairs of a block, merged; a function from flip weights to presences.

    With flip weights $p \in [0, 1]^B$ a pair is there to the share $1 - p_e$ where the block's entry is an edge (it
    is taken away) and $p_e$ where it is none (it is put in); all other edges are there as a whole. Both lists are
    sorted, so they are merged, not sorted again.

    Args:
        graph: With E pairs.
        codes: (B,) int64, the block's pairs (see `pair_codes`), ascending, each once.

    Attributes:
        codes: (B,) as given.
        pairs: (2, B) int64, the block's pairs.
        edge_index: (2, 2E') int64, both directions, sorted by (row, column). One tensor object for the overlay's
            whole life, so that its structure is known to all that see it (see `structure_of`).
        whole_weight: (2E',) what every entry weighs where it is there: the edge's weight, or 1 for a new one.
    """

    def __init__(self, graph: PairGraph, codes: Tensor) -> None:
        self.codes = codes
        self.pairs = pair_codes.decode(codes, graph.num_nodes)
        merged, at_graph, self._position = pair_codes.merge(graph.codes, codes)
        self._before = graph.weight.new_zeros(len(merged))
        self._before[at_graph] = 1.0
        # An edge is taken away, another pair put in.
        self._sign = 1 - 2 * self._before.index_select(0, self._position)
        whole = graph.weight.new_ones(len(merged))
        whole[at_graph] = graph.weight
        union = PairGraph.from_codes(graph.num_nodes, merged, whole)
        self.edge_index = list_edges(union)
        self._pair = union.csr.pair
        self.whole_weight = whole.index_select(0, self._pair)
        self._entries = union.csr.entries.index_select(1, self._position)

    def presence(self, flip_weight: Tensor) -> Tensor:
        """(2E',) in [0, 1]: to what share the entries are there when the block's pairs are flipped by (B,)."""
        presence = self._before.index_add(0, self._position, self._sign * flip_weight)
        return presence.index_select(0, self._pair)

    def flip_gradient(self, gradient: Tensor) -> Tensor:
        """(B,) the gradient with respect to the flips, from (2E',) that with respect to `presence`."""
        first, second = self._entries
        return self._sign * (gradient.index_select(0, first) + gradient.index_select(0, second))
