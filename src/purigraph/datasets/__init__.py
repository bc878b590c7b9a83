"""Datasets by name: `load("cora")` gives a PyG `Data`, undirected, with a split attached.

The files come from the folder in `PURIGRAPH_DATA`, else from the cache, else they are downloaded; each is
used only if its SHA-256 is right (`sources`). `synthetic-citation` needs neither file nor network.

A new dataset is one file: a function that reads it, entered with its statistics.

    from purigraph.datasets import RemoteFile, assemble, fetch, register

    FILE = RemoteFile("karate/karate.npz", sha256="...", urls=("https://...",))

    @register("karate", nodes=34, edges=78, features=34, classes=4, homophily=0.75, files=(FILE,))
    def read_karate(root, *, sparse):
        with np.load(fetch(FILE, root)) as arrays:
            return assemble(arrays["x"], arrays["y"], arrays["edges"], sparse=sparse)

In this package, import the file below; in another, name it as an entry point of the group
`purigraph.datasets` (`karate = "your_package.karate:read_karate"`).
"""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from purigraph.datasets import (  # noqa: F401 (importing them enters them)
    chameleon,
    coauthor,
    ogb,
    planetoid,
    sparse_graph_npz,
    synthetic,
)
from purigraph.datasets.assembly import assemble
from purigraph.datasets.catalogue import Dataset, DatasetInfo, catalogue, register
from purigraph.datasets.sources import RemoteFile, fetch
from purigraph.datasets.synthetic import citation_network
from purigraph.graph.splits import attach_split, choose_split

__all__ = [
    "Dataset",
    "DatasetInfo",
    "RemoteFile",
    "assemble",
    "catalogue",
    "citation_network",
    "fetch",
    "info",
    "load",
    "names",
    "register",
]


def load(name: str, *, seed: int | None = 0, root: str | Path | None = None, sparse: bool = False) -> Data:
    """Load a dataset: a `Data` with `x`, `y`, `edge_index`, a split in three masks, and its `name`.

    `x` is float32 (N, F), `y` int64 (N,); `edge_index` (2, 2E) has both directions of every edge, sorted, and
    no self-loops. `train_mask`, `val_mask` and `test_mask` are boolean (N,): the dataset's own split where it
    has one (ogbn-arxiv, by time), one of its own where it has S of them (chameleon: number `seed` modulo 10),
    and else a split drawn with `seed` (`purigraph.graph.attach_split`).

    Args:
        name: One of `names()`; `_` and `-` are the same.
        seed: Of the split. None attaches no split, and leaves the dataset's own as they are: (N, S) masks.
        root: The folder of the cache; the user's cache folder when left out.
        sparse: Give `x` as a torch CSR tensor.

    Raises:
        UnknownNameError: Listing the names.
        DatasetError: When files can't be had or aren't what they should be.
    """
    dataset = catalogue[name]
    data = dataset.read(_path(root), sparse=sparse)
    data.name = dataset.name
    if seed is None:
        return data
    if "train_mask" not in data:
        return attach_split(data, seed=seed)
    num_splits = data.train_mask.shape[1] if data.train_mask.dim() == 2 else 1
    return choose_split(data, seed % num_splits)


def names() -> list[str]:
    """The names that `load` takes."""
    return catalogue.names()


def info(name: str, *, root: str | Path | None = None) -> DatasetInfo:
    """The statistics of a dataset, and whether it can be loaded right now without a download."""
    return catalogue[name].info(_path(root))


def _path(root: str | Path | None) -> Path | None:
    return None if root is None else Path(root).expanduser()
