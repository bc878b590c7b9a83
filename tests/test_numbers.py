"""Numbers and names that callers give: seeds, numbers of nodes, rates. Each is refused in one sentence, or taken."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks, training
from purigraph.classifiers import GCN
from purigraph.errors import BudgetError, GraphError, InputError
from purigraph.graph import (
    Budget,
    Perturbation,
    as_pair_graph,
    attach_split,
    inductive_split,
    read_data,
    read_edge_index,
)
from purigraph.graph.nodes import read_mask
from purigraph.kernels.feature_matrix import read_features
from purigraph.numbers import read_seed
from purigraph.registry import canonical


@pytest.mark.parametrize("seed", [-1, 2**63, 10**30, 0.0, 1.5, "1", None, True, [1]])
def test_what_is_no_seed_is_refused_everywhere(seed: object, data: Data) -> None:
    split = inductive_split(attach_split(data, seed=0))
    model = GCN(data.num_features, 2)
    for call in (
        lambda: pg.GPRGAE(hops=1, node_channels=2, edge_channels=2).fit(data, seed=seed, epochs=1),
        lambda: attach_split(data, seed=seed),
        lambda: training.train("gcn", "vanilla", split, seed=seed, settings={"epochs": 1}),
        lambda: attacks.create("dice")(model, split.test, 1, seed=seed),
        lambda: pg.datasets.citation_network(50, 80, 10, 2, seed=seed),
    ):
        with pytest.raises(InputError, match="seed must be a whole number"):
            call()


def test_integers_of_all_libraries_are_seeds() -> None:
    assert [read_seed(seed) for seed in (3, np.int64(3), np.uint8(3), torch.tensor(3))] == [3] * 4
    assert read_seed(2**62) == 2**62


@pytest.mark.parametrize("number", [-1, 2.5, "3", None, True, 3_037_000_500, 2**64])
def test_flips_are_of_a_possible_number_of_nodes(number: object) -> None:
    with pytest.raises(GraphError, match="num_nodes must be a whole number"):
        Perturbation(number)  # type: ignore[arg-type]


def test_the_last_pair_of_the_largest_graph_has_a_code() -> None:
    nodes = 3_037_000_499
    pair = torch.tensor([[nodes - 2], [nodes - 1]])
    assert Perturbation(nodes, added=pair).added.equal(pair)


def test_flips_are_no_sparse_tensor() -> None:
    pairs = torch.tensor([[0, 1], [1, 2]])
    for layout in (pairs.to_sparse(), pairs.float().to_sparse_csr()):
        with pytest.raises(GraphError, match="sparse tensor"):
            Perturbation(3, added=layout)


def test_a_name_is_a_text() -> None:
    with pytest.raises(InputError, match="A name is a text, not 3"):
        canonical(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="A name is a text"):
        pg.graph.Budget(1, None)  # type: ignore[arg-type]


def test_a_start_is_a_perturbation(data: Data) -> None:
    model, masked = GCN(data.num_features, 2), attach_split(data, seed=0)
    with pytest.raises(InputError, match="start must be a Perturbation, not a int"):
        attacks.create("dice")(model, masked, 1, start=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="restarts must be a whole number"):
        attacks.create("dice")(model, masked, 1, restarts=1.5)  # type: ignore[arg-type]


def test_a_loss_that_is_not_finite_ends_a_fit() -> None:
    purifier = pg.GPRGAE(hops=1, node_channels=2, edge_channels=2)
    with pytest.raises(InputError, match="training loss became"):
        purifier.fit(communities(), epochs=1, symmetry=1e300)


@pytest.mark.parametrize("name", ["learning_rate", "weight_decay"])
def test_rates_are_bounded(name: str) -> None:
    with pytest.raises(InputError, match=name):
        training.TrainingSettings(**{name: 1e300})
    with pytest.raises(InputError, match=name):
        pg.GPRGAE.fit_settings_class(**{name: 1e300})
    with pytest.raises(InputError, match="learning_factor"):
        attacks.create("prbcd", learning_factor=1e300)


def test_a_label_that_is_no_class_is_found_before_memory_is_full(data: Data) -> None:
    split = inductive_split(attach_split(data, seed=0))
    split.train.y = split.train.y.clone()
    split.train.y[split.train.train_mask] = 2**62
    with pytest.raises(InputError, match="Number the classes from 0"):
        training.train("gcn", "vanilla", split, settings={"epochs": 1})


@pytest.mark.parametrize("amount", ["1", None, True, [1], float("nan"), -1])
def test_a_budget_is_a_number(amount: object) -> None:
    with pytest.raises(BudgetError, match="must be a number, finite and not negative"):
        Budget(amount)  # type: ignore[arg-type]
    if amount is not None:
        with pytest.raises(BudgetError, match="A local budget must be a number"):
            Budget(1, local=amount)  # type: ignore[arg-type]


def test_a_budget_is_of_nodes_that_there_are(data: Data) -> None:
    graph = read_data(data)[0]
    for targets in (torch.tensor([120]), [500], torch.ones(3, dtype=torch.bool), torch.tensor([0.5])):
        for kind in ("incident", "half-degree"):
            with pytest.raises(InputError, match="targets"):
                Budget(0.1, kind).limits(graph, targets)  # type: ignore[arg-type]
    assert Budget(1.0).resolve(graph, [3]) == Budget(1.0).resolve(graph, torch.tensor([3]))  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["train_per_class", "val_per_class", "test_share"])
@pytest.mark.parametrize("value", ["1", None, float("nan"), -1])
def test_a_split_is_drawn_by_numbers(argument: str, value: object, data: Data) -> None:
    with pytest.raises(InputError, match=f"{argument} must be"):
        attach_split(data, seed=0, **{argument: value})  # type: ignore[arg-type]


def test_a_split_needs_edges_and_features_that_can_be_divided(data: Data) -> None:
    split = attach_split(data, seed=0)
    for name, value, message in (
        ("edge_index", torch.tensor([[0], [120]]), "there are 120 nodes"),
        ("edge_index", torch.tensor(3), "edge_index must be a tensor"),
        ("edge_index", data.edge_index.to_sparse(), "sparse tensor"),
        ("edge_weight", torch.ones(3), "edge_weight must have one entry"),
        ("x", data.x.tolist(), "data.x must be a tensor with one row per node"),
        ("x", torch.tensor(1.0), "data.x must be"),
    ):
        broken = split.clone()
        broken[name] = value
        with pytest.raises(GraphError, match=message):
            inductive_split(broken)


@pytest.mark.parametrize("number", [-1, 2.5, "3", 2**62])
def test_an_edge_list_has_a_possible_number_of_nodes(number: object, data: Data) -> None:
    with pytest.raises(GraphError, match="num_nodes must be a whole number"):
        read_edge_index(data.edge_index, None, number)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="num_nodes must be a whole number"):
        read_edge_index(torch.tensor([[0], [2**62]]))


@pytest.mark.parametrize("weight", ["heavy", None, [1], 10**400])
def test_the_weights_of_networkx_are_numbers(weight: object) -> None:
    graph = networkx.path_graph(3)
    graph.add_edge(0, 1, weight=weight)
    with pytest.raises(GraphError, match="between 0 and 1 is not a number"):
        as_pair_graph(graph)


def test_protection_is_of_a_module(trained: pg.GPRGAE, data: Data) -> None:
    with pytest.raises(InputError, match="The classifier is a str"):
        pg.protect("gcn", trained)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="threshold must be a number"):
        pg.protect(GCN(data.num_features, 2), trained, threshold="a")  # type: ignore[arg-type]


def test_validation_features_may_have_another_precision(data: Data) -> None:
    split = inductive_split(attach_split(data, seed=0))
    split.validation.x = split.validation.x.double()
    purifier = pg.GPRGAE(hops=1, node_channels=2, edge_channels=2)
    assert purifier.fit(split.train, validation=split.validation, epochs=1).is_fitted


def test_an_evaluation_needs_features_in_a_tensor(data: Data) -> None:
    masked = attach_split(data, seed=0)
    masked.x = "text"
    with pytest.raises(InputError, match="data.x must be a tensor"):
        pg.evaluate(GCN(data.num_features, 2), masked, attack="dice", epsilons=0.1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_a_split_of_short_integers_is_that_of_long_ones(dtype: torch.dtype, data: Data) -> None:
    split = attach_split(data, seed=0)
    expected = inductive_split(split).train.edge_index
    split.edge_index = split.edge_index.to(dtype)
    assert inductive_split(split).train.edge_index.equal(expected)


def test_a_split_divides_arrays_and_lists_too(data: Data) -> None:
    split = attach_split(data, seed=0)
    split.y, split.names = data.y.numpy(), [f"node {node}" for node in range(120)]
    train = inductive_split(split).train
    assert train.y.tolist() == data.y[train.n_id].tolist()
    assert train.names == [f"node {node}" for node in train.n_id.tolist()]
    split.x = data.x.to_sparse_csc()
    with pytest.raises(GraphError, match="dense or sparse by rows"):
        inductive_split(split)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_infinite_features_are_named_in_any_precision(dtype: torch.dtype, data: Data) -> None:
    x = data.x.to(dtype)
    x[3, 2] = float("inf")
    with pytest.raises(InputError, match="inf in row 3, column 2"):
        read_features(x)


def test_a_split_is_chosen_by_a_whole_number() -> None:
    mask = torch.ones(4, 2, dtype=torch.bool)
    with pytest.raises(InputError, match="split must be a whole number"):
        read_mask(mask, 4, name="test_mask", split=0.5)  # type: ignore[arg-type]
    assert read_mask(mask, 4, name="test_mask", split=1).shape == (4,)
