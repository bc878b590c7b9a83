"""The common base of APPNP, GPRGNN and EvenNet: an MLP, then a polynomial of the normalised adjacency."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from purigraph.classifiers.base import Classifier, NodeFeatures
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.kernels.csr import Pattern
from purigraph.kernels.propagation import propagate
from purigraph.settings import setting


class PolynomialClassifier(Classifier):
    r"""Predict, then propagate: $Z = \sum_k \gamma_k P^{k s}\, \mathrm{MLP}(X)$ with a normalised adjacency P.

    A subclass sets `coefficients` in `_build`, as a parameter or a buffer. P has self-loops unless `_propagation` is
    overridden.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    trial_settings = MappingProxyType({"hidden_channels": 8})

    hidden_channels: int = setting("The width of the MLP's hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers of the MLP.", default=2, ge=1, le=1_000)
    hops: int = setting("K, the number of hops.", default=10, ge=1, le=1_000)
    dropout: float = setting("Dropout probability before every layer of the MLP.", default=0.5, ge=0, lt=1)

    #: The number s of hops from one term to the next.
    step: ClassVar[int] = 1
    #: (K/s + 1,) $\gamma$.
    coefficients: Tensor

    def _build(self) -> None:
        self.mlp = MLP.inside(self)

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, h.shape[0], h.dtype)
        value, loop = self._propagation(edges)
        return polynomial_filter(h, self.coefficients, edges.pattern, value, loop, step=self.step)

    def _propagation(self, edges: Edges) -> tuple[Tensor, Tensor | None]:
        """Return the entries of P off and on the diagonal."""
        return edges.normalised_with_loops()


def polynomial_filter(
    h: Tensor, coefficients: Tensor, pattern: Pattern, value: Tensor, loop: Tensor | None, step: int = 1
) -> Tensor:
    r"""Return $\sum_{k=0}^{n} \gamma_k P^{k s} H$, computed with $n s$ sparse products.

    Args:
        h: (N, Z).
        coefficients: (n+1,) $\gamma$.
        pattern: Where P has entries.
        value: (M,) the values of these entries.
        loop: (N,) the diagonal of P, or None for zeros.
        step: The number s of hops from one term to the next.
    """
    out = coefficients[0] * h
    for k in range(1, len(coefficients)):
        for _ in range(step):
            h = propagate(pattern, value, h, loop)
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
