r"""Attacks on a graph's edges that can be believed.

An attacker may flip at most $\Delta$ undirected pairs and wants the model to be wrong about its targets:
$\max_{A' : \|A' - A\|_0 \leq 2\Delta} \mathcal{L}(f(X, A'), y_T)$. An attack is a value with keyword-only settings,
called with any differentiable `(x, edge_index, edge_weight) -> logits`, a graph and a budget; it returns a
`Perturbation`. It sees nothing but the callable, so to attack *adaptively*, give it the protected model.

======================  =================================================================================
`prbcd`, `lrbcd`        gradients on a random block of pairs; one budget in all, or one per node as well
`pgd`                   gradients on all pairs at once, for small graphs
`evolutionary`          predictions only: shows masked gradients where there are some
`dice`, `random-flip`   floors: labels only, nothing at all
======================  =================================================================================

To add one, write a file with a subclass of `Attack` under `@register("name")` and import it below; in another package,
name it as an entry point of the group `purigraph.attacks`. The contract tests, the command line and the error messages
find it by themselves.

>>> create("prbcd", epochs=10) == PRBCD(epochs=10)
True
"""

from purigraph.attacks.base import Attack, Input, registry
from purigraph.attacks.dice import DICE
from purigraph.attacks.evolutionary import Evolutionary
from purigraph.attacks.lrbcd import LRBCD
from purigraph.attacks.model import Model, Relaxable
from purigraph.attacks.pgd import PGD
from purigraph.attacks.prbcd import PRBCD
from purigraph.attacks.presets import paper_settings
from purigraph.attacks.random_flip import RandomFlip
from purigraph.attacks.scene import Scene
from purigraph.attacks.victim import Verdict, Victim

create, names, register = registry.create, registry.names, registry.register

__all__ = [
    "DICE",
    "LRBCD",
    "PGD",
    "PRBCD",
    "Attack",
    "Evolutionary",
    "Input",
    "Model",
    "RandomFlip",
    "Relaxable",
    "Scene",
    "Verdict",
    "Victim",
    "create",
    "names",
    "paper_settings",
    "register",
    "registry",
]
