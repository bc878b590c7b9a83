"""Bounded votes: every answer takes a known number of flips to change, and no attack does with fewer."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import InductiveSplit
from purigraph.kernels.known_rows import KnownRows, row_keys


@pytest.fixture(scope="module")
def anchor(gcn, split: InductiveSplit) -> pg.Anchor:
    return pg.Anchor(topics=8, landmarks=16).fit(gcn, split.train, split.validation, folds=2)


@pytest.fixture(scope="module")
def votes(gcn, split: InductiveSplit, anchor: pg.Anchor) -> pg.Votes:
    """Without a gate, so that every answer is voted on."""
    return pg.Votes().fit(gcn, split.train, anchor.with_margin(2.0), split.validation)


def test_it_is_the_sum_of_bounded_messages(gcn, split: InductiveSplit, anchor: pg.Anchor, votes: pg.Votes) -> None:
    data, trusted = split.test, split.train
    message = anchor(data.x).clone()
    with torch.no_grad():
        message[trusted.n_id] = gcn(trusted.x, trusted.edge_index).softmax(1)
    dense = torch.zeros(data.num_nodes, data.num_nodes)
    dense[data.edge_index[1], data.edge_index[0]] = 1.0
    expected = anchor(data.x).log() + votes.strength * dense @ message
    assert torch.allclose(votes(data.x, data.edge_index), expected, atol=1e-4)


def tiny(seed: int, anchor: pg.Anchor, split: InductiveSplit, num_nodes: int = 6) -> Data:
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(split.test.num_nodes, generator=generator)[:num_nodes]
    pairs = torch.tensor(list(itertools.combinations(range(num_nodes), 2))).t()
    pairs = pairs[:, torch.rand(pairs.shape[1], generator=generator) < 0.4]
    x = split.test.x[nodes]
    answers = anchor(x).argmax(1)
    return Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], 1), y=answers, num_nodes=num_nodes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_brute_force_agrees(votes, anchor, split, seed: int, strength: float) -> None:
    model, data = votes.with_strength(strength), tiny(seed, anchor, split)
    everyone = torch.arange(data.num_nodes)
    before = model(data.x, data.edge_index).argmax(1)
    exact = model.certificate(data, targets=everyone, injected=False)
    bound = model.certificate(data, targets=everyone)
    assert bool((bound.flips <= exact.flips).all()), "who can inject nodes needs no more flips"
    edges = {tuple(edge) for edge in data.edge_index.t().tolist()}
    for node in range(data.num_nodes):
        found = math.inf
        others = [other for other in range(data.num_nodes) if other != node]
        for count in range(1, len(others) + 1):
            for chosen in itertools.combinations(others, count):
                flips = {pair for other in chosen for pair in ((node, other), (other, node))}
                after = torch.tensor(sorted(edges ^ flips)).reshape(-1, 2).t()
                if int(model(data.x, after)[node].argmax()) != int(before[node]):
                    found = count
                    break
            if found < math.inf:
                break
        assert float(exact.flips[node]) == found


def test_no_attack_leaves_less_than_is_certified(votes: pg.Votes, split: InductiveSplit) -> None:
    certificate = votes.certificate(split.test, injected=False)
    assert certificate.exposed == 1.0
    assert certificate.accuracy == 0.0
    curve = [certificate.accuracy_at(flips) for flips in range(40)]
    assert curve == sorted(curve, reverse=True)
    assert curve[0] > curve[10] > 0
    for epsilon in (0.05, 0.15):
        result = pg.evaluate(votes, split.test, epsilons=[epsilon], attack="prbcd", epochs=20, block_size=500)
        spent = len(result.perturbation(epsilon, 0))
        assert result.attacked(epsilon) >= certificate.accuracy_at(spent) - 1e-9
    assert certificate.accuracy_at(10**6) == 0


def test_where_the_anchor_is_sure_its_answer_stands(gcn, split, anchor) -> None:
    model = pg.Votes().fit(gcn, split.train, anchor.with_margin(0.5))
    own = anchor(split.test.x)
    sure = anchor.with_margin(0.5).sure(own)
    scores = model(split.test.x, split.test.edge_index)
    assert torch.allclose(scores[sure], own[sure].log(), atol=1e-6)
    certificate = model.certificate(split.test)
    alone = pg.protect(gcn, None, anchor=anchor.with_margin(0.5)).certificate(split.test)
    nodes = certificate.nodes
    assert torch.equal(certificate.fixed[nodes], alone.fixed[nodes])
    assert certificate.accuracy == alone.accuracy
    assert certificate.accuracy_at(1) >= alone.accuracy_at(1)


def test_the_strength_is_chosen_on_validation_nodes(gcn, split, anchor) -> None:
    free = pg.Votes().fit(gcn, split.train, anchor.with_margin(2.0), split.validation, give_up=100)
    assert free.strength == 0.25, "the smallest, as any loss is acceptable"
    record = pg.Votes().fit(gcn, split.train, anchor.with_margin(2.0), split.validation, give_up=0).provenance
    assert set(record["accuracy_by_strength"]) == {"0.25", "0.5", "1", "2", "4"}
    assert pg.Votes(strength=3.0).fit(gcn, split.train, anchor).strength == 3.0


def test_it_is_saved_and_loaded(votes: pg.Votes, split: InductiveSplit, tmp_path: Path) -> None:
    votes.save_pretrained(tmp_path)
    loaded = pg.Votes.from_pretrained(tmp_path)
    assert loaded.is_fitted
    assert loaded.strength == votes.strength
    assert torch.equal(loaded(split.test.x, split.test.edge_index), votes(split.test.x, split.test.edge_index))
    assert loaded.summary() == votes.summary()


def test_rows_are_recognised_in_any_layout() -> None:
    x = torch.randn(30, 12, generator=torch.Generator().manual_seed(0)) * (torch.rand(30, 12) < 0.3)
    x[3] = x[5]
    keys = row_keys(x)
    assert torch.equal(row_keys(x.to_sparse_coo()), keys)
    assert torch.equal(row_keys(x.to_sparse_csr()), keys)
    assert keys[3] == keys[5]
    assert len(torch.unique(keys)) == len(torch.unique(x, dim=0))
    known = KnownRows.of(x[:6], torch.arange(6.0).unsqueeze(1))
    assert known.replaced(x, torch.full((30, 1), -1.0))[[0, 3, 5, 20], 0].tolist()[:3] == [0.0, 4.0, 4.0]


def test_what_is_wrong_is_said(gcn, split, anchor, votes) -> None:
    with pytest.raises(NotFittedError, match="fit"):
        pg.Votes()(split.test.x, split.test.edge_index)
    with pytest.raises(InputError, match="fitted purigraph.Anchor"):
        pg.Votes().fit(gcn, split.train, pg.Anchor())
    certificate = votes.certificate(Data(x=split.test.x, edge_index=split.test.edge_index))
    with pytest.raises(InputError, match="no labels"):
        certificate.accuracy_at(3)
    with pytest.raises(InputError, match="0 or more"):
        votes.certificate(split.test).accuracy_at(-1)
