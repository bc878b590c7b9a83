"""Flipped features: as many as asked for, at the targets alone, and against an anchor too."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import purigraph as pg
from purigraph.errors import InputError
from purigraph.evaluation import flip_features, model_accuracy
from purigraph.graph import inductive_split
from purigraph.training import train


class Linear(nn.Module):
    """Class 0 by the first feature, class 1 by the second; the third says nothing."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        return x[:, :2] * torch.tensor([1.0, 3.0])


def test_the_worst_flip_comes_first() -> None:
    data = Data(x=torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), edge_index=torch.tensor([[0, 1], [1, 0]]))
    data.y, data.test_mask = torch.tensor([0, 1]), torch.tensor([True, False])
    once = flip_features(Linear(), data, 1)
    assert once.x.tolist() == [[1, 1, 1], [0, 1, 1]], "adding the other word counts three times as much"
    assert flip_features(Linear(), data, 2).x.tolist() == [[0, 1, 1], [0, 1, 1]]
    assert data.x.tolist() == [[1, 0, 1], [0, 1, 1]]
    assert torch.equal(flip_features(Linear(), data, 0).x, data.x)
    for wrong in (-1, 4):
        with pytest.raises(InputError, match="from 0 to"):
            flip_features(Linear(), data, wrong)
    data.x = data.x.to_sparse()
    with pytest.raises(InputError, match="dense"):
        flip_features(Linear(), data, 1)


def test_an_anchor_can_be_lied_to() -> None:
    split = inductive_split(pg.datasets.load("synthetic-citation"))
    gcn = train("gcn", "vanilla", split, settings={"epochs": 30}).model
    anchor = pg.Anchor(topics=8, landmarks=16).fit(gcn, split.train, folds=2).with_margin(0.0)
    model = pg.protect(gcn, None, anchor=anchor)
    lied = flip_features(model, split.test, 5)
    changed = (lied.x != split.test.x).sum(1)
    assert bool((changed[split.test.test_mask] == 5).all())
    assert not changed[~split.test.test_mask].any()
    assert model_accuracy(model, lied) < model_accuracy(model, split.test) - 0.1
