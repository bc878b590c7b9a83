"""The two forms of an attack: as published, and exact, which is what this library does by default.

`published` is the paper's attack: its settings, candidates handed to a purifier as small weights, no gradual rounding,
greedy projection. Its results are what published numbers are compared with. `exact` has the same epochs, block and
loss, and differs in three things that make it stronger: a part of an edge is a part of its purified weight (the model's
`relaxed`), the relaxed flips are rounded gradually, and LRBCD projects to the nearest point and fine-tunes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from purigraph import attacks
from purigraph.attacks import SmallWeights
from purigraph.errors import InputError
from purigraph.paper.experiments import Form
from purigraph.paper.profiles import Profile
from purigraph.paper.published_settings import attack_settings
from purigraph.paper.specs import AttackSpec
from purigraph.registry import canonical

if TYPE_CHECKING:
    from purigraph.attacks import Model

#: What the exact form changes in the paper's settings.
_EXACT: dict[str, dict[str, Any]] = {
    "prbcd": {"rounding": True},
    "lrbcd": {"rounding": True, "projection": "nearest", "fine_tune_epochs": 100, "block_size": 10_000},
}


def resolve_attack(
    spec: AttackSpec, form: Form | None, dataset: str, profile: Profile, *, on_gpr_gae: bool
) -> AttackSpec:
    """Return an attack with all settings of its form on a dataset and the lengths of the profile; they are checked."""
    name = canonical(spec.name)
    settings: dict[str, Any] = {}
    if name in _EXACT:
        if form is None:
            raise InputError(f"{name} comes in two forms: the experiment must name published, exact or both.")
        settings = attack_settings(name, dataset, on_gpr_gae=on_gpr_gae)
        if form == "exact":
            settings |= _EXACT[name]
    settings |= spec.settings
    if name not in _EXACT:
        fields = attacks.registry[name].settings_class.model_fields
        settings = {**{key: fields[key].default for key in ("epochs",) if key in fields}, **settings}
    settings = profile.attack(settings)
    attacks.create(name, **settings)
    return spec.model_copy(update={"name": name, "settings": settings})


def as_attacked(model: nn.Module, form: Form | None) -> Model:
    """Return what an adaptive attack of this form is computed on."""
    return SmallWeights(model) if form == "published" and hasattr(model, "relaxed") else model
