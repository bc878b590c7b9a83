r"""The share of nodes that a perturbation can reach: $1 - \lambda$ of the paper's Theorem 1."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.evaluation.robust_accuracy import Evaluation
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.nodes import read_nodes
from purigraph.graph.perturbation import Perturbation


def affected_nodes(clean: PairGraph, perturbation: Perturbation, layers: int, *, normalised: bool = True) -> Tensor:
    """Return which nodes a `layers`-layer network may see differently after the attack, (N,) bool.

    A node of an L-layer network sees L hops: it is affected if a flipped pair has an end within L - 1 hops of it,
    before or after the attack, as the message from the other end then arrives, or no longer arrives, within L hops.
    With `normalised` adjacencies (as in a GCN), a message also depends on the degree of its sender, which adds one hop.

    This holds for a network on the graph itself. Behind a purifier every weight, and thus every node, can be affected.
    """
    hops = layers + int(normalised)
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


def unaffected_share(
    clean: PairGraph,
    perturbation: Perturbation,
    layers: int = 2,
    *,
    normalised: bool = True,
    targets: Tensor | None = None,
) -> float:
    r"""Return $\lambda$, the share of nodes (or of `targets`) whose predictions can't have changed.

    See `affected_nodes`.
    """
    affected = affected_nodes(clean, perturbation, layers, normalised=normalised)
    if targets is not None:
        affected = affected[read_nodes(targets, clean.num_nodes, name="targets").cpu()]
    return 1 - float(affected.double().mean())


def unaffected_shares(
    evaluation: Evaluation, data: Data, layers: int = 2, *, normalised: bool = True, targets: Tensor | None = None
) -> dict[float, float]:
    r"""Return $\lambda$ per budget, averaged over an evaluation's seeds; for all nodes, or for `targets`."""
    clean = as_pair_graph(data)
    return {
        epsilon: statistics.fmean(
            unaffected_share(clean, record.perturbation, layers, normalised=normalised, targets=targets)
            for record in evaluation.records
            if record.epsilon == epsilon
        )
        for epsilon in evaluation.epsilons()
    }
