"""A teacher for anchors who has learned every label that there is, those of the validation nodes too."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchors.distillation import predict_logits
from purigraph.fingerprint import fingerprint
from purigraph.graph.splits import InductiveSplit, induced_part
from purigraph.kernels.feature_matrix import read_features
from purigraph.pretrained import Pretrained
from purigraph.training.regimes import registry, train
from purigraph.training.run import TrainingResult
from purigraph.training.settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class AllLabels:
    """A classifier that is trained on the labels of the training nodes and of the validation nodes.

    Validation nodes choose a classifier's epoch, and are then labels that nobody has learned from. So it is trained
    once as usual, which says for how many epochs, and then again on the validation graph, with all labels, for as many;
    nothing is chosen any more. Whoever wants to know what such a teacher is worth at a validation node has to ask one
    who has not heard its label, nor seen the node: it is trained again without them, once for every set of nodes that
    is held out (see `answers`). Only for how many epochs is what all validation nodes say.

    >>> from purigraph import datasets
    >>> from purigraph.graph import inductive_split
    >>> split = inductive_split(datasets.load("synthetic-citation"))
    >>> teacher = AllLabels("gcn", split, settings={"epochs": 5})
    >>> teacher.answers(split.validation, torch.zeros(split.validation.num_nodes, dtype=torch.bool)).shape[0]
    2435

    Args:
        classifier: One of `purigraph.classifiers.names()`, or a function that makes your own model from a seed.
        split: The graphs.
        regime: One of `purigraph.training.names()`.
        hyper: The hyper-parameters of the classifier.
        settings: The settings of the regime, an instance or some of them by name.
        seed: The seed of all trainings.
        checkpoint: A folder for the state of the trainings; interrupted ones resume from it.
        progress: Whether to report progress on the error stream. Default: only if it takes long.
    """

    classifier: str | Callable[[int], nn.Module]
    split: InductiveSplit
    regime: str = "consistency"
    hyper: Mapping[str, Any] | None = None
    settings: TrainingSettings | Mapping[str, Any] | None = None
    seed: int = 0
    checkpoint: str | Path | None = None
    progress: bool | None = None
    _known: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def first(self) -> TrainingResult:
        """The usual training, whose best epoch, chosen by the validation nodes, says how long to train."""
        return self._train(self.split, self._settings, "first")

    def answers(self, data: Data, held_out: Tensor, /) -> Tensor:
        """Return probabilities (N, C) for the nodes of the validation graph, without some nodes.

        Args:
            data: The validation graph: x, edge_index, y, train_mask, val_mask.
            held_out: (N,) bool. Validation nodes among them are neither seen nor heard; their rows are uniform.
        """
        gone = data.val_mask & held_out.to(data.val_mask.device)
        key = _key(data, gone)
        if key not in self._known:
            self._known[key] = self._learned(data, gone)
        return self._known[key]

    def result(self) -> TrainingResult:
        """Train a classifier on all labels of the split, for those who want the model itself.

        What it says of validation nodes proves nothing, as it has learned them: the loss and the accuracy that it comes
        with are those of the usual training.
        """
        data = self.split.validation
        found = replace(
            self._without(data, torch.zeros_like(data.val_mask))[1],
            regime=f"{self.regime}, all labels",
            validation_loss=self.first.validation_loss,
            validation_accuracy=self.first.validation_accuracy,
        )
        if isinstance(found.model, Pretrained):
            found.model.provenance = found.record()
        return found

    def _learned(self, data: Data, gone: Tensor) -> Tensor:
        part, result = self._without(data, gone)
        heard = predict_logits(result.model, part).softmax(1)
        found = heard.new_full((len(gone), heard.shape[1]), 1 / heard.shape[1])
        found[~gone] = heard
        return found

    def _without(self, data: Data, gone: Tensor) -> tuple[Data, TrainingResult]:
        """Train without some validation nodes, (N,) bool; return the graph that is left, too."""
        part = induced_part(data, ~gone)
        part.x = read_features(part.x, name="data.x")
        labelled, judged = copy.copy(part), copy.copy(part)
        labelled.train_mask = judged.val_mask = part.train_mask | part.val_mask
        labelled.val_mask = torch.zeros_like(part.val_mask)
        # The last epoch is taken. Regimes that train more than one classifier may choose an epoch of the others by what
        # they have learned, and by nothing that was held out.
        length = self.first.best_epoch
        settings = self._settings.replace(epochs=length, choose_from=length)
        split = replace(self.split, train=labelled, validation=judged)
        return part, self._train(split, settings, _key(data, gone))

    @property
    def _settings(self) -> TrainingSettings:
        if isinstance(self.settings, TrainingSettings):
            return self.settings
        return registry[self.regime].settings(**(self.settings or {}))

    def _train(self, split: InductiveSplit, settings: TrainingSettings, name: str) -> TrainingResult:
        return train(
            self.classifier,
            self.regime,
            split,
            hyper=self.hyper,
            settings=settings,
            seed=self.seed,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint) / name,
            progress=self.progress,
        )

    def __str__(self) -> str:
        name = self.classifier if isinstance(self.classifier, str) else "a model of your own"
        return f"{name}, {self.regime}, all labels"


def _key(data: Data, gone: Tensor) -> str:
    """Return what tells a graph and the nodes that are gone, (N,) bool, from any others."""
    weight = [data.edge_weight] if "edge_weight" in data else []
    return fingerprint(data.x, data.edge_index, *weight, data.y, data.train_mask, data.val_mask, gone)[:16]
