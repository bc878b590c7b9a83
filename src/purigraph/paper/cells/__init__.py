"""The functions of cells: one file for each kind of measurement.

Each has a `Config`, which says what the YAML of an experiment may set, and `measure(config, context)`, which returns
JSON values: `values` holds the numbers of the table by their measure, "" for the only one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from purigraph.errors import UnknownNameError

#: The module of each kind.
KINDS = (
    "accuracy",
    "certificate",
    "coefficients",
    "feature-flips",
    "lipschitz",
    "multistep",
    "purifier",
    "pyg",
    "reach",
    "statistics",
    "structure",
    "validation-attack",
    "votes",
    "worst-case",
)


def cell_module(kind: str) -> Any:
    """Return the module of a kind of cell."""
    if kind not in KINDS:
        raise UnknownNameError(f"There is no kind of cell {kind!r}. Choose one of: {', '.join(KINDS)}.")
    return import_module(f"purigraph.paper.cells.{kind.replace('-', '_')}")
