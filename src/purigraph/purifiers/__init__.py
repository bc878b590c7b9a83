"""Purifiers: each gives the edges of a graph weights that a classifier can trust.

To add one, write a file with a subclass of `Purifier` under `@register("name")` and import it below; in another
package, name it as an entry point of the group `purigraph.purifiers`. The contract tests, the command line and the
error messages find it by themselves.
"""

from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.good_at import GOODAT
from purigraph.purifiers.gpr_gae import GPRGAE

create, load, names, register = registry.create, registry.load, registry.names, registry.register

__all__ = ["GOODAT", "GPRGAE", "Purifier", "create", "load", "names", "register", "registry"]
