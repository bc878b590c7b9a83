"""What stands beside an accuracy under attack: yardsticks, proofs, doubts; races between attacks."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks, classifiers, evaluation
from purigraph.attacks import Race
from purigraph.evaluation import Member
from purigraph.graph import as_pair_graph, inductive_split
from purigraph.training import train

QUICK = {"epochs": 16, "fine_tune_epochs": 4, "block_size": 400, "final_samples": 3}


@pytest.fixture(scope="module")
def data() -> Data:
    graph = communities(num_nodes=150, seed=2)
    graph.train_mask = torch.arange(150) % 5 == 0
    graph.val_mask = torch.arange(150) % 5 == 1
    graph.test_mask = torch.arange(150) % 5 == 2
    return graph


@pytest.fixture(scope="module")
def gcn(data: Data) -> nn.Module:
    return train("gcn", "vanilla", inductive_split(data), seed=0).model


def test_without_edges_is_the_answer_from_features_alone(data: Data, gcn: nn.Module) -> None:
    result = pg.evaluate(gcn, data, attack="random-flip", epsilons=[0.1])
    assert result.yardsticks is not None
    with torch.no_grad():
        alone = gcn(data.x, torch.empty((2, 0), dtype=torch.int64)).argmax(1)
    right = (alone == data.y)[data.test_mask].double().mean()
    assert result.yardsticks.without_edges == pytest.approx(float(right))
    assert result.to_dict()["without_edges"] == result.yardsticks.without_edges
    assert "without edges" in str(result)


def test_the_student_sees_no_edge_and_no_label(data: Data, gcn: nn.Module) -> None:
    targets = data.test_mask.nonzero().squeeze(1)
    one = evaluation.measure_yardsticks(gcn, data, targets)
    other = data.clone()
    other.y = torch.where(data.test_mask, data.y, 1 - data.y)  # no label but the targets', to measure with, is read
    other.edge_index = data.edge_index[:, ~data.test_mask[data.edge_index].any(0)]  # nor an edge of a target
    assert evaluation.measure_yardsticks(gcn, other, targets).student == one.student
    assert one.student is not None
    assert one.student > 0.6


def test_a_graph_without_masks_has_no_student_unless_it_is_told(data: Data, gcn: nn.Module) -> None:
    bare = Data(x=data.x, edge_index=data.edge_index, y=data.y, test_mask=data.test_mask)
    result = pg.evaluate(gcn, bare, attack="random-flip", epsilons=[0.1])
    assert result.yardsticks is not None
    assert result.yardsticks.student is None
    assert "No distilled MLP: data has no train_mask" in str(result)
    told = pg.evaluate(gcn, bare, attack="random-flip", epsilons=[0.1], trusted=inductive_split(data).train)
    assert told.yardsticks is not None
    assert told.yardsticks.student is not None
    without = pg.evaluate(gcn, bare, attack="random-flip", epsilons=[0.1], yardsticks=False)
    assert without.yardsticks is None
    assert "without_edges" not in without.to_dict()


def test_a_defence_below_its_yardsticks_is_told_so(data: Data, gcn: nn.Module) -> None:
    result = pg.evaluate(gcn, data, epsilons=[1.0], **QUICK)
    assert result.yardsticks is not None
    best = max(value for _, value in result.yardsticks.rows())
    assert (result.attacked(1.0) < best) == ("ignoring the graph" in " ".join(str(result).split()))
    assert result.attacked(1.0) < best  # or this test shows nothing


def test_models_that_look_at_no_edge_are_proven_not_refused(data: Data) -> None:
    mlp = classifiers.create("mlp", in_channels=data.num_features, out_channels=2)
    result = pg.evaluate(mlp, data, epsilons=[0.1, 0.5], **QUICK)
    assert result.certified == result.clean == result.attacked(0.5)
    assert {record.mode for record in result.records} == {"proven"}
    assert result.is_reliable
    worst = pg.worst_case(mlp, data, epsilons=[0.1])
    assert worst.attacked(0.1) == worst.clean == worst.certified
    assert worst.strongest(0.1) == "none"
    assert "certified" in str(worst)
    assert worst.is_reliable


def test_what_an_anchor_proves_is_reported(data: Data, gcn: nn.Module) -> None:
    split = inductive_split(data)
    anchor = pg.Anchor(topics=8, landmarks=16).fit(gcn, split.train, folds=2, exposed=0.5)
    model = pg.protect(gcn, None, anchor=anchor)
    certified = model.certificate(data).accuracy
    assert certified is not None
    worst = pg.worst_case(model, data, epsilons=[0.3], epochs=10)
    assert worst.certified == pytest.approx(certified)
    assert certified - 1e-12 <= worst.attacked(0.3) <= worst.clean
    assert worst.to_dict()["certified"] == worst.certified


class Noisy(nn.Module):
    def __init__(self, gcn: nn.Module) -> None:
        super().__init__()
        self.gcn = gcn

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        logits: Tensor = self.gcn(x, edge_index, edge_weight)
        return logits + torch.randn_like(logits)


class Cut(nn.Module):
    def __init__(self, gcn: nn.Module, keep: float) -> None:
        super().__init__()
        self.gcn, self.keep = gcn, keep

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        whole: Tensor = self.gcn(x, edge_index, (edge_weight > 0.5).float() + self.keep * edge_weight)
        return whole


class NotANumber(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return torch.full((len(x), 2), torch.nan) + edge_weight.sum()


def test_random_masked_and_broken_models_are_not_to_be_trusted(data: Data, gcn: nn.Module) -> None:
    def doubts(model: nn.Module) -> str:
        return " ".join(
            evaluation.find_doubts(model, evaluation.as_attacks_see_it(data), data.test_mask.nonzero()[:, 0])
        )

    assert doubts(gcn) == ""
    assert "the model is random" in doubts(Noisy(gcn))
    assert "exactly 0" in doubts(Cut(gcn, keep=0.0))
    assert "not all finite" in doubts(NotANumber())
    threshold = pg.protect(gcn, pg.purifiers.create("jaccard"), threshold=0.5)
    assert "No gradient" in doubts(threshold)
    result = pg.evaluate(Cut(gcn, keep=0.0), data, attack="random-flip", epsilons=[0.1])
    assert not result.is_reliable
    assert "Not to be trusted" in str(result)
    assert result.to_dict()["reliable"] is False


def test_a_race_is_lost_when_even_its_pace_so_far_would_not_do() -> None:
    assert not Race(0.5).is_lost([0.9, 0.9])  # too early to tell
    assert Race(0.5).is_lost([0.9, 0.9, 0.9])
    assert not Race(0.5).is_lost([0.9, 0.8, 0.75])
    assert not Race(0.5).is_lost([0.6, 0.55, 0.51, 0.51, 0.51])  # within the slack


def test_an_attack_that_can_not_win_ends_early_and_says_so(data: Data, gcn: nn.Module) -> None:
    attack = attacks.create("prbcd", **{**QUICK, "epochs": 80, "edits": "remove"})
    calls = 0

    def counted(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        logits: Tensor = gcn(x, edge_index, edge_weight)
        return logits

    lost = Race(beat=0.01)
    given_up = attack(counted, data, 20, race=lost)
    short = calls
    assert lost.abandoned
    whole = attack(counted, data, 20, race=Race(beat=1.0))
    assert calls - short > 1.5 * short
    assert len(given_up) > 0
    assert len(whole) > 0
    evolution = Race(beat=0.0)
    attacks.create("evolutionary", population=4, generations=40, targeted=0.0)(gcn, data, 2, race=evolution)
    assert evolution.abandoned


def test_the_ensemble_goes_on_from_the_best_and_from_the_smaller_budget(
    data: Data, gcn: nn.Module, tmp_path: Path
) -> None:
    ensemble = [
        Member("one", "prbcd", QUICK),
        Member("smaller", "prbcd", {**QUICK, "epochs": 1}, begins_from="smaller budget"),
        Member("best", "random-flip", begins_from="best"),
        Member("other draws", "prbcd", QUICK, seed_offset=5),
    ]
    worst = pg.worst_case(gcn, data, epsilons=[0.3, 0.1], ensemble=ensemble, checkpoint=tmp_path)
    assert worst.epsilons() == [0.1, 0.3]
    assert worst.results["smaller"].epsilons() == [0.3]
    assert worst.results["smaller"].attacked(0.3) <= worst.attacked(0.1)
    for epsilon in (0.1, 0.3):
        before = [
            worst.results[name].attacked(epsilon)
            for name in ("one", "smaller")
            if epsilon in worst.results[name].epsilons()
        ]
        assert worst.results["best"].attacked(epsilon) <= min(before)
        flips = worst.perturbation(epsilon, 0)
        assert evaluation.model_accuracy(gcn, flips.apply(data)) == worst.attacked(epsilon)
    again = pg.worst_case(gcn, data, epsilons=[0.3, 0.1], ensemble=ensemble, checkpoint=tmp_path)
    assert again.to_dict() == worst.to_dict()
    assert {record.seed for record in worst.results["other draws"].records} == {0}


def test_the_named_ensembles(data: Data, gcn: nn.Module) -> None:
    hour, thorough = evaluation.hour_ensemble(), evaluation.thorough_ensemble()
    for members in (hour, thorough):
        assert len({member.name for member in members}) == len(members)
        for member in members:
            attacks.create(member.attack, **member.settings)
    assert len(thorough) > len(hour)
    worst = pg.worst_case(gcn, data, epsilons=[0.3], ensemble="hour", epochs=4, yardsticks=False)
    assert worst.strongest(0.3) in worst.results
    with pytest.raises(pg.errors.InputError, match="no ensemble 'day'"):
        pg.worst_case(gcn, data, ensemble="day")


@pytest.mark.parametrize("name", ["prbcd", "lrbcd", "pgd"])
@pytest.mark.parametrize("edits", ["add", "remove"])
def test_attacks_that_only_add_or_only_remove(name: str, edits: str, data: Data, gcn: nn.Module) -> None:
    settings = {**attacks.registry[name].trial_settings, "edits": edits}
    found = attacks.create(name, **settings)(gcn, data, 12)
    none, some = (found.removed, found.added) if edits == "add" else (found.added, found.removed)
    assert none.shape[1] == 0
    assert 0 < some.shape[1] <= 12
    graph = as_pair_graph(data)
    found.check(graph)


def test_removing_can_not_take_more_than_there_is(data: Data, gcn: nn.Module) -> None:
    few = Data(x=data.x, edge_index=data.edge_index[:, :0], y=data.y, test_mask=data.test_mask)
    assert len(attacks.create("prbcd", **{**QUICK, "edits": "remove"})(gcn, few, 5)) == 0


def test_isolation_is_the_cheapest_way_to_cut_off_those_who_need_it(data: Data, gcn: nn.Module) -> None:
    data = data.clone()
    data.x = data.x + 2 * torch.randn(data.x.shape, generator=torch.Generator().manual_seed(0))  # so edges are needed
    graph, targets = as_pair_graph(data), data.test_mask.nonzero().squeeze(1)
    with torch.no_grad():
        right = (gcn(data.x, data.edge_index).argmax(1) == data.y)[targets]
        alone = (gcn(data.x, data.edge_index[:, :0]).argmax(1) == data.y)[targets]
    needy = set(targets[right & ~alone].tolist())
    assert needy
    everyone = attacks.create("isolation")(gcn, data, graph.num_pairs)
    assert everyone.added.shape[1] == 0
    for i, j in everyone.removed.t().tolist():
        assert {i, j} & needy
    after = everyone.apply(graph)
    assert not (set(after.pairs.flatten().tolist()) & needy)
    fewer = attacks.create("isolation")(gcn, data, len(everyone) - 1)
    assert len(fewer) < len(everyone)
    start = attacks.create("random-flip")(gcn, data, 10, seed=3)
    both = attacks.create("isolation")(gcn, data, 40, start=start)
    assert len(both) <= 40
