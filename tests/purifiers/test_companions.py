"""Companions: what they add comes from features and trusted nodes, and no edit of the edges can take it away."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import purifiers
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import as_pair_graph, inductive_split
from purigraph.training import train


@pytest.fixture(scope="module")
def split() -> pg.graph.InductiveSplit:
    return inductive_split(pg.datasets.load("synthetic-citation"))


@pytest.fixture(scope="module")
def gcn(split: pg.graph.InductiveSplit) -> torch.nn.Module:
    return train("gcn", "vanilla", split, settings={"epochs": 30}).model


@pytest.fixture(scope="module")
def anchor(split: pg.graph.InductiveSplit, gcn: torch.nn.Module) -> pg.Anchor:
    return pg.Anchor(topics=8, landmarks=16).fit(gcn, split.train, folds=2)


def is_new(split: pg.graph.InductiveSplit, data: Data) -> torch.Tensor:
    return ~torch.isin(data.n_id, split.train.n_id)


def test_they_are_the_trusted_nodes_with_the_most_similar_answers(
    anchor: pg.Anchor, split: pg.graph.InductiveSplit
) -> None:
    purifier = pg.Companions(count=4, caution=1.5).fit(split.train, answers=anchor)
    data = split.test
    found = purifier.companions(data.x)
    new = is_new(split, data)
    assert (new[found.pairs].sum(0) == 1).all()
    answers = anchor(data.x).double()
    logs = answers.log() - answers.log().mean(1, keepdim=True)
    unit = logs / logs.norm(dim=1, keepdim=True)
    cosine = unit @ unit.t()
    gap = answers.topk(2, dim=1).values
    for node in new.nonzero().squeeze(1)[:20].tolist():
        at = (found.pairs == node).any(0)
        others = found.pairs[:, at].sum(0) - node
        fourth = cosine[node, ~new].topk(4).values[-1]
        assert len(others) == 4
        assert (cosine[node, others] >= fourth - 1e-5).all()
        expected = float((gap[node, 0] - gap[node, 1]) ** 1.5)
        assert found.weight[at].tolist() == pytest.approx([expected] * 4, rel=1e-4)


def test_no_edit_of_the_edges_changes_what_is_added(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    purifier = pg.Companions(count=3).fit(split.train, answers=anchor)
    data = split.test
    added = purifier.companions(data.x)
    nothing = torch.empty(2, 0, dtype=torch.int64)
    alone = purifier(Data(x=data.x, edge_index=nothing))
    assert as_pair_graph(alone) == added
    graph = as_pair_graph(data)
    both = purifier.purify(data.x, graph)
    assert torch.equal(both.weight[both.find(graph.codes)], torch.ones(graph.num_pairs))
    missing = added.find(both.codes) < 0
    assert torch.equal(both.codes[missing], graph.codes[graph.find(both.codes[missing])])
    others = both.find(added.codes)
    assert (both.weight[others] >= added.weight).all()


def test_an_edge_that_is_there_anyway_has_the_larger_weight(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    purifier = pg.Companions(count=3).fit(split.train, answers=anchor)
    added = purifier.companions(split.test.x)
    for share in (0.5, 2.0):
        weight = (added.weight * share).clamp(max=1)
        result = purifier.purify(split.test.x, added.with_weight(weight))
        assert torch.equal(result.weight, torch.maximum(weight, added.weight))


def test_trusted_nodes_get_some_only_if_asked_for(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    purifier = pg.Companions(count=2).fit(split.train, answers=anchor)
    assert purifier.companions(split.train.x).num_pairs == 0
    company = purifier.with_settings(for_trusted=True).companions(split.train.x)
    assert (company.degree() >= 2).all()
    strangers = communities(num_nodes=30).x
    assert pg.Companions().fit(communities(seed=1)).companions(strangers).num_pairs == 0


def test_presences_of_0_and_1_are_the_graph_without_and_with_the_edge(
    anchor: pg.Anchor, split: pg.graph.InductiveSplit, gcn: torch.nn.Module
) -> None:
    data = split.test
    chain = pg.Chain(
        [pg.Agreement().fit(split.train, answers=anchor), pg.Companions(count=4).fit(split.train, answers=anchor)]
    )
    model = pg.protect(gcn, chain).eval()
    graph = as_pair_graph(data)
    there = (torch.rand(graph.num_pairs, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    edge_index, presence = graph.with_weight(there).edge_index()
    ones = torch.ones_like(presence)
    partly = model.relaxed(data.x, edge_index, ones, presence)
    whole = model(data.x, edge_index[:, presence > 0])
    assert torch.allclose(partly, whole, atol=1e-5)
    half = (presence * 0.5 + 0.25).requires_grad_()
    model.relaxed(data.x, edge_index, ones, half)[data.test_mask].square().sum().backward()
    assert half.grad is not None
    assert float(half.grad.abs().sum()) > 0


def test_isolated_nodes_keep_more_of_their_accuracy(
    anchor: pg.Anchor, split: pg.graph.InductiveSplit, gcn: torch.nn.Module
) -> None:
    # The GCN has learned to rely on neighbours: with companions it still has some when an attacker took all others.
    data, nothing = split.test, torch.empty(2, 0, dtype=torch.int64)
    model = pg.protect(gcn, pg.Companions().fit(split.train, answers=anchor)).eval()
    right = [
        float((found[data.test_mask].argmax(1) == data.y[data.test_mask]).double().mean())
        for found in (gcn(data.x, nothing), model(data.x, nothing))
    ]
    assert right[1] > right[0]


def test_a_chain_with_them_is_saved_whole(anchor: pg.Anchor, split: pg.graph.InductiveSplit, tmp_path: Path) -> None:
    companions = pg.Companions(count=2).fit(split.train, answers=anchor)
    chain = pg.Chain([pg.Agreement().fit(split.train, answers=anchor), companions])
    chain.save_pretrained(tmp_path)
    before, after = chain(split.test), purifiers.load(tmp_path)(split.test)
    assert torch.equal(before.edge_index, after.edge_index)
    assert torch.equal(before.edge_weight, after.edge_weight)


def test_what_is_wrong_is_said(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        pg.Companions()(communities())
    with pytest.raises(InputError, match="missing or empty"):
        pg.Companions().fit(Data(edge_index=torch.empty(2, 0, dtype=torch.int64)))
    with pytest.raises(InputError, match="not registered"):
        pg.Companions().fit(communities(), answers=torch.nn.Linear(2, 2))
    fitted = pg.Companions().fit(split.train, answers=anchor)
    with pytest.raises(InputError, match="num_trusted can't be changed"):
        fitted.with_settings(num_trusted=3)
    assert "companions" in fitted.summary()
