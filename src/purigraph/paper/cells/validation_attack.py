"""What adaptive attacks on validation nodes leave of a defence: for choices, which must not be made on test nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from purigraph.evaluation import evaluate, model_accuracy
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import make_defence
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import DefenceSpec
from purigraph.runs import Context

_LOSSES = ("tanh-margin", "elu-margin")


class Config(CellConfig):
    """A defence and the attacks.

    Attributes:
        defence: The model.
        epsilons: The budgets.
        settings: Those of PRBCD, which runs with two losses; the lower accuracy counts.
    """

    defence: DefenceSpec
    epsilons: list[float] = Field(default_factory=lambda: [0.25, 0.5])
    settings: dict[str, Any] = Field(
        default_factory=lambda: {"epochs": 150, "fine_tune_epochs": 30, "block_size": 20_000}
    )

    def resolved(self, profile: Profile) -> Config:
        """Resolve the defence and the length of the attacks."""
        changes: dict[str, Any] = {"defence": self.defence.resolved(profile, self.dataset)}
        if profile.trial:
            changes["settings"] = {"epochs": 2, "fine_tune_epochs": 1, "block_size": 500}
        return self.model_copy(update=changes)

    def components(self) -> Iterator[str]:
        """Yield the components, the attack included."""
        yield from super().components()
        yield "prbcd"


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the accuracy on validation nodes, clean and by budget."""
    chosen = Config(**config)
    scene = chosen.scene(context)
    defence = make_defence(chosen.defence, scene)
    data = scene.split.validation
    values = {"clean": model_accuracy(defence.model, data, data.val_mask)}
    for loss in _LOSSES:
        found = evaluate(
            defence.model,
            data,
            targets=data.val_mask,
            epsilons=chosen.epsilons,
            seeds=[chosen.seed],
            loss=loss,
            yardsticks=False,
            progress=context.progress,
            **chosen.settings,
        )
        for epsilon in chosen.epsilons:
            name = f"eps {epsilon:g}"
            values[name] = min(values.get(name, 1.0), found.attacked(epsilon))
    return {
        "values": values,
        "num_targets": int(data.val_mask.sum()),
        "costs": defence.costs,
        "training": defence.training,
    }
