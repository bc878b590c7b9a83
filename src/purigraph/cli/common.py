"""Options and small helpers that several commands share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from purigraph.errors import DatasetError, InputError, UnknownNameError

if TYPE_CHECKING:
    from torch_geometric.data import Data

GraphArgument = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A dataset's name (see `purigraph datasets`) or a .npz graph file.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")]
DeviceOption = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, ...")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value for programs, nothing else.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change any other setting; may be repeated.")
]


def load_graph(name: str, *, seed: int = 0, device: str = "cpu") -> Data:
    """The graph that a command was given: a file if it looks like one, else a dataset."""
    from purigraph import datasets
    from purigraph.graph.npz import load_npz

    path = Path(name)
    if path.suffix == ".npz" or path.exists():
        return load_npz(path).to(check_device(device))
    try:
        return datasets.load(name, seed=seed).to(check_device(device))
    except UnknownNameError as error:
        raise DatasetError(f"{error} Or give the path of a .npz graph file.") from None


def check_device(device: str) -> str:
    """Refuse a device that is not there."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"Device {device!r} can't be used here: {reason}") from None
    return device


def read_settings(pairs: list[str] | None, **named: Any) -> dict[str, Any]:
    """Settings from `--set name=value` (values as JSON where they are) and from options that were given."""
    settings = {name: value for name, value in named.items() if value is not None}
    for pair in pairs or []:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}.")
        try:
            settings[name.replace("-", "_")] = json.loads(text)
        except json.JSONDecodeError:
            settings[name.replace("-", "_")] = text
    return settings


def print_json(value: object) -> None:
    """Print for programs."""
    typer.echo(json.dumps(value, indent=2))


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print for people; numbers to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)
