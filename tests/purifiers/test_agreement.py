"""Agreement: what it cuts depends on the answers of the two ends, and on nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import purifiers
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import inductive_split
from purigraph.training import fit_to_answers, train


@pytest.fixture(scope="module")
def split() -> pg.graph.InductiveSplit:
    return inductive_split(pg.datasets.load("synthetic-citation"))


@pytest.fixture(scope="module")
def anchor(split: pg.graph.InductiveSplit) -> pg.Anchor:
    gcn = train("gcn", "vanilla", split, settings={"epochs": 30}).model
    return pg.Anchor(topics=8, landmarks=16).fit(gcn, split.train, folds=2)


def test_it_is_the_cosine_of_the_answers(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    purifier = pg.Agreement().fit(split.train, answers=anchor, cut=0.1)
    data = split.test
    answers = anchor(data.x).double()
    answers = answers / answers.norm(dim=1, keepdim=True)
    cosine = (answers[data.edge_index[0]] * answers[data.edge_index[1]]).sum(1)
    clear = (cosine - purifier.suspicious_below).abs() > 1e-9
    kept = purifier(data.x, data.edge_index) > 0
    assert torch.equal(kept[clear], cosine[clear] >= purifier.suspicious_below)
    scores = purifier.score_edges(data.x, data.edge_index, data.edge_index)
    assert torch.allclose(scores.double(), cosine, atol=1e-5)


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 2.5])
def test_edges_that_stay_are_weighed_by_it(anchor: pg.Anchor, split: pg.graph.InductiveSplit, sharpness: float) -> None:
    purifier = pg.Agreement(sharpness=sharpness).fit(split.train, answers=anchor, cut=0.1)
    data = split.test
    given = torch.rand(data.num_edges // 2, generator=torch.Generator().manual_seed(0))
    pairs = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    scores = purifier.score_edges(data.x, data.edge_index, pairs)
    weight = purifier(data.x, torch.cat([pairs, pairs.flip(0)], 1), torch.cat([given, given]))[: len(given)]
    # One edge is the threshold itself, and falls on either side of it by rounding.
    stays, goes = scores > purifier.suspicious_below + 1e-6, scores < purifier.suspicious_below - 1e-6
    assert stays.any()
    assert goes.any()
    assert int((~stays & ~goes).sum()) <= 1
    assert torch.allclose(weight[stays], (given * scores**sharpness)[stays], atol=1e-6)
    assert not weight[goes].any()
    assert torch.equal(purifier.with_settings(sharpness=0.0)(data.x, pairs) > 0, weight > 0)


def test_the_share_that_is_cut_is_the_one_asked_for(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    shares = []
    for cut in (0.0, 0.05, 0.2):
        purifier = pg.Agreement().fit(split.train, answers=anchor, cut=cut)
        weight = purifier(split.train.x, split.train.edge_index)
        shares.append(float((weight == 0).double().mean()))
        assert shares[-1] == pytest.approx(cut, abs=0.002)
    assert "20.0 %" in purifier.summary()
    assert shares[0] == 0


def test_edges_of_new_nodes_choose_the_threshold(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    purifier = pg.Agreement().fit(split.train, answers=anchor, validation=split.validation, cut=0.1)
    new = ~torch.isin(split.validation.n_id, split.train.n_id)
    touched = new[split.validation.edge_index].any(0)
    weight = purifier(split.validation.x, split.validation.edge_index)[touched]
    assert float((weight == 0).double().mean()) == pytest.approx(0.1, abs=0.01)
    with pytest.raises(InputError, match="n_id"):
        pg.Agreement().fit(communities(), validation=communities())


def test_other_edges_have_no_say(anchor: pg.Anchor, split: pg.graph.InductiveSplit) -> None:
    purifier = pg.Agreement().fit(split.train, answers=anchor)
    data, one = split.test, split.test.edge_index[:, :1]
    assert torch.equal(purifier(data.x, one), purifier(data.x, data.edge_index)[:1])


def test_the_model_is_saved_with_it(anchor: pg.Anchor, split: pg.graph.InductiveSplit, tmp_path: Path) -> None:
    purifier = pg.Agreement().fit(split.train, answers=anchor)
    chain = pg.Chain([purifier, pg.Jaccard()])
    for one in (purifier, chain):
        one.save_pretrained(tmp_path / "model")
        loaded = purifiers.load(tmp_path / "model")
        assert torch.equal(loaded(split.test.x, split.test.edge_index), one(split.test.x, split.test.edge_index))
    strict = purifier.with_settings(threshold=0.99)
    assert strict(split.test).edge_weight.sum() < purifier(split.test).edge_weight.sum()
    with pytest.raises(InputError, match="threshold and sharpness can"):
        purifier.with_settings(answers_record=None)


def test_it_is_fitted_to_a_classifier(split: pg.graph.InductiveSplit) -> None:
    gcn = train("gcn", "vanilla", split, settings={"epochs": 5}).model
    made = fit_to_answers(pg.Agreement(), split.train, split.validation, classifier=gcn, cut=0.2)
    assert made.is_fitted
    with pytest.raises(InputError, match="no answers"):
        fit_to_answers(pg.Jaccard(), split.train, classifier=gcn)


def test_what_it_refuses(anchor: pg.Anchor) -> None:
    with pytest.raises(NotFittedError, match="answers=anchor"):
        pg.Agreement()(communities())
    with pytest.raises(InputError, match="no edges"):
        pg.Agreement().fit(Data(x=torch.ones(3, 2), edge_index=torch.empty(2, 0, dtype=torch.int64)))
    with pytest.raises(InputError, match="registered"):
        pg.Agreement().fit(communities(), answers=torch.nn.Linear(2, 2))
