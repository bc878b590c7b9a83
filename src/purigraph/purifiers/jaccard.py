"""GCN-Jaccard's purifier: cut edges between nodes that have hardly anything in common."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from torch import Tensor

from purigraph.purifiers.base import registry
from purigraph.purifiers.similarity import Similarities, SimilarityPurifier
from purigraph.settings import setting


@registry.register("jaccard")
class Jaccard(SimilarityPurifier):
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

    def compared(self, x: Tensor) -> Similarities:
        """Return the features, compared by the chosen similarity."""
        return Similarities(x, self.similarity)

    @property
    def suspicious_below(self) -> float:
        """The threshold of the chosen similarity."""
        return self.threshold if self.similarity == "jaccard" else self.cosine_threshold

    def with_settings(self, **changes: Any) -> Jaccard:
        """Return the same purifier with other settings."""
        return self.replace(**changes)
