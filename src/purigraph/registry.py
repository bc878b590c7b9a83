"""Names for components: one table per kind, used by the API, the command line and the contract tests."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from purigraph.errors import UnknownNameError

T = TypeVar("T")


def canonical(name: str) -> str:
    """One spelling per name: lower case, `_` and `-` are the same."""
    return name.strip().lower().replace("_", "-")


class Registry(Generic[T]):
    """A table from names to components.

    Other packages add their own through the entry-point group `purigraph.<kind>s`; an entry is loaded when
    its name is first asked for.

    >>> fruits: Registry[int] = Registry("fruit")
    >>> @fruits.register("sour-cherry")
    ... def cherry() -> int: ...
    >>> fruits.names()
    ['sour-cherry']
    >>> fruits["sour_cherry"] is cherry
    True
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that stores its argument under `name`."""
        key = canonical(name)

        def store(item: T) -> T:
            if key in self._items:
                raise ValueError(f"{self.kind} {key!r} is registered already")
            self._items[key] = item
            return item

        return store

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._items.keys() | self._foreign().keys())

    def __getitem__(self, name: str) -> T:
        key = canonical(name)
        if key in self._items:
            return self._items[key]
        foreign = self._foreign()
        if key in foreign:
            self._items[key] = foreign[key]()
            return self._items[key]
        close = difflib.get_close_matches(key, self.names(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(
            f"There is no {self.kind} named {name!r}.{hint} Choose one of: {', '.join(self.names())}."
        )

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and canonical(name) in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _foreign(self) -> dict[str, Callable[[], T]]:
        return {canonical(entry.name): entry.load for entry in entry_points(group=f"purigraph.{self.kind}s")}
