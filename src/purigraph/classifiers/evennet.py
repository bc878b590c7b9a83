"""The network that ignores odd-hop neighbours."""

from __future__ import annotations

from types import MappingProxyType

from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.polynomial import pagerank_coefficients, polynomial_filter
from purigraph.settings import setting


@registry.register("evennet")
class EvenNet(Classifier):
    r"""The even-polynomial network of `Lei et al. (2022) <https://arxiv.org/abs/2205.13892>`_.

    $$Z = \sum_{k=0}^{K/2} \gamma_k \hat A^{2k}\, \mathrm{MLP}(X), \qquad \hat A = D^{-1/2} A D^{-1/2}$$

    "A friend's friend is a friend, and so is an enemy's enemy": only even hops count, hence no self-loops in
    $\hat A$, which would mix odd hops into even powers. The learnt $\gamma$ start as PageRank's,
    $\alpha (1-\alpha)^{2k}$ and $(1-\alpha)^K$ for the last.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    paper_hyper = MappingProxyType({"ogbn-arxiv": {"hidden_channels": 256}})

    hidden_channels: int = setting("The width of the MLP's hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers of the MLP.", default=2, ge=1)
    hops: int = setting("K, even.", default=10, ge=2, multiple_of=2)
    alpha: float = setting("Of the coefficients that training starts from.", default=0.1, gt=0, le=1)
    dropout: float = setting("The share that is dropped before every layer of the MLP.", default=0.5, ge=0, lt=1)

    def _build(self) -> None:
        self.mlp = MLP(
            self.in_channels,
            self.out_channels,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            dropout=self.dropout,
        )
        self.coefficients = nn.Parameter(pagerank_coefficients(self.hops // 2, self.alpha, step=2))

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return polynomial_filter(h, self.coefficients, edges.pattern, edges.normalised(), loop=None, step=2)
