"""Splits: sizes, nesting, index maps, and what is said when they can't be had."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from helpers import communities
from purigraph.errors import GraphError, InputError
from purigraph.graph.sparse_features import csr_from_scipy, csr_to_scipy
from purigraph.graph.splits import MASKS, attach_split, inductive_split


def labelled(sizes: list[int], seed: int = 0) -> Data:
    """A random graph whose classes have these sizes, in a random order of nodes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    y = y[torch.randperm(len(y), generator=generator)]
    upper = torch.triu(torch.rand(len(y), len(y), generator=generator) < 0.1, diagonal=1)
    edge_index = (upper | upper.t()).nonzero().t().contiguous()
    weight = torch.rand(len(y), len(y), generator=generator)
    weight = (weight + weight.t())[edge_index[0], edge_index[1]]
    return Data(x=torch.rand(len(y), 3, generator=generator), y=y, edge_index=edge_index, edge_weight=weight)


@given(
    sizes=st.lists(st.integers(20, 60), min_size=1, max_size=4),
    train=st.integers(0, 6),
    validation=st.integers(0, 6),
    percent=st.integers(0, 40),
    seed=st.integers(0, 2**32),
)
def test_split_is_stratified_and_disjoint(
    sizes: list[int], train: int, validation: int, percent: int, seed: int
) -> None:
    data = labelled(sizes)
    settings = {"train_per_class": train, "val_per_class": validation, "test_share": percent / 100}

    split = attach_split(data, seed=seed, **settings)

    assert (split.train_mask.int() + split.val_mask.int() + split.test_mask.int()).max() <= 1
    for label, size in enumerate(sizes):
        own = split.y == label
        expected = [train, validation, math.ceil(size * percent / 100 - 1e-9)]
        assert [int((split[name] & own).sum()) for name in MASKS] == expected
    again = attach_split(data, seed=seed, **settings)
    assert all(torch.equal(split[name], again[name]) for name in MASKS)
    assert "train_mask" not in data


def test_a_share_of_whole_nodes_is_not_rounded_up() -> None:
    assert 0.07 * 100 > 7
    assert int(attach_split(labelled([100]), seed=0, test_share=0.07).test_mask.sum()) == 7
    assert int(attach_split(labelled([101]), seed=0, test_share=0.07).test_mask.sum()) == 8


def test_seed_matters_and_global_random_state_does_not() -> None:
    data = labelled([60, 60])
    splits = []
    for state in (1, 2):
        np.random.seed(state)  # noqa: NPY002 (what must have no effect)
        torch.manual_seed(state)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        splits.append(attach_split(data, seed=0))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    first, second = splits
    assert all(torch.equal(first[name], second[name]) for name in MASKS)
    assert not torch.equal(first.train_mask, attach_split(data, seed=1).train_mask)


def test_nodes_without_label_stay_out_of_all_masks() -> None:
    data = labelled([60, 60])
    data.y[:5] = -1
    split = attach_split(data, seed=0)
    assert not any(split[name][:5].any() for name in MASKS)


@pytest.mark.parametrize(
    ("sizes", "settings", "message"),
    [
        ([60, 43], {}, "class 1 has 43 nodes, but the split needs 45"),
        ([60], {"test_share": 1.0}, "test_share must be in"),
        ([60], {"train_per_class": -1}, "train_per_class must be a whole number"),
    ],
)
def test_impossible_splits_are_refused(sizes: list[int], settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attach_split(labelled(sizes), seed=0, **settings)


def test_labels_are_needed() -> None:
    data = labelled([60])
    data.y = data.y.float()
    with pytest.raises(GraphError, match="one integer label per node"):
        attach_split(data, seed=0)
    del data.y
    with pytest.raises(GraphError, match=r"data\.y is missing"):
        attach_split(data, seed=0)


@given(seed=st.integers(0, 1000))
def test_inductive_graphs_are_nested_and_induced(seed: int) -> None:
    data = attach_split(labelled([60, 50], seed), seed=seed)
    data.name = "toy"

    split = inductive_split(data)

    everything = set(range(data.num_nodes))
    test_nodes = set(data.test_mask.nonzero().flatten().tolist())
    val_nodes = set(data.val_mask.nonzero().flatten().tolist())
    assert set(split.test.n_id.tolist()) == everything
    assert set(split.validation.n_id.tolist()) == everything - test_nodes
    assert set(split.train.n_id.tolist()) == everything - test_nodes - val_nodes
    dense = torch.zeros(data.num_nodes, data.num_nodes)
    dense[data.edge_index[0], data.edge_index[1]] = data.edge_weight
    for part in (split.train, split.validation, split.test):
        assert (part.n_id.diff() > 0).all()
        assert torch.equal(part.x, data.x[part.n_id])
        assert torch.equal(part.y, data.y[part.n_id])
        assert all(torch.equal(part[name], data[name][part.n_id]) for name in MASKS)
        found = torch.zeros(part.num_nodes, part.num_nodes)
        found[part.edge_index[0], part.edge_index[1]] = part.edge_weight
        assert torch.equal(found, dense[part.n_id][:, part.n_id])
        assert part.name == "toy"
    assert not split.train.val_mask.any()
    assert not split.train.test_mask.any()
    assert "n_id" not in data


def test_several_splits_are_chosen_by_number() -> None:
    data = labelled([60, 60])
    drawn = [attach_split(data, seed=seed) for seed in range(3)]
    for name in MASKS:
        data[name] = torch.stack([split[name] for split in drawn], dim=1)
    for number, expected in enumerate(drawn):
        part = inductive_split(data, split=number).test
        assert all(torch.equal(part[name], expected[name]) for name in MASKS)
    with pytest.raises(InputError, match=r"split must be in 0\.\.2"):
        inductive_split(data, split=3)


def test_sparse_features_and_a_stored_number_of_nodes_follow() -> None:
    data = attach_split(labelled([60, 60]), seed=0)
    dense = (data.x * (data.x > 0.5)).numpy()
    data.x = csr_from_scipy(dense)
    train = inductive_split(data).train
    assert train.x.layout == torch.sparse_csr
    assert np.array_equal(csr_to_scipy(train.x).toarray(), dense[train.n_id.numpy()])

    bare = Data(y=data.y, edge_index=data.edge_index, num_nodes=120, **{name: data[name] for name in MASKS})
    train = inductive_split(bare).train
    assert train.num_nodes == len(train.n_id) == int((~(data.val_mask | data.test_mask)).sum())


def test_bad_masks_are_named() -> None:
    data = labelled([60])
    with pytest.raises(GraphError, match=r"data\.train_mask is missing.*attach_split"):
        inductive_split(data)
    data = attach_split(data, seed=0)
    data.val_mask[data.test_mask.nonzero()[0]] = True
    with pytest.raises(GraphError, match="val_mask and test_mask share 1 nodes, the first is node"):
        inductive_split(data)
    data.val_mask = data.val_mask.long()
    with pytest.raises(GraphError, match=r"data\.val_mask must be boolean"):
        inductive_split(data)
    with pytest.raises(InputError, match=r"split must be in 0\.\.0"):
        inductive_split(attach_split(data, seed=0), split=1)


def test_an_edge_list_of_bytes_is_no_mask() -> None:
    data = attach_split(communities(), seed=0, train_per_class=2, val_per_class=2)
    bytes_ = data.clone()
    bytes_.edge_index = data.edge_index.to(torch.uint8)
    assert inductive_split(bytes_).train.edge_index.equal(inductive_split(data).train.edge_index)
