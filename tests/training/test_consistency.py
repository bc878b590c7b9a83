"""Training for answers that stay the same when a part of the graph is hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers import communities
from purigraph import checkpoints
from purigraph.errors import InputError
from purigraph.graph.splits import InductiveSplit, attach_split, inductive_split
from purigraph.kernels import Features
from purigraph.training import TrainingResult, train
from purigraph.training.consistency import hide_nodes, sharpened


@pytest.fixture(scope="module")
def split() -> InductiveSplit:
    return inductive_split(attach_split(communities(160), seed=0, train_per_class=5, val_per_class=8))


def test_hidden_nodes_have_no_features_and_the_mean_stays(split) -> None:
    data = split.train
    forms = {"dense": data.x, "coo": data.x.to_sparse_coo(), "csr": data.x.to_sparse_csr(), "kept": Features(data.x)}
    found = {}
    for name, x in forms.items():
        torch.manual_seed(3)
        hidden = hide_nodes(x, 0.5, data)
        found[name] = hidden.times(torch.eye(data.x.shape[1])) if isinstance(hidden, Features) else hidden.to_dense()
    gone = (found["dense"] == 0).all(1) & (data.x != 0).any(1)
    assert 0.3 < float(gone.double().mean()) < 0.7
    assert torch.equal(found["dense"][~gone], 2 * data.x[~gone])
    assert all(torch.equal(one, found["dense"]) for one in found.values())
    assert hide_nodes(data.x, 0.0, data) is data.x


def test_features_that_are_mostly_zero_lose_rows_too() -> None:
    x = torch.zeros(6, 40)
    x[torch.arange(6), torch.arange(6)] = torch.arange(1.0, 7.0)
    features, factor = Features(x), torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0, 0.5])
    assert features.is_sparse
    assert torch.equal(features.scaled_rows(factor).times(torch.eye(40)), x * factor.unsqueeze(1))
    assert torch.equal(features.times(torch.eye(40)), x)  # the one that was given has not changed


def test_sharpening_keeps_the_order_and_the_sum() -> None:
    given = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    found = sharpened(given, 0.5)
    assert torch.allclose(found, given.square() / given.square().sum(1, keepdim=True), atol=1e-6)
    assert torch.allclose(sharpened(given, 1.0), given, atol=1e-6)


class Watching(nn.Module):
    """A linear model that notes which rows and how many edges it was shown in training."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.linear = nn.Linear(24, 2)
        self.shown: list[tuple[Tensor, int]] = []

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training:
            self.shown.append(((x == 0).all(1), edge_index.shape[1]))
        logits: Tensor = self.linear(x)
        return logits


def test_every_view_hides_other_nodes_and_loses_edges_if_asked(split) -> None:
    settings: dict[str, Any] = {"epochs": 3, "views": 2, "hidden": 0.4, "choose_from": 1}
    model = train(Watching, "consistency", split, settings=settings).model
    assert isinstance(model, Watching)
    assert len(model.shown) == 6
    assert len({tuple(rows.tolist()) for rows, _ in model.shown}) == 6
    assert {edges for _, edges in model.shown} == {split.train.edge_index.shape[1]}
    fewer = train(Watching, "consistency", split, settings={**settings, "dropped": 0.5}).model
    assert isinstance(fewer, Watching)
    counts = [edges for _, edges in fewer.shown]
    assert len(set(counts)) > 1
    assert max(counts) < split.train.edge_index.shape[1]


def test_unlabelled_nodes_teach(split) -> None:
    """With a weight of 0 the answers of unlabelled nodes differ more between views than with one."""

    def spread(weight: float) -> float:
        settings = {"epochs": 150, "choose_from": 150, "weight": weight, "ramp": 20, "temperature": 1.0}
        result = train("gcn", "consistency", split, settings=settings, hyper={"hidden_channels": 8})
        model, data = result.model, split.train
        assert result.best_epoch == 150
        torch.manual_seed(0)
        with torch.no_grad():
            views = [model(hide_nodes(data.x, 0.5, data), data.edge_index).softmax(1) for _ in range(8)]
        return float(torch.stack(views).var(0).sum(1)[~data.train_mask].mean())

    assert spread(10.0) < 0.5 * spread(0.0)


class Interrupted(nn.Module):
    """A model that is stopped by Ctrl-C at a call."""

    def __init__(self, model: nn.Module, stop_at: int) -> None:
        super().__init__()
        self.model, self.calls, self.stop_at = model, 0, stop_at

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        logits: Tensor = self.model(x, edge_index)
        return logits


def test_it_resumes_to_the_same_bits(split, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)

    def run(stop_at: int, checkpoint: Path | None = None) -> TrainingResult:
        settings = {"epochs": 8, "views": 2, "choose_from": 3, "dropped": 0.2}

        def make(seed: int) -> nn.Module:
            return Interrupted(Watching(seed), stop_at)

        return train(make, "consistency", split, settings=settings, checkpoint=checkpoint)

    whole = run(-1)
    with pytest.raises(KeyboardInterrupt):
        run(12, tmp_path / "run")  # in the middle of an epoch, between two views
    resumed = run(-1, tmp_path / "run")
    assert whole.best_epoch >= 3
    assert whole.train_losses == resumed.train_losses
    states = whole.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize(("name", "value"), [("views", 1), ("hidden", 1.0), ("temperature", 0.0), ("ramp", 0)])
def test_settings_out_of_range_are_refused(split, name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        train("gcn", "consistency", split, settings={name: value})
