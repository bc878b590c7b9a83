r"""The share of nodes that a perturbation can reach: $1 - \lambda$ of the paper's Theorem 1."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.graph.perturbation import Perturbation


def affected_nodes(clean: PairGraph, perturbation: Perturbation, hops: int) -> Tensor:
    """(N,) bool: the nodes with a flipped pair within their `hops`-hop neighbourhood, before or after the attack.

    A node of an L-layer network sees L hops: it is affected if a flipped pair has an end within L - 1 hops of it, as
    the message of the other end then arrives, or no longer arrives, within L.
    """
    attacked = perturbation.apply(clean)
    reached = torch.zeros(clean.num_nodes, dtype=torch.bool)
    reached[perturbation.flips().flatten()] = True
    for _ in range(hops - 1):
        grown = reached.clone()
        for i, j in (clean.pairs.cpu(), attacked.pairs.cpu()):
            grown[i[reached[j]]] = True
            grown[j[reached[i]]] = True
        reached = grown
    return reached


def unaffected_share(clean: PairGraph, perturbation: Perturbation, hops: int = 2) -> float:
    r"""$\lambda$, the share of nodes whose predictions can't have changed."""
    return 1 - float(affected_nodes(clean, perturbation, hops).double().mean())
