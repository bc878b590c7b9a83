"""`purigraph purify`: what comes out is the file that went in, with weights or without some edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import purigraph as pg
from cli.command_runs import invoke, refused
from helpers import communities
from purigraph import purifiers
from purigraph.graph import PairGraph
from purigraph.graph.npz import load_npz


@pytest.fixture
def model(trained: pg.GPRGAE, tmp_path: Path) -> Path:
    trained.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Unsorted edges, each once and in either direction, with self-loops; arrays of all sorts."""
    data, rng = communities(), np.random.default_rng(0)
    edges = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].numpy()
    edges = np.concatenate([edges, [[3, 90], [3, 90]]], axis=1)[:, rng.permutation(edges.shape[1] + 2)]
    swap = rng.random(edges.shape[1]) < 0.5
    edges[:, swap] = edges[::-1, swap]
    rows, columns = (data.x.numpy() * (data.x.numpy() > 0)).nonzero()
    path = tmp_path / "graph.npz"
    np.savez(
        path,
        node_names=np.array([f"node {k}" for k in range(120)]),
        edges=edges.astype(np.int32),
        x_data=data.x.numpy()[rows, columns].astype(np.float16),
        x_indices=columns.astype(np.int32),
        x_indptr=np.searchsorted(rows, np.arange(121)).astype(np.int32),
        x_shape=np.array([120, 24], dtype=np.int16),
        edge_weight=rng.uniform(0.5, 1, edges.shape[1]).astype(np.float16),
        edge_time=np.asfortranarray(rng.integers(0, 9, (edges.shape[1], 3)).astype(np.uint8)),
        edge_kinds=np.array(["cites", "extends"]),
        y=data.y.numpy().astype(np.int8),
        version=np.array(7),
    )
    return path


def arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def assert_same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert found.dtype == expected.dtype
    assert found.flags.f_contiguous == expected.flags.f_contiguous
    assert np.array_equal(found, expected)


def purified_weights(model: Path, file: Path) -> dict[frozenset[int], float]:
    """What the purifier itself says, by the two ends of an edge; a self-loop keeps its weight."""
    clean = purifiers.load(model)(load_npz(file))
    return {
        frozenset(ends): weight for ends, weight in zip(clean.edge_index.t().tolist(), clean.edge_weight, strict=True)
    }


def test_a_file_comes_out_as_it_went_in_but_for_the_weights(file: Path, model: Path, tmp_path: Path) -> None:
    invoke("purify", file, "--purifier", model, "-o", tmp_path / "clean.npz")

    before, after = arrays(file), arrays(tmp_path / "clean.npz")
    assert list(after) == list(before)
    for key in before.keys() - {"edge_weight"}:
        assert_same(after[key], before[key])
    expected = purified_weights(model, file)
    by_column = [float(expected[frozenset(ends)]) for ends in before["edges"].T.tolist()]
    assert_same(after["edge_weight"], np.array(by_column).astype(np.float16))
    assert not np.array_equal(after["edge_weight"], before["edge_weight"])


def test_weights_are_added_where_there_are_none(file: Path, model: Path, tmp_path: Path) -> None:
    before = arrays(file)
    del before["edge_weight"]
    np.savez_compressed(file, **before)
    invoke("purify", file, "-m", model, "-o", tmp_path / "clean.npz")
    after = arrays(tmp_path / "clean.npz")
    assert list(after) == [*before, "edge_weight"]
    expected = purified_weights(model, file)
    by_column = [float(expected[frozenset(ends)]) for ends in before["edges"].T.tolist()]
    assert_same(after["edge_weight"], np.array(by_column, dtype=np.float32))


def test_a_threshold_removes_edges_and_what_belongs_to_them(file: Path, model: Path, tmp_path: Path) -> None:
    before, expected = arrays(file), purified_weights(model, file)
    columns = before["edges"].T.tolist()
    threshold = float(np.median([float(weight) for weight in expected.values()]))
    keep = np.array([i == j or bool(expected[frozenset((i, j))] >= threshold) for i, j in columns])

    text = invoke("purify", file, "-m", model, "-o", tmp_path / "cut.npz", "--threshold", threshold, "--json")

    after = arrays(tmp_path / "cut.npz")
    assert list(after) == list(before)
    for key in ("edge_weight", "edge_time"):
        assert np.array_equal(after[key], before[key][keep])
        assert after[key].dtype == before[key].dtype
    assert_same(after["edges"], before["edges"][:, keep])
    for key in before.keys() - {"edges", "edge_weight", "edge_time"}:
        assert_same(after[key], before[key])
    summary = json.loads(text)
    assert summary["removed"] == int((~keep).sum()) > 0
    assert summary["threshold"] == threshold
    assert summary["edges"] == len(columns) - 2
    assert summary["added"] == 0


def test_the_summary_says_that_nothing_was_removed(file: Path, model: Path, tmp_path: Path) -> None:
    summary = json.loads(invoke("purify", file, "-m", model, "-o", tmp_path / "o.npz", "--json"))
    weights = {ends: float(weight) for ends, weight in purified_weights(model, file).items() if len(ends) == 2}
    assert summary["removed"] == 0
    assert summary["threshold"] is None
    assert summary["nodes"] == 120
    assert summary["edges"] == len(weights)
    assert summary["mean_weight"] == pytest.approx(np.mean(list(weights.values())))
    told = purifiers.load(model).trace(load_npz(file))
    assert summary["steps"] == len(told.relative_change)
    assert summary["converged"] == told.converged


def test_settings_of_the_purification_can_be_changed(file: Path, model: Path, tmp_path: Path) -> None:
    for steps in (1, 3):
        options = ["--set", f"max_steps={steps}", "--set", "tolerance=0", "--json"]
        assert json.loads(invoke("purify", file, "-m", model, "-o", tmp_path / "o.npz", *options))["steps"] == steps
    refused("trained parameters", "purify", file, "-m", model, "-o", tmp_path / "p.npz", "--set", "hops=2")
    refused("no setting 'steps'", "purify", file, "-m", model, "-o", tmp_path / "p.npz", "--set", "steps=2")
    assert not (tmp_path / "p.npz").exists()


def test_a_dataset_is_written_as_a_graph_file(tmp_path: Path) -> None:
    data = pg.datasets.load("synthetic-citation")
    purifier = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(data, epochs=1)
    purifier.save_pretrained(tmp_path / "m")
    invoke("purify", "synthetic-citation", "-m", tmp_path / "m", "-o", tmp_path / "o.npz")
    clean, expected = load_npz(tmp_path / "o.npz"), purifier(data)
    assert torch.equal(clean.edge_index, data.edge_index)
    assert torch.equal(clean.edge_weight, expected.edge_weight)
    assert torch.equal(clean.test_mask, data.test_mask)
    middle = float(expected.edge_weight.median())
    invoke("purify", "synthetic-citation", "-m", tmp_path / "m", "-o", tmp_path / "o.npz", "--threshold", middle)
    cut = load_npz(tmp_path / "o.npz")
    assert "edge_weight" not in cut
    assert torch.equal(cut.edge_index, data.edge_index[:, expected.edge_weight >= middle])


class Rewire(purifiers.Purifier):
    """Adds the pair (0, 1), and halves all other weights."""

    adds_edges = True  # type: ignore[assignment]

    def purify(self, x: torch.Tensor, graph: PairGraph) -> PairGraph:
        pairs = torch.cat([torch.tensor([[0], [1]]), graph.pairs], dim=1)  # the first of all pairs: still sorted
        return PairGraph(graph.num_nodes, pairs, torch.cat([torch.ones(1), graph.weight / 2]))


class Halve(purifiers.Purifier):
    """Halves all weights."""

    def purify(self, x: torch.Tensor, graph: PairGraph) -> PairGraph:
        return graph.with_weight(graph.weight / 2)


class Untrained(Halve):
    is_fitted = False  # type: ignore[assignment]


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Path]:
    """Saved purifiers of other kinds."""
    monkeypatch.setattr(purifiers.registry, "_items", dict(purifiers.registry._items))
    for kind in (Rewire, Halve, Untrained):
        purifiers.register(kind.__name__)(kind)
        kind().save_pretrained(tmp_path / kind.__name__)
    return {kind.__name__: tmp_path / kind.__name__ for kind in (Rewire, Halve, Untrained)}


def test_any_purifier_is_taken(file: Path, others: dict[str, Path], tmp_path: Path) -> None:
    text = invoke("purify", file, "-m", others["Halve"], "-o", tmp_path / "o.npz")
    assert "steps" not in text
    before, after = arrays(file), arrays(tmp_path / "o.npz")
    loops = before["edges"][0] == before["edges"][1]
    assert np.array_equal(after["edge_weight"], np.where(loops, before["edge_weight"], before["edge_weight"] / 2))
    summary = json.loads(invoke("purify", file, "-m", others["Halve"], "-o", tmp_path / "o.npz", "--json"))
    assert summary["steps"] is summary["converged"] is None
    refused("can't be changed", "purify", file, "-m", others["Halve"], "-o", tmp_path / "o.npz", "--set", "a=1")
    refused("is not trained", "purify", file, "-m", others["Untrained"], "-o", tmp_path / "o.npz")


def test_a_purifier_that_adds_edges_writes_its_own_list(file: Path, others: dict[str, Path], tmp_path: Path) -> None:
    before = arrays(file)
    assert [0, 1] not in np.sort(before["edges"], axis=0).T.tolist()
    text = invoke("purify", file, "-m", others["Rewire"], "-o", tmp_path / "o.npz", "--json")
    after = arrays(tmp_path / "o.npz")
    assert (json.loads(text)["added"], json.loads(text)["removed"]) == (1, 0)
    assert list(after) == [key for key in before if key != "edge_time"]
    assert after["edges"].dtype == np.int32
    weights = dict(zip(map(tuple, np.sort(after["edges"], axis=0).T.tolist()), after["edge_weight"], strict=True))
    expected = dict(zip(map(tuple, np.sort(before["edges"], axis=0).T.tolist()), before["edge_weight"], strict=True))
    assert weights == {**{(i, j): w if i == j else w / 2 for (i, j), w in expected.items()}, (0, 1): 1.0}

    invoke("purify", file, "-m", others["Rewire"], "-o", tmp_path / "cut.npz", "--threshold", 0.6)
    cut = arrays(tmp_path / "cut.npz")
    assert sorted(map(tuple, cut["edges"].T.tolist())) == [(0, 1), (3, 3), (90, 90)]
    assert "edge_weight" not in cut
