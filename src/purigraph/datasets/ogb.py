"""ogbn-arxiv in the files of the Open Graph Benchmark: computer-science papers, split by their year.

W. Hu et al.: Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020. The files are read
from a folder `ogbn_arxiv` (as they are unpacked: `raw/*.csv.gz` and `split/time/*.csv.gz`; or all in one
folder), or straight from the archive `ogbn_arxiv/arxiv.zip`, which is downloaded if there is neither.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purigraph.datasets.base import register
from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.sources import RemoteFile, cache_folder, data_folder, fetch
from purigraph.errors import DatasetError

FOLDER = "ogbn_arxiv"
ARCHIVE = RemoteFile(
    f"{FOLDER}/arxiv.zip",
    "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276",
    (
        "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip",
        "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip",
    ),
)
EDGES, FEATURES, LABELS = "edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"
NUM_NODES, NUM_EDGES = "num-node-list.csv.gz", "num-edge-list.csv.gz"
REQUIRED = (EDGES, FEATURES, LABELS, NUM_NODES, NUM_EDGES)
SPLITS = {"train_mask": "train.csv.gz", "val_mask": "valid.csv.gz", "test_mask": "test.csv.gz"}
YEARS, VALIDATION_YEAR = "node_year.csv.gz", 2018

# For every file's name, a function that returns its bytes, from a folder or from the archive.
Contents = dict[str, Callable[[], bytes]]


def _is_available(root: Path | None) -> bool:
    try:
        return _complete_folder(root) is not None or ARCHIVE.find(root) is not None
    except DatasetError:  # a wrong archive: `load` will say so
        return False


@register(
    "ogbn-arxiv",
    nodes=169343,
    edges=1157799,
    features=128,
    classes=40,
    homophily=0.65,
    is_available=_is_available,
)
def read_ogbn_arxiv(root: Path | None) -> RawGraph:
    """Read the graph with its split by time: until 2017, 2018, from 2019 on."""
    contents = _complete_folder(root)
    if contents is not None:
        return _read(contents)
    if ARCHIVE.find(root) is None:
        _refuse_incomplete_folder(root)
    with zipfile.ZipFile(fetch(ARCHIVE, root)) as archive:
        return _read(_in_archive(archive))


def _folders(root: Path | None) -> list[Path]:
    bases = [base for base in (data_folder(), cache_folder(root)) if base is not None]
    # The archive unpacks to a folder `arxiv`: into ours, or beside it.
    return [base / inner for base in bases for inner in (FOLDER, f"{FOLDER}/arxiv", "arxiv")]


def _in_folder(folder: Path) -> Contents:
    places = (folder, folder / "raw", folder / "split" / "time")
    names = (*REQUIRED, YEARS, *SPLITS.values())
    paths = {name: place / name for place in places for name in names if (place / name).is_file()}
    return {name: path.read_bytes for name, path in paths.items()}


def _in_archive(archive: zipfile.ZipFile) -> Contents:
    return {member.rpartition("/")[2]: partial(archive.read, member) for member in archive.namelist()}


def _missing(contents: Contents) -> list[str]:
    missing = [name for name in REQUIRED if name not in contents]
    if YEARS not in contents and any(name not in contents for name in SPLITS.values()):
        missing.append(f"{YEARS} (or {', '.join(SPLITS.values())} in split/time)")
    return missing


def _complete_folder(root: Path | None) -> Contents | None:
    for folder in _folders(root):
        contents = _in_folder(folder)
        if not _missing(contents):
            return contents
    return None


def _refuse_incomplete_folder(root: Path | None) -> None:
    """Raise an error that says what a started folder lacks, instead of downloading past it."""
    for folder in _folders(root):
        contents = _in_folder(folder)
        if contents:
            raise DatasetError(
                f"ogbn-arxiv is incomplete: {folder} has {', '.join(sorted(contents))}, but not "
                f"{', '.join(_missing(contents))}. Add what is missing, put the whole archive there "
                f"({ARCHIVE.urls[0]}, SHA-256 {ARCHIVE.sha256}), or remove the folder to have it downloaded."
            )


def _read(contents: Contents) -> RawGraph:
    num_nodes = int(_table(contents, NUM_NODES, np.int64)[0, 0])
    arcs = _table(contents, EDGES, np.int64, rows=int(_table(contents, NUM_EDGES, np.int64)[0, 0]))
    x = _table(contents, FEATURES, np.float32, rows=num_nodes)
    # OGB writes labels as whole numbers with or without a decimal point.
    y = _table(contents, LABELS, np.float64, rows=num_nodes)[:, 0]
    if arcs.shape[1] != 2 or (arcs.size and not 0 <= arcs.min() <= arcs.max() < num_nodes):
        raise DatasetError(f"ogbn-arxiv: {EDGES} must hold two node numbers below {num_nodes} per line.")
    return RawGraph(x=x, y=y, arcs=arcs.T, masks=_masks(contents, num_nodes))


def _masks(contents: Contents, num_nodes: int) -> dict[str, NDArray[np.bool_]]:
    if all(name in contents for name in SPLITS.values()):
        masks = {}
        for key, name in SPLITS.items():
            masks[key] = np.zeros(num_nodes, dtype=bool)
            nodes = _table(contents, name, np.int64)[:, 0]
            if nodes.size and not 0 <= nodes.min() <= nodes.max() < num_nodes:
                raise DatasetError(f"ogbn-arxiv: {name} must hold node numbers below {num_nodes}.")
            masks[key][nodes] = True
        return masks
    year = _table(contents, YEARS, np.int64, rows=num_nodes)[:, 0]
    return {
        "train_mask": year < VALIDATION_YEAR,
        "val_mask": year == VALIDATION_YEAR,
        "test_mask": year > VALIDATION_YEAR,
    }


def _table(contents: Contents, name: str, dtype: type, rows: int | None = None) -> NDArray[Any]:
    """Return the numbers of a gzipped CSV file without a header, (rows, columns)."""
    try:
        with gzip.open(io.BytesIO(contents[name]()), "rt", encoding="ascii") as text:
            table: NDArray[Any] = np.loadtxt(text, delimiter=",", dtype=dtype, ndmin=2)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DatasetError(f"ogbn-arxiv: {name} is damaged or not a gzipped table of numbers ({error}).") from error
    if rows is not None and len(table) != rows:
        raise DatasetError(f"ogbn-arxiv: {name} has {len(table)} lines instead of {rows}: it is cut short or foreign.")
    return table
