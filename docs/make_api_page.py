"""Write `docs/api.md`: the whole public API on one page, from the code itself (`make api`).

A test compares the page with the code, so that the API never changes unnoticed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from purigraph.settings import Configured, Settings, describe
from purigraph.tables import Table

PAGE = Path(__file__).parent / "api.md"
PACKAGES = (
    "purigraph",
    "purigraph.datasets",
    "purigraph.graph",
    "purigraph.classifiers",
    "purigraph.purifiers",
    "purigraph.losses",
    "purigraph.attacks",
    "purigraph.training",
    "purigraph.evaluation",
    "purigraph.graph.file_formats",
    "purigraph.audit",
    "purigraph.report",
    "purigraph.distributed",
    "purigraph.runs",
    "purigraph.paper",
    "purigraph.errors",
)


def page() -> str:
    """Return the page's text."""
    parts = [
        "# The public API",
        "Generated from the code by `make api`; `help(name)` has the whole documentation of each. What is not on this "
        "page may change at any time.",
    ]
    shown: set[int] = set()
    for name in PACKAGES:
        module = import_module(name)
        parts += [f"## {name}", _summary(module)]
        for public in _public(module):
            value = getattr(module, public)
            if inspect.ismodule(value):
                continue
            if id(value) in shown and not inspect.ismethod(value):
                parts.append(f"- `{public}`: see above")
                continue
            shown.add(id(value))
            parts += list(_entry(public, value))
    return "\n\n".join(part for part in parts if part) + "\n"


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)


def _entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"### {name}{_bases(value)}"
        yield _summary(value)
        settings = value if issubclass(value, Settings) else getattr(value, "settings_class", None)
        if issubclass(value, Settings | Configured) and settings is not None and settings.model_fields:
            rows = [
                [f"`{cell}`" if cell and index < 3 else cell for index, cell in enumerate(row)]
                for row in describe(settings)
            ]
            rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
            yield Table("", ["setting", "type", "default", "meaning"], rows, text_columns=4).markdown()
        elif not issubclass(value, Exception):
            yield f"`{name}{_signature(value)}`"
        members = list(_members(value))
        if members:
            yield "\n".join(members)
    elif callable(value):
        yield f"### {name}"
        yield f"`{name}{_signature(value)}`"
        yield _summary(value)
    else:
        yield f"### {name}"
        yield (
            f"A value: `{_without_addresses(repr(value))}`"
            if isinstance(value, str | int)
            else f"A `{type(value).__name__}`."
        )


def _members(kind: type) -> Iterator[str]:
    """Public methods and properties that purigraph itself defines, inherited ones with the class that has them."""
    for name in sorted(dir(kind)):
        if name.startswith("_") or name in getattr(getattr(kind, "settings_class", None), "model_fields", {}):
            continue
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if owner is not kind:
            continue
        value = inspect.getattr_static(kind, name)
        if isinstance(value, property):
            yield f"- `{name}`: {_summary(value)}"
        elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
            bound = getattr(kind, name)
            yield f"- `{name}{_signature(bound, drop_self=not isinstance(value, classmethod))}`: {_summary(bound)}"


def _bases(kind: type) -> str:
    names = [base.__name__ for base in kind.__bases__ if base.__module__.startswith("purigraph")]
    return f" ({', '.join(names)})" if names else ""


def _signature(value: Any, *, drop_self: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())
    if drop_self and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    text = str(signature.replace(parameters=parameters))
    return _without_addresses(re.sub(r"'([\w\[\], |.~]+)'(?=[,)=\s]|$)", r"\1", text))


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _summary(value: Any) -> str:
    """The first paragraph of the docstring, on one line."""
    doc = inspect.getdoc(value) or ""
    return " ".join(doc.split("\n\n")[0].split())


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
