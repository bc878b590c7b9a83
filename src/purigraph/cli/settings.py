"""`purigraph settings`: explain the settings of a component."""

from __future__ import annotations

from typing import Annotated

import typer

from purigraph.cli import setting_lists
from purigraph.cli.options import JsonOption
from purigraph.cli.outputs import print_json
from purigraph.errors import UnknownNameError
from purigraph.registry import canonical
from purigraph.tables import Table

NAME = "settings"
HELP = "Explain the settings of a purifier, a classifier, an attack or a training regime."


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="prbcd, gcn, gpr-gae, vanilla, ...")],
    as_json: JsonOption = False,
) -> None:
    """Print every setting with its type, default and meaning."""
    lists = setting_lists.read()
    if not any(canonical(name) in found for found in lists.values()):
        lists = setting_lists.collect(built_in=False)  # it may be from another package
    for kind, components in lists.items():
        if canonical(name) in components:
            rows = components[canonical(name)]
            if as_json:
                print_json([dict(zip(("name", "type", "default", "meaning"), row, strict=True)) for row in rows])
            else:
                columns = ["name", "type", "default", "meaning"]
                Table(f"Settings of the {kind} {canonical(name)}", columns, rows, text_columns=4).print()
            return
    known = ", ".join(name for components in lists.values() for name in components)
    raise UnknownNameError(f"There is no component named {name!r}. Choose one of: {known}.")
