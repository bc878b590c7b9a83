"""Purifiers: each gives the edges of a graph weights that a classifier can trust.

To add one, write a file with a subclass of `Purifier` under `@register("name")` and import it below; the contract
tests, the command line and the error messages find it by itself.
"""

from purigraph.purifiers.base import Purifier
from purigraph.purifiers.gpr_gae import GPRGAE
from purigraph.purifiers.registry import purifiers, register

__all__ = ["GPRGAE", "Purifier", "purifiers", "register"]
