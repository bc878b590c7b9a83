"""How a purifier is made, as plain values: what stands for it in the settings and records of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph.errors import InputError
from purigraph.purifiers.base import Purifier, registry
from purigraph.settings import Settings, setting


class Recipe(Settings):
    """A purifier by its name and settings. What it has learned is not in them."""

    purifier: str = setting("One of `purigraph.purifiers.names()`.")
    settings: dict[str, Any] = setting("Its settings, as JSON values. Those that are left out have their defaults.")

    @classmethod
    def of(cls, purifier: Purifier) -> Recipe:
        """Return how a purifier was made; one that is not registered is named by its class."""
        name = registry.name_of(type(purifier)) or type(purifier).__qualname__
        return cls(purifier=name, settings=purifier.settings.to_json())

    @classmethod
    def read(cls, value: object) -> Recipe:
        """Read a purifier, a name, or a mapping with `purifier` and perhaps `settings`, as JSON has it."""
        if isinstance(value, Recipe):
            return value
        if isinstance(value, Purifier):
            return cls.of(value)
        if isinstance(value, str):
            return cls(purifier=value, settings={})
        if isinstance(value, Mapping):
            return cls(**{"settings": {}, **value})
        raise InputError(
            f'A {type(value).__name__} is no purifier: give one, its name, or {{"purifier": name, "settings": ...}}.'
        )

    def make(self) -> Purifier:
        """Return a new purifier, not fitted."""
        return registry.create(self.purifier, **self.settings)
