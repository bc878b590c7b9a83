"""What a dataset is: a name, statistics, files, and the function that reads them; and the table of all datasets.

Nothing here imports PyTorch: listing the datasets takes a fraction of the time that importing it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.sources import RemoteFile
from purigraph.errors import DatasetError
from purigraph.registry import Registry, canonical


class Reader(Protocol):
    """Reads a dataset. `root` is the cache folder, or None for the user's."""

    def __call__(self, root: Path | None) -> RawGraph: ...  # noqa: D102


@dataclass(frozen=True)
class Statistics:
    """What is known of a dataset without reading it.

    Attributes:
        name: The name that `load` takes.
        nodes: The number of nodes.
        edges: The number of undirected edges, without self-loops.
        features: The number of features per node.
        classes: The number of classes.
        homophily: The share of edges that join two nodes of the same class.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float


@dataclass(frozen=True)
class DatasetInfo(Statistics):
    """The statistics of a dataset, and whether it is at hand.

    Attributes:
        available: Whether the dataset can be loaded right now without a download.
    """

    available: bool


@dataclass(frozen=True)
class Dataset(Statistics):
    """An entry of the table.

    Attributes:
        is_available: Tells, for a cache folder, whether the dataset can be loaded without a download.
        read: Reads the dataset.
    """

    is_available: Callable[[Path | None], bool]
    read: Reader

    def info(self, root: Path | None = None) -> DatasetInfo:
        """Return the statistics, and whether the dataset can be loaded without a download."""
        statistics = {field.name: getattr(self, field.name) for field in fields(Statistics)}
        return DatasetInfo(**statistics, available=self.is_available(root))


registry: Registry[Dataset] = Registry("dataset", "purigraph.datasets")


def register(
    name: str,
    *,
    nodes: int,
    edges: int,
    features: int,
    classes: int,
    homophily: float,
    files: Sequence[RemoteFile] = (),
    is_available: Callable[[Path | None], bool] | None = None,
) -> Callable[[Reader], Dataset]:
    """Return a decorator that enters a `Reader` under `name`, with the dataset's statistics.

    Args:
        name: The name that `load` will take; `_` and `-` are the same.
        nodes: The number of nodes.
        edges: The number of undirected edges, without self-loops.
        features: The number of features per node.
        classes: The number of classes.
        homophily: The share of edges that join two nodes of the same class.
        files: The files that the reader fetches. The dataset is available if all of them are on this machine.
        is_available: Decides that instead, for a dataset that is not a fixed list of files. Default: see `files`.
    """

    def enter(read: Reader) -> Dataset:
        dataset = Dataset(
            name=canonical(name),
            nodes=nodes,
            edges=edges,
            features=features,
            classes=classes,
            homophily=homophily,
            is_available=is_available or (lambda root: _all_here(files, root)),
            read=read,
        )
        return registry.register(name)(dataset)

    return enter


def _all_here(files: Sequence[RemoteFile], root: Path | None) -> bool:
    try:
        return all(file.find(root) is not None for file in files)
    except DatasetError:  # a wrong file: `load` will say which
        return False
