"""Nodes and labels at the border."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from purigraph.errors import InputError
from purigraph.graph.nodes import read_labels, read_nodes, read_targets


@pytest.mark.parametrize(
    "nodes",
    [
        torch.tensor([3, 1, 3]),
        torch.tensor([3, 1], dtype=torch.int32),
        torch.tensor([False, True, False, True, False]),
        np.array([1, 3]),
        [1, 3],
    ],
)
def test_masks_and_indices_are_the_same_nodes(nodes: Any) -> None:
    assert read_nodes(nodes, 5, name="targets").tolist() == [1, 3]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.int32])
def test_a_mask_of_integers_is_refused_with_advice(dtype: torch.dtype) -> None:
    mask = torch.tensor([0, 1, 0, 1, 1], dtype=dtype)
    with pytest.raises(InputError, match=r"nodes holds 5 zeros and ones.*mask\.bool\(\)"):
        read_nodes(mask, 5, name="nodes")
    assert read_nodes(mask.bool(), 5, name="nodes").tolist() == [1, 3, 4]
    assert read_nodes(torch.tensor([0, 1, 1], dtype=dtype), 5, name="nodes").tolist() == [0, 1]


def test_all_nodes_of_a_pair_may_be_named() -> None:
    assert read_nodes(torch.tensor([0, 1]), 2, name="targets").tolist() == [0, 1]
    assert read_nodes(torch.tensor([0]), 1, name="targets").tolist() == [0]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (torch.tensor([True, False]), r"targets is a mask of shape \(2,\); it must be \(5,\)"),
        (torch.tensor([[True] * 5]), r"targets is a mask of shape \(1, 5\)"),
        (torch.tensor([0.0, 1.0]), "targets must be .* integer node indices.*float32"),
        (torch.tensor([[0, 1]]), r"targets must be .* not \(1, 2\)"),
        (torch.tensor(1), "targets must be"),
        (torch.tensor([5]), "targets must be nodes from 0 to 4; 5 is not"),
        (torch.tensor([-1, 2]), "-1 is not"),
        (torch.tensor([], dtype=torch.int64), "targets names no nodes"),
        (torch.zeros(5, dtype=torch.bool), "targets names no nodes"),
    ],
)
def test_what_names_no_nodes_is_explained(nodes: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_nodes(nodes, 5, name="targets")


def test_labels() -> None:
    assert read_labels(torch.tensor([1, -1], dtype=torch.int32), 2, name="labels").dtype == torch.int64
    with pytest.raises(InputError, match=r"labels must be \(2,\) integers.*it is \(3,\)"):
        read_labels(torch.arange(3), 2, name="labels")
    with pytest.raises(InputError, match=r"data\.y must be .*float"):
        read_labels(torch.ones(2), 2, name="data.y")


def test_targets_and_labels_come_from_the_data_by_default() -> None:
    data = Data(y=torch.tensor([0, 1, -1]), test_mask=torch.tensor([True, False, False]), num_nodes=3)
    targets, labels = read_targets(data, None, None, 3)
    assert (targets.tolist(), labels.tolist()) == ([0], [0, 1, -1])
    targets, labels = read_targets(data, torch.tensor([2]), torch.tensor([1, 1, 1]), 3)
    assert (targets.tolist(), labels.tolist()) == ([2], [1, 1, 1])
    with pytest.raises(InputError, match="negative label"):
        read_targets(data, torch.tensor([2]), None, 3)
    with pytest.raises(InputError, match="no test_mask"):
        read_targets(Data(y=data.y), None, None, 3)
    with pytest.raises(InputError, match=r"labels are missing, as data\.y is missing"):
        read_targets(("x", "graph"), torch.tensor([0]), None, 3)
    data.test_mask = torch.zeros(3, dtype=torch.bool)
    with pytest.raises(InputError, match=r"data\.test_mask names no nodes"):
        read_targets(data, None, None, 3)
