"""The common base of APPNP, GPRGNN and EvenNet: an MLP, then a polynomial of the normalised adjacency."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from purigraph.classifiers.base import Adjacency, Classifier, NodeFeatures
from purigraph.classifiers.mlp import MLP
from purigraph.classifiers.normalised import Product, product_with_loops
from purigraph.settings import setting


class PolynomialClassifier(Classifier):
    r"""Predict, then propagate: $Z = \sum_k \gamma_k P^{k s}\, \mathrm{MLP}(X)$ with a normalised adjacency P.

    A subclass sets `coefficients` in `_build`, as a parameter or a buffer. P has self-loops unless `_product` is
    overridden.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    trial_settings = MappingProxyType({"hidden_channels": 8})

    hidden_channels: int = setting("The width of the MLP's hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers of the MLP.", default=2, ge=1, le=1_000)
    hops: int = setting("K, the number of hops.", default=10, ge=1, le=1_000)
    dropout: float = setting("Dropout probability before every layer of the MLP.", default=0.5, ge=0, lt=1)

    takes_factors = True
    #: The number s of hops from one term to the next.
    step: ClassVar[int] = 1
    #: (K/s + 1,) $\gamma$.
    coefficients: Tensor

    def _build(self) -> None:
        self.mlp = MLP.inside(self)

    def forward(self, x: NodeFeatures, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        product = self._product(edge_index, edge_weight, h)
        return polynomial_filter(h, self.coefficients, product, step=self.step)

    def _product(self, edge_index: Adjacency, edge_weight: Tensor | None, like: Tensor) -> Product:
        """Return the product with P."""
        return product_with_loops(edge_index, edge_weight, like)


def polynomial_filter(h: Tensor, coefficients: Tensor, product: Product, step: int = 1) -> Tensor:
    r"""Return $\sum_{k=0}^{n} \gamma_k P^{k s} H$, computed with $n s$ products.

    Args:
        h: (N, Z).
        coefficients: (n+1,) $\gamma$.
        product: Multiplies with P.
        step: The number s of hops from one term to the next.
    """
    out = coefficients[0] * h
    for k in range(1, len(coefficients)):
        for _ in range(step):
            h = product(h)
        out = out + coefficients[k] * h
    return out


def pagerank_coefficients(terms: int, alpha: float, step: int = 1) -> Tensor:
    r"""Return (terms+1,): $\gamma_k = \alpha (1-\alpha)^{k s}$, and $\gamma_n = (1-\alpha)^{n s}$ for the last."""
    powers = (1 - alpha) ** (step * torch.arange(terms + 1, dtype=torch.float64))
    return torch.cat([alpha * powers[:-1], powers[-1:]]).to(torch.get_default_dtype())


def random_coefficients(terms: int) -> Tensor:
    r"""Return (terms+1,): uniform in $\pm\sqrt{3/(n+1)}$, divided by the sum of their absolute values."""
    bound = math.sqrt(3 / (terms + 1))
    drawn = torch.empty(terms + 1).uniform_(-bound, bound)
    return drawn / drawn.abs().sum()
