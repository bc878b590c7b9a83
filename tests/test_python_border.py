"""What callers pass from Python: one way to read masks, targets, labels, weights, features and lists of numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks, classifiers, evaluation
from purigraph.errors import GraphError, InputError
from purigraph.graph import Budget, Perturbation, as_pair_graph, attach_split, inductive_split, read_edge_index
from purigraph.training import train

EDGES = torch.tensor([[0, 1], [1, 2]])
SHORT = {"epochs": 2, "patience": 5}


@pytest.fixture
def scene() -> Data:
    return attach_split(communities(), seed=0, train_per_class=5, val_per_class=8)


@pytest.fixture
def gcn() -> classifiers.Classifier:
    return classifiers.create("gcn", 24, 2, hidden_channels=4).eval()


def changed(data: Data, **attributes: Any) -> Data:
    result = copy.copy(data)
    for name, value in attributes.items():
        setattr(result, name, value)
    return result


TARGETS: list[tuple[str, Callable[[Data], dict[str, Any]], str]] = [
    ("int64", lambda data: {"test_mask": data.test_mask.long()}, r"data\.test_mask must be boolean.*mask\.bool\(\)"),
    ("uint8", lambda data: {"test_mask": data.test_mask.byte()}, r"data\.test_mask must be boolean.*mask\.bool\(\)"),
    ("short", lambda data: {"test_mask": data.test_mask[:-1]}, r"shape \(120,\).*it is \(119,\)"),
    ("splits", lambda data: {"test_mask": torch.stack([data.test_mask] * 3, 1)}, "has 3 splits, but one is needed"),
    ("text", lambda data: {"test_mask": "all"}, r"data\.test_mask must be a bool mask, not a str"),
    ("one-hot", lambda data: {"y": torch.eye(2)[data.y]}, r"one-hot, use data\.y\.argmax\(1\)"),
    ("column", lambda data: {"y": data.y.unsqueeze(1)}, r"data\.y\.squeeze\(1\)"),
    ("float", lambda data: {"y": data.y.float()}, r"data\.y\.long\(\)"),
    ("short y", lambda data: {"y": data.y[:-1]}, r"data\.y must be \(120,\) integers"),
    ("no y", lambda data: {"y": None}, r"data\.y is missing"),
    ("unlabelled", lambda data: {"y": torch.where(data.test_mask, -1, data.y)}, "nodes of data.test_mask have a negat"),
    ("nan", lambda data: {"x": data.x.index_fill(0, torch.tensor([7]), float("nan"))}, "x is nan in row 7, column 0"),
    ("inf", lambda data: {"x": data.x.index_fill(1, torch.tensor([5]), float("inf"))}, "x is inf in row 0, column 5"),
    ("large", lambda data: {"x": data.x * 1e30}, "too large for single precision"),
]


@pytest.mark.parametrize(("change", "message"), [entry[1:] for entry in TARGETS], ids=[entry[0] for entry in TARGETS])
def test_attacks_and_evaluations_refuse_the_same(
    change: Callable[[Data], dict[str, Any]], message: str, scene: Data
) -> None:
    calls: list[object] = []

    def model(*inputs: object) -> torch.Tensor:
        calls.append(inputs)
        raise AssertionError("the model ran before its input was read")

    broken = changed(scene, **change(scene))
    with pytest.raises(InputError, match=message):
        pg.evaluate(model, broken, attack="random-flip", epsilons=0.1)
    with pytest.raises(InputError, match=message):
        attacks.create("random-flip")(model, broken, 3)
    with pytest.raises(InputError, match=message):
        evaluation.model_accuracy(model, broken)
    assert calls == []


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.tensor([0, 120]), "targets must be nodes from 0 to 119; 120 is not"),
        (torch.zeros(120, dtype=torch.int64), r"looks like a mask.*mask\.bool\(\)"),
        (torch.ones(120, 2, dtype=torch.bool), r"Choose one of its 2 splits: mask\[:, 0\]"),
        (torch.ones(119, dtype=torch.bool), r"it must be \(120,\)"),
        ({"first": 1}, "targets must be integer node indices or a bool mask, not a dict"),
    ],
)
def test_targets_are_read_alike(
    targets: Any, message: str, scene: Data, gcn: classifiers.Classifier, trained: pg.GPRGAE
) -> None:
    with pytest.raises(InputError, match=message):
        pg.evaluate(gcn, scene, attack="random-flip", epsilons=0.1, targets=targets)
    with pytest.raises(InputError, match=message):
        attacks.create("random-flip")(gcn, scene, 3, targets=targets)
    with pytest.raises(InputError, match=message):
        evaluation.convergence(gcn, trained, scene, targets=targets)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: {"train_mask": data.train_mask.long()}, r"data\.train_mask must be boolean.*mask\.bool\(\)"),
        (lambda data: {"y": torch.eye(2)[data.y]}, "one-hot"),
        (lambda data: {"y": data.y.float()}, r"data\.y\.long\(\)"),
        (lambda data: {"x": data.x.index_fill(0, torch.tensor([3]), float("nan"))}, "row 3, column 0"),
    ],
)
def test_training_refuses_the_same(change: Callable[[Data], dict[str, Any]], message: str, scene: Data) -> None:
    split = inductive_split(scene)
    broken = type(split)(changed(split.train, **change(split.train)), split.validation, split.test)
    with pytest.raises(InputError, match=message):
        train("gcn", "vanilla", broken, settings=SHORT)


KINDS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: (x > 0).long(),
    lambda x: (x > 0).byte(),
    lambda x: x > 0,
    lambda x: (x > 0).half(),
]


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_any_kind_give_the_results_of_float32(kind: Callable[[torch.Tensor], torch.Tensor]) -> None:
    plain = attach_split(communities(), seed=0, train_per_class=5, val_per_class=8)
    plain.x = (plain.x > 0).float()
    other = changed(plain, x=kind(plain.x))
    purifiers = [pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(one, epochs=2) for one in (plain, other)]
    expected, found = (purifier(one).edge_weight for purifier, one in zip(purifiers, (plain, other), strict=True))
    assert torch.equal(found, expected)
    results = [train("gcn", "vanilla", inductive_split(one), settings=SHORT).model for one in (plain, other)]
    if not other.x.is_floating_point():
        with torch.no_grad():
            assert torch.equal(results[1](other.x, other.edge_index), results[0](plain.x, plain.edge_index))
        measured = [pg.evaluate(results[0], one, attack="dice", epsilons=0.1).attacked(0.1) for one in (plain, other)]
        assert measured[0] == measured[1]


def test_features_that_require_gradients_are_detached(data: Data) -> None:
    purifier = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4)
    expected = purifier.fit(data, epochs=2)(data).edge_weight
    learned = changed(data, x=data.x.clone().requires_grad_())
    found = purifier.fit(learned, epochs=2)(learned).edge_weight
    assert torch.equal(found, expected)
    assert not found.requires_grad
    assert learned.x.grad is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_learning_and_attacking_work_where_gradients_are_off(mode: Any, scene: Data) -> None:
    def everything(scene: Data) -> tuple[torch.Tensor, str]:
        purifier = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(scene, epochs=2)
        model = train("gcn", "vanilla", inductive_split(scene), settings=SHORT).model
        attack = attacks.create("prbcd", epochs=2, fine_tune_epochs=1, block_size=50, final_samples=2)
        weight = purifier(scene).edge_weight
        return weight, attack(pg.protect(model, purifier), scene, 4).digest

    weight, digest = everything(scene)
    with mode():
        inside = scene.clone()
        found, again = everything(inside)
    assert torch.equal(weight, found)
    assert digest == again


def test_features_and_graph_of_different_sizes(trained: pg.GPRGAE, data: Data) -> None:
    graph, short = as_pair_graph(data), data.x[:-1]
    message = r"x has 119 rows, but the graph has 120 nodes"
    calls: list[Callable[[], object]] = [
        lambda: trained.trace(short, graph),
        lambda: trained.purify(short, graph),
        lambda: trained.score_edges(short, graph, data.edge_index),
        lambda: evaluation.edge_detection(trained, short, graph, Perturbation(120)),
        lambda: evaluation.lipschitz_constant(trained, short, graph, samples=1),
        lambda: trained(changed(data, x=short, num_nodes=120)),
        lambda: pg.GPRGAE().fit(changed(data, x=short, num_nodes=120), epochs=1),
    ]
    for call in calls:
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(InputError, match=message):
        attacks.create("dice")(trained, (short, graph), 3, targets=[0], labels=data.y)
    for x in (None, [[1.0]], data.x[0]):
        with pytest.raises(InputError, match="x "):
            trained(x, data.edge_index)  # type: ignore[call-overload]
        with pytest.raises(InputError, match="x "):
            trained.trace(x, graph)  # type: ignore[arg-type]


def test_a_number_is_one_budget_and_one_seed(scene: Data, gcn: classifiers.Classifier, trained: pg.GPRGAE) -> None:
    single = pg.evaluate(gcn, scene, attack="random-flip", epsilons=0.1, seeds=3)
    listed = pg.evaluate(gcn, scene, attack="random-flip", epsilons=[0.1], seeds=[3])
    assert [(record.epsilon, record.seed, record.perturbation.digest) for record in single.records] == [
        (record.epsilon, record.seed, record.perturbation.digest) for record in listed.records
    ]
    assert len(evaluation.convergence(gcn, trained, scene, alphas=0.5, max_steps=1)) == 1
    for wrong in ("0.1", [0.1, "much"], None, [float("nan")], [True]):
        with pytest.raises(InputError, match="epsilons must be a number or a list of numbers"):
            pg.evaluate(gcn, scene, epsilons=wrong)  # type: ignore[arg-type]
    for wrong in (0.5, "0", [None]):
        with pytest.raises(InputError, match="seeds must be a whole number"):
            pg.worst_case(gcn, scene, seeds=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="whole number from 0 to"):
        pg.evaluate(gcn, scene, seeds=10**30)


def test_no_epochs(scene: Data, gcn: classifiers.Classifier) -> None:
    assert pg.evaluate(gcn, scene, epsilons=0.1, epochs=0, fine_tune_epochs=0, block_size=50).num_targets > 0
    with pytest.raises(InputError, match="epochs=0 is not valid"):
        pg.GPRGAE().fit(scene, epochs=0)
    with pytest.raises(InputError, match="epochs=0 is not valid"):
        train("gcn", "vanilla", inductive_split(scene), settings={"epochs": 0})


def test_sparse_features_name_the_first_bad_entry(trained: pg.GPRGAE, data: Data) -> None:
    x = torch.zeros(120, 24)
    x[3, 4], x[5, 6] = 1, float("nan")
    for layout in (x, x.to_sparse_csr(), x.to_sparse_coo()):
        with pytest.raises(InputError, match="x is nan in row 5, column 6"):
            trained(layout, data.edge_index)


def test_weights_are_read_alike(trained: pg.GPRGAE, data: Data, gcn: classifiers.Classifier) -> None:
    num = data.edge_index.shape[1]
    for weight, message in [
        (torch.ones(num, dtype=torch.int64), "use edge_weight.float"),
        (torch.ones(num - 1), "one entry per column"),
        ([1.0] * num, "must be a tensor"),
        (torch.full((num,), 3e38), "at most 1e\\+15"),
        (torch.full((num,), float("nan")), "must be finite"),
    ]:
        for call in (trained, gcn):
            with pytest.raises(GraphError, match=message):
                call(data.x, data.edge_index, weight)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: as_pair_graph(torch.tensor([[0], [10**18]])), "num_nodes must be a whole number from 0 to"),
        (lambda: read_edge_index(EDGES.to(torch.uint16)), r"use edge_index\.long\(\)"),
        (lambda: read_edge_index(EDGES.to_sparse()), "is a sparse tensor"),
        (lambda: read_edge_index(EDGES, num_nodes=3.5), "must be a whole number"),  # type: ignore[arg-type]
        (lambda: read_edge_index(EDGES, torch.ones(2).to_sparse()), "must be a dense tensor"),
        (lambda: read_edge_index(EDGES, torch.ones(2).to(torch.float8_e4m3fn)), r"use edge_weight\.float\(\)"),
        (lambda: as_pair_graph(sparse.csr_array(np.array([[0, 1j], [1j, 0]]))), "must hold real numbers"),
        (lambda: Budget("much"), "must be a number, finite"),  # type: ignore[arg-type]
        (lambda: Budget(0.1, local="much"), "A local budget must be a number"),  # type: ignore[arg-type]
        (lambda: Budget(True), "must be a number, finite"),
        (lambda: Budget(0.1, 3), "A name is a text"),  # type: ignore[arg-type]
        (lambda: Budget(10**400, "absolute"), r"at most 1e\+19"),
        (lambda: attach_split(communities(), seed="a"), "seed must be a whole number"),  # type: ignore[arg-type]
        (lambda: attach_split(communities(), seed=-1), "seed must be a whole number from 0"),
        (lambda: attach_split(communities(), seed=0, train_per_class=2.5), "train_per_class must be a whole"),
        (lambda: attach_split(communities(), seed=0, test_share="half"), "test_share must be in"),
    ],
)
def test_what_is_no_graph_budget_or_split_is_explained(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_local_budgets_beyond_all_pairs_allow_all_pairs() -> None:
    graph = as_pair_graph(EDGES)
    local = Budget(1, "absolute", local=1e308).limits(graph, torch.tensor([0])).local
    assert local is not None
    assert local.tolist() == [3, 3, 3]
    assert Budget.of(np.int64(3)) == Budget(3, "absolute")  # type: ignore[arg-type]
