"""A cell: the smallest piece of an experiment, named by the hash of its configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from purigraph.errors import InputError

if TYPE_CHECKING:
    from purigraph.runs.store import Context

#: What a cell runs: a function of the configuration, and of where it may keep its state, that returns JSON values.
Work = Callable[[Mapping[str, Any], "Context"], Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """A pure function of a configuration.

    Attributes:
        kind: What is measured. It is part of the hash; the path of the function is not, so that code can move.
        function: The function, as `module:name`; other processes import it.
        config: Everything that the result depends on, as JSON values.
        label: How to call the cell in reports. It is not part of the hash.
    """

    kind: str
    function: str
    config: Mapping[str, Any]
    label: str = field(default="", compare=False)

    @cached_property
    def key(self) -> str:
        """Return the hash that names the cell, 64 hexadecimal digits."""
        return digest({"kind": self.kind, "config": self.config})

    def work(self) -> Work:
        """Return the function."""
        module, _, name = self.function.partition(":")
        found: Work = getattr(import_module(module), name)
        return found


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value; the order of keys does not matter.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"A configuration consists of finite JSON values: {error}.") from None
    return hashlib.sha256(text.encode()).hexdigest()


def echo(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the configuration: the simplest cell, for trying out a store or a cluster."""
    return dict(config)
