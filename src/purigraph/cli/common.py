"""Options and small helpers that several commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from purigraph.errors import DatasetError, InputError, UnknownNameError

if TYPE_CHECKING:
    from torch_geometric.data import Data

# NumPy's and scikit-learn's seeds end there too; PyTorch takes somewhat more.
LARGEST_SEED = 2**32 - 1

GraphArgument = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A dataset's name (see `purigraph datasets`) or a .npz graph file.")
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="The same seed gives the same result.")
]
SplitOption = Annotated[
    int | None,
    typer.Option(
        "--split", min=0, help="Which of a graph file's splits, for (N, S) masks; left out, that of the training, or 0."
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, ...")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value for programs, nothing else.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change any other setting; may be repeated.")
]


def is_file(graph: str) -> bool:
    """Whether a command was given a graph file, and not a dataset's name (which a folder may have, too)."""
    return Path(graph).suffix == ".npz" or Path(graph).is_file()


def load_graph(
    graph: str, *, seed: int = 0, split: int | None = None, needs: Sequence[str] = (), device: str = "cpu"
) -> Data:
    """The graph that a command was given: a file if it looks like one, else a dataset.

    Args:
        graph: Its path or name.
        seed: Of a dataset's split.
        split: Which of a file's splits; None leaves (N, S) masks as they are.
        needs: What the command can't do without, of labels and masks; datasets have them all.
        device: Where to.
    """
    from purigraph import datasets
    from purigraph.graph.npz import load_npz

    check_device(device)
    if not is_file(graph):
        try:
            return datasets.load(graph, seed=seed).to(device)
        except UnknownNameError as error:
            raise DatasetError(f"{error} Or give the path of a .npz graph file.") from None
    data = load_npz(graph)
    missing = [name for name in needs if name not in data]
    if missing:
        raise InputError(
            f"{graph} has no {' and no '.join(missing)}: this command needs {', '.join(needs)} in a graph file "
            "(see docs/graph-files.md)."
        )
    return (data if split is None else _choose(data, split, graph)).to(device)


def check_split(graph: str, split: int | None) -> None:
    """Refuse to choose a split by number where there are none."""
    if split is not None and not is_file(graph):
        raise InputError(f"--split chooses among the splits of a graph file; the one of {graph} is chosen by --seed.")


def check_device(device: str) -> str:
    """Refuse a device that is not there."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"Device {device!r} can't be used here: {reason}") from None
    return device


def check_output(
    path: Path | None,
    option: str,
    *,
    folder: bool = False,
    suffix: str | None = None,
    apart_from: Iterable[str | Path | None] = (),
) -> None:
    """Refuse a place that could not be written to in the end, or that is better not overwritten.

    Called first: the work may take hours, and nobody wants to lose it to a name.

    Args:
        path: As it was given; None, for an option that was left out, is fine.
        option: Its name, for the message.
        folder: Whether a folder is written there, not a file.
        suffix: What a file's name must end in.
        apart_from: What the command reads, or writes elsewhere.
    """
    if path is None:
        return
    if suffix is not None and path.suffix != suffix:
        raise InputError(f"{option} {path}: give a name that ends in {suffix}, as that is what is written.")
    if folder and path.exists() and not path.is_dir():
        raise InputError(f"{option} {path} is a file: give a folder.")
    if not folder and path.is_dir():
        raise InputError(f"{option} {path} is a folder: give the name of a file.")
    for other in apart_from:
        if other is not None and Path(other).resolve() == path.resolve():
            raise InputError(f"{option} {path} is also another argument of this command: give another name.")
    place = path if folder else path.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{option} {path} can't be written: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path} can't be written: there is no permission to write in {place}.")


def read_settings(pairs: list[str] | None, **named: Any) -> dict[str, Any]:
    """Settings from `--set name=value` (values as JSON where they are) and from options that were given.

    Each may be said once only: nobody should have to know which of two would win.
    """
    settings = {name: value for name, value in named.items() if value is not None}
    for pair in pairs or []:
        key, separator, text = pair.partition("=")
        name = key.replace("-", "_")
        if not separator or not name:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}.")
        if name in settings:
            first = f"--{name.replace('_', '-')}" if named.get(name) is not None else "an earlier --set"
            raise InputError(f"--set {pair} says again what {first} says: give one of the two.")
        try:
            settings[name] = json.loads(text)
        except json.JSONDecodeError:
            settings[name] = text
    return settings


def print_json(value: object) -> None:
    """Print for programs."""
    from purigraph.files import json_text

    typer.echo(json_text(value))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print for people; numbers to the right. Where it is narrow, headings are broken and gaps closed, not figures."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in (name[:4], *column)) for name, *column in zip(columns, *cells, strict=True)]
    terminal, gaps = Console().width, len(columns) - 1
    gap = 2 if sum(widths) + 2 * gaps + 2 <= terminal else 1
    _widen(widths, columns, terminal - sum(widths) - gap * gaps - 2)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.padding = (0, gap - 1)
    for index, (name, width) in enumerate(zip(columns, widths, strict=True)):
        table.add_column(name, justify="left" if index == 0 else "right", width=width, overflow="fold")
    for row in cells:
        table.add_row(*row)
    # A terminal that is narrower still breaks the lines itself.
    Console(width=max(terminal, sum(widths) + gap * gaps + 2)).print(table)


def _widen(widths: list[int], headings: Sequence[str], spare: int) -> None:
    """Give spare width to headings: first to those whose words are broken, then to those that take most lines."""

    def need(index: int) -> tuple[bool, float]:
        words = headings[index].split()
        return max(map(len, words), default=0) > widths[index], len(headings[index]) / widths[index]

    for _ in range(spare):
        index = max(range(len(widths)), key=need)
        if need(index)[1] <= 1:
            return
        widths[index] += 1


def _choose(data: Data, split: int, path: str) -> Data:
    """The data with one split; `load_npz` has checked the masks. A file may lack those that a command needs not."""
    from purigraph.graph.splits import MASKS

    for name in [name for name in MASKS if name in data]:
        mask = data[name]
        number = mask.shape[1] if mask.dim() == 2 else 1
        if split >= number:
            have = "one split, number 0" if number == 1 else f"{number} splits, numbers 0 to {number - 1}"
            raise InputError(f"--split {split}: {name} in {path} holds {have}.")
        data[name] = mask[:, split] if mask.dim() == 2 else mask
    return data
