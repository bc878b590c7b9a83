"""The network that ignores odd-hop neighbours."""

from __future__ import annotations

from types import MappingProxyType

from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, classifiers
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.polynomial import pagerank_coefficients, polynomial_filter
from purigraph.errors import InputError


@classifiers.register("evennet")
class EvenNet(Classifier):
    r"""The even-polynomial network of `Lei et al. (2022) <https://arxiv.org/abs/2205.13892>`_.

    $$Z = \sum_{k=0}^{K/2} \gamma_k \hat A^{2k}\, \mathrm{MLP}(X), \qquad \hat A = D^{-1/2} A D^{-1/2}$$

    "A friend's friend is a friend, and so is an enemy's enemy": only even hops count, hence no self-loops in
    $\hat A$, which would mix odd hops into even powers. The learnt $\gamma$ start as PageRank's,
    $\alpha (1-\alpha)^{2k}$ and $(1-\alpha)^K$ for the last.

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hidden_channels: The width of the MLP's hidden layers; 64 in the paper, 256 for OGB-arXiv.
        num_layers: The MLP's number of layers.
        hops: K, even.
        alpha: Of the coefficients that training starts from, in (0, 1].
        dropout: The share that is dropped before every layer of the MLP.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    paper_hyper = MappingProxyType({"ogbn-arxiv": {"hidden_channels": 256}})

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
        if hops % 2:
            raise InputError(f"EvenNet: hops must be even, not {hops}.")
        if not 0 < alpha <= 1:
            raise InputError(f"EvenNet: alpha must be in (0, 1], not {alpha!r}.")
        self.mlp = MLP(
            in_channels, out_channels, hidden_channels=hidden_channels, num_layers=num_layers, dropout=dropout
        )
        self.coefficients = nn.Parameter(pagerank_coefficients(hops // 2, alpha, step=2))

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        return polynomial_filter(h, self.coefficients, edges.pattern, edges.normalised(), loop=None, step=2)
