"""Predict, then propagate by personalised PageRank."""

from __future__ import annotations

from torch import Tensor

from purigraph.classifiers.base import Classifier, NodeFeatures, classifiers
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.polynomial import pagerank_coefficients, polynomial_filter
from purigraph.errors import InputError


@classifiers.register("appnp")
class APPNP(Classifier):
    r"""Predict then propagate, by `Gasteiger et al. (2019) <https://arxiv.org/abs/1810.05997>`_.

    $$Z^{(k+1)} = (1 - \alpha) \tilde A Z^{(k)} + \alpha Z^{(0)}, \quad Z^{(0)} = \mathrm{MLP}(X), \quad
      \tilde A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

    which is $\sum_k \gamma_k \tilde A^k Z^{(0)}$ with $\gamma_k = \alpha (1-\alpha)^k$ and $\gamma_K = (1-\alpha)^K$.

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hidden_channels: The width of the MLP's hidden layers.
        num_layers: The MLP's number of layers.
        hops: K.
        alpha: The teleport probability, in (0, 1].
        dropout: The share that is dropped before every layer of the MLP.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        num_layers: int = 2,
        hops: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            hops=hops,
            alpha=alpha,
            dropout=dropout,
        )
        if not 0 < alpha <= 1:
            raise InputError(f"APPNP: alpha must be in (0, 1], not {alpha!r}.")
        self.mlp = MLP(
            in_channels, out_channels, hidden_channels=hidden_channels, num_layers=num_layers, dropout=dropout
        )
        # Nothing is learnt here and the configuration says it all: it is not saved.
        self.register_buffer("coefficients", pagerank_coefficients(hops, alpha), persistent=False)
        self.coefficients: Tensor

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return polynomial_filter(h, self.coefficients, edges.pattern, *edges.normalised_with_loops())
