"""Datasets by name: statistics against the paper's, splits, how a new one is registered, and what isn't imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

from helpers import requires_data
from purigraph import datasets
from purigraph.datasets import coauthor, planetoid
from purigraph.errors import DatasetError, UnknownNameError
from purigraph.graph.border import read_data
from purigraph.graph.splits import MASKS, inductive_split

# The paper's table "Datasets": nodes, undirected edges, features, classes, homophily.
PAPER = {
    "cora": (2708, 5278, 1433, 7, 0.80),
    "cora-ml": (2810, 7981, 2879, 7, 0.78),
    "citeseer": (2110, 3668, 3703, 6, 0.73),
    "chameleon": (890, 8854, 2325, 5, 0.23),
    "pubmed": (19717, 44324, 500, 3, 0.80),
    "ogbn-arxiv": (169343, 1157799, 128, 40, 0.65),
}


def homophily(data: Data) -> float:
    return float((data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).double().mean())


def test_names() -> None:
    assert set(datasets.names()) >= {*PAPER, "coauthor-physics", "synthetic-citation"}
    with pytest.raises(UnknownNameError, match="Did you mean 'cora'"):
        datasets.load("corra")


@pytest.mark.parametrize("name", PAPER)
def test_declared_statistics_are_the_papers(name: str) -> None:
    info = datasets.info(name)
    assert (info.nodes, info.edges, info.features, info.classes, info.homophily) == PAPER[name]


@requires_data
@pytest.mark.parametrize("name", [*PAPER, "coauthor-physics", "synthetic-citation"])
def test_loaded_graph_is_what_the_table_says(name: str) -> None:
    info = datasets.info(name)
    if not info.available:
        pytest.skip(f"the files of {name} are not in PURIGRAPH_DATA")
    sparse = name == "coauthor-physics"

    data = datasets.load(name.replace("-", "_"), sparse=sparse)

    assert data.num_nodes == info.nodes
    assert tuple(data.x.shape) == (info.nodes, info.features)
    assert data.x.dtype == torch.float32
    assert (data.x.layout == torch.sparse_csr) == sparse
    assert data.y.dtype == torch.int64
    assert data.y.unique().tolist() == list(range(info.classes))
    assert homophily(data) == pytest.approx(info.homophily, abs=0.02)
    graph, _ = read_data(data)
    assert graph.num_pairs == info.edges
    assert torch.equal(graph.edge_index()[0], data.edge_index)
    assert data.name == info.name
    assert all(data[mask].dtype == torch.bool and data[mask].any() for mask in MASKS)
    inductive_split(data)


@requires_data
def test_split_is_the_papers() -> None:
    data = datasets.load("cora", seed=3)
    assert [int(data[mask].sum()) for mask in MASKS] == [140, 140, 273]
    assert not torch.equal(data.train_mask, datasets.load("cora", seed=4).train_mask)
    assert "train_mask" not in datasets.load("cora", seed=None)


@requires_data
def test_chameleon_has_ten_splits() -> None:
    whole = datasets.load("chameleon", seed=None)
    assert tuple(whole.train_mask.shape) == (890, 10)
    for seed in (0, 7, 17):
        chosen = datasets.load("chameleon", seed=seed)
        assert all(torch.equal(chosen[mask], whole[mask][:, seed % 10]) for mask in MASKS)
        by_number = inductive_split(whole, split=seed % 10)
        assert torch.equal(by_number.train.n_id, inductive_split(chosen).train.n_id)


@requires_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "chameleon"])
def test_sparse_features_are_the_dense_ones(name: str) -> None:
    assert torch.equal(datasets.load(name, sparse=True).x.to_dense(), datasets.load(name).x)


@requires_data
def test_known_rows_of_cora() -> None:
    """Class sizes and words as published: the rows of features and labels belong together."""
    data = datasets.load("cora")
    assert data.y.bincount().tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert int(data.x.sum()) == 49216
    assert set(data.x.unique().tolist()) == {0.0, 1.0}


def test_missing_files_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURIGRAPH_DATA", raising=False)
    assert not datasets.info("coauthor-physics", root=tmp_path).available
    with pytest.raises(DatasetError, match="is a pickle, which purigraph does not open"):
        datasets.load("coauthor-physics", root=tmp_path)


def test_a_wrong_file_makes_a_dataset_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURIGRAPH_DATA", str(tmp_path))
    for file in (coauthor.FILE, *planetoid.CORA.values()):
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(b"something else")
    assert not datasets.info("cora").available
    with pytest.raises(DatasetError, match="is not the file that it should be"):
        datasets.load("cora")


def test_a_new_dataset_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.registry, "_items", dict(datasets.registry._items))
    roots = []

    @datasets.register("two_stars", nodes=180, edges=178, features=2, classes=2, homophily=1.0)
    def read_two_stars(root: Path | None) -> datasets.RawGraph:
        roots.append(root)
        y = np.repeat([0, 1], 90)
        arcs = np.stack([np.arange(180), np.where(y == 0, 0, 90)])
        return datasets.RawGraph(x=np.eye(2)[y], y=y, arcs=arcs)

    assert "two-stars" in datasets.names()
    assert datasets.info("two-stars").available
    assert isinstance(read_two_stars, datasets.Dataset)  # what an entry point of another package names
    data = datasets.load("Two-Stars", sparse=True, root="somewhere")
    assert roots == [Path("somewhere")]
    assert data.num_edges == 2 * 178  # the two self-loops are gone
    assert data.x.layout == torch.sparse_csr
    assert torch.equal(data.x.to_dense(), torch.eye(2)[data.y])
    assert data.name == "two-stars"
    assert int(data.test_mask.sum()) == 18


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.coo_array])
def test_arrays_of_any_kind_are_assembled(kind: Callable[[Any], Any]) -> None:
    x = np.array([[0, 3], [0, 0], [1, 0]], dtype=np.int16)
    masks = {"train_mask": np.array([True, False, False])}
    arcs = np.array([[2, 0, 0, 1, 2], [0, 2, 2, 1, 1]], dtype=np.int32)
    raw = datasets.RawGraph(x=kind(x), y=np.array([1, 0, 1], dtype=np.uint8), arcs=arcs, masks=masks)
    for wanted in (False, True):
        data = datasets.assemble(raw, sparse=wanted)
        assert data.x.dtype == torch.float32
        assert (data.x.layout == torch.sparse_csr) == wanted
        assert torch.equal(data.x.to_dense() if wanted else data.x, torch.tensor([[0.0, 3.0], [0.0, 0.0], [1.0, 0.0]]))
        assert data.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
        assert data.y.tolist() == [1, 0, 1]
        assert data.y.dtype == torch.int64
        assert data.train_mask.tolist() == [True, False, False]
    data.train_mask[1] = True
    assert masks["train_mask"].tolist() == [True, False, False]


def in_a_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


SLOW_IMPORTS = "sorted({'torch', 'torch_geometric'} & sys.modules.keys())"


def test_importing_the_package_does_not_import_pytorch() -> None:
    code = f"import sys, purigraph.datasets, purigraph.cli.datasets; print({SLOW_IMPORTS})"
    assert in_a_new_process(code).strip() == "[]"


def test_listing_the_datasets_does_not_import_pytorch() -> None:
    code = (
        "import sys, atexit; from purigraph.cli import main; sys.argv[1:] = ['datasets', '--json']; "
        f"atexit.register(lambda: print({SLOW_IMPORTS}, file=sys.stdout)); main()"
    )
    listing, end, imported = in_a_new_process(code).rpartition("]\n[")
    assert f"[{imported}".strip() == "[]"
    found = {entry["name"]: entry for entry in json.loads(f"{listing}{end[0]}")}
    assert found.keys() >= {*PAPER, "coauthor-physics"}
    assert list(found) == sorted(found)
    assert (found["cora"]["nodes"], found["cora"]["edges"], found["cora"]["homophily"]) == (2708, 5278, 0.8)
    assert found["synthetic-citation"]["available"] is True
