"""Datasets by name: `load("cora")` returns a PyG `Data`, undirected, with a split attached.

The files come from the folder in `PURIGRAPH_DATA`, otherwise from the cache, otherwise they are downloaded; each is
used only if its SHA-256 is right (`sources`). `synthetic-citation` needs neither files nor a network.

A new dataset is one file: a function that reads it, registered with its statistics.

    import numpy as np

    from purigraph.datasets import RawGraph, RemoteFile, fetch, register

    FILE = RemoteFile("karate/karate.npz", sha256="...", urls=("https://...",))

    @register("karate", nodes=34, edges=78, features=34, classes=4, homophily=0.75, files=(FILE,))
    def read_karate(root):
        with np.load(fetch(FILE, root)) as arrays:
            return RawGraph(x=arrays["x"], y=arrays["y"], arcs=arrays["edges"])

In this package, import the file below; in another, name it as an entry point of the group
`purigraph.datasets` (`karate = "your_package.karate:read_karate"`).

Importing this package does not import PyTorch: `load` does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from purigraph.datasets import (  # noqa: F401 (importing them registers them)
    chameleon,
    coauthor,
    ogb,
    planetoid,
    sparse_graph_npz,
    synthetic,
)
from purigraph.datasets.assembly import assemble
from purigraph.datasets.base import Dataset, DatasetInfo, register, registry
from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.sources import RemoteFile, fetch
from purigraph.datasets.synthetic import citation_network

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "Dataset",
    "DatasetInfo",
    "RawGraph",
    "RemoteFile",
    "assemble",
    "citation_network",
    "fetch",
    "info",
    "load",
    "names",
    "register",
    "registry",
]

names = registry.names


def load(name: str, *, seed: int | None = 0, root: str | Path | None = None, sparse: bool = False) -> Data:
    """Load a dataset: a `Data` with `x`, `y`, `edge_index`, a split in three masks, and its `name`.

    `x` is float32 (N, F), `y` int64 (N,); `edge_index` (2, 2E) has both directions of every edge, sorted, and
    no self-loops. `train_mask`, `val_mask` and `test_mask` are boolean (N,): the dataset's own split if it
    has one (ogbn-arxiv, by time), one of its own if it has S of them (chameleon: number `seed` modulo 10),
    otherwise a split drawn with `seed` (`purigraph.graph.attach_split`).

    Args:
        name: One of `names()`; `_` and `-` are the same.
        seed: Seed of the split. None attaches no split, and keeps the dataset's own as they are: (N, S) masks.
            Default: 0.
        root: The cache folder. Default: the user's.
        sparse: Return `x` as a torch CSR tensor. Default: False.

    Raises:
        UnknownNameError: If there is no such dataset; the message lists the names.
        DatasetError: If files are missing and can't be downloaded, or are not what they should be.
    """
    from purigraph.graph.splits import attach_split, choose_split

    dataset = registry[name]
    data = assemble(dataset.read(_path(root)), sparse=sparse)
    data.name = dataset.name
    if seed is None:
        return data
    if "train_mask" not in data:
        return attach_split(data, seed=seed)
    num_splits = data.train_mask.shape[1] if data.train_mask.dim() == 2 else 1
    return choose_split(data, seed % num_splits)


def info(name: str, *, root: str | Path | None = None) -> DatasetInfo:
    """Return the statistics of a dataset, and whether it can be loaded right now without a download.

    Args:
        name: One of `names()`.
        root: The cache folder. Default: the user's.
    """
    return registry[name].info(_path(root))


def _path(root: str | Path | None) -> Path | None:
    return None if root is None else Path(root).expanduser()
