"""How alike two nodes are, from a row of numbers of each, and purifiers that cut edges between unlike ones."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.kernels.row_products import Rows
from purigraph.memo import Memo
from purigraph.purifiers.base import Purifier
from purigraph.purifiers.edge_scorer import PairScores


class Similarities:
    """How alike the rows of a matrix are; holds what all pairs share, the rows and their norms.

    Args:
        x: (N, F).
        kind: What is compared: which entries are not 0 ("jaccard"), or all values ("cosine").
    """

    def __init__(self, x: Tensor, kind: Literal["jaccard", "cosine"]) -> None:
        rows = Rows(x)
        self._kind, self._rows = kind, rows.binary() if kind == "jaccard" else rows
        self._norms = self._rows.squared_norms()

    def of(self, pairs: Tensor) -> Tensor:
        """Return the similarities of the pairs (2, E), (E,) float64; 0 where there is nothing to compare."""
        common = self._rows.products(pairs)
        first, second = self._norms[pairs[0]], self._norms[pairs[1]]
        size = first + second - common if self._kind == "jaccard" else (first * second).sqrt()
        return torch.where(size > 0, common / size.clamp(min=torch.finfo(size.dtype).tiny), 0.0)


class SimilarityPurifier(Purifier):
    """Base class of purifiers that cut an edge if its ends are not similar enough, whatever other edges there are.

    A subclass implements `compared` and `suspicious_below`, the least similarity of edges that stay; those keep their
    weights, unless it overrides `worth`.
    """

    def _build(self) -> None:
        self._prepared: Memo[Similarities] = Memo()
        self._similarities: Memo[Tensor] = Memo(2)

    @abstractmethod
    def compared(self, x: Tensor) -> Similarities:
        """Return what is compared, given the features (N, F)."""

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the graph with weights of 0 on edges between unlike nodes (see `Purifier`)."""
        worth = self.worth(self._similarity(x, graph.pairs))
        return graph.with_weight(graph.weight * worth.to(graph.weight.dtype))

    def worth(self, similarity: Tensor) -> Tensor:
        """Return what weights are multiplied by, given the similarities (E,): 1 or 0."""
        return similarity >= self.suspicious_below

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Return the weights of pairs that are there in part (see `Purifier`): who else is there does not matter."""
        return self.purify(x, graph)

    @property
    def receptive_field(self) -> int:
        """One hop: the weight of an edge depends on the features of its ends alone."""
        return 1

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """The similarities of pairs; they don't depend on the graph."""
        prepared, dtype = self._prepare(x), graph.weight.dtype
        return lambda pairs: prepared.of(pairs.pairs).to(dtype)

    def _prepare(self, x: Tensor) -> Similarities:
        prepared = self._prepared.get(x)
        if prepared is None:
            with torch.no_grad():
                prepared = self.compared(x)
            self._prepared.put(x, prepared)
        return prepared

    def _similarity(self, x: Tensor, pairs: Tensor) -> Tensor:
        """(E,) float64."""
        prepared = self._prepare(x)
        # An attack shows the same edge list hundreds of times.
        similarity = self._similarities.get(pairs, prepared)
        if similarity is None:
            similarity = prepared.of(pairs)
            self._similarities.put(pairs, similarity, prepared)
        return similarity
