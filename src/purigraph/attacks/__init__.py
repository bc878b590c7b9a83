r"""Attacks on a graph's edges that can be believed.

An attacker may flip at most $\Delta$ undirected pairs and wants the model to be wrong about its targets:
$\max_{A' : \|A' - A\|_0 \leq 2\Delta} \mathcal{L}(f(X, A'), y_T)$. An attack is an object with keyword-only
hyper-parameters, called with any differentiable `(x, edge_index, edge_weight) -> logits`, a graph, labels, targets
and a budget; it returns a `Perturbation`. It sees nothing but the callable, so *adaptive* means: give it
the protected model.

======================  =================================================================================
`prbcd`, `lrbcd`        gradients on a random block of pairs; one budget in all, or one per node as well
`pgd`                   gradients on all pairs at once, for small graphs
`evolutionary`          predictions only: shows masked gradients where there are some
`dice`, `random-flip`   floors: labels only, nothing at all
======================  =================================================================================
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any, get_type_hints

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from purigraph.attacks.base import Attack, Scene
from purigraph.attacks.dice import DICE
from purigraph.attacks.evolutionary import Evolutionary
from purigraph.attacks.lrbcd import LRBCD
from purigraph.attacks.pgd import PGD
from purigraph.attacks.prbcd import PRBCD
from purigraph.attacks.presets import paper_settings
from purigraph.attacks.random_flip import RandomFlip
from purigraph.attacks.victim import Verdict, Victim
from purigraph.errors import InputError
from purigraph.registry import Registry
from purigraph.settings import what_was_meant

attacks: Registry[type[Attack]] = Registry("attack", "purigraph.attacks")
attacks.register("prbcd")(PRBCD)
attacks.register("lrbcd")(LRBCD)
attacks.register("pgd")(PGD)
attacks.register("evolutionary")(Evolutionary)
attacks.register("dice")(DICE)
attacks.register("random-flip")(RandomFlip)


def create(attack: str | type[Attack] | Attack, /, **settings: Any) -> Attack:
    """An attack from its name, its class or itself; settings that it does not have or can't use are refused.

    >>> create("prbcd", epochs=10).settings()["epochs"]
    10
    """
    if isinstance(attack, Attack):
        if settings:
            raise InputError(f"{attack!r} has its settings already; {sorted(settings)} can't be changed.")
        return attack
    kind = attacks[attack] if isinstance(attack, str) else attack
    known = list(inspect.signature(kind).parameters)
    unknown = sorted(settings.keys() - set(known))
    if unknown:
        raise InputError(f"{kind.__name__} has no settings {unknown}: {what_was_meant(unknown[0], known)}")
    settings = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    _check_types(kind, settings)
    return kind(**settings)


def _check_types(kind: type[Attack], settings: dict[str, Any]) -> None:
    """Refuse a value that is not of its setting's annotated type, before it fails somewhere in an attack.

    Values are only checked, never converted: an attack is known by its `repr`, which must stay what the caller wrote.
    """
    try:
        hints = get_type_hints(kind.__init__)
    except NameError:  # a foreign attack whose annotations can't be looked up: its constructor is on its own
        return
    strict = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    for name, value in settings.items():
        with suppress(PydanticUserError):  # a type with rules of its own, of a foreign attack
            reason = _reason(TypeAdapter(hints.get(name, Any), config=strict), value)
            if reason is not None:
                raise InputError(f"{kind.__name__}: {name}={value!r} is not valid: {reason}.")


def _reason(adapter: TypeAdapter[Any], value: object) -> str | None:
    """Why a value does not fit a type; None if it does."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return error.errors()[0]["msg"].lower()
    return None


__all__ = [
    "DICE",
    "LRBCD",
    "PGD",
    "PRBCD",
    "Attack",
    "Evolutionary",
    "RandomFlip",
    "Scene",
    "Verdict",
    "Victim",
    "attacks",
    "create",
    "paper_settings",
]
