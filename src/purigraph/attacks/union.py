"""A graph together with a block of pairs whose flips are weighted."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.attacks.both_directions import both_directions
from purigraph.graph.pair_graph import PairGraph, merge_codes


class Union:
    r"""The edges of a graph and the pairs of a block, merged; a function from flip weights to edge weights.

    With flip weights $p \in [0, 1]^B$ a pair's weight is $A_e (1 - p_e)$ where the block's entry is an edge (it
    is taken away) and $p_e$ where it is none (it is put in). Both lists are sorted, so they are merged, not
    sorted again.

    Args:
        graph: with E pairs.
        codes: (B,) int64, the block's pairs i * N + j with i < j, ascending, each once.

    Attributes:
        codes: (B,) as given.
        pairs: (2, B) int64, the block's pairs.
        edge_index: (2, 2E') int64, both directions, sorted by (row, column). One tensor object for the union's
            whole life, so that a model may keep what it derived from it.
    """

    def __init__(self, graph: PairGraph, codes: Tensor) -> None:
        self.codes = codes
        num_nodes = max(graph.num_nodes, 1)
        self.pairs = torch.stack([torch.div(codes, num_nodes, rounding_mode="floor"), codes % num_nodes])
        in_graph = graph.find(codes)
        is_new = in_graph < 0
        merged, at_graph, at_new = merge_codes(graph.codes, codes[is_new])
        position = torch.empty_like(codes)
        position[is_new] = at_new
        position[~is_new] = at_graph[in_graph[~is_new]]
        self._base = graph.weight.new_zeros(len(merged))
        self._base[at_graph] = graph.weight
        self._change = graph.weight.new_ones(len(codes))
        self._change[~is_new] = -graph.weight[in_graph[~is_new]]
        self._position = position
        both = both_directions(PairGraph.from_codes(graph.num_nodes, merged, self._base))
        self.edge_index, self._pair = both.edge_index, both.pair
        self._entries = both.entries[:, position]

    def edge_weight(self, flip_weight: Tensor) -> Tensor:
        """(2E',) the weights of `edge_index` when the block's pairs are flipped by (B,) in [0, 1]."""
        weight = self._base.index_add(0, self._position, self._change * flip_weight)
        return weight.index_select(0, self._pair)

    def flip_gradient(self, gradient: Tensor) -> Tensor:
        """(B,) the gradient with respect to the flips, from (2E',) that with respect to `edge_weight`."""
        return self._change * (gradient[self._entries[0]] + gradient[self._entries[1]])
