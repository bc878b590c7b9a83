"""The table of datasets: a name, the statistics of the paper, the files, and the function that reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch_geometric.data import Data

from purigraph.datasets.sources import RemoteFile
from purigraph.errors import DatasetError
from purigraph.registry import Registry, canonical


class Reader(Protocol):
    """Reads a dataset: `root` is the cache folder (None: the user's), `sparse` asks for CSR features.

    Returns a `Data` with `x`, `y`, `edge_index` (see `purigraph.datasets.assembly`), and with `train_mask`,
    `val_mask`, `test_mask` only where the dataset itself has fixed splits: (N,), or (N, S) for S of them.
    """

    def __call__(self, root: Path | None, *, sparse: bool) -> Data: ...  # noqa: D102


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a dataset without reading it.

    Attributes:
        name: Its name.
        nodes: The number of nodes.
        edges: The number of undirected edges, without self-loops.
        features: The number of features of a node.
        classes: The number of classes.
        homophily: The share of edges that join two nodes of one class.
        available: Whether it can be loaded right now without a download.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float
    available: bool


@dataclass(frozen=True)
class Dataset:
    """An entry of the table."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float
    is_available: Callable[[Path | None], bool]
    read: Reader

    def info(self, root: Path | None = None) -> DatasetInfo:
        """The statistics, and whether the dataset can be loaded without a download."""
        return DatasetInfo(
            name=self.name,
            nodes=self.nodes,
            edges=self.edges,
            features=self.features,
            classes=self.classes,
            homophily=self.homophily,
            available=self.is_available(root),
        )


catalogue: Registry[Dataset] = Registry("dataset", "purigraph.datasets")


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
        name: `_` and `-` are the same in it.
        nodes: The number of nodes.
        edges: The number of undirected edges.
        features: The number of features of a node.
        classes: The number of classes.
        homophily: The share of edges within a class.
        files: What the reader fetches; the dataset is available when all of it is on this machine.
        is_available: Says so instead, for a dataset that isn't a fixed list of files.
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
        return catalogue.register(name)(dataset)

    return enter


def _all_here(files: Sequence[RemoteFile], root: Path | None) -> bool:
    try:
        return all(file.find(root) is not None for file in files)
    except DatasetError:  # a wrong file: `load` will say which
        return False
