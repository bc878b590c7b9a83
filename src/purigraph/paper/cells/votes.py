"""What bounded votes answer on the test nodes, and how much of it is certain at which budget; nothing is attacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from purigraph.anchors import Votes
from purigraph.errors import InputError
from purigraph.evaluation import model_accuracy
from purigraph.graph import Budget, as_pair_graph
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import make_defence, trained_classifier
from purigraph.paper.specs import DefenceSpec
from purigraph.runs import Context


class Config(CellConfig):
    """A defence with votes.

    Attributes:
        defence: The model.
        epsilons: The budgets.
    """

    defence: DefenceSpec
    epsilons: list[float] = Field(default_factory=lambda: [0.01, 0.02, 0.05, 0.1, 0.25, 0.5])


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the accuracies of the classifier and of the votes, and what is certified by budget."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    model, test = defence.model, scene.split.test
    if not isinstance(model, Votes) or chosen.defence.classifier is None:
        raise InputError("This needs a classifier, an anchor and votes: give the row all three.")
    certificate = model.certificate(test, injected=False)
    graph = as_pair_graph(test)
    values = {
        "classifier": model_accuracy(trained_classifier(chosen.defence.classifier, scene)[0], test),
        "votes": model_accuracy(model, test),
    }
    for epsilon in chosen.epsilons:
        values[f"certified, eps {epsilon:g}"] = certificate.accuracy_at(
            Budget(epsilon).resolve(graph, certificate.nodes)
        )
    values["certified, any"] = certificate.accuracy or 0.0
    return {"values": values, "strength": model.strength, "costs": defence.costs, "training": defence.training}
