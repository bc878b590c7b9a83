"""Registries: one table of names per kind of component, used by the API, the command line and the contract tests.

Every kind has the same functions: `names()` lists the components, `create(name, ...)` creates one, `load(folder)` loads
a saved one (see `purigraph.pretrained`), and `register(name)` adds one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from purigraph.errors import InputError, UnknownNameError
from purigraph.settings import Configured

T = TypeVar("T")
C = TypeVar("C", bound=Configured)


def canonical(name: str) -> str:
    """Return the canonical spelling of a name: lower case, with `-` instead of `_`."""
    if not isinstance(name, str):
        raise InputError(f"A name is a text, not {name!r}.")
    return name.strip().lower().replace("_", "-")


class Registry(Generic[T]):
    """A table from names to items of one kind.

    Args:
        kind: What the items are, for messages; for example, "attack".
        group: The entry-point group through which other packages add items; for example, "purigraph.attacks". An entry
            is imported when its name is first used.

    >>> fruits: Registry[int] = Registry("fruit", "orchard.fruits")
    >>> @fruits.register("sour-cherry")
    ... def cherry() -> int: ...
    >>> fruits.names()
    ['sour-cherry']
    >>> fruits["sour_cherry"] is cherry
    True
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind, self.group = kind, group
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers its argument under `name`."""
        key = canonical(name)

        def enter(item: T) -> T:
            if key in self._items:
                raise ValueError(f"{self.kind} {key!r} is already registered.")
            self._items[key] = item
            return item

        return enter

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._items.keys() | _foreign(self.group).keys())

    def name_of(self, item: object) -> str | None:
        """Return the name of a registered item, or None."""
        return next((name for name in self.names() if self[name] is item), None)

    def __getitem__(self, name: str) -> T:
        key = canonical(name)
        if key not in self._items:
            entry = _foreign(self.group).get(key)
            if entry is None:
                raise self._unknown(name)
            item = entry.load()
            # Importing the package may also have registered it through the decorator.
            self._items.setdefault(key, item)
        return self._items[key]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and canonical(name) in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _unknown(self, name: str) -> UnknownNameError:
        close = difflib.get_close_matches(canonical(name), self.names(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return UnknownNameError(
            f"There is no {self.kind} named {name!r}.{hint} Choose one of: {', '.join(self.names())}."
        )


class Components(Registry[type[C]], Generic[C]):
    """A table from names to classes of `Configured` components."""

    def create(self, component: str | type[C] | C, /, *args: Any, **settings: Any) -> C:
        """Return a component given its name or class and its settings; an existing component is returned unchanged.

        Raises:
            UnknownNameError: If there is no such name; the message lists the known ones.
            InputError: If a setting is unknown or has a value that is not allowed.
        """
        if isinstance(component, str):
            return self[component](*args, **settings)
        if isinstance(component, type):
            return component(*args, **settings)
        if args or settings:
            raise InputError(f"{component!r} already has its settings: {', '.join(settings)} can't be changed.")
        return component


@cache
def _foreign(group: str) -> dict[str, EntryPoint]:
    """Return the entries of other packages; cached, as the lookup searches the whole installation."""
    return {canonical(entry.name): entry for entry in entry_points(group=group)}
