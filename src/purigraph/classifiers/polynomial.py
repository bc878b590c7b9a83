"""Polynomials of a normalised adjacency, applied to a signal: what GPRGNN, APPNP and EvenNet have in common."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from purigraph.kernels.csr import Pattern
from purigraph.kernels.propagation import propagate


def polynomial_filter(
    h: Tensor, coefficients: Tensor, pattern: Pattern, value: Tensor, loop: Tensor | None, step: int = 1
) -> Tensor:
    r"""$\sum_{k=0}^{n} \gamma_k P^{k s} H$, by $n s$ sparse products.

    Args:
        h: (N, Z).
        coefficients: (n+1,) $\gamma$.
        pattern: Where P has entries.
        value: (M,) its values there.
        loop: (N,) its diagonal, or None for zeros.
        step: s, by how many hops a term is further than the one before.
    """
    out = coefficients[0] * h
    for k in range(1, len(coefficients)):
        for _ in range(step):
            h = propagate(pattern, value, h, loop)
        out = out + coefficients[k] * h
    return out


def pagerank_coefficients(terms: int, alpha: float, step: int = 1) -> Tensor:
    r"""(terms+1,): $\gamma_k = \alpha (1-\alpha)^{k s}$, and $\gamma_n = (1-\alpha)^{n s}$ for the last."""
    powers = (1 - alpha) ** (step * torch.arange(terms + 1, dtype=torch.float64))
    return torch.cat([alpha * powers[:-1], powers[-1:]]).to(torch.get_default_dtype())


def random_coefficients(terms: int) -> Tensor:
    r"""(terms+1,): uniform in $\pm\sqrt{3/(n+1)}$, divided by the sum of their absolute values."""
    bound = math.sqrt(3 / (terms + 1))
    drawn = torch.empty(terms + 1).uniform_(-bound, bound)
    return drawn / drawn.abs().sum()
