"""The generalised PageRank network."""

from __future__ import annotations

from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.polynomial import polynomial_filter, random_coefficients
from purigraph.settings import setting


@registry.register("gprgnn")
class GPRGNN(Classifier):
    r"""The generalised PageRank network of `Chien et al. (2021) <https://arxiv.org/abs/2006.07988>`_.

    $$Z = \sum_{k=0}^{K} \gamma_k \tilde A^k\, \mathrm{MLP}(X), \qquad
      \tilde A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

    with learnt $\gamma$, which may become negative. They start at random: uniform in $\pm\sqrt{3/(K+1)}$, divided by
    the sum of their absolute values.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    hidden_channels: int = setting("The width of the MLP's hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers of the MLP.", default=2, ge=1)
    hops: int = setting("K.", default=10, ge=1)
    dropout: float = setting("The share that is dropped before every layer of the MLP.", default=0.2, ge=0, lt=1)

    def _build(self) -> None:
        self.mlp = MLP(
            self.in_channels,
            self.out_channels,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            dropout=self.dropout,
        )
        self.coefficients = nn.Parameter(random_coefficients(self.hops))

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return polynomial_filter(h, self.coefficients, edges.pattern, *edges.normalised_with_loops())
