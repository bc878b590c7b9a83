"""What a command reads: a graph by name or file, a device, settings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purigraph.errors import DatasetError, InputError, UnknownNameError
from purigraph.settings import what_was_meant

if TYPE_CHECKING:
    from torch_geometric.data import Data


def is_file(graph: str) -> bool:
    """Whether a command was given a graph file, and not a dataset's name (which a folder may have, too)."""
    return Path(graph).suffix == ".npz" or Path(graph).is_file()


def load_graph(
    graph: str, *, seed: int = 0, split: int | None = None, needs: Sequence[str] = (), device: str = "cpu"
) -> Data:
    """Load the graph that a command was given: a file if it looks like one, else a dataset.

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


def read_settings(given: list[str] | None, **options: Any) -> dict[str, Any]:
    """Read settings from `--set name=value` (values as JSON where they are) and from options of their own.

    Each may be given once only: nobody should have to know which of two would win.
    """
    settings = {name: value for name, value in options.items() if value is not None}
    for text in given or []:
        key, separator, value = text.partition("=")
        name = key.replace("-", "_")
        if not separator or not name:
            raise InputError(f"--set takes NAME=VALUE, not {text!r}.")
        if name in settings:
            first = f"--{name.replace('_', '-')}" if options.get(name) is not None else "an earlier --set"
            raise InputError(f"--set {text} says again what {first} says: give one of the two.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def check_names(given: Mapping[str, Any], known: Collection[str], owner: str) -> None:
    """Refuse a setting that is neither the component's nor its training's, listing both."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(f"{owner} has no setting {unknown[0]!r}: {what_was_meant(unknown[0], list(known))}")


def _choose(data: Data, split: int, path: str) -> Data:
    """Return the data with one split; a file may lack masks that a command does not need."""
    from purigraph.graph.splits import MASKS

    for name in [name for name in MASKS if name in data]:
        mask = data[name]
        number = mask.shape[1] if mask.dim() == 2 else 1
        if split >= number:
            have = "one split, number 0" if number == 1 else f"{number} splits, numbers 0 to {number - 1}"
            raise InputError(f"--split {split}: {name} in {path} holds {have}.")
        data[name] = mask[:, split] if mask.dim() == 2 else mask
    return data
