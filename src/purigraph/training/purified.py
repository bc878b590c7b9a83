"""Training on purified graphs, as the original Jaccard and SVD defences do."""

from __future__ import annotations

from dataclasses import replace

import torch

from purigraph.graph.splits import InductiveSplit
from purigraph.pretrained import Pretrained
from purigraph.purifiers import Purifier, Recipe
from purigraph.purifiers.base import require_fitted
from purigraph.training.run import TrainingResult


def purify_split(split: InductiveSplit, purifier: Purifier) -> InductiveSplit:
    """Return the split with its training and its validation graph purified.

    The test graph stays as it is: it is purified when a model behind the purifier (`purigraph.protect`) sees it.
    """
    require_fitted(purifier)
    with torch.no_grad():
        return replace(split, train=purifier(split.train), validation=purifier(split.validation))


def record_purifier(result: TrainingResult, purifier: Purifier) -> TrainingResult:
    """Say in a result, and in what is saved with its model, through which purifier it was trained."""
    result = replace(result, purifier=Recipe.of(purifier).to_json())
    if isinstance(result.model, Pretrained):
        result.model.provenance = result.record()
    return result
