"""The table of purifiers."""

from __future__ import annotations

from purigraph.purifiers.base import Purifier
from purigraph.registry import Registry

purifiers: Registry[type[Purifier]] = Registry("purifier")
register = purifiers.register
