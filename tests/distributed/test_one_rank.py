"""One rank in this process: the same code as with many, held to the purifier of a single process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities, random_pair_graph
from purigraph import distributed
from purigraph.distributed import Group, RunFolder, purify_rank, read_purified, write_parts
from purigraph.errors import InputError
from purigraph.graph import PairGraph
from purigraph.graph.pair_codes import encode

SHAPE = {"hops": 3, "node_channels": 8, "edge_channels": 16}


def purified(purifier: pg.GPRGAE, graph: PairGraph, x: torch.Tensor, folder: Path, **options: Any) -> torch.Tensor:
    """Return the weights of one rank, in the order of the pairs."""
    write_parts(graph, folder / "graph", x=x, parts=3)
    RunFolder(folder / "out").begin("this run")
    purify_rank(folder / "graph", purifier, folder / "out", Group(), **options)
    pairs, weight = read_purified(folder / "out")
    assert torch.equal(pairs, graph.pairs)
    return weight


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("settings", [{}, {"self_loops": True}, {"encoder": "gcn"}], ids=["gpr", "loops", "gcn"])
def test_it_equals_the_purifier(settings: dict[str, Any], chunk: int, data: Data, tmp_path: Path) -> None:
    purifier = pg.GPRGAE(**SHAPE, **settings, tolerance=0.0).fit(data, epochs=5)
    graph = random_pair_graph(80, 200)
    x = torch.randn(80, data.num_features)
    weight = purified(purifier, graph, x, tmp_path, chunk=chunk)
    assert torch.allclose(weight, purifier.purify(x, graph).weight, atol=1e-5, rtol=0)


@pytest.mark.parametrize("changes", [{"alpha": 0.5}, {"max_steps": 1}, {"threshold": 0.5}, {"tolerance": 0.1}])
def test_the_settings_of_the_purifier_count(
    changes: dict[str, float], trained: pg.GPRGAE, data: Data, tmp_path: Path
) -> None:
    purifier = trained.with_settings(**changes)
    trace = purifier.trace(data)
    weight = purified(purifier, trace.graph.with_weight(torch.ones(trace.graph.num_pairs)), data.x, tmp_path)
    assert torch.allclose(weight, trace.graph.weight, atol=1e-5, rtol=0)
    result = RunFolder(tmp_path / "out").result()
    assert result is not None
    assert result["relative_change"] == pytest.approx(trace.relative_change, rel=1e-3)
    assert result["converged"] is trace.converged


def test_pytorch_gives_the_same_as_the_compiled_kernels(
    trained: pg.GPRGAE, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURIGRAPH_KERNELS", "torch")
    graph = random_pair_graph(80, 200)
    x = torch.randn(80, data.num_features)
    weight = purified(trained, graph, x, tmp_path, chunk=7)
    assert torch.allclose(weight, trained.purify(x, graph).weight, atol=1e-5, rtol=0)


def test_a_graph_without_edges_stays_one(trained: pg.GPRGAE, data: Data, tmp_path: Path) -> None:
    graph = PairGraph(4, torch.empty(2, 0, dtype=torch.int64))
    assert len(purified(trained, graph, torch.randn(4, data.num_features), tmp_path)) == 0


def test_names_of_reordered_nodes_come_back(trained: pg.GPRGAE, tmp_path: Path) -> None:
    data = communities(200, num_features=24)
    parts = write_parts(data, tmp_path / "graph", parts=2, reorder=True)
    assert parts.named
    RunFolder(tmp_path / "out").begin("this run")
    purify_rank(parts.folder, trained, tmp_path / "out", Group())
    pairs, weight = read_purified(tmp_path / "out")
    expected = trained.trace(data).graph
    place = expected.find(encode(pairs[0], pairs[1], 200))
    assert torch.equal(place.sort().values, torch.arange(expected.num_pairs))
    assert torch.allclose(weight, expected.weight[place], atol=1e-5, rtol=0)


def test_an_interrupted_run_goes_on_where_it_was(
    trained: pg.GPRGAE, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    purifier = trained.with_settings(tolerance=0.0, max_steps=4)
    write_parts(data, tmp_path / "graph")
    run = RunFolder(tmp_path / "out")
    run.begin("this run")
    finish_step, calls = RunFolder.finish_step, []

    def interrupt(self: RunFolder, step: Any) -> None:
        finish_step(self, step)
        calls.append(step)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "finish_step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        purify_rank(tmp_path / "graph", purifier, run.folder, Group())
    assert run.result() is None
    assert not run.begin("this run")
    purify_rank(tmp_path / "graph", purifier, run.folder, Group())
    assert len(calls) == 4
    assert run.begin("this run"), "the result is whole"
    weight = read_purified(run.folder)[1]
    assert torch.allclose(weight, purifier.trace(data).graph.weight, atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="another purification"):
        run.begin("another one")


def test_public_names_are_documented() -> None:
    for name in distributed.__all__:
        assert getattr(distributed, name).__doc__ or name == "engines", name
