"""Accuracy after features were flipped: what a defence of the edges does not hold against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph.evaluation import flip_features, model_accuracy
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import make_defence
from purigraph.paper.specs import DefenceSpec
from purigraph.runs import Context


class Config(CellConfig):
    """A defence and the numbers of flips.

    Attributes:
        defence: The model.
        flips: The numbers of features that are flipped at every test node.
    """

    defence: DefenceSpec
    flips: list[int]


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the clean accuracy and that after every number of flips, for all test nodes at once."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    model, test = make_defence(chosen.defence, scene).model, scene.split.test
    values = {"clean": model_accuracy(model, test)}
    for flips in chosen.flips:
        values[f"{flips} flips"] = model_accuracy(model, flip_features(model, test, flips))
    return {"values": values, "num_targets": int(test.test_mask.sum())}
