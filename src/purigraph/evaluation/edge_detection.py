"""How well a purifier tells the attacker's edges from the true ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.metrics import ranking_scores
from purigraph.purifiers import Purifier


@dataclass(frozen=True)
class EdgeDetection:
    """How well weights rank true edges above added ones.

    Attributes:
        auc: The probability that a true edge weighs more than an added one; 1 is perfect, 0.5 is chance.
        ap: Average precision of the true edges.
        true_weight: The mean weight of the true edges.
        added_weight: The mean weight of the added ones.
    """

    auc: float
    ap: float
    true_weight: float
    added_weight: float


def edge_detection(purifier: Purifier, x: Tensor, clean: PairGraph, perturbation: Perturbation) -> EdgeDetection:
    """Purify the perturbed graph and compare the weights of true and added edges.

    Args:
        purifier: The purifier to test as a detector.
        x: (N, F) node features.
        clean: The graph before the attack.
        perturbation: The flips of the attack.
    """
    attacked = perturbation.apply(clean)
    with torch.no_grad():
        purified = purifier.purify(x, attacked)
    is_true = clean.find(purified.codes) >= 0
    weight = purified.weight
    auc, ap = ranking_scores(weight[is_true], weight[~is_true])
    return EdgeDetection(auc, ap, float(weight[is_true].mean()), float(weight[~is_true].mean()))
