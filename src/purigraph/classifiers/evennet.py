"""The network that ignores odd-hop neighbours."""

from __future__ import annotations

from torch import Tensor, nn

from purigraph.classifiers.base import Adjacency, registry
from purigraph.classifiers.normalised import Product, product_without_loops
from purigraph.classifiers.polynomial import PolynomialClassifier, pagerank_coefficients
from purigraph.settings import setting


@registry.register("evennet")
class EvenNet(PolynomialClassifier):
    r"""The even-polynomial network of `Lei et al. (2022) <https://arxiv.org/abs/2205.13892>`_.

    $$Z = \sum_{k=0}^{K/2} \gamma_k \hat A^{2k}\, \mathrm{MLP}(X), \qquad \hat A = D^{-1/2} A D^{-1/2}$$

    "A friend's friend is a friend, and so is an enemy's enemy": only even hops count, hence no self-loops in
    $\hat A$, which would mix odd hops into even powers. The learnt $\gamma$ are initialised as in PageRank:
    $\alpha (1-\alpha)^{2k}$, and $(1-\alpha)^K$ for the last.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    hops: int = setting("K, the number of hops; even.", default=10, ge=2, le=1_000, multiple_of=2)
    alpha: float = setting("The teleport probability of the initial coefficients.", default=0.1, gt=0, le=1)

    step = 2
    takes_factors = False  # see `product_without_loops`

    def _build(self) -> None:
        super()._build()
        self.coefficients = nn.Parameter(pagerank_coefficients(self.hops // self.step, self.alpha, step=self.step))

    def _product(self, edge_index: Adjacency, edge_weight: Tensor | None, like: Tensor) -> Product:
        return product_without_loops(edge_index, edge_weight, like)
