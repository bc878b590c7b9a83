"""What an anchor's students learn about the nodes of a trusted graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchors.correction import corrected
from purigraph.anchors.distillation import predict_logits
from purigraph.errors import InputError


@dataclass(frozen=True)
class Lessons:
    """A trusted graph, and an answer to each of its nodes.

    Attributes:
        trusted: The graph to learn on, with its labelled validation nodes if their labels are learned.
        answers: (N, C) what to learn, before any label is heard.
        labels_are_learned: Whether the labels of the validation nodes correct the answers.
    """

    trusted: Data
    answers: Tensor
    labels_are_learned: bool

    @classmethod
    def of(
        cls,
        classifier: nn.Module,
        trusted: Data,
        validation: Data | None,
        taught: Tensor | None,
        *,
        learn_labels: bool,
    ) -> Lessons:
        """Return the lessons of a classifier, or of whoever knows better (`taught`); see `Anchor.fit`."""
        if learn_labels:
            trusted = _validation_as_trusted(trusted, validation, taught)
        said = predict_logits(classifier, trusted).softmax(1)
        if len(said) < 2:
            raise InputError("trusted has fewer than 2 nodes: an anchor holds some out to see how sure it can be.")
        return cls(trusted, said if taught is None else _checked_answers(taught, said), learn_labels)

    def __len__(self) -> int:
        return len(self.answers)

    def without(self, held_out: Tensor) -> Tensor:
        """Return what is to be learned, (N, C), where some nodes, (N,) bool, are held out."""
        if not self.labels_are_learned:
            return self.answers
        # A label that is held out must not be heard through the answers around it either.
        known = self.trusted.val_mask & ~held_out.to(self.answers.device)
        return corrected(self.answers, self.trusted.y, known, self.trusted)

    def whole(self) -> Tensor:
        """Return what is to be learned, (N, C), where no node is held out."""
        return self.without(torch.zeros(len(self), dtype=torch.bool))


def labelled_nodes(validation: Data) -> Tensor:
    """Return the validation nodes, (M,); there must be some."""
    nodes: Tensor = validation.val_mask.nonzero().squeeze(1)
    if len(nodes) == 0:
        raise InputError("validation.val_mask is empty: give a graph with labelled validation nodes, or none.")
    return nodes


def _validation_as_trusted(trusted: Data, validation: Data | None, taught: Tensor | None) -> Data:
    """Return the graph to learn on with `learn_labels`, or say why there is none."""
    if validation is None:
        raise InputError("learn_labels is about the labels of validation nodes: give validation=... too.")
    if taught is not None:
        raise InputError("Both learn_labels and taught say what to learn: give one of them.")
    if "n_id" not in trusted or "n_id" not in validation:
        raise InputError("trusted and validation need n_id, which says which nodes they share: see inductive_split.")
    if not bool(torch.isin(trusted.n_id, validation.n_id).all()):
        raise InputError("With learn_labels the validation graph must hold all trusted nodes: see inductive_split.")
    labelled_nodes(validation)
    return validation


def _checked_answers(taught: Tensor, said: Tensor) -> Tensor:
    """Return what to learn, (N, C), like what the classifier said, (N, C)."""
    if not isinstance(taught, Tensor) or taught.shape != said.shape:
        found = tuple(taught.shape) if isinstance(taught, Tensor) else f"a {type(taught).__name__}"
        raise InputError(
            f"taught must be a tensor of probabilities {tuple(said.shape)}, as the classifier's, not {found}."
        )
    probabilities = taught.to(said)
    wrong = ~((probabilities >= 0).all(1) & ((probabilities.sum(1) - 1).abs() < 1e-3))
    if bool(wrong.any()):
        raise InputError(
            f"taught must have rows of probabilities that sum to 1; row {int(wrong.nonzero()[0])} is not one "
            f"({int(wrong.sum())} rows in all): one-hot labels and softmax outputs are."
        )
    return probabilities
