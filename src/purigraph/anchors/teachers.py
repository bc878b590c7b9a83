"""Who teaches an anchor's students: a classifier, someone who knows better, or a few labels beside a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.anchors.correction import corrected


class Teacher(Protocol):
    """Gives answers to the nodes of a graph, and can forget labels of its validation nodes."""

    def answers(self, data: Data, held_out: Tensor, /) -> Tensor:
        """Return probabilities (N, C) by someone who has not heard the labels of some nodes.

        Args:
            data: The graph to learn on: x, edge_index, and where labels are heard y, train_mask and val_mask.
            held_out: (N,) bool. The students learn nothing about these nodes, so their rows are not read.
        """


@dataclass(frozen=True)
class FixedAnswers:
    """A teacher who hears no labels, so there are none to forget.

    Attributes:
        known: (N, C).
    """

    known: Tensor

    def answers(self, data: Data, held_out: Tensor, /) -> Tensor:
        """Return what is known."""
        return self.known


@dataclass(frozen=True)
class CorrectedAnswers:
    """A classifier's answers, corrected around validation nodes whose labels are known.

    Attributes:
        said: (N, C) what the classifier says.
    """

    said: Tensor

    def answers(self, data: Data, held_out: Tensor, /) -> Tensor:
        """Return them; a label that is held out is not heard through the answers around it either."""
        known = data.val_mask & ~held_out.to(self.said.device)
        return corrected(self.said, data.y, known, data)


def parts_of(count: int, folds: int) -> Tensor:
    """Return which part, (M,), each of M validation nodes belongs to when their labels are held out in turn."""
    return torch.arange(count) % folds
