"""What answers for an anchor: models of the features alone that learn from a classifier's answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchors.distillation import DistillationSettings, distil, students_logits, untrained_students
from purigraph.kernels import Features


class Student(nn.Module, ABC):
    """A model of a node's own features. Its scores, softened by a temperature, are the anchor's probabilities."""

    @abstractmethod
    def learn(self, trusted: Data, taught: Tensor, seen: Tensor, *, seed: int) -> None:
        """Learn the answers (N, C) at the nodes of a trusted graph that are seen, (N,) bool."""

    @abstractmethod
    def forward(self, features: Features) -> Tensor:
        """Return scores (S, N, C), whose probabilities are averaged; without gradients."""

    @abstractmethod
    def differentiable(self, x: Tensor) -> Tensor:
        """Return the same for dense x (N, F), with gradients with respect to it."""


class MLPStudents(Student):
    """An ensemble of MLPs, as GLNN (`Zhang et al. 2022 <https://arxiv.org/abs/2110.08727>`_) has one.

    Args:
        in_channels: F.
        out_channels: C.
        count: S, their number.
        options: How they are trained.
        seed: Of their initial values.
        **shape: Of each MLP.
    """

    def __init__(
        self, in_channels: int, out_channels: int, count: int, options: DistillationSettings, *, seed: int, **shape: Any
    ) -> None:
        super().__init__()
        self.members = untrained_students(count, in_channels, out_channels, seed=seed, **shape)
        self._options = options

    def learn(self, trusted: Data, taught: Tensor, seen: Tensor, *, seed: int) -> None:
        """Train every member."""
        distil(self.members, Features.of(trusted.x), taught, seen, self._options, seed)

    def forward(self, features: Features) -> Tensor:
        """Return the members' logits (S, N, C)."""
        return students_logits(self.members, features)

    def differentiable(self, x: Tensor) -> Tensor:
        """Return the same, with gradients with respect to x (N, F)."""
        return torch.stack([member(x) for member in self.members])
