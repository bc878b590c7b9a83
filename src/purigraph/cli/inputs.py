"""Inputs of commands: a graph by name or file, a device, and settings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purigraph.devices import check_device
from purigraph.errors import DatasetError, InputError, UnknownNameError
from purigraph.settings import what_was_meant

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from purigraph.graph.file_formats import GraphDocument


#: The endings of graph files; those of `purigraph.graph.file_formats`, which takes seconds to import.
GRAPH_SUFFIXES = (".npz", ".csv", ".tsv", ".parquet", ".pq", ".pt", ".pth", ".graphml", ".gexf")


def is_file(graph: str) -> bool:
    """Whether `graph` is a graph file and not the name of a dataset (a folder may have the same name)."""
    return Path(graph).suffix.lower() in GRAPH_SUFFIXES or Path(graph).is_file()


def graph_file(graph: str) -> str | None:
    """Return the path of a graph file, or None for a dataset, after which a folder may be named."""
    return graph if is_file(graph) else None


def load_graph(
    graph: str,
    *,
    features: str | None = None,
    expected: object = None,
    seed: int = 0,
    split: int | None = None,
    needs: Sequence[str] = (),
    device: str = "cpu",
) -> Data:
    """Load the graph given to a command: a file if it looks like one, otherwise a dataset.

    Args:
        graph: The path or name of the graph.
        features: The path of a file with its features.
        expected: What a model's record says about the features that it was fitted to (see `FeatureLayout`).
        seed: The seed of the split of a dataset.
        split: The index of the split of a file; None leaves (N, S) masks unchanged.
        needs: The labels and masks that the command needs; datasets have all of them.
        device: The device to load to.
    """
    return load_document(
        graph, features=features, expected=expected, seed=seed, split=split, needs=needs, device=device
    )[0]


def load_document(
    graph: str,
    *,
    features: str | None = None,
    expected: object = None,
    seed: int = 0,
    split: int | None = None,
    needs: Sequence[str] = (),
    device: str = "cpu",
) -> tuple[Data, GraphDocument | None]:
    """Load a graph as `load_graph` does, and return the document that it was read from too; None for a dataset."""
    from purigraph import datasets
    from purigraph.graph.file_formats import FeatureLayout, read_graph_file

    check_device(device)
    if not is_file(graph):
        if features is not None:
            raise InputError(f"{graph} is a dataset with its own features: leave --features out.")
        try:
            return datasets.load(graph, seed=seed).to(device), None
        except UnknownNameError as error:
            raise DatasetError(f"{error} Or pass the path of a graph file (.npz, .csv, ...: docs/files.md).") from None
    document = read_graph_file(graph, features, FeatureLayout.of_record(expected))
    data = document.both_ways()
    missing = [name for name in needs if name not in data]
    if missing:
        raise InputError(
            f"{graph} has no {' and no '.join(missing)}: this command needs {', '.join(needs)} in a graph file "
            "(see docs/graph-files.md)."
        )
    return (data if split is None else _choose(data, split, graph)).to(device), document


def check_split(graph: str, split: int | None) -> None:
    """Raise `InputError` if a split is given for a graph without numbered splits."""
    if split is not None and not is_file(graph):
        raise InputError(f"--split selects a split of a graph file; the split of {graph} is selected by --seed.")


def read_settings(given: list[str] | None, **options: Any) -> dict[str, Any]:
    """Read settings from `--set name=value` (values as JSON if possible) and from dedicated options.

    Each may be given only once, so there is no precedence to remember.
    """
    settings = {name: value for name, value in options.items() if value is not None}
    for text in given or []:
        key, separator, value = text.partition("=")
        name = key.replace("-", "_")
        if not separator or not name:
            raise InputError(f"--set takes NAME=VALUE, not {text!r}.")
        if name in settings:
            first = f"--{name.replace('_', '-')}" if options.get(name) is not None else "an earlier --set"
            raise InputError(f"--set {text} repeats the setting of {first}: pass only one of the two.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def check_names(given: Mapping[str, Any], known: Collection[str], owner: str) -> None:
    """Raise `InputError` for a setting of neither the component nor its training, listing those of both."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(f"{owner} has no setting {unknown[0]!r}: {what_was_meant(unknown[0], list(known))}")


def _choose(data: Data, split: int, path: str) -> Data:
    """Return the data with one split; masks that the command does not need may be missing."""
    from purigraph.graph.splits import MASKS

    for name in [name for name in MASKS if name in data]:
        mask = data[name]
        number = mask.shape[1] if mask.dim() == 2 else 1
        if split >= number:
            have = "one split, number 0" if number == 1 else f"{number} splits, numbers 0 to {number - 1}"
            raise InputError(f"--split {split}: {name} in {path} holds {have}.")
        data[name] = mask[:, split] if mask.dim() == 2 else mask
    return data
