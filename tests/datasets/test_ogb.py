"""ogbn-arxiv from a small folder, and from an archive, in the layout of the Open Graph Benchmark."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from purigraph import datasets
from purigraph.datasets import ogb
from purigraph.errors import DatasetError

NUM_NODES = 30
YEARS = np.tile([2010, 2017, 2018, 2019, 2020], 6)


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURIGRAPH_DATA", raising=False)


def table(path: Path, values: object, fmt: str = "%d") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        np.savetxt(file, np.asarray(values), delimiter=",", fmt=fmt)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`arxiv/` as the archive unpacks it; a duplicate, a reverse and a self-loop among its 8 arcs."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "unpacked" / "arxiv"
    arcs = [[0, 1], [1, 0], [0, 1], [2, 2], [5, 3], [29, 4], [7, 8], [8, 9]]
    table(folder / "raw" / "edge.csv.gz", arcs)
    table(folder / "raw" / "node-feat.csv.gz", rng.normal(size=(NUM_NODES, 4)), "%.6f")
    table(folder / "raw" / "node-label.csv.gz", np.arange(NUM_NODES) % 40)
    table(folder / "raw" / "node_year.csv.gz", YEARS)
    table(folder / "raw" / "num-node-list.csv.gz", [NUM_NODES])
    table(folder / "raw" / "num-edge-list.csv.gz", [len(arcs)])
    nodes = np.arange(NUM_NODES)
    table(folder / "split" / "time" / "train.csv.gz", nodes[:20])
    table(folder / "split" / "time" / "valid.csv.gz", nodes[20:25])
    table(folder / "split" / "time" / "test.csv.gz", nodes[25:])
    return folder


@pytest.mark.parametrize("place", ["ogbn_arxiv", "ogbn_arxiv/arxiv", "arxiv"])
@pytest.mark.parametrize("through", ["root", "variable"])
def test_folder_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, through: str
) -> None:
    base = tmp_path / "base"
    shutil.copytree(folder, base / place)
    if through == "variable":
        monkeypatch.setenv("PURIGRAPH_DATA", str(base))
    root = base if through == "root" else tmp_path / "cache"

    assert datasets.info("ogbn-arxiv", root=root).available
    data = datasets.load("ogbn_arxiv", root=root)

    assert data.num_nodes == NUM_NODES
    expected = {(0, 1), (3, 5), (4, 29), (7, 8), (8, 9)}
    assert set(map(tuple, data.edge_index.t().tolist())) == expected | {(j, i) for i, j in expected}
    assert data.x.shape == (NUM_NODES, 4)
    assert data.y.tolist() == list(range(NUM_NODES))
    assert [int(data[f"{role}_mask"].sum()) for role in ("train", "val", "test")] == [20, 5, 5]
    assert data.train_mask[:20].all()


def test_flat_folder_and_split_by_year(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "raw", tmp_path / "base" / "ogbn_arxiv")
    data = datasets.load("ogbn-arxiv", root=tmp_path / "base")
    assert data.train_mask.tolist() == (YEARS <= 2017).tolist()
    assert data.val_mask.tolist() == (YEARS == 2018).tolist()
    assert data.test_mask.tolist() == (YEARS >= 2019).tolist()


def test_archive_is_read_after_its_checksum(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "base" / "ogbn_arxiv" / "arxiv.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*.gz")):
            file.write(path, path.relative_to(folder.parent))
    monkeypatch.setenv("PURIGRAPH_DATA", str(tmp_path / "base"))
    assert not datasets.info("ogbn-arxiv", root=tmp_path).available
    with pytest.raises(DatasetError, match="is not the file that it should be"):
        datasets.load("ogbn-arxiv", root=tmp_path)

    right = ogb.RemoteFile(ogb.ARCHIVE.path, hashlib.sha256(archive.read_bytes()).hexdigest())
    monkeypatch.setattr(ogb, "ARCHIVE", right)
    assert datasets.info("ogbn-arxiv", root=tmp_path).available
    assert datasets.load("ogbn-arxiv", root=tmp_path, sparse=True).num_nodes == NUM_NODES


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(folder, base / "ogbn_arxiv")
    for name in ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node_year.csv.gz", "split/time/test.csv.gz"):
        (base / "ogbn_arxiv" / name).unlink()
    assert not datasets.info("ogbn-arxiv", root=base).available
    with pytest.raises(DatasetError, match=r"but not edge\.csv\.gz, node-feat\.csv\.gz, node_year\.csv\.gz") as error:
        datasets.load("ogbn-arxiv", root=base)
    assert "arxiv.zip" in str(error.value)
    assert ogb.ARCHIVE.sha256 in str(error.value)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("raw/edge.csv.gz", [[0, 1]] * 7, "has 7 lines instead of 8"),
        ("raw/edge.csv.gz", [[0, 30]] * 8, "two node numbers below 30"),
        ("raw/node-label.csv.gz", [[0]], "has 1 lines instead of 30"),
        ("split/time/valid.csv.gz", [30], "must hold node numbers below 30"),
    ],
)
def test_foreign_content_is_named(folder: Path, tmp_path: Path, name: str, values: object, message: str) -> None:
    shutil.copytree(folder, tmp_path / "base" / "arxiv")
    table(tmp_path / "base" / "arxiv" / name, values)
    with pytest.raises(DatasetError, match=message):
        datasets.load("ogbn-arxiv", root=tmp_path / "base")


def test_damaged_file_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "base" / "arxiv")
    path = tmp_path / "base" / "arxiv" / "raw" / "node-feat.csv.gz"
    for content in (path.read_bytes()[:-20], b"not gzip", gzip.compress(b"1,two\n")):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"node-feat\.csv\.gz is damaged"):
            datasets.load("ogbn-arxiv", root=tmp_path / "base")
