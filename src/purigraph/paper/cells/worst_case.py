"""The worst case of a defence over an ensemble of attacks, and what does not depend on attacks: its certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from purigraph.evaluation import WorstCase, worst_case
from purigraph.paper.cells.accuracy import prediction_cost
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import make_defence, raised
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import DefenceSpec
from purigraph.runs import Context

#: What does not depend on the budget, by its title: keys of `WorstCase.to_dict`.
_CONSTANT = {"certified": "certified", "without edges": "without_edges", "distilled MLP": "student"}


class Config(CellConfig):
    """A defence and the budgets.

    Attributes:
        defence: The model.
        epsilons: The budgets.
        options: Other arguments of `purigraph.worst_case`.
        members: Also return what every member of the ensemble leaves.
    """

    defence: DefenceSpec
    epsilons: list[float] = Field(default_factory=lambda: [0.1, 0.25, 0.5])
    options: dict[str, Any] = Field(default_factory=dict)
    members: bool = False

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
        if self.defence.purifier is not None:
            yield "small-weights"  # attacks that only purifiers need; cells without one keep their hashes


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Attack with the whole ensemble; the values are the accuracies by budget, clean and certified ones included."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    test = scene.split.test
    subject = {**scene.subject(victim=chosen.defence), "ensemble": True, **raised(chosen.protocols)}
    place = context.store.artefact("perturbations", subject)
    with place.locked():
        found = worst_case(
            defence.model,
            test,
            epsilons=chosen.epsilons,
            seeds=[chosen.seed],
            checkpoint=place.folder,
            progress=context.progress,
            # Named here and not in the configuration: cells from before there was another one keep their hashes.
            **{"ensemble": "hour", **chosen.options},
        )
    document = found.to_dict()
    values: dict[str, float | None] = {"clean": found.clean}
    values |= {title: document.get(key) for title, key in _CONSTANT.items()}
    values |= {f"eps {epsilon:g}": found.attacked(epsilon) for epsilon in chosen.epsilons}
    if chosen.members:
        for name, result in found.results.items():
            values |= {f"eps {one:g}, {name}": result.attacked(one) for one in result.epsilons()}
    flips = {f"{epsilon:g}": _strongest_flips(found, epsilon, chosen.seed) for epsilon in chosen.epsilons}
    return {
        "values": values,
        "num_targets": found.num_targets,
        "worst_case": document,
        "flips": flips,
        "costs": {**defence.costs, "prediction": prediction_cost(defence.model, test)},
        "training": defence.training,
    }


def _strongest_flips(found: WorstCase, epsilon: float, seed: int) -> str | None:
    """Return the hash of the strongest perturbation; None if no attack was needed."""
    return None if found.strongest(epsilon) == "none" else found.perturbation(epsilon, seed).digest
