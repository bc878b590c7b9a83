"""Predict, then propagate by personalised PageRank."""

from __future__ import annotations

from torch import Tensor

from purigraph.classifiers.base import Classifier, NodeFeatures, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.polynomial import pagerank_coefficients, polynomial_filter
from purigraph.settings import setting


@registry.register("appnp")
class APPNP(Classifier):
    r"""Predict then propagate, by `Gasteiger et al. (2019) <https://arxiv.org/abs/1810.05997>`_.

    $$Z^{(k+1)} = (1 - \alpha) \tilde A Z^{(k)} + \alpha Z^{(0)}, \quad Z^{(0)} = \mathrm{MLP}(X), \quad
      \tilde A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

    which is $\sum_k \gamma_k \tilde A^k Z^{(0)}$ with $\gamma_k = \alpha (1-\alpha)^k$ and $\gamma_K = (1-\alpha)^K$.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    hidden_channels: int = setting("The width of the MLP's hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers of the MLP.", default=2, ge=1)
    hops: int = setting("K.", default=10, ge=1)
    alpha: float = setting("The teleport probability.", default=0.1, gt=0, le=1)
    dropout: float = setting("The share that is dropped before every layer of the MLP.", default=0.5, ge=0, lt=1)

    def _build(self) -> None:
        self.mlp = MLP(
            self.in_channels,
            self.out_channels,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            dropout=self.dropout,
        )
        # Nothing is learnt here and the configuration says it all: it is not saved.
        self.register_buffer("coefficients", pagerank_coefficients(self.hops, self.alpha), persistent=False)
        self.coefficients: Tensor

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return polynomial_filter(h, self.coefficients, edges.pattern, *edges.normalised_with_loops())
