"""GCN-Jaccard's purifier: cut edges between nodes that have hardly anything in common."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.memo import Memo
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.similarity import Similarities
from purigraph.settings import setting


@registry.register("jaccard")
class Jaccard(Purifier):
    r"""Removes edges between nodes with unlike features; the others keep their weights.

    An edge stays if the similarity of its ends is at least a threshold. With $P_i$ the features of node i that are not
    0, whatever their values,
    $$s_{ij} = \frac{|P_i \cap P_j|}{|P_i \cup P_j|} \quad\text{or}\quad
      s_{ij} = \frac{\langle x_i, x_j \rangle}{\|x_i\| \|x_j\|}$$
    for `similarity="jaccard"` and "cosine", the variant for dense features. A node without any feature is similar to
    nobody (0). Weights above 1 are kept as they are, like all others.

    There is nothing to learn. Similarities do not depend on the edges: an attack's gradient through this purifier is
    exact, and there is nothing to approximate. They are computed pair by pair for the given edges, in some 50 bytes
    per edge beside a copy of the features in double precision (sparse features: of their non-zeros alone); dense
    features take blocks of about 100 MB on top. They are kept until another edge list or other features come.

    Reference: "Adversarial Examples for Graph Data: Deep Insights into Attack and Defense", IJCAI 2019.

    Shapes:
        `purifier(data)`: a `Data` with x (N, F), edge_index (2, M), and edge_weight (M,) if any -> a new `Data`.
        `purifier(x, edge_index, edge_weight=None)`: -> (M,), differentiable in edge_weight.
    """

    similarity: Literal["jaccard", "cosine"] = setting(
        'What is compared: which features are not 0 ("jaccard"), or all values ("cosine").', default="jaccard"
    )
    threshold: float = setting(
        'Edges with a Jaccard similarity below it are removed; of no effect with "cosine".', default=0.01, ge=0, le=1
    )
    cosine_threshold: float = setting(
        'Edges with a cosine below it are removed; of no effect with "jaccard".', default=0.4, ge=-1, le=1
    )

    # The trial graphs' features are dense: their Jaccard similarity is 1 everywhere.
    trial_settings = MappingProxyType({"similarity": "cosine", "cosine_threshold": 0.1})

    def _build(self) -> None:
        self._rows: Memo[Similarities] = Memo()
        self._similarities: Memo[Tensor] = Memo(2)

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the graph with weights of 0 on edges between unlike nodes (see `Purifier`)."""
        kept = self._similarity(x, graph.pairs) >= self.suspicious_below
        return graph.with_weight(graph.weight * kept.to(graph.weight.dtype))

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Return the weights of pairs that are there in part (see `Purifier`): who else is there does not matter."""
        return self.purify(x, graph)

    @property
    def receptive_field(self) -> int:
        """One hop: the weight of an edge depends on the features of its ends alone."""
        return 1

    @property
    def suspicious_below(self) -> float:
        """The threshold of the chosen similarity."""
        return self.threshold if self.similarity == "jaccard" else self.cosine_threshold

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """The similarities of pairs, in [0, 1] or, for cosines, in [-1, 1]; they don't depend on the graph."""
        prepared = self._prepare(x)
        dtype = graph.weight.dtype
        return lambda pairs: prepared.of(pairs.pairs).to(dtype)

    def with_settings(self, **changes: Any) -> Jaccard:
        """Return the same purifier with other settings."""
        return self.replace(**changes)

    def _prepare(self, x: Tensor) -> Similarities:
        prepared = self._rows.get(x)
        if prepared is None:
            prepared = Similarities(x, self.similarity)
            self._rows.put(x, prepared)
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
