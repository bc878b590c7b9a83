"""The attacks without gradients: the floors, and the evolutionary one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.attacks import DICE, Evolutionary, RandomFlip
from purigraph.errors import InputError
from purigraph.graph import read_data
from purigraph.graph.budget import Budget
from purigraph.metrics import accuracy

TARGETS = torch.arange(0, 60, 3)


@torch.no_grad()
def attacked(model: Any, data: Data, flips: Any) -> float:
    edge_index, weight = flips.apply(read_data(data)[0]).edge_index()
    return accuracy(model(data.x, edge_index, weight)[TARGETS], data.y[TARGETS])


def test_evolution_needs_predictions_only(toy_data: Data, toy_model: Any) -> None:
    @torch.no_grad()
    def black_box(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return toy_model(x, edge_index, edge_weight).argmax(1).eq(torch.arange(2)[:, None]).t().float()

    flips = Evolutionary(population=24, generations=30)(black_box, toy_data, 12, targets=TARGETS)
    random = RandomFlip()(toy_model, toy_data, 12, targets=TARGETS, restarts=5)
    assert attacked(toy_model, toy_data, flips) <= attacked(toy_model, toy_data, random) - 0.2


def test_more_generations_are_never_weaker(toy_data: Data, toy_model: Any) -> None:
    results = [
        attacked(
            toy_model, toy_data, Evolutionary(population=8, generations=n)(toy_model, toy_data, 8, targets=TARGETS)
        )
        for n in (0, 5, 20)
    ]
    assert results == sorted(results, reverse=True)


def test_evolution_flips_touch_targets(toy_data: Data, toy_model: Any) -> None:
    flips = Evolutionary(population=6, generations=3)(toy_model, toy_data, 8, targets=TARGETS).flips()
    assert torch.isin(flips, TARGETS).any(0).all()


def test_dice_cuts_within_classes_and_joins_across(toy_data: Data, toy_model: Any) -> None:
    for add_share in (0.0, 0.5, 1.0):
        flips = DICE(add_share=add_share)(toy_model, toy_data, 10, targets=TARGETS)
        y = toy_data.y
        assert (y[flips.added[0]] != y[flips.added[1]]).all()
        assert (y[flips.removed[0]] == y[flips.removed[1]]).all()
        assert flips.added.shape[1] == 10 * add_share
        assert len(flips) == 10
        assert torch.isin(flips.flips(), TARGETS).any(0).all()


def test_random_flips_spend_the_whole_budget(toy_data: Data, toy_model: Any) -> None:
    class Contrary(torch.nn.Module):
        """Any change hurts it."""

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            changed = (edge_index.sum() != toy_data.edge_index.sum()).float()
            return torch.stack([1 - 2 * changed, 2 * changed - 1]).expand(60, 2)

    labels = torch.zeros(60, dtype=torch.int64)
    assert len(RandomFlip()(Contrary(), toy_data, 25, targets=TARGETS, labels=labels)) == 25
    graph = read_data(toy_data)[0]
    local = RandomFlip()(Contrary(), toy_data, Budget(25, "absolute", local=0.5), targets=TARGETS, labels=labels)
    assert len(local) == 25
    assert (local.degree() <= graph.degree() // 2).all()


def test_bad_settings_of_the_others() -> None:
    with pytest.raises(InputError, match="add_share"):
        DICE(add_share=1.5)
    with pytest.raises(InputError, match="population"):
        Evolutionary(population=1)
    with pytest.raises(InputError, match="mutation_rate"):
        Evolutionary(mutation_rate=2.0)
    with pytest.raises(InputError, match="generations"):
        Evolutionary(generations=-1)


def test_length_follows_the_epochs() -> None:
    assert Evolutionary(population=6).with_epochs(60) == Evolutionary(population=6, generations=120)
    assert Evolutionary().with_epochs(400) == Evolutionary()


def test_evolution_wins_nothing_by_driving_the_model_to_nan(toy_data: Data, toy_model: Any) -> None:
    targets = torch.arange(0, 60, 2)
    num_edges = toy_data.edge_index.shape[1]

    def fragile(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        """Broken by every graph with an odd number of further edges."""
        broken = (edge_index.shape[1] - num_edges) // 2 % 2 == 1
        return toy_model(x, edge_index, edge_weight) * (torch.nan if broken else 1.0)

    flips = Evolutionary(population=16, generations=15)(fragile, toy_data, 12, targets=targets)
    assert len(flips) > 0
    assert (flips.added.shape[1] - flips.removed.shape[1]) % 2 == 0
