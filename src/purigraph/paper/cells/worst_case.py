"""The worst case of a defence over an ensemble of attacks, and what does not depend on attacks: its certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from purigraph.anchored import Anchored
from purigraph.evaluation import worst_case
from purigraph.paper.cells.accuracy import prediction_cost
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import make_defence
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import DefenceSpec
from purigraph.runs import Context


class Config(CellConfig):
    """A defence and the budgets.

    Attributes:
        defence: The model.
        epsilons: The budgets.
        options: Other arguments of `purigraph.worst_case`.
    """

    defence: DefenceSpec
    epsilons: list[float] = Field(default_factory=lambda: [0.1, 0.25, 0.5])
    options: dict[str, Any] = Field(default_factory=dict)

    def resolved(self, profile: Profile) -> Config:
        """Resolve the defence and the length of the attacks."""
        options = dict(self.options)
        if profile.ensemble_epochs is not None:
            options = {**options, "epochs": profile.ensemble_epochs}
        changes: dict[str, Any] = {"defence": self.defence.resolved(profile, self.dataset), "options": options}
        if profile.trial:
            changes["epsilons"] = self.epsilons[:1]
        return self.model_copy(update=changes)

    def components(self) -> Iterator[str]:
        """Yield the components, the ensemble included."""
        yield from super().components()
        yield "ensemble"


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Attack with the whole ensemble; the values are the accuracies by budget, clean and certified ones included."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    test = scene.split.test
    place = context.store.artefact("perturbations", {**scene.subject(victim=chosen.defence), "ensemble": True})
    with place.locked():
        found = worst_case(
            defence.model,
            test,
            epsilons=chosen.epsilons,
            seeds=[chosen.seed],
            checkpoint=place.folder,
            progress=context.progress,
            **chosen.options,
        )
    values: dict[str, float | None] = {"clean": found.clean}
    if isinstance(defence.model, Anchored):
        values["certified"] = defence.model.certificate(test).accuracy
    values |= {f"eps {epsilon:g}": found.attacked(epsilon) for epsilon in chosen.epsilons}
    flips = {
        name: {f"{record.epsilon:g}": record.perturbation.digest for record in result.records}
        for name, result in found.results.items()
    }
    return {
        "values": values,
        "worst_case": found.to_dict(),
        "flips": flips,
        "costs": {**defence.costs, "prediction": prediction_cost(defence.model, test)},
        "training": defence.training,
    }
