"""Many ranks: their result is that of one process, whatever the graph and however it is split."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import purigraph as pg
from distributed.thread_group import on_ranks
from helpers import pair_graphs, random_pair_graph
from purigraph.distributed import (
    GraphParts,
    Group,
    PartsWriter,
    RunFolder,
    generate_parts,
    purify_rank,
    read_purified,
    step_cost,
    write_parts,
)
from purigraph.distributed.loading import load_rows
from purigraph.distributed.partition import balanced_ranges, block_size, count_entries
from purigraph.distributed.run_folder import FinishedStep
from purigraph.errors import GraphError, RankLostError
from purigraph.graph import PairGraph


def whole(parts: GraphParts, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The pairs that all ranks together hold by their lower ends, and their weights."""

    def pairs(group: Group) -> tuple[torch.Tensor, torch.Tensor]:
        rows = load_rows(parts, group)
        block, upper = rows.block, rows.block.upper()
        assert rows.upper[group.rank] == len(upper)
        own = torch.arange(block.start, block.start + block.num_own)
        mirrored = block.mirrored(rows.weight, group)
        assert torch.equal(mirrored, rows.weight), "both ends of an edge have its weight"
        return torch.stack([block.rows(own)[upper], block.columns(own)[upper]]), rows.weight[upper]

    found = on_ranks(size, pairs)
    return torch.cat([one[0] for one in found], dim=1), torch.cat([one[1] for one in found])


@given(graph=pair_graphs(), size=st.integers(1, 5), parts=st.integers(1, 3))
def test_every_edge_arrives(graph: PairGraph, size: int, parts: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("graph")
    written = write_parts(graph, folder, x=torch.zeros(graph.num_nodes, 1), parts=parts)
    pairs, weight = whole(written, size)
    assert torch.equal(pairs, graph.pairs)
    assert torch.equal(weight, graph.weight)


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_the_result_is_that_of_one_process(size: int, trained: pg.GPRGAE, tmp_path: Path) -> None:
    purifier = trained.with_settings(tolerance=0.0)
    graph, x = random_pair_graph(90, 300), torch.randn(90, 24)
    parts = write_parts(graph, tmp_path / "graph", x=x, parts=3)
    RunFolder(tmp_path / "out").begin("run")
    reports = on_ranks(size, lambda group: purify_rank(parts.folder, purifier, tmp_path / "out", group, chunk=5))
    assert all(one == reports[0] for one in reports), "all ranks know the reports of all"
    pairs, weight = read_purified(tmp_path / "out")
    assert torch.equal(pairs, graph.pairs)
    assert torch.allclose(weight, purifier.purify(x, graph).weight, atol=1e-5, rtol=0)
    assert not (tmp_path / "out" / "steps").exists()
    for report in reports[0]:
        assert report.step_bytes == step_cost(purifier, report, chunk=5).sent_bytes


@pytest.mark.parametrize("encoder", ["gpr", "gcn"])
def test_bytes_are_those_of_the_formula(encoder: str, data: Data, tmp_path: Path) -> None:
    purifier = pg.GPRGAE(hops=2, node_channels=6, edge_channels=10, encoder=encoder, max_steps=2).fit(data, epochs=1)
    parts = write_parts(data, tmp_path / "graph")
    RunFolder(tmp_path / "out").begin("run")
    for report in on_ranks(3, lambda group: purify_rank(parts.folder, purifier, tmp_path / "out", group, chunk=4))[0]:
        assert report.sent_rows > 0
        assert report.step_bytes == step_cost(purifier, report, chunk=4).sent_bytes


def test_another_number_of_ranks_may_go_on(
    trained: pg.GPRGAE, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    purifier = trained.with_settings(tolerance=0.0, max_steps=4)
    parts = write_parts(data, tmp_path / "graph", parts=2)
    run = RunFolder(tmp_path / "out")
    run.begin("run")
    finish_step = RunFolder.finish_step

    def fail_after_two(self: RunFolder, step: FinishedStep) -> None:
        finish_step(self, step)
        if len(self.steps()) == 2:
            raise RankLostError("the power is gone")

    monkeypatch.setattr(RunFolder, "finish_step", fail_after_two)
    with pytest.raises(RankLostError, match="power"):
        on_ranks(3, lambda group: purify_rank(parts.folder, purifier, run.folder, group))
    monkeypatch.undo()
    assert len(run.steps()) == 2
    on_ranks(2, lambda group: purify_rank(parts.folder, purifier, run.folder, group))
    assert len(run.steps()) == 4
    expected = purifier.trace(data).graph
    assert torch.allclose(read_purified(run.folder)[1], expected.weight, atol=1e-5, rtol=0)


def test_edges_in_both_directions_are_the_same_graph(tmp_path: Path) -> None:
    graph = random_pair_graph(40, 100)
    (i, j), weight = graph.pairs, graph.weight
    with PartsWriter(tmp_path, 2, weighted=True) as writer:
        writer.add_edges(torch.cat([i, j]), torch.cat([j, i]), torch.cat([weight, weight]))
        writer.add_features(torch.zeros(40, 2))
    pairs, found = whole(GraphParts.open(tmp_path), 3)
    assert torch.equal(pairs, graph.pairs)
    assert torch.equal(found, weight)


@pytest.mark.parametrize(
    ("edges", "weights", "message"),
    [
        ([(0, 1), (2, 3), (0, 1)], None, r"edge \[0, 1\] is listed more than once"),
        ([(0, 1), (1, 0), (2, 3)], None, r"edge \[2, 3\] has no reverse edge|some edges are listed in both"),
        ([(0, 1), (1, 0)], [0.5, 0.25], r"edge \[0, 1\] has two different weights"),
        ([(0, 1), (2, 2)], None, r"row 1: edge \[2, 2\] is a self-loop"),
        ([(0, 1), (2, 9)], None, r"row 1: edge \[2, 9\] does not fit 5 nodes"),
        ([(0, 1), (2, 3)], [0.5, -1.0], r"row 1: the weight -1.0 is not a number from 0"),
        ([(0, 1), (2, 3)], [0.5, float("nan")], r"row 1: the weight nan"),
    ],
)
@pytest.mark.parametrize("size", [1, 3])
def test_malformed_edges_are_named(
    edges: list[tuple[int, int]], weights: list[float] | None, message: str, size: int, tmp_path: Path
) -> None:
    source, target = torch.tensor(edges).t()
    with PartsWriter(tmp_path, 1, weighted=weights is not None) as writer:
        writer.add_edges(source, target, None if weights is None else torch.tensor(weights))
        writer.add_features(torch.zeros(5, 1))
    with pytest.raises(GraphError, match=message):
        on_ranks(size, lambda group: load_rows(GraphParts.open(tmp_path), group))


def test_ranges_are_balanced_by_edges(tmp_path: Path) -> None:
    hub = PairGraph(1000, torch.stack([torch.zeros(999, dtype=torch.int64), torch.arange(1, 1000)]))
    entries = count_entries(hub.pairs[0], hub.pairs[1], 1000)
    assert entries.sum() == 2 * 999
    bounds = balanced_ranges(entries, 1000, 4)
    assert bounds[0] == 0
    assert bounds[-1] == 1000
    assert bounds == sorted(bounds)
    assert bounds[1] < 250, "the rank of the hub has fewer other nodes"
    assert balanced_ranges(torch.zeros(2, dtype=torch.int64), 2, 5)[-1] == 2
    assert block_size(5_000_000) == 5


def test_a_generated_graph_is_a_graph(tmp_path: Path) -> None:
    parts = generate_parts(tmp_path, num_nodes=300, num_edges=2000, num_features=3, seed=1)
    pairs, weight = whole(parts, 2)
    assert 1500 < pairs.shape[1] <= 2000
    assert torch.equal(weight, torch.ones(pairs.shape[1]))
    assert (pairs[0] < pairs[1]).all()
    degree = torch.bincount(pairs.flatten(), minlength=300)
    assert degree.max() < 4 * degree.float().mean(), "no node is preferred"


def test_near_edges_stay_near(tmp_path: Path) -> None:
    parts = generate_parts(tmp_path, num_nodes=4000, num_edges=8000, num_features=1, near=1.0)
    pairs, _ = whole(parts, 1)
    assert (pairs[1] - pairs[0]).max() <= 4
