"""Purifiers: models that give the edges of a graph weights that a classifier can trust.

To add one, write a module with a subclass of `Purifier` decorated with `@register("name")` and import it below; in
another package, declare it as an entry point of the group `purigraph.purifiers`. The contract tests, the command line
and the error messages then find it automatically.
"""

from purigraph.purifiers.agreement import Agreement
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.calibration import Calibration, calibrate
from purigraph.purifiers.chain import Chain
from purigraph.purifiers.companions import Companions
from purigraph.purifiers.cutting import CutRules, Decision, decide
from purigraph.purifiers.evidence import Evidence
from purigraph.purifiers.explanation import Explanation
from purigraph.purifiers.good_at import GOODAT
from purigraph.purifiers.gpr_gae import GPRGAE
from purigraph.purifiers.graph_transform import GraphTransform
from purigraph.purifiers.jaccard import Jaccard
from purigraph.purifiers.recipe import Recipe
from purigraph.purifiers.svd import SVD

create, load, names, register = registry.create, registry.load, registry.names, registry.register

__all__ = [
    "GOODAT",
    "GPRGAE",
    "SVD",
    "Agreement",
    "Calibration",
    "Chain",
    "Companions",
    "CutRules",
    "Decision",
    "Evidence",
    "Explanation",
    "GraphTransform",
    "Jaccard",
    "Purifier",
    "Recipe",
    "calibrate",
    "create",
    "decide",
    "load",
    "names",
    "register",
    "registry",
]
