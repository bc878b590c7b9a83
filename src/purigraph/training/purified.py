"""Training on purified graphs, as the original Jaccard and SVD defences do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from purigraph.fingerprint import fingerprint
from purigraph.graph import LowRankAdjacency
from purigraph.graph.splits import InductiveSplit
from purigraph.memo import Identity, Memo
from purigraph.pretrained import Pretrained
from purigraph.protection import protect
from purigraph.purifiers import Purifier, Recipe
from purigraph.training.run import TrainingResult


def purify_split(split: InductiveSplit, purifier: Purifier) -> InductiveSplit:
    """Return the split with its training and its validation graph purified.

    The test graph stays as it is: it is purified when a model behind the purifier (`purigraph.protect`) sees it.
    """
    with torch.no_grad():
        return replace(split, train=purifier(split.train), validation=purifier(split.validation))


class OnFactors(nn.Module):
    """A classifier that sees every graph by the factors that a purifier makes of it, for training alone.

    There is no purified graph to train on then (see `Purifier.factored`). The factors carry no gradient; those of the
    last graphs are kept, as most regimes call for the same two in every epoch; of a graph that loses edges in every
    epoch, new ones are made, after the loss.

    Args:
        classifier: A classifier that takes factors.
        purifier: A fitted purifier that is `factored`.
    """

    def __init__(self, classifier: nn.Module, purifier: Purifier) -> None:
        super().__init__()
        protect(classifier, purifier)  # raises an error that says why if the two don't fit
        self.classifier = classifier
        # In a list, so that it is neither trained nor part of a checkpoint.
        self._purifier = [purifier]
        # A checkpoint of another purifier's run is then not this run's.
        made_by = fingerprint(json.dumps(Recipe.of(purifier).to_json()), *purifier.state_dict().values())
        self.register_buffer("made_by", torch.tensor(int(made_by[:15], 16)))
        self._factors: Memo[LowRankAdjacency] = Memo(2)

    @property
    def trained_name(self) -> str:
        """The name of what is trained, for progress reports."""
        return type(self.classifier).__name__

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
        """Return the classifier's output."""
        context = [Identity(tensor) for tensor in (x, edge_weight) if tensor is not None]
        factors = self._factors.get(edge_index, context)
        if factors is None:
            with torch.no_grad():
                factors = self._purifier[0].factor_edges(x, edge_index, edge_weight)
            self._factors.put(edge_index, factors, context)
        return self.classifier(x, factors)

    @classmethod
    def builder(cls, build: Callable[[int], nn.Module], purifier: Purifier) -> Callable[[int], nn.Module]:
        """Return a function that makes such a model from a seed, given one that makes the classifier."""
        return lambda seed: cls(build(seed), purifier)


def record_purifier(result: TrainingResult, purifier: Purifier) -> TrainingResult:
    """Say in a result, and in what is saved with its model, through which purifier it was trained."""
    model = result.model.classifier if isinstance(result.model, OnFactors) else result.model
    result = replace(result, model=model, purifier=Recipe.of(purifier).to_json())
    if isinstance(model, Pretrained):
        model.provenance = result.record()
    return result
