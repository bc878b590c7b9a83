"""Test accuracy of a defence: clean, under an adaptive attack, or under one that is transferred from another model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import model_validator
from torch import nn
from torch_geometric.data import Data

from purigraph.evaluation import Evaluation, evaluate, model_accuracy, predict
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.forms import as_attacked, resolve_attack
from purigraph.paper.models import Defence, Scene, make_defence, raised
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import AttackSpec, DefenceSpec
from purigraph.runs import Context, footprint

GPR_GAE = "gpr-gae"


class Config(CellConfig):
    """A defence and perhaps an attack.

    Attributes:
        defence: The model.
        attack: The attack; None for the clean accuracy.
        transfer_from: The model that the attack is computed on. Default: the defence itself.
        starts_from: An attack on the same model, or on `starts_on`, whose flips the attack begins with.
        starts_on: The model that this other attack is computed on. Default: the defence itself.
        validation: Also return the accuracy on validation nodes, at the epoch that they chose.
    """

    defence: DefenceSpec
    attack: AttackSpec | None = None
    transfer_from: DefenceSpec | None = None
    starts_from: AttackSpec | None = None
    starts_on: DefenceSpec | None = None
    validation: bool = False

    @model_validator(mode="before")
    @classmethod
    def _same_budget(cls, values: Any) -> Any:
        """Let the attack that another one starts from have the same budget unless it says otherwise."""
        attack, start = values.get("attack"), values.get("starts_from")
        if isinstance(attack, Mapping) and isinstance(start, Mapping) and "epsilon" in attack:
            return {**values, "starts_from": {"epsilon": attack["epsilon"], **start}}
        return values

    def resolved(self, profile: Profile) -> Config:
        """Resolve models and attacks."""
        changes: dict[str, Any] = {"defence": self.defence.resolved(profile, self.dataset)}
        for name in ("transfer_from", "starts_on"):
            if getattr(self, name) is not None:
                changes[name] = getattr(self, name).resolved(profile, self.dataset)
        for name, on in (("attack", self.transfer_from), ("starts_from", self.starts_on)):
            spec = getattr(self, name)
            if spec is not None:
                through = is_gpr_gae(on or self.defence)
                changes[name] = resolve_attack(spec, self.form, self.dataset, profile, on_gpr_gae=through)
        if self.attack is None:  # nothing of an attack makes a difference then
            changes |= dict.fromkeys(("form", "transfer_from", "starts_from", "starts_on"))
        return self.model_copy(update=changes)

    def components(self) -> Iterator[str]:
        """Yield the components, the paper's form of attacks included."""
        yield from super().components()
        if self.attack is not None:
            yield "forms"


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Train what is not in the store, attack, and return the accuracy that is left, with times and memory."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    test = scene.split.test
    costs = {**defence.costs, "prediction": prediction_cost(defence.model, test)}
    targets = int(test.test_mask.sum())
    if chosen.attack is None:
        values = {"": model_accuracy(defence.model, test)}
        if chosen.validation:
            values["validation"] = defence.training["classifier"]["validation_accuracy"]
        return {"values": values, "num_targets": targets, "costs": costs, "training": defence.training}
    for spec in (chosen.transfer_from, chosen.starts_on):
        if spec is not None:
            make_defence(spec, scene)  # trained now, so that the attack's memory is the attack's alone
    with footprint() as cost:
        found = attacked(chosen, scene, defence)
    (record,) = found.records
    # The attack may have been made for another cell: its time is the record's, its memory then unknown.
    made_here = cost.seconds >= record.seconds > 0
    costs["attack"] = {"seconds": record.seconds, "megabytes": cost.megabytes if made_here else None}
    return {
        "values": {"": record.accuracy},
        "num_targets": targets,
        "evaluation": found.to_dict(),
        "flips": record.perturbation.digest,
        "costs": costs,
    }


def attacked(chosen: Config, scene: Scene, defence: Defence) -> Evaluation:
    """Return the evaluation of the defence under the configured attack; its flips are kept for other cells."""
    assert chosen.attack is not None
    starts = None
    if chosen.starts_from is not None:
        on = chosen.defence if chosen.starts_on is None else chosen.starts_on
        first = Config(
            dataset=chosen.dataset, seed=chosen.seed, form=chosen.form, defence=on, attack=chosen.starts_from
        )
        starts = attacked(first, scene, make_defence(on, scene))
    victim = defence.model if chosen.transfer_from is None else make_defence(chosen.transfer_from, scene).model
    target = as_attacked(victim, chosen.form)
    subject = scene.subject(
        victim=chosen.transfer_from or chosen.defence,
        attack=chosen.attack,
        starts_from=chosen.starts_from,
        starts_on=chosen.starts_on,
    )
    place = scene.context.store.artefact("perturbations", {**subject, "form": chosen.form, **raised(chosen.protocols)})
    with place.locked():
        return evaluate(
            defence.model,
            scene.split.test,
            attack=chosen.attack.name,
            epsilons=[chosen.attack.epsilon],
            seeds=[chosen.seed],
            transfer_from=None if target is defence.model else target,
            starts=starts,
            checkpoint=place.folder,
            progress=scene.context.progress,
            yardsticks=False,  # they are the same for all attacks: `worst-case` measures them once
            **chosen.attack.settings,
        )


def is_gpr_gae(defence: DefenceSpec) -> bool:
    """Return whether attacks on a defence go through GPR-GAE, for which the paper has settings of its own."""
    purifier = defence.purifier
    return purifier is not None and purifier.name.replace("_", "-") == GPR_GAE


def prediction_cost(model: nn.Module, data: Data) -> dict[str, float | None]:
    """Return seconds and megabytes of purifying and classifying a graph; the second of two passes."""
    predict(model, data)
    with footprint() as cost:
        predict(model, data)
    return {"seconds": cost.seconds, "megabytes": cost.megabytes}
