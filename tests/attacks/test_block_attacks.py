"""Strength of the gradient attacks, and what their shared core promises."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from attacks.attack_scenes import train, two_communities
from purigraph.attacks import LRBCD, PGD, PRBCD, Attack, RandomFlip, Relaxable
from purigraph.attacks.victim import Verdict, Victim
from purigraph.errors import InputError, UnsupportedModelError
from purigraph.graph import PairGraph, read_data
from purigraph.graph.budget import Budget
from purigraph.graph.perturbation import Perturbation
from purigraph.losses import tanh_margin

TARGETS = torch.arange(0, 60, 3)


def verdict(model: Any, data: Data, targets: Tensor, flips: Perturbation) -> Verdict:
    graph = read_data(data)[0]
    graph = graph.with_weight(graph.weight.to(data.x.dtype))
    return Victim(model, data.x, data.y, targets, tanh_margin).verdict(flips.apply(graph))


@pytest.mark.parametrize(
    "attack",
    [
        PRBCD(epochs=40, fine_tune_epochs=20, block_size=500),
        PRBCD(epochs=40, fine_tune_epochs=20, block_size=500, rounding=False),
        LRBCD(epochs=40, fine_tune_epochs=20, block_size=500),
        LRBCD(epochs=40, fine_tune_epochs=20, block_size=500, rounding=False, projection="greedy"),
        PGD(epochs=60),
    ],
    ids=repr,
)
def test_lowers_accuracy_more_than_random_flips(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    clean = verdict(toy_model, toy_data, TARGETS, Perturbation(60))
    attacked = verdict(toy_model, toy_data, TARGETS, attack(toy_model, toy_data, 12, targets=TARGETS))
    random = min(
        verdict(toy_model, toy_data, TARGETS, RandomFlip()(toy_model, toy_data, 12, targets=TARGETS, seed=seed))
        for seed in range(5)
    )
    assert clean.accuracy >= 0.9
    assert attacked.accuracy <= random.accuracy - 0.1


def test_rounding_makes_the_attack_stronger() -> None:
    accuracies = {True: 0.0, False: 0.0}
    targets = torch.arange(0, 200, 2)
    for seed in range(3):
        data = two_communities(200, seed)
        model = train(data)
        for rounding in accuracies:
            attack = PRBCD(epochs=60, fine_tune_epochs=30, block_size=1000, rounding=rounding)
            flips = attack(model, data, 30, targets=targets, seed=seed)
            accuracies[rounding] += verdict(model, data, targets, flips).accuracy
    assert accuracies[True] <= accuracies[False]


@pytest.mark.parametrize("seed", range(6))
def test_pgd_finds_the_best_single_flip(seed: int) -> None:
    """Of 190 pairs; it tries at most 41 whole flips, so that chance would not do."""
    data = two_communities(20, seed, torch.float64)
    model = train(data)
    targets = torch.arange(20)
    graph = read_data(data)[0]
    best = verdict(model, data, targets, Perturbation(20))
    for pair in combinations(range(20), 2):
        flip = verdict(model, data, targets, Perturbation.of_flips(graph, torch.tensor(pair).view(2, 1)))
        best = flip if flip.beats(best) else best

    found = PGD()(model, data, 1, targets=targets)

    assert verdict(model, data, targets, found) == pytest.approx(best)


def test_removes_edges_too() -> None:
    """Where only a cut can hurt, a cut is found: the label of a node is whether it has a neighbour."""
    graph = PairGraph(6, torch.tensor([[0, 2], [1, 3]]))

    def model(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        degree = edge_weight.new_zeros(len(x)).index_add(0, edge_index[0], edge_weight)
        return torch.stack([degree, 0.5 - degree], dim=1)

    labels = torch.zeros(6, dtype=torch.int64)
    targets = torch.tensor([0, 1, 2, 3])
    for attack in (PRBCD(epochs=20, fine_tune_epochs=10, block_size=15), PGD(epochs=30)):
        flips = attack(model, (torch.ones(6, 1), graph), 2, targets=targets, labels=labels)
        assert flips.removed.tolist() == [[0, 2], [1, 3]]


class Recorder(nn.Module):
    """Remembers which edge lists it was given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.seen: list[tuple[Tensor, bool]] = []

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        self.seen.append((edge_index, edge_weight.requires_grad))
        return self.model(x, edge_index, edge_weight)


def test_the_edge_list_stays_the_same_object_while_the_block_does(toy_data: Data, toy_model: Any) -> None:
    model = Recorder(toy_model)
    PRBCD(epochs=3, fine_tune_epochs=5, block_size=100, final_samples=1)(model, toy_data, 4, targets=TARGETS)
    lists = [edge_index for edge_index, with_gradient in model.seen if with_gradient]
    assert len({id(edge_index) for edge_index in lists[3:8]}) == 1
    assert len({id(edge_index) for edge_index in lists[:3]}) == 3
    for edge_index, _ in model.seen:
        assert edge_index.dtype == torch.int64
        assert ((edge_index[0] * 60 + edge_index[1]).diff() > 0).all()


def test_one_evaluation_per_epoch(toy_data: Data, toy_model: Any) -> None:
    model = Recorder(toy_model)
    attack = PRBCD(epochs=10, fine_tune_epochs=10, block_size=100, final_samples=1, rounding=False)
    attack(model, toy_data, 4, targets=TARGETS)
    assert sum(with_gradient for _, with_gradient in model.seen) == 20
    # Without gradient: the clean graph, the last block of both phases, the choice, and the judge.
    assert len(model.seen) - 20 == 5


def test_weights_of_the_graph_are_kept() -> None:
    """A weighted edge is cut from its own weight, not from 1."""
    seen = []

    def model(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        seen.extend(edge_weight.tolist())
        total = edge_weight.sum()
        return torch.stack([total.expand(3), (2 - total).expand(3)], dim=1)

    graph = PairGraph(3, torch.tensor([[0], [1]]), torch.tensor([4.0]))
    labels = torch.zeros(3, dtype=torch.int64)
    flips = PGD(loss="margin")(model, (torch.ones(3, 1), graph), 1, targets=torch.arange(3), labels=labels)
    assert flips.removed.tolist() == [[0], [1]]
    assert max(seen) == 4.0


def test_a_model_without_edge_weights_is_refused(toy_data: Data) -> None:
    linear = nn.Linear(6, 2)
    with pytest.raises(UnsupportedModelError, match="evolutionary"):
        PGD()(lambda x, edge_index, edge_weight: linear(x), toy_data, 1, targets=TARGETS)
    with pytest.raises(UnsupportedModelError, match="evolutionary"):
        PGD()(lambda x, edge_index, edge_weight: linear(x).detach(), toy_data, 1, targets=TARGETS)
    with pytest.raises(UnsupportedModelError, match=r"\(60, number of classes\)"):
        PGD()(lambda x, edge_index, edge_weight: linear(x)[:5], toy_data, 1, targets=TARGETS)


def test_gradients_that_are_not_finite_do_not_stop_the_attack(toy_data: Data, toy_model: Any) -> None:
    class Spike(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            # The derivative of sqrt at 0 is infinite, and 0 times it is nan: at every edge of the first ten nodes.
            there = (edge_index < 10).any(0).nonzero().squeeze(1)
            spike = (edge_weight.detach() - edge_weight)[there].clamp(min=0).sqrt()
            spike = torch.zeros_like(edge_weight).index_put((there,), spike)
            return toy_model(x, edge_index, edge_weight + spike)

    flips = PRBCD(epochs=20, fine_tune_epochs=10, block_size=300)(Spike(), toy_data, 8, targets=TARGETS)
    assert len(flips) == 8
    assert verdict(toy_model, toy_data, TARGETS, flips).accuracy < 0.9


def test_a_broken_model_is_named(toy_data: Data) -> None:
    with pytest.raises(InputError, match="not finite"):
        PGD()(lambda x, edge_index, edge_weight: torch.full((60, 2), torch.nan), toy_data, 1, targets=TARGETS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": -1}, "epochs"),
        ({"block_size": 0}, "block_size"),
        ({"learning_factor": 0.0}, "learning_factor"),
        ({"final_samples": 0}, "final_samples"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    for kind in (PRBCD, LRBCD):
        with pytest.raises(InputError, match=message):
            kind(**settings)


def test_bad_settings_of_lrbcd() -> None:
    with pytest.raises(InputError, match="local"):
        LRBCD(local=-0.1)
    with pytest.raises(InputError, match="'nearest' or 'greedy'"):
        LRBCD(projection="exact")  # type: ignore[arg-type]


def test_a_block_smaller_than_the_budget(toy_data: Data, toy_model: Any) -> None:
    with pytest.raises(InputError, match="several times the budget"):
        PRBCD(block_size=5)(toy_model, toy_data, 6, targets=TARGETS)


def test_no_node_has_a_local_budget(toy_data: Data, toy_model: Any) -> None:
    assert len(LRBCD(local=0.0)(toy_model, toy_data, 6, targets=TARGETS)) == 0


def test_local_share_of_the_budget_goes_before_the_attack_s(toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    attack = LRBCD(epochs=5, fine_tune_epochs=5, block_size=300, local=0.2)
    flips = attack(toy_model, toy_data, Budget(10, "absolute", local=1.0), targets=TARGETS)
    assert (flips.degree() > (0.2 * graph.degree()).floor()).any()


def test_length_follows_the_epochs() -> None:
    assert PRBCD(loss="margin").with_epochs(60) == PRBCD(loss="margin", epochs=60, fine_tune_epochs=15)
    assert LRBCD(local=0.2).with_epochs(2) == LRBCD(local=0.2, epochs=2, fine_tune_epochs=1)
    assert PGD(rounding=False).with_epochs(60) == PGD(rounding=False, epochs=60)
    assert RandomFlip().with_epochs(60) == RandomFlip()


class Restoring(nn.Module):
    """Gives every edge its weight back, as a purifier does, so that small weights would tell an attack nothing."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self._logits(x, (edge_weight > 0).to(x.dtype).sum())

    def _logits(self, x: Tensor, entries: Tensor) -> Tensor:
        return torch.stack([5 - entries, entries - 5]).expand(len(x), 2)


class Relaxed(Restoring):
    """The same, but it knows parts of edges."""

    def relaxed(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor) -> Tensor:
        assert (edge_weight == 1).all()  # the whole weight, also of pairs that are no edges
        assert presence.min() >= 0
        assert presence.max() <= 1
        return self._logits(x, presence.sum())


def test_a_relaxable_model_is_attacked_through_its_own_relaxation() -> None:
    graph = PairGraph(6, torch.tensor([[0, 2], [1, 3]]))
    data, targets, labels = (torch.ones(6, 1), graph), torch.arange(6), torch.zeros(6, dtype=torch.int64)
    assert isinstance(Relaxed(), Relaxable)
    assert not isinstance(Restoring(), Relaxable)
    flips = PGD(epochs=6, loss="margin")(Relaxed(), data, 1, targets=targets, labels=labels)
    assert flips.added.shape[1] == 1
    with pytest.raises(UnsupportedModelError, match="no gradient"):
        PGD(epochs=6, loss="margin")(Restoring(), data, 1, targets=targets, labels=labels)
