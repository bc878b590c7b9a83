"""Training over ranks: the number of ranks does not matter, and something is learned."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import purigraph as pg
from distributed.thread_group import on_ranks
from helpers import communities
from purigraph.distributed import BatchSettings, Group, fit_rank, read_curve, write_parts
from purigraph.distributed.loading import load_rows
from purigraph.distributed.subgraphs import Subgraph, SubgraphSampler, hashed
from purigraph.errors import InputError
from purigraph.graph import as_pair_graph
from purigraph.purifiers.gpr_gae import FitReport, FitSettings

BATCHES = BatchSettings(batches=4, roots=20, neighbours=3, rounds=2)


def train(size: int, parts: Path, folder: Path, epochs: int = 12, seed: int = 0) -> tuple[pg.GPRGAE, FitReport]:
    settings = FitSettings(epochs=epochs, validation_sets=3)

    def work(group: Group) -> FitReport:
        purifier = pg.GPRGAE(hops=2, node_channels=8, edge_channels=8)
        return fit_rank(parts, purifier, folder, group, BATCHES, settings, seed=seed)

    reports = on_ranks(size, work)
    assert all((one.auc, one.best_epoch) == (reports[0].auc, reports[0].best_epoch) for one in reports)
    return pg.GPRGAE.from_pretrained(folder / "purifier"), reports[0]


def test_the_losses_do_not_depend_on_the_number_of_ranks(tmp_path: Path) -> None:
    parts = write_parts(communities(400), tmp_path / "graph", parts=2).folder
    curves = {}
    for size in (1, 2, 3):
        train(size, parts, tmp_path / f"{size}")
        curves[size] = read_curve(tmp_path / f"{size}")
    assert len(curves[1]) == 12
    assert curves[2] == pytest.approx(curves[1], rel=1e-3)
    assert curves[3] == pytest.approx(curves[1], rel=1e-3)
    train(2, parts, tmp_path / "other", seed=1)
    assert read_curve(tmp_path / "other") != pytest.approx(curves[1], rel=1e-3)


def test_it_learns_what_edges_look_like(tmp_path: Path) -> None:
    data = communities(400)
    parts = write_parts(data, tmp_path / "graph").folder
    purifier, report = train(2, parts, tmp_path / "run", epochs=60)
    assert report.auc > 0.68  # a third of the injected edges look like real ones
    assert purifier.report is not None
    assert purifier.report.auc == report.auc
    graph = as_pair_graph(data)
    same = data.y[graph.pairs[0]] == data.y[graph.pairs[1]]
    weight = purifier.purify(data.x, graph).weight
    assert weight[same].mean() > weight[~same].mean() + 0.05


def test_an_interrupted_training_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = write_parts(communities(400), tmp_path / "graph").folder
    train(2, parts, tmp_path / "whole")
    monkeypatch.setattr("purigraph.checkpoints.SECONDS_BETWEEN", 0.0)
    epoch, calls = pg.distributed.training.DistributedTraining.epoch, []

    def interrupt(self: object) -> float:
        calls.append(self)
        if len(calls) == 14:  # two ranks: in the seventh epoch
            raise KeyboardInterrupt
        return float(epoch(self))

    monkeypatch.setattr("purigraph.distributed.training.DistributedTraining.epoch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(2, parts, tmp_path / "parted")
    assert 1 <= len(read_curve(tmp_path / "parted")) < 12
    train(2, parts, tmp_path / "parted")
    assert read_curve(tmp_path / "parted") == pytest.approx(read_curve(tmp_path / "whole"), rel=1e-3)


def test_subgraphs_are_induced_and_the_same_on_any_ranks(tmp_path: Path) -> None:
    data = communities(150)
    graph = as_pair_graph(data)
    parts = write_parts(data, tmp_path)
    roots = [torch.tensor([3, 70, 149]), torch.tensor([5]), torch.tensor([0, 1])]
    settings = BatchSettings(batches=3, roots=3, neighbours=2, rounds=2)

    def sample(group: Group) -> dict[int, Subgraph]:
        rows = load_rows(parts, group)
        return SubgraphSampler(parts, rows.block, rows.weight, group, settings).sample(roots, salt=7)

    alone = on_ranks(1, sample)[0]
    split = on_ranks(4, sample)
    assert [sorted(one) for one in split] == [[0], [1], [2], []]
    for k, found in alone.items():
        other = split[k][k]
        assert torch.equal(found.nodes, other.nodes)
        assert torch.equal(found.x, data.x[found.nodes])
        assert torch.equal(other.x, found.x)
        assert found.graph == other.graph == graph.subgraph(found.nodes)
        assert torch.isin(roots[k], found.nodes).all()
        assert len(found.nodes) <= len(roots[k]) * (1 + 2 + 4)
    assert max(len(one.nodes) for one in alone.values()) > 3


def test_hashes_are_spread_evenly() -> None:
    i = torch.arange(20_000)
    found = hashed(i, i + 1, 3)
    assert len(found.unique()) == len(found)
    assert abs(float((found < 0).double().mean()) - 0.5) < 0.02
    assert not torch.equal(found, hashed(i, i + 1, 4))


def test_a_graph_without_edges_teaches_nothing(tmp_path: Path) -> None:
    data = communities(30)
    data.edge_index = torch.empty(2, 0, dtype=torch.int64)
    parts = write_parts(data, tmp_path / "graph").folder
    with pytest.raises(InputError, match="no edges"):
        train(1, parts, tmp_path / "run")
