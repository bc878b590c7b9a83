"""Purifiers: each gives the edges of a graph weights that a classifier can trust.

To add one, write a file with a subclass of `Purifier` under `@register("name")` and import it below; in another
package, name it as an entry point of the group `purigraph.purifiers`. The contract tests, the command line and the
error messages find it by themselves.
"""

from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.chain import Chain
from purigraph.purifiers.gpr_gae import GPRGAE
from purigraph.purifiers.jaccard import Jaccard
from purigraph.purifiers.recipe import Recipe
from purigraph.purifiers.svd import SVD

create, load, names, register = registry.create, registry.load, registry.names, registry.register

__all__ = [
    "GPRGAE",
    "SVD",
    "Chain",
    "Jaccard",
    "Purifier",
    "Recipe",
    "create",
    "load",
    "names",
    "register",
    "registry",
]
