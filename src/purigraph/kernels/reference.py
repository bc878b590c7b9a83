r"""Equations (4) to (8) of the paper exactly as printed: the reference for the fast kernels.

Reference: "Self-supervised Adversarial Purification for Graph Neural Networks", ICML 2025.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional


def reference_encoding(x: Tensor, pairs: Tensor, weight: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    r"""Return equations (4) and (5): $H = \|_k \sum_{m \le k} \gamma_{k,m} \tilde A_{ns}^m X W_n$, shape (N, (K+1) Z1).

    Args:
        x: (N, F) dense.
        pairs: (2, E) int64, every undirected edge once.
        weight: (E,) the weights of the edges; differentiable.
        parameters: `node_weight` (F, Z1), `node_bias` (Z1,), `gamma` (K+1, K+1) lower triangular.
    """
    i, j = pairs
    degree = weight.new_zeros(len(x)).index_add(0, i, weight).index_add(0, j, weight)
    # A node whose weights sum to 0 can't be normalised: its entries are 0, with gradient 0.
    scale = torch.where(degree > 0, torch.where(degree > 0, degree, 1.0) ** -0.5, 0.0)
    value = weight * scale[i] * scale[j]
    h = x @ parameters["node_weight"] + parameters["node_bias"]
    hops = [h]
    for _ in range(len(parameters["gamma"]) - 1):
        h = torch.zeros_like(h).index_add(0, i, value[:, None] * h[j]).index_add(0, j, value[:, None] * h[i])
        hops.append(h)
    filters = [sum(row[m] * hops[m] for m in range(k + 1)) for k, row in enumerate(parameters["gamma"])]
    return torch.cat([torch.as_tensor(one) for one in filters], dim=1)


def reference_scores(encoding: Tensor, pairs: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    r"""Return equations (6) and (7), without the sigmoid: the logits of both directions, (2, e).

    Args:
        encoding: (N, (K+1) Z1).
        pairs: (2, e).
        parameters: `edge_weight` (2 (K+1) Z1, Z2), `edge_bias` (Z2,), `score_weight` (Z2,), `score_bias` ().
    """
    scores = []
    for source, target in (pairs, pairs.flip(0)):
        both = torch.cat([encoding[source], encoding[target]], dim=1)
        edge = functional.elu(both) @ parameters["edge_weight"] + parameters["edge_bias"]
        scores.append(functional.elu(edge) @ parameters["score_weight"] + parameters["score_bias"])
    return torch.stack(scores)


def reference_step(
    x: Tensor, pairs: Tensor, weight: Tensor, parameters: Mapping[str, Tensor], batch: int | None = None
) -> Tensor:
    r"""Return equation (8): $\hat A_{ij} = (\hat A_{i \to j} + \hat A_{j \to i}) / 2$ for the pairs, (E,).

    Nodes are encoded once; the per-edge products take `batch` pairs at a time, in case all would not fit into memory.
    """
    encoding = reference_encoding(x, pairs, weight, parameters)
    parts = pairs.split(batch or max(pairs.shape[1], 1), dim=1)
    return torch.cat([reference_scores(encoding, part, parameters).sigmoid().mean(0) for part in parts])
