"""Which answers no edit of the edges can change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph.nodes import read_targets
from purigraph.metrics import gaps

# Probabilities of the same features may differ by rounding from call to call (other batches, threads, machines): an
# answer closer than this to the gate, or to a tie, is not called fixed.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Certificate:
    """For every node, whether any edit of the edges can change the answer.

    It holds for any number of added and removed edges and for any number of injected nodes, as anchored answers are
    functions of a node's own features alone. It is about the nodes of the given graph: injected nodes get no certified
    answer. It does not hold for changed features, nor for an anchor distilled from a graph that was tampered with (see
    docs/threat-model.md).

    Attributes:
        fixed: (N,) bool, True where no edit of the edges can change the answer.
        answer: (N,) int64, the answer as long as it takes more flips to change it; -1 where it is not known.
        accuracy: The certified accuracy: the share of `nodes` that are fixed and right; None without labels.
        exposed: The share of `nodes` that are not fixed.
        nodes: (M,) int64, the nodes that the two shares are over.
        flips: (N,) float64, how many flips it takes to change the answer, at least: infinity where it is fixed, 1 where
            nothing better is known.
        right: (M,) bool, whether the answer at each of `nodes` is known and right; None without labels.
    """

    fixed: Tensor
    answer: Tensor
    accuracy: float | None
    exposed: float
    nodes: Tensor
    flips: Tensor
    right: Tensor | None

    @classmethod
    def of(cls, probabilities: Tensor, margin: float, nodes: Tensor, labels: Tensor | None) -> Certificate:
        """Make the certificate from the anchor's probabilities (N, C); labels (N,) are read at `nodes` only."""
        gap = gaps(probabilities)
        fixed = (gap >= margin + ROUNDING) & (gap > ROUNDING)
        answer = torch.where(fixed, probabilities.argmax(1), -1)
        flips = torch.where(fixed, math.inf, 1.0).double()
        return cls.by_flips(answer, flips, nodes, labels)

    @classmethod
    def by_flips(cls, answer: Tensor, flips: Tensor, nodes: Tensor, labels: Tensor | None) -> Certificate:
        """Make it from the answers (N,), -1 where unknown, and the flips (N,) that it takes to change each."""
        fixed = flips.isinf()
        right = None if labels is None else answer[nodes] == labels[nodes]
        accuracy = None if right is None else float((right & fixed[nodes]).double().mean())
        return cls(fixed, answer, accuracy, float((~fixed[nodes]).double().mean()), nodes, flips, right)

    def accuracy_at(self, flips: int) -> float:
        r"""Return the accuracy that is certain if no more than this number of edges are flipped.

        A flip between two nodes serves against both, so an attacker can change a set S of answers only if
        $\sum_{v \in S} r_v \leq 2 B$ with the $r_v$ flips that each takes; the largest such set holds the cheapest.

        Args:
            flips: B, the number of added and removed edges.
        """
        if self.right is None:
            raise InputError("There are no labels: a certified accuracy needs data.y.")
        if flips < 0:
            raise InputError(f"The number of flips is {flips}: give 0 or more.")
        spent = self.flips[self.nodes][self.right].sort().values.cumsum(0)
        lost = int((spent <= 2 * flips).sum())
        return (int(self.right.sum()) - lost) / max(1, len(self.nodes))

    def __str__(self) -> str:
        right = "" if self.accuracy is None else f" Certified accuracy: {100 * self.accuracy:.1f} %."
        return (
            f"No edit of the edges can change the answers at {100 * (1 - self.exposed):.1f} % of {len(self.nodes)} "
            f"nodes; {100 * self.exposed:.1f} % are exposed.{right}"
        )


def certified_nodes(data: Data, targets: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """Return the nodes that a certificate is over, and labels if there are some."""
    if "y" in data and data.y is not None and (targets is not None or "test_mask" in data):
        return read_targets(data, targets, None, num_nodes)
    return torch.arange(num_nodes), None
