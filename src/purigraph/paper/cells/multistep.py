"""Accuracy after every step of a purification of an attacked graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph.errors import InputError
from purigraph.evaluation import convergence
from purigraph.paper.cells import accuracy
from purigraph.paper.models import make_defence
from purigraph.protection import Protected
from purigraph.runs import Context


class Config(accuracy.Config):
    """An attack through a purifier at its defaults, and how the attacked graph is purified then.

    Attributes:
        alpha: The step size.
        steps: The number of steps.
    """

    alpha: float = 1.0
    steps: int = 10


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the classifier's accuracy before the first step and after each one."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    if not isinstance(defence.model, Protected) or not hasattr(defence.model.purifier, "trace"):
        raise InputError("The steps of a purification are those of a purifier that works in steps, such as gpr-gae.")
    found = accuracy.attacked(chosen, scene, defence)
    (record,) = found.records
    purifier: Any = defence.model.purifier
    (steps,) = convergence(
        defence.model.classifier,
        purifier,
        record.perturbation.apply(scene.split.test),
        alphas=chosen.alpha,
        max_steps=chosen.steps,
    )
    return {
        "values": {f"step {number}": value for number, value in enumerate(steps.accuracies)},
        "num_targets": found.num_targets,
        "relative_change": steps.relative_change,
        "evaluation": found.to_dict(),
        "flips": record.perturbation.digest,
    }
