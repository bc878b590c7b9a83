r"""Attacks on a graph's edges, with verified budgets and results.

An attacker may flip at most $\Delta$ undirected pairs and wants the model to misclassify its targets:
$\max_{A' : \|A' - A\|_0 \leq 2\Delta} \mathcal{L}(f(X, A'), y_T)$. An attack is an object with keyword-only settings.
It is called with any differentiable `(x, edge_index, edge_weight) -> logits`, a graph and a budget, and returns a
`Perturbation`. It only sees the callable: to attack *adaptively*, pass the protected model.

======================  =================================================================================
`prbcd`, `lrbcd`        gradients on a random block of pairs; a global budget, or one per node as well
`pgd`                   gradients on all pairs at once, for small graphs
`evolutionary`          predictions only: reveals masked gradients
`isolation`             deletes the edges of targets that need them: a floor without gradients
`dice`, `random-flip`   baselines: labels only, no information at all
======================  =================================================================================

To add one, write a file with a subclass of `Attack` decorated with `@register("name")` and import it below; in another
package, declare it as an entry point in the group `purigraph.attacks`. The contract tests, the command line and the
error messages pick it up automatically.

>>> create("prbcd", epochs=10) == PRBCD(epochs=10)
True
"""

from purigraph.attacks.base import Attack, Input, registry
from purigraph.attacks.dice import DICE
from purigraph.attacks.evolutionary import Evolutionary
from purigraph.attacks.isolation import Isolation
from purigraph.attacks.lrbcd import LRBCD
from purigraph.attacks.model import Model, Relaxable, SmallWeights
from purigraph.attacks.pgd import PGD
from purigraph.attacks.prbcd import PRBCD
from purigraph.attacks.race import Race
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
    "Isolation",
    "Model",
    "Race",
    "RandomFlip",
    "Relaxable",
    "Scene",
    "SmallWeights",
    "Verdict",
    "Victim",
    "create",
    "names",
    "register",
    "registry",
]
