"""The base class of classifiers: modules from features and edges to logits, saved and loaded by name."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeAlias

from torch import Tensor

from purigraph.graph import LowRankAdjacency
from purigraph.kernels import Features
from purigraph.pretrained import Pretrained, SavedComponents
from purigraph.settings import setting

NodeFeatures: TypeAlias = Tensor | Features
#: Edges (2, M), or the factors of an adjacency.
Adjacency: TypeAlias = Tensor | LowRankAdjacency


class Classifier(Pretrained):
    r"""A node classifier: logits $f(X, A) \in \mathbb{R}^{N \times C}$ from node features and weighted edges.

    A subclass declares its hyper-parameters as settings, creates its layers in `_build` and implements `forward`;
    training is in `purigraph.training`. The contract, tested for every registered name: renumbering the nodes renumbers
    the logits; weights of 1 are the same as no weights; an edge of weight 0 is the same as no edge; the logits are
    differentiable in the edge weights, and finite with finite gradients at weight 0.
    """

    in_channels: int = setting("F, the number of features.", kw_only=False, ge=1)
    out_channels: int = setting("C, the number of classes.", kw_only=False, ge=1)

    #: Whether the logits depend on the edges at all. If not, no attack on the edges can change them.
    uses_edges: ClassVar[bool] = True
    #: Whether the adjacency may be given by its factors, in place of edges: it is multiplied with, and nothing else.
    takes_factors: ClassVar[bool] = False

    @abstractmethod
    def forward(self, x: NodeFeatures, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node.

        Args:
            x: (N, F) floating point, dense or sparse (COO, CSR); or `purigraph.kernels.Features`, prepared once for
                many calls.
            edge_index: (2, M) int64, sources and targets; an undirected edge is listed in both directions. If it
                `takes_factors`, a `purigraph.graph.LowRankAdjacency` will do as well.
            edge_weight: (M,) non-negative, for edges. Default: ones.

        Returns:
            (N, C) logits.
        """


registry: SavedComponents[Classifier] = SavedComponents("classifier", "purigraph.classifiers")
Classifier.registry = registry
