"""Numbers and names that callers give: seeds, numbers of nodes, rates. Each is refused in one sentence, or taken."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks, training
from purigraph.classifiers import GCN
from purigraph.errors import GraphError, InputError
from purigraph.graph import Perturbation, attach_split, inductive_split
from purigraph.registry import canonical
from purigraph.seeds import read_seed


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
