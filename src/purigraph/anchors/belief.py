"""Whom to believe where the classifier and the students disagree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

# The powers to choose among; 0 ignores an opinion, 1 takes it at its word, more sharpens it.
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Belief:
    r"""A logarithmic pool of two opinions: $q_v \propto t_v^a \, g_v^b$.

    With the classifier's probabilities $t_v$ and the students' $g_v$. The two powers are few enough to be fitted on few
    labelled nodes, and the pool is calibrated where either opinion alone need not be.

    Attributes:
        classifier: $a$.
        students: $b$.
    """

    classifier: float
    students: float

    @classmethod
    def fit(cls, classified: Tensor, anchored: Tensor, labels: Tensor) -> Belief:
        """Return the powers with the highest likelihood.

        Args:
            classified: (M, C) probabilities of the classifier at nodes that neither was trained on.
            anchored: (M, C) probabilities of the students.
            labels: (M,) int64.
        """
        best, lowest = cls(1.0, 0.0), math.inf
        for one, other in product(_POWERS, _POWERS):
            belief = cls(one, other)
            found = belief.pool(classified, anchored)[torch.arange(len(labels)), labels]
            loss = float(-found.clamp(min=1e-12).log().mean())
            if loss < lowest:
                best, lowest = belief, loss
        return best

    def pool(self, classified: Tensor, anchored: Tensor) -> Tensor:
        """Return the pooled probabilities (M, C)."""
        logs = (opinion.double().clamp(min=1e-12).log() for opinion in (classified, anchored))
        one, other = logs
        return (self.classifier * one + self.students * other).softmax(1)

    def harm(self, classified: Tensor, anchored: Tensor) -> Tensor:
        """Return how much more likely the classifier's answer is right than the students', (M,) in [-1, 1]."""
        pooled = self.pool(classified, anchored)
        ours, theirs = anchored.argmax(1, keepdim=True), classified.argmax(1, keepdim=True)
        return (pooled.gather(1, theirs) - pooled.gather(1, ours)).squeeze(1)
