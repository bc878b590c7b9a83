"""Which answers no edit of the edges can change."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.anchors.margin import gaps

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
        answer: (N,) int64, the anchored answer; -1 where the node is exposed.
        accuracy: The certified accuracy: the share of `nodes` that are fixed and right; None without labels.
        exposed: The share of `nodes` that are not fixed.
        nodes: (M,) int64, the nodes that the two shares are over.
    """

    fixed: Tensor
    answer: Tensor
    accuracy: float | None
    exposed: float
    nodes: Tensor

    @classmethod
    def of(cls, probabilities: Tensor, margin: float, nodes: Tensor, labels: Tensor | None) -> Certificate:
        """Make the certificate from the anchor's probabilities (N, C); labels (N,) are read at `nodes` only."""
        gap = gaps(probabilities)
        fixed = (gap >= margin + ROUNDING) & (gap > ROUNDING)
        answer = torch.where(fixed, probabilities.argmax(1), -1)
        right = None if labels is None else float((answer[nodes] == labels[nodes]).double().mean())
        return cls(fixed, answer, right, float((~fixed[nodes]).double().mean()), nodes)

    def __str__(self) -> str:
        right = "" if self.accuracy is None else f" Certified accuracy: {100 * self.accuracy:.1f} %."
        return (
            f"No edit of the edges can change the answers at {100 * (1 - self.exposed):.1f} % of {len(self.nodes)} "
            f"nodes; {100 * self.exposed:.1f} % are exposed.{right}"
        )
