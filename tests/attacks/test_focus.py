"""Focus: a budget that is spent on the targets that can be won."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks, losses
from purigraph.attacks.victim import Victim
from purigraph.errors import InputError
from purigraph.graph import as_pair_graph
from purigraph.training import train


@pytest.fixture(scope="module")
def data() -> Data:
    return pg.datasets.load("synthetic-citation")


@pytest.fixture(scope="module")
def gcn(data: Data) -> torch.nn.Module:
    from purigraph.graph import inductive_split

    return train("gcn", "vanilla", inductive_split(data), settings={"epochs": 60}).model.eval()


def victim_of(gcn: torch.nn.Module, data: Data) -> Victim:
    return Victim(gcn, data.x, data.y, data.test_mask.nonzero().squeeze(1), losses.create("margin"))


def test_margins_are_those_of_the_probabilities(gcn: torch.nn.Module, data: Data) -> None:
    victim, graph = victim_of(gcn, data), as_pair_graph(data)
    margin = victim.margins(graph)
    with torch.no_grad():
        probability = gcn(data.x, data.edge_index)[data.test_mask].softmax(1)
    labels = data.y[data.test_mask]
    for row in range(0, len(labels), 7):
        others = torch.cat([probability[row, : labels[row]], probability[row, labels[row] + 1 :]])
        assert float(margin[row]) == pytest.approx(float(probability[row, labels[row]] - others.max()), abs=1e-5)
    assert torch.equal(margin > 0, victim.predict(graph)[1])


def test_only_the_weakest_targets_are_attacked(
    gcn: torch.nn.Module, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    original = Victim.on

    def noted(self: Victim, targets: torch.Tensor, labels: torch.Tensor) -> Victim:
        seen.append(targets)
        return original(self, targets, labels)

    monkeypatch.setattr(Victim, "on", noted)
    attack = attacks.create("prbcd", epochs=3, fine_tune_epochs=2, block_size=4000, focus=2.0)
    attack(gcn, data, 20)
    margin = victim_of(gcn, data).margins(as_pair_graph(data))
    targets = data.test_mask.nonzero().squeeze(1)
    right = margin > 0
    weakest = targets[right][margin[right].argsort()[:10]].sort().values
    assert torch.equal(seen[0], weakest)
    seen.clear()

    def anchored(x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        with_edges = gcn(x, edge_index, edge_weight)
        with_edges[weakest] = with_edges[weakest] * 0 + torch.eye(with_edges.shape[1])[data.y[weakest]] * 1e-3
        return with_edges

    attack(anchored, data, 20)
    assert not torch.isin(seen[0], weakest).any()  # what does not depend on edges can't be won
    seen.clear()
    attack(gcn, data, 2 * len(targets))  # enough for all of them: nothing to choose
    assert not seen


def test_it_wins_more_than_an_attack_on_all_of_them(gcn: torch.nn.Module, data: Data) -> None:
    left = {}
    for focus in (None, 1.5):
        attack = attacks.create(
            "prbcd", loss="elu-margin", epochs=40, fine_tune_epochs=20, block_size=4000, focus=focus
        )
        flips = attack(gcn, data, 80)
        assert len(flips) <= 80
        edge_index, _ = flips.apply(as_pair_graph(data)).edge_index()
        with torch.no_grad():
            right = gcn(data.x, edge_index).argmax(1) == data.y
        left[focus] = float(right[data.test_mask].double().mean())
    assert left[1.5] < left[None]


def test_the_default_ensemble_has_such_attacks() -> None:
    hour, focused = pg.evaluation.hour_ensemble(), pg.evaluation.focused_ensemble()
    added = [member for member in focused if member not in hour]
    assert [member.settings["focus"] for member in added] == [2.0, 4.0]
    assert [member for member in focused if member in hour] == hour
    assert {member.name for member in added} <= {member.name for member in pg.evaluation.thorough_ensemble()}


def test_no_flips_for_a_target_make_no_sense() -> None:
    with pytest.raises(InputError, match="focus"):
        attacks.create("prbcd", focus=0.0)
    worst = pg.worst_case(
        _blind, communities_with_targets(), epsilons=[0.2], ensemble="focused", epochs=1, yardsticks=False
    )
    assert worst.attacked(0.2) <= worst.clean


def communities_with_targets() -> Data:
    data = communities()
    data.y = (torch.arange(data.num_nodes) % 2).long()
    data.test_mask = torch.ones(data.num_nodes, dtype=torch.bool)
    return data


def _blind(x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
    """A model whose answers are sums over neighbours."""
    total = x.new_zeros(len(x)).index_add(0, edge_index[1], edge_weight * x[edge_index[0], 0])
    return torch.stack([total, -total], dim=1)
