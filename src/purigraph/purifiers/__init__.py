"""Purifiers: models that give the edges of a graph weights that a classifier can trust.

To add one, write a module with a subclass of `Purifier` decorated with `@register("name")` and import it below; in
another package, declare it as an entry point of the group `purigraph.purifiers`. The contract tests, the command line
and the error messages then find it automatically.
"""

from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.gpr_gae import GPRGAE

create, load, names, register = registry.create, registry.load, registry.names, registry.register

__all__ = ["GPRGAE", "Purifier", "create", "load", "names", "register", "registry"]
