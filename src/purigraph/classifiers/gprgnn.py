"""The generalised PageRank network."""

from __future__ import annotations

from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, classifiers
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.polynomial import polynomial_filter, random_coefficients


@classifiers.register("gprgnn")
class GPRGNN(Classifier):
    r"""The generalised PageRank network of `Chien et al. (2021) <https://arxiv.org/abs/2006.07988>`_.

    $$Z = \sum_{k=0}^{K} \gamma_k \tilde A^k\, \mathrm{MLP}(X), \qquad
      \tilde A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

    with learnt $\gamma$, which may become negative. They start at random: uniform in $\pm\sqrt{3/(K+1)}$, divided by
    the sum of their absolute values.

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hidden_channels: The width of the MLP's hidden layers.
        num_layers: The MLP's number of layers.
        hops: K.
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
        dropout: float = 0.2,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            hops=hops,
            dropout=dropout,
        )
        self.mlp = MLP(
            in_channels, out_channels, hidden_channels=hidden_channels, num_layers=num_layers, dropout=dropout
        )
        self.coefficients = nn.Parameter(random_coefficients(hops))

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return polynomial_filter(h, self.coefficients, edges.pattern, *edges.normalised_with_loops())
