"""A graph overlaid with a block of weighted flips."""

from __future__ import annotations

from torch import Tensor

from purigraph.graph import pair_codes
from purigraph.graph.edge_structure import list_edges
from purigraph.graph.pair_graph import PairGraph


class Overlay:
    r"""The merged edges of a graph and pairs of a block, mapping flip weights to presences.

    With flip weights $p \in [0, 1]^B$, a pair of the block has the presence $1 - p_e$ if it is an edge (which the flip
    removes) and $p_e$ if it is not (the flip adds it); all other edges have the presence 1. Both lists are sorted, so
    they are merged without sorting again.

    Args:
        graph: The clean graph, with E pairs.
        codes: (B,) int64, the block's pairs (see `pair_codes`), ascending, without repetitions.

    Attributes:
        codes: (B,) as given.
        pairs: (2, B) int64, the block's pairs.
        edge_index: (2, 2E') int64, both directions, sorted by (row, column). The same tensor object for the overlay's
            lifetime, so its structure is computed only once (see `structure_of`).
        whole_weight: (2E',) the weight of every entry when fully present: the edge's weight, or 1 for a new one.
    """

    def __init__(self, graph: PairGraph, codes: Tensor) -> None:
        self.codes = codes
        self.pairs = pair_codes.decode(codes, graph.num_nodes)
        merged, at_graph, self._position = pair_codes.merge(graph.codes, codes)
        self._before = graph.weight.new_zeros(len(merged))
        self._before[at_graph] = 1.0
        # Flipping removes an edge (-1) and adds any other pair (+1).
        self._sign = 1 - 2 * self._before.index_select(0, self._position)
        whole = graph.weight.new_ones(len(merged))
        whole[at_graph] = graph.weight
        union = PairGraph.from_codes(graph.num_nodes, merged, whole)
        self.edge_index = list_edges(union)
        self._pair = union.csr.pair
        self.whole_weight = whole.index_select(0, self._pair)
        self._entries = union.csr.entries.index_select(1, self._position)

    def presence(self, flip_weight: Tensor) -> Tensor:
        """Return the presence (2E',) in [0, 1] of every entry when the block's pairs are flipped by (B,)."""
        presence = self._before.index_add(0, self._position, self._sign * flip_weight)
        return presence.index_select(0, self._pair)

    def flip_gradient(self, gradient: Tensor) -> Tensor:
        """Return the gradient (B,) with respect to the flips, given the one (2E',) with respect to `presence`."""
        first, second = self._entries
        return self._sign * (gradient.index_select(0, first) + gradient.index_select(0, second))
