"""What an accuracy under attack must be compared with: how well the task can be done without the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.anchors.distillation import (
    DistillationSettings,
    distil,
    mean_probabilities,
    students_logits,
    untrained_students,
)
from purigraph.attacks import Model
from purigraph.errors import PurigraphError
from purigraph.evaluation.predictions import as_attacks_see_it, predict
from purigraph.graph.splits import MASKS, inductive_split
from purigraph.kernels import Features
from purigraph.metrics import accuracy

_STUDENTS = 3


@dataclass(frozen=True)
class Yardsticks:
    """Accuracies on the targets that an attacker of edges can't lower.

    A defence that keeps less than one of them under attack protects less than ignoring the graph would.

    Attributes:
        without_edges: The model's accuracy when every edge at a target is removed (A_iso): what an attacker who can
            afford to isolate the targets leaves at most, however the defence reweights edges.
        student: The accuracy of an MLP that never sees an edge, distilled from the model's own predictions on the
            trusted graph, without labels; None if there is no trusted graph.
        student_missing: Why there is no student; empty if there is one.
    """

    without_edges: float
    student: float | None
    student_missing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"without_edges": self.without_edges, "student": self.student}

    def rows(self) -> list[tuple[str, float]]:
        """Return names and accuracies, for tables."""
        found = [("without edges", self.without_edges)]
        return found if self.student is None else [*found, ("distilled MLP", self.student)]

    def notes(self, left: float | None) -> list[str]:
        """Return what a table should say, given the lowest accuracy under attack."""
        best = max(value for _, value in self.rows())
        notes = [f"No distilled MLP: {self.student_missing}"] if self.student is None else []
        if left is not None and left < best - 1e-12:
            name = max(self.rows(), key=lambda row: row[1])[0]
            notes.append(
                f"Under attack this model keeps {100 * (best - left):.1f} points less than answering {name}: here it "
                "protects less than ignoring the graph would."
            )
        return notes


def measure_yardsticks(
    model: Model, data: Data, targets: Tensor, *, trusted: Data | None = None, seed: int = 0
) -> Yardsticks:
    """Measure what the graph is worth to a model.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`.
        data: x, edge_index, y.
        targets: (M,) int64.
        trusted: The graph that the student is distilled on. Default: the training graph that the masks of `data` give.
        seed: The seed of the student.
    """
    labels = data.y[targets]
    alone = predict(model, _isolated(as_attacks_see_it(data), targets))[targets]
    student, missing = None, ""
    try:
        graph = _training_graph(data) if trusted is None else trusted
        student = accuracy(_student_answers(model, graph, data.x, seed)[targets], labels)
    except PurigraphError as error:
        missing = str(error)
    return Yardsticks(accuracy(alone, labels), student, missing)


def _isolated(data: Data, targets: Tensor) -> Data:
    """Return the graph without any edge at a target."""
    at_target = torch.zeros(int(data.num_nodes or 0), dtype=torch.bool, device=data.edge_index.device)
    at_target[targets] = True
    kept = ~at_target[data.edge_index].any(0)
    alone = Data(x=data.x, edge_index=data.edge_index[:, kept], y=data.y)
    if "edge_weight" in data:
        alone.edge_weight = data.edge_weight[kept]
    return alone


class _NoTrustedGraphError(PurigraphError):
    """There is no graph to distil on."""


def _training_graph(data: Data) -> Data:
    missing = [name for name in MASKS if name not in data]
    if missing:
        raise _NoTrustedGraphError(f"data has no {missing[0]} that tells the training graph; pass trusted=... .")
    train: Data = inductive_split(data).train
    if train.num_nodes == 0:
        raise _NoTrustedGraphError("no node is outside val_mask and test_mask; pass trusted=... .")
    return train


def _student_answers(model: Model, trusted: Data, x: Any, seed: int) -> Tensor:
    """Return the probabilities (N, C) that students of the model give to nodes with the features x (N, F)."""
    for features in (trusted.x, x):
        if not isinstance(features, Tensor) or features.dim() != 2 or not features.is_floating_point():
            raise _NoTrustedGraphError("it needs node features as a matrix of real numbers.")
    taught = predict(model, as_attacks_see_it(trusted)).softmax(1)
    students = untrained_students(_STUDENTS, trusted.x.shape[1], taught.shape[1], seed=seed)
    students.to(taught.device, taught.dtype)
    everyone = torch.ones(len(taught), dtype=torch.bool)
    distil(students, Features(trusted.x), taught, everyone, DistillationSettings(), seed)
    return mean_probabilities(students_logits(students, Features(x)))
