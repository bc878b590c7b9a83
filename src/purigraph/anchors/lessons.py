"""What an anchor's students learn about the nodes of a trusted graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchors.distillation import predict_logits
from purigraph.anchors.teachers import CorrectedAnswers, FixedAnswers, Teacher, parts_of
from purigraph.errors import InputError
from purigraph.graph.border import count_nodes


@dataclass(frozen=True)
class Lessons:
    """A trusted graph, and who gives the answers to its nodes.

    Attributes:
        trusted: The graph to learn on, with its labelled validation nodes if their labels are learned.
        teacher: Who gives the answers.
        labels_are_learned: Whether the teacher hears the labels of the validation nodes.
        said: (N, C) what the classifier says, which the answers have to be like.
    """

    trusted: Data
    teacher: Teacher
    labels_are_learned: bool
    said: Tensor

    @classmethod
    def of(
        cls,
        classifier: nn.Module,
        trusted: Data,
        validation: Data | None,
        *,
        taught: Tensor | None = None,
        teacher: Teacher | None = None,
        learn_labels: bool = False,
    ) -> Lessons:
        """Return the lessons of a classifier, or of whoever knows better; see `Anchor.fit`."""
        if sum((taught is not None, teacher is not None, learn_labels)) > 1:
            raise InputError("taught, teacher and learn_labels each say what to learn: give one of them.")
        hears = learn_labels or teacher is not None
        if hears:
            trusted = _validation_as_trusted(trusted, validation)
        if count_nodes(trusted) < 2:
            raise InputError("trusted has fewer than 2 nodes: an anchor holds some out to see how sure it can be.")
        said = predict_logits(classifier, trusted).softmax(1)
        if learn_labels:
            teacher = CorrectedAnswers(said)
        elif teacher is None:
            teacher = FixedAnswers(said if taught is None else _checked_answers(taught, said, "taught"))
        return cls(trusted, teacher, hears, said)

    def __len__(self) -> int:
        return count_nodes(self.trusted)

    def without(self, held_out: Tensor) -> Tensor:
        """Return what is to be learned, (N, C), where some nodes, (N,) bool, are held out."""
        answers = self.teacher.answers(self.trusted, held_out)
        if isinstance(self.teacher, FixedAnswers | CorrectedAnswers):
            return answers
        return _checked_answers(answers, self.said, "What the teacher answers")

    def whole(self) -> Tensor:
        """Return what is to be learned, (N, C), where no node is held out."""
        return self.without(torch.zeros(len(self), dtype=torch.bool))

    def folds(self, count: int, seed: int) -> Tensor:
        """Return in which fold, (N,), each node is held out."""
        fold = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)) % count
        if self.labels_are_learned and not isinstance(self.teacher, CorrectedAnswers):
            # Labels are held out in the same parts as later, as a teacher may take long to forget them.
            nodes = labelled_nodes(self.trusted).cpu()
            fold[nodes] = parts_of(len(nodes), count)
        return fold


def labelled_nodes(validation: Data) -> Tensor:
    """Return the validation nodes, (M,); there must be some."""
    nodes: Tensor = validation.val_mask.nonzero().squeeze(1)
    if len(nodes) == 0:
        raise InputError("validation.val_mask is empty: give a graph with labelled validation nodes, or none.")
    return nodes


def _validation_as_trusted(trusted: Data, validation: Data | None) -> Data:
    """Return the graph to learn on where labels are heard, or say why there is none."""
    if validation is None:
        raise InputError("A teacher or learn_labels hears the labels of validation nodes: give validation=... too.")
    if "n_id" not in trusted or "n_id" not in validation:
        raise InputError("trusted and validation need n_id, which says which nodes they share: see inductive_split.")
    if not bool(torch.isin(trusted.n_id, validation.n_id).all()):
        raise InputError("To learn its labels, the validation graph must hold all trusted nodes: see inductive_split.")
    labelled_nodes(validation)
    return validation


def _checked_answers(taught: Tensor, said: Tensor, name: str) -> Tensor:
    """Return what to learn, (N, C), like what the classifier said, (N, C)."""
    if not isinstance(taught, Tensor) or taught.shape != said.shape:
        found = tuple(taught.shape) if isinstance(taught, Tensor) else f"a {type(taught).__name__}"
        raise InputError(
            f"{name} must be a tensor of probabilities {tuple(said.shape)}, as the classifier's, not {found}."
        )
    probabilities = taught.to(said)
    wrong = ~((probabilities >= 0).all(1) & ((probabilities.sum(1) - 1).abs() < 1e-3))
    if bool(wrong.any()):
        raise InputError(
            f"{name} must have rows of probabilities that sum to 1; row {int(wrong.nonzero()[0])} is not one "
            f"({int(wrong.sum())} rows in all): one-hot labels and softmax outputs are."
        )
    return probabilities
