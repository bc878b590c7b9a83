"""Scores of node pairs against one graph, for systems that must decide about an edge before they accept it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from purigraph.graph import PairGraph, pair_codes
from purigraph.graph.edge_structure import check_form, check_range

#: Maps distinct pairs, as a graph on the same nodes, to one score each, (E,).
PairScores = Callable[[PairGraph], Tensor]


class EdgeScorer:
    """Scores node pairs, edges or not, against one graph; everything that does not depend on the pairs is computed.

    A score says how much a purifier trusts a pair in the light of the graph as it is: the pair itself, and the other
    pairs that are scored with it, are not added to the graph. Of two edges, the one with the higher score never gets
    the lower weight when the graph is purified. It is a snapshot: later changes to the graph, the features or the
    purifier don't reach it. Several threads may use it at once.

    Args:
        num_nodes: N, the number of nodes of the graph.
        pair_scores: The scores of distinct pairs.
    """

    def __init__(self, num_nodes: int, pair_scores: PairScores) -> None:
        self.num_nodes, self._pair_scores = num_nodes, pair_scores

    @torch.no_grad()
    def score(self, pairs: Tensor) -> Tensor:
        """Return the score of every pair, (M,); higher is more trustworthy.

        Args:
            pairs: (2, M) integer, in any order, in either direction, repeated or not. A node paired with itself has
                score 1.

        Raises:
            GraphError: If it is not such a tensor, or a node does not exist.
        """
        check_form(pairs)
        check_range(pairs, self.num_nodes)
        loops = pairs[0] == pairs[1]
        codes, position = torch.unique(
            pair_codes.encode(pairs[0], pairs[1], self.num_nodes)[~loops], return_inverse=True
        )
        if not len(codes):
            return torch.ones(pairs.shape[1], device=pairs.device)
        found = self._pair_scores(PairGraph.from_codes(self.num_nodes, codes))
        scores = found.new_ones(pairs.shape[1])
        scores[~loops] = found[position]
        return scores


class _Purifies(Protocol):
    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph: ...


def weights_as_scores(purifier: _Purifies, x: Tensor, graph: PairGraph) -> PairScores:
    """Return the way that serves all purifiers: the weight that a pair would get if it were there.

    The pairs join the graph with presence 0 (see `Purifier.whole_weights`), so the graph is purified once for all of
    them, whatever their number, and none of them influences another.
    """

    def scores(pairs: PairGraph) -> Tensor:
        new = pairs.codes[graph.find(pairs.codes) < 0]
        codes, at_graph, _ = pair_codes.merge(graph.codes, new)
        presence = graph.weight.new_zeros(len(codes))
        weight = graph.weight.new_ones(len(codes))
        presence[at_graph], weight[at_graph] = 1.0, graph.weight.detach()
        purified = purifier.whole_weights(x, PairGraph.from_codes(graph.num_nodes, codes, weight), presence)
        position = purified.find(pairs.codes)
        return torch.where(position >= 0, purified.weight[position.clamp(min=0)], 0.0)

    return scores
