"""What an anchor gives up and what it makes certain, on the test nodes; nothing is attacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph.anchored import Anchored
from purigraph.errors import InputError
from purigraph.evaluation import model_accuracy
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import make_defence, trained_classifier
from purigraph.paper.specs import DefenceSpec
from purigraph.runs import Context


class Config(CellConfig):
    """A defence with an anchor.

    Attributes:
        defence: The model.
    """

    defence: DefenceSpec


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return accuracies of the classifier and of the anchored model, the certified one, and the curve by margin."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    model, test = defence.model, scene.split.test
    if not isinstance(model, Anchored) or chosen.defence.classifier is None:
        raise InputError("A certificate needs a classifier with an anchor: give the row both.")
    classifier = trained_classifier(chosen.defence.classifier, scene)[0]
    certificate = model.certificate(test)
    curve = model.trade_off(test, targets=test.test_mask)
    return {
        "values": {
            "classifier": model_accuracy(classifier, test),
            "anchored": model_accuracy(model, test),
            "certified": certificate.accuracy,
            "exposed": certificate.exposed,
            "student alone": curve.clean[0],
        },
        "margin": model.anchor.margin,
        "curve": {name: list(getattr(curve, name)) for name in ("margins", "exposed", "clean", "certified")},
        "costs": defence.costs,
        "training": defence.training,
    }
