"""Anchored answers: from features alone, chosen on unseen nodes, and never changed by any attack."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import anchors, attacks
from purigraph.anchors.anchor import _agrees_more
from purigraph.anchors.correction import corrected
from purigraph.anchors.distillation import mean_probabilities, students_logits, untrained_students
from purigraph.anchors.margin import Harm, class_weights, smallest_margin
from purigraph.anchors.students import MLPStudents
from purigraph.anchors.topic_regression import TopicRegression, _Regression
from purigraph.anchors.topics import WordGraph
from purigraph.errors import InputError, NotFittedError, UnsupportedModelError
from purigraph.graph import InductiveSplit
from purigraph.kernels import Features
from purigraph.metrics import gaps

SHORT = {"epochs": 30, "folds": 2}


STUDENTS = {
    "topics": {"student": "topics", "topics": 8, "landmarks": 16},
    "mlp": {"student": "mlp", "members": 2, "hidden_channels": 8},
}


@pytest.fixture(scope="module", params=STUDENTS)
def student(request: pytest.FixtureRequest) -> dict[str, Any]:
    return STUDENTS[request.param]


@pytest.fixture(scope="module")
def anchor(gcn: pg.classifiers.Classifier, split: InductiveSplit, student: dict[str, Any]) -> pg.Anchor:
    return pg.Anchor(**student).fit(gcn, split.train, split.validation, **SHORT)


def half_sure(anchor: pg.Anchor, x: torch.Tensor) -> pg.Anchor:
    """The same anchor, sure of half of the nodes."""
    return anchor.with_margin(float(gaps(anchor(x)).median()))


def test_it_learns_from_the_classifier_and_not_from_labels(gcn, split, student) -> None:
    hidden = copy.copy(split.train)
    hidden.y, hidden.train_mask = 1 - hidden.y, ~hidden.train_mask
    first, second = (pg.Anchor(**student).fit(gcn, data, **SHORT) for data in (split.train, hidden))
    assert torch.equal(first(split.test.x), second(split.test.x))
    assert first.margin == second.margin
    with torch.no_grad():
        taught = gcn(split.test.x, split.test.edge_index).argmax(1)
    assert float((first(split.test.x).argmax(1) == taught).double().mean()) > 0.75


def test_it_learns_what_it_is_taught_instead(gcn, split, student) -> None:
    swapped = torch.nn.functional.one_hot(1 - split.train.y).float()
    learned = pg.Anchor(**student).fit(gcn, split.train, taught=swapped, **SHORT)
    own = pg.Anchor(**student).fit(gcn, split.train, **SHORT)
    right, wrong = (float((one(split.test.x).argmax(1) == 1 - split.test.y).double().mean()) for one in (learned, own))
    assert right > 0.75 > 0.25 > wrong
    assert learned.provenance["agreement"] > 0.75  # with what it was taught, on nodes that it had not seen


@pytest.mark.parametrize("case", ["labels", "too few", "negative", "sum", "nan"])
def test_what_it_is_taught_must_be_probabilities(case: str, gcn, split) -> None:
    good = torch.nn.functional.one_hot(split.train.y).float()
    bad, words = {
        "labels": (split.train.y, "must be a tensor of probabilities"),
        "too few": (good[:-1], "must be a tensor of probabilities"),
        "negative": (
            torch.where(torch.arange(len(good)).unsqueeze(1) == 3, good - 1, good),
            r"row 3 is not one \(1 rows",
        ),
        "sum": (2 * good, "rows of probabilities that sum to 1; row 0"),
        "nan": (good * torch.nan, "row 0 is not one"),
    }[case]
    with pytest.raises(InputError, match=words):
        pg.Anchor().fit(gcn, split.train, taught=bad, **SHORT)


def test_corrections_spread_from_known_labels() -> None:
    data = _ring(12)
    answers = torch.rand(12, 3, generator=torch.Generator().manual_seed(0)).double().softmax(1)
    labels, known = torch.arange(12) % 3, torch.zeros(12, dtype=torch.bool)
    assert torch.allclose(corrected(answers, labels, known, data), answers)
    known[[0, 7]] = True
    truth = torch.nn.functional.one_hot(labels).double()
    adjacency = torch.zeros(12, 12).double()
    adjacency[data.edge_index[1], data.edge_index[0]] = 1
    scale = adjacency.sum(1).rsqrt()
    normalised = scale.unsqueeze(1) * adjacency * scale
    errors = torch.where(known.unsqueeze(1), truth - answers, 0.0)
    spread = 0.2 * torch.linalg.solve(torch.eye(12).double() - 0.8 * normalised, errors)
    wanted = (answers + spread).clamp(min=torch.finfo(torch.float64).eps)
    wanted = torch.where(known.unsqueeze(1), truth, wanted / wanted.sum(1, keepdim=True))
    found = corrected(answers, labels, known, data)
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(found[1], answers[1], atol=1e-3)


def _ring(size: int) -> Data:
    node = torch.arange(size)
    ends = torch.stack([node, (node + 1) % size])
    return Data(edge_index=torch.cat([ends, ends.flip(0)], dim=1), num_nodes=size)


def test_it_learns_validation_labels_and_no_others(gcn, split, student) -> None:
    def fitted(validation: Data) -> pg.Anchor:
        return pg.Anchor(**student).fit(gcn, split.train, validation, learn_labels=True, **SHORT)

    first = fitted(split.validation)
    hidden, wrong = copy.copy(split.validation), copy.copy(split.validation)
    mask = split.validation.val_mask
    hidden.y = torch.where(mask, split.validation.y, -1)
    wrong.y = torch.where(mask, 1 - split.validation.y, split.validation.y)
    assert torch.equal(fitted(hidden)(split.test.x), first(split.test.x))
    assert not torch.equal(fitted(wrong)(split.test.x), first(split.test.x))


def test_labels_that_are_held_out_are_not_heard(gcn, split, student, monkeypatch: pytest.MonkeyPatch) -> None:
    mask, calls = split.validation.val_mask, []
    kind = TopicRegression if student["student"] == "topics" else MLPStudents
    learn = kind.learn

    def spy(self: Any, trusted: Data, taught: torch.Tensor, seen: torch.Tensor, *, seed: int) -> None:
        calls.append((taught.max(1).values == 1)[mask & ~seen])
        learn(self, trusted, taught, seen, seed=seed)

    monkeypatch.setattr(kind, "learn", spy)
    pg.Anchor(**student).fit(gcn, split.train, split.validation, learn_labels=True, **SHORT)
    assert sum(map(len, calls)) >= 2 * int(mask.sum())  # every label is held out twice
    assert not torch.cat(calls).any()


@pytest.mark.parametrize("case", ["validation", "taught", "n_id", "other nodes"])
def test_what_learning_labels_needs_is_said(case: str, gcn, split) -> None:
    taught = torch.nn.functional.one_hot(split.train.y).float()
    nameless, stranger = copy.copy(split.train), copy.copy(split.train)
    del nameless.n_id
    stranger.n_id = stranger.n_id + 10_000
    trusted, validation, options, words = {
        "validation": (split.train, None, {}, "give validation"),
        "taught": (split.train, split.validation, {"taught": taught}, "give one of them"),
        "n_id": (nameless, split.validation, {}, "need n_id"),
        "other nodes": (stranger, split.validation, {}, "must hold all trusted nodes"),
    }[case]
    with pytest.raises(InputError, match=words):
        pg.Anchor().fit(gcn, trusted, validation, learn_labels=True, **options, **SHORT)


def test_the_same_seed_gives_the_same_bits(gcn, split, anchor, student) -> None:
    before = torch.get_rng_state()
    again = pg.Anchor(**student).fit(gcn, split.train, split.validation, **SHORT)
    assert torch.equal(torch.get_rng_state(), before)
    assert again.settings == anchor.settings
    assert torch.equal(again(split.test.x), anchor(split.test.x))


def test_answers_stand_where_it_is_sure_and_are_the_model_s_elsewhere(gcn, split, anchor) -> None:
    data = split.test
    half = half_sure(anchor, data.x)
    model = pg.protect(gcn, None, anchor=half).eval()
    sure = half.sure(half(data.x))
    assert 0 < int(sure.sum()) < len(sure)
    with torch.no_grad():
        logits, alone = model(data.x, data.edge_index), gcn(data.x, data.edge_index)
    assert torch.equal(logits[~sure], alone[~sure])
    assert torch.equal(logits[sure].argmax(1), half(data.x)[sure].argmax(1))
    torch.testing.assert_close(logits[sure].exp().sum(1), torch.ones(int(sure.sum())))


def test_nothing_is_run_when_no_node_is_exposed(gcn, split, anchor, trained) -> None:
    model = pg.protect(gcn, trained, anchor=anchor.with_margin(0.0))
    model.model.forward = None  # would fail
    assert model(split.test.x, split.test.edge_index).shape == (split.test.num_nodes, 2)
    assert model.certificate(split.test).exposed == 0.0


def test_it_goes_with_a_purifier_and_is_relaxed_like_one(gcn, split, anchor, trained) -> None:
    data = split.test
    half = half_sure(anchor, data.x)
    model = pg.protect(gcn, trained, anchor=half).eval()
    inner = pg.protect(gcn, trained).eval()
    presence = (data.edge_index.sum(0) % 4 != 0).float()
    ones = torch.ones_like(presence)
    found = model.relaxed(data.x, data.edge_index, ones, presence)
    torch.testing.assert_close(found, model(data.x, data.edge_index[:, presence > 0]))
    exposed = ~half.sure(half(data.x))
    torch.testing.assert_close(found[exposed], inner.relaxed(data.x, data.edge_index, ones, presence)[exposed])
    assert set(model.views()) == {"fewer-steps", "more-steps", "small-weights"}
    # To the view with small weights an edge that is hardly there is an edge of hardly any weight.
    part = presence.clamp(min=0.3)
    small = model.views()["small-weights"].relaxed(data.x, data.edge_index, ones, part)
    torch.testing.assert_close(small, model(data.x, data.edge_index, part))
    assert not torch.allclose(small, model.relaxed(data.x, data.edge_index, ones, part))
    assert model.unprotected().classifier is gcn


@pytest.mark.parametrize("name", attacks.names())
def test_no_attack_contradicts_the_certificate(name: str, gcn, split, anchor) -> None:
    data = split.test
    model = pg.protect(gcn, None, anchor=half_sure(anchor, data.x)).eval()
    certificate = model.certificate(data)
    assert certificate.fixed.any()
    attack = attacks.create(name, **attacks.registry[name].trial_settings)
    flips = attack(model, data, 25)
    assert len(flips) > 0 or name == "isolation"  # no exposed node is wrong without its edges
    attacked = flips.apply(data)
    with torch.no_grad():
        answer = model(attacked.x, attacked.edge_index).argmax(1)
    assert torch.equal(answer[certificate.fixed], certificate.answer[certificate.fixed])
    right = (answer == data.y)[data.test_mask].double().mean()
    assert float(right) >= certificate.accuracy - 1e-12


@given(seed=st.integers(0, 10_000), injected=st.integers(0, 5))
@settings(max_examples=20)
def test_no_edit_contradicts_the_certificate(seed: int, injected: int) -> None:
    """Any edges at all, and further nodes with any features."""
    generator = torch.Generator().manual_seed(seed)
    data, model = communities(40), _small_model()
    certificate = model.certificate(data)
    total = data.num_nodes + injected
    more = torch.randn(injected, data.x.shape[1], generator=generator)
    edges = torch.randint(total, (2, 100), generator=generator)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    edges = torch.unique(edges[:, edges[0] != edges[1]], dim=1)
    with torch.no_grad():
        answer = model(torch.cat([data.x, more]), edges).argmax(1)[: data.num_nodes]
    assert torch.equal(answer[certificate.fixed], certificate.answer[certificate.fixed])


_models: list[pg.Anchored] = []


def _small_model() -> pg.Anchored:
    if not _models:
        data = communities(40)
        classifier = pg.classifiers.GCN(24, 2, hidden_channels=4).eval()
        anchor = pg.Anchor(topics=4, landmarks=8).fit(classifier, data, **SHORT)
        _models.append(pg.protect(classifier, None, anchor=half_sure(anchor, data.x)).eval())
    return _models[0]


def test_certificates_count_what_is_near_the_gate_as_exposed() -> None:
    sure, near, tie, exposed = [0.8, 0.2], [0.65 + 1e-6, 0.35 - 1e-6], [0.5, 0.5], [0.55, 0.45]
    probabilities = torch.tensor([sure, near, tie, exposed], dtype=torch.float64)
    nodes, labels = torch.arange(4), torch.tensor([0, 0, 0, 0])
    certificate = anchors.Certificate.of(probabilities, 0.3, nodes, labels)
    assert certificate.fixed.tolist() == [True, False, False, False]
    assert certificate.answer.tolist() == [0, -1, -1, -1]
    assert (certificate.accuracy, certificate.exposed) == (0.25, 0.75)
    everything = anchors.Certificate.of(probabilities, 0.0, nodes, None)
    assert everything.fixed.tolist() == [True, True, False, True]
    assert everything.accuracy is None
    assert "Certified" not in str(everything)
    assert "25.0 %" in str(certificate)


@pytest.mark.parametrize(
    ("harm", "allowed", "margin"),
    [
        ([0, 0, 0, 0], 0.0, 0.0),
        ([1, 0, 0, 0], 0.1, 2.0),
        ([0, 0, 1, 0], 0.1, 0.6),
        ([0, 0, 1, 0], 0.25, 0.0),
        ([-1, 1, 1, 0], 0.1, 0.6),
    ],
)
def test_the_margin_is_the_smallest_that_does_no_more_harm(harm: list[int], allowed: float, margin: float) -> None:
    gap = torch.tensor([0.9, 0.6, 0.4, 0.1], dtype=torch.float64)
    assert smallest_margin(gap, torch.tensor(harm), allowed) == margin


def test_equal_gaps_are_anchored_together() -> None:
    gap = torch.tensor([0.9, 0.5, 0.5], dtype=torch.float64)
    assert smallest_margin(gap, torch.tensor([0, 0, 1]), 0.1) == 0.9


def test_the_user_chooses_what_to_give_up(gcn, split, student) -> None:
    make = pg.Anchor(**student)
    margins = [make.fit(gcn, split.train, give_up=points, **SHORT).margin for points in (0.0, 3.0, 100.0)]
    assert margins[0] >= margins[1] >= margins[2] == 0.0
    exposed = make.fit(gcn, split.train, exposed=0.3, **SHORT)
    share = float((~exposed.sure(exposed(split.train.x))).double().mean())
    assert 0.05 < share < 0.6
    assert make.fit(gcn, split.train, exposed=1.0, **SHORT).margin > 1


def test_the_trade_off_is_a_table(gcn, split, anchor, tmp_path: Path) -> None:
    model = pg.protect(gcn, None, anchor=anchor)
    curve = model.trade_off(split.validation)
    assert curve.num_nodes == int(split.validation.val_mask.sum())
    assert curve.exposed[0] == 0.0
    assert curve.certified[0] == curve.clean[0]
    assert curve.exposed[-1] == 1.0
    assert curve.clean[-1] == pytest.approx(curve.classifier)
    assert list(curve.certified) == sorted(curve.certified, reverse=True)
    assert "certified" in str(curve)
    curve.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    bare = Data(x=split.test.x, edge_index=split.test.edge_index, y=split.test.y)
    with pytest.raises(InputError, match="val_mask"):
        model.trade_off(bare)
    assert model.certificate(bare).accuracy is None


def test_it_is_saved_and_loaded(anchor, split, tmp_path: Path) -> None:
    anchor.save_pretrained(tmp_path)
    loaded = anchors.load(tmp_path)
    assert loaded.settings == anchor.settings
    assert loaded.is_fitted
    assert torch.equal(loaded(split.test.x), anchor(split.test.x))
    assert loaded.summary() == anchor.summary()


def test_what_is_wrong_is_said(gcn, split, anchor) -> None:
    with pytest.raises(NotFittedError, match="fit"):
        pg.Anchor()(split.test.x)
    with pytest.raises(NotFittedError, match="not been fitted"):
        pg.protect(gcn, None, anchor=pg.Anchor(in_channels=24, out_channels=2))
    with pytest.raises(InputError, match="pass a fitted purigraph.Anchor"):
        pg.protect(gcn, None, anchor="folder")  # type: ignore[call-overload]
    unlabelled = copy.copy(split.validation)
    unlabelled.val_mask = torch.zeros_like(unlabelled.val_mask)
    with pytest.raises(InputError, match="val_mask is empty"):
        pg.Anchor().fit(gcn, split.train, unlabelled, **SHORT)
    wide = pg.classifiers.GCN(24, 5).eval()
    with pytest.raises(UnsupportedModelError, match="knows 2 classes"):
        pg.protect(wide, None, anchor=half_sure(anchor, split.test.x))(split.test.x, split.test.edge_index)


def test_the_ensemble_attacks_it(gcn, split, anchor) -> None:
    model = pg.protect(gcn, None, anchor=half_sure(anchor, split.test.x))
    worst = pg.worst_case(model, split.test, epsilons=[0.2], epochs=2)
    assert worst.attacked(0.2) >= model.certificate(split.test).accuracy - 1e-12


def test_classes_that_are_rare_count_less_when_asked(gcn, split, student) -> None:
    weight = class_weights(torch.tensor([0, 0, 1, 1]), torch.tensor([[0.9, 0.1], [0.7, 0.3]]))
    assert torch.allclose(weight, torch.tensor([1.6, 1.6, 0.4, 0.4]))
    assert torch.allclose(class_weights(torch.tensor([0, 1]), torch.full((3, 2), 0.5)), torch.ones(2))
    gap, harm = torch.tensor([0.2, 0.2]), torch.tensor([1.0, 0.0])
    heavy, light = (Harm.fit(gap, harm, torch.tensor(weight)) for weight in ([1.5, 0.5], [0.5, 1.5]))
    assert heavy.at_no_gap == pytest.approx(3 * light.at_no_gap)
    found = pg.Anchor(**student).fit(gcn, split.train, split.validation, class_shares=True, **SHORT).provenance
    assert found is not None
    assert found["settings"]["class_shares"]
    assert found["standard_error"] >= 0


def test_the_harm_is_that_of_the_labelled_nodes_in_all() -> None:
    gap = torch.tensor([0.0, 0.5, 1.0])
    harm = Harm.fit(gap, torch.tensor([1.0, 0.0, 0.0]), torch.ones(3))
    assert float(harm(gap).sum()) == pytest.approx(1.0)
    assert harm(gap)[0] > harm(gap)[1] > harm(gap)[2] == 0
    assert Harm.fit(gap, torch.tensor([-1.0, 0.0, 0.0]), torch.ones(3)).at_no_gap == 0, (
        "an anchor that does better does no harm"
    )
    assert Harm.fit(torch.ones(2), torch.ones(2), torch.ones(2)).at_no_gap == 0, "one that is always sure can't be told"


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_students_together_answer_as_each_does_alone(num_layers: int) -> None:
    students = untrained_students(3, 10, 4, seed=0, hidden_channels=8, num_layers=num_layers, dropout=0.5).eval()
    x = torch.randn(20, 10, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([student(x) for student in students])
    together = students_logits(students, Features(x))
    assert torch.allclose(together, expected, atol=1e-6)
    assert torch.allclose(mean_probabilities(together, 1.7), (expected / 1.7).softmax(2).mean(0), atol=1e-6)
    with pytest.raises(InputError, match="7 features"):
        students_logits(students, Features(x[:, :7]))


def test_topics_give_what_kernel_ridge_regression_gives() -> None:
    """With every node a landmark it is kernel ridge regression, computed here with dense matrices."""
    data = communities(60)
    words = (data.x > 0).float()
    taught = torch.rand(60, 3, generator=torch.Generator().manual_seed(1)).softmax(1)
    graph = WordGraph.of(Data(x=words, edge_index=data.edge_index), taught)
    everything = np.random.default_rng(0)
    regression = _Regression.prepare(graph, 5, 60, everything)
    (solution,) = regression.solutions([2.0])
    idf = np.log(61 / (1 + words.numpy().sum(0))) + 1
    own = words.numpy() * idf
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    mean = np.zeros((60, 60))
    mean[data.edge_index[1], data.edge_index[0]] = 1
    mean /= np.maximum(mean.sum(1, keepdims=True), 1)
    shared = own.T @ (mean + mean @ mean) / 2 @ own
    values, vectors = np.linalg.eigh((shared + shared.T) / 2)
    topics = own @ (vectors[:, -5:] * np.sqrt(np.maximum(values[-5:], 0)))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    np.testing.assert_allclose(
        regression.topics.of(regression.words) @ regression.topics.of(regression.words).T, topics @ topics.T, atol=1e-3
    )
    kernel = own @ own.T + 5 * np.exp(6 * (topics @ topics.T - 1))
    target = taught.double().numpy()
    expected = target.mean(0) + kernel @ np.linalg.solve(kernel + 2 * np.eye(60), target - target.mean(0))
    np.testing.assert_allclose(regression.scores(graph.x, solution), expected, atol=0.02)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_topics_answer_alike_in_every_form(gcn, split, layout: str) -> None:
    anchor = pg.Anchor(topics=8, landmarks=16).fit(gcn, split.train, folds=2)
    x = split.test.x if layout == "dense" else split.test.x.to_sparse_csr()
    own = split.test.x.clone().requires_grad_()
    differentiable = anchor.differentiable(own)
    torch.testing.assert_close(anchor(x), differentiable, atol=1e-4, rtol=1e-4)
    (gradient,) = torch.autograd.grad(differentiable[:, 0].sum(), own)
    assert float(gradient.abs().sum()) > 0
    assert torch.isfinite(anchor(torch.zeros(3, split.test.x.shape[1]))).all(), "nodes without any word"


def test_answers_to_changed_features_are_new(anchor, split) -> None:
    x = split.test.x.clone()
    before = anchor(x)
    assert anchor(x) is before
    x[0] += 5.0
    assert not torch.equal(anchor(x)[0], before[0])


def test_edges_at_held_out_nodes_are_not_read(split) -> None:
    taught = torch.rand(split.train.num_nodes, 2, generator=torch.Generator().manual_seed(0)).softmax(1)
    seen = torch.arange(split.train.num_nodes) % 3 != 0
    other = split.train.clone()
    other.edge_index = torch.cat([other.edge_index, torch.tensor([[0, 1], [1, 0]])], dim=1)
    other.x = other.x.clone()
    other.x[0] = 7.0
    found = []
    for data in (split.train, other):
        student = TopicRegression(data.x.shape[1], 2, topics=4, landmarks=8)
        student.learn(data, taught, seen, seed=0)
        found.append(student(Features(split.test.x)))
    assert torch.equal(*found)


def test_mlps_answer_where_topics_say_little(gcn, split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicRegression, "learn", lambda *args, **settings: None)  # so that it knows nothing
    anchor = pg.Anchor(members=1).fit(gcn, split.train, **SHORT)
    assert anchor.student == "mlp"
    assert pg.Anchor(**STUDENTS["topics"]).fit(gcn, split.train, **SHORT).student == "topics", "as it was asked for"


def test_more_often_right_means_by_two_standard_errors() -> None:
    wanted = torch.zeros(100, dtype=torch.int64)
    other = (torch.arange(100) < 10).long()
    assert _agrees_more(wanted, other, wanted)
    assert not _agrees_more(other, wanted, wanted)
    assert not _agrees_more(wanted, (torch.arange(100) < 3).long(), wanted)
    assert not _agrees_more(wanted, wanted, wanted)


def test_topics_answer_where_they_do_as_well(gcn, split) -> None:
    assert pg.Anchor().fit(gcn, split.train, **SHORT).student == "topics"


class _FirstColumns(torch.nn.Module):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None = None) -> Any:
        return 5 * x[:, :2]


@pytest.mark.parametrize("case", ["no edges", "weights of 0", "no words", "few nodes", "few words", "signed"])
def test_any_trusted_graph_will_do(case: str) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = {"few nodes": (3, 200), "few words": (50, 2)}.get(case, (60, 200))
    x = (torch.rand(shape, generator=generator) < 0.1).float()
    x = {"no words": torch.zeros(shape), "signed": torch.randn(shape, generator=generator)}.get(case, x)
    edges = torch.randint(shape[0], (2, 0 if case == "no edges" else 100), generator=generator)
    data = Data(x=x, edge_index=edges, edge_weight=torch.full((edges.shape[1],), float(case != "weights of 0")))
    anchor = pg.Anchor(student="topics").fit(_FirstColumns(), data)
    torch.testing.assert_close(anchor(x).sum(1), torch.ones(shape[0]))


def test_a_single_node_can_not_be_held_out() -> None:
    lonely = Data(x=torch.ones(1, 3), edge_index=torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(InputError, match="fewer than 2 nodes"):
        pg.Anchor().fit(_FirstColumns(), lonely)
