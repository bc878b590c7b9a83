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
from typing import Any

from purigraph.attacks.base import Attack, Scene
from purigraph.attacks.dice import DICE
from purigraph.attacks.evolutionary import Evolutionary
from purigraph.attacks.losses import Loss, losses
from purigraph.attacks.lrbcd import LRBCD
from purigraph.attacks.pgd import PGD
from purigraph.attacks.prbcd import PRBCD
from purigraph.attacks.presets import paper_settings
from purigraph.attacks.random_flip import RandomFlip
from purigraph.attacks.victim import Verdict, Victim
from purigraph.errors import InputError
from purigraph.registry import Registry

attacks: Registry[type[Attack]] = Registry("attack")
attacks.register("prbcd")(PRBCD)
attacks.register("lrbcd")(LRBCD)
attacks.register("pgd")(PGD)
attacks.register("evolutionary")(Evolutionary)
attacks.register("dice")(DICE)
attacks.register("random-flip")(RandomFlip)


def create(attack: str | type[Attack] | Attack, **settings: Any) -> Attack:
    """An attack from its name, its class or itself; settings that it does not have are refused.

    >>> create("prbcd", epochs=10).settings()["epochs"]
    10
    """
    if isinstance(attack, Attack):
        if settings:
            raise InputError(f"{attack!r} has its settings already; {sorted(settings)} can't be changed.")
        return attack
    kind = attacks[attack] if isinstance(attack, str) else attack
    known = inspect.signature(kind).parameters
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise InputError(f"{kind.__name__} has no settings {unknown}. Choose from: {', '.join(known)}.")
    return kind(**settings)


__all__ = [
    "DICE",
    "LRBCD",
    "PGD",
    "PRBCD",
    "Attack",
    "Evolutionary",
    "Loss",
    "RandomFlip",
    "Scene",
    "Verdict",
    "Victim",
    "attacks",
    "create",
    "losses",
    "paper_settings",
]
