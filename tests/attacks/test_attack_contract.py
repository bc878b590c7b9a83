"""What every registered attack promises, whatever it does inside."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from helpers import pair_graphs
from purigraph import checkpoints
from purigraph.attacks import Attack, Scene, create, names, registry
from purigraph.errors import (
    BudgetError,
    GraphError,
    InputError,
    MaskedGradientWarning,
    ModelFileError,
    UnsupportedModelError,
)
from purigraph.graph import PairGraph, read_data
from purigraph.graph.budget import Budget
from purigraph.graph.perturbation import Perturbation
from purigraph.metrics import accuracy


def short(name: str) -> Attack:
    """A run that takes a moment: the contract does not depend on strength."""
    return create(name, **registry[name].trial_settings)


def those_that(ability: str, *, can: bool = True) -> list[str]:
    return [name for name in names() if getattr(registry[name], ability) is can]


@pytest.fixture(params=names())
def attack(request: pytest.FixtureRequest) -> Attack:
    return short(request.param)


TARGETS = torch.arange(0, 60, 3)


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_keeps_its_contract(attack: Attack, budget: int, toy_data: Data, toy_model: Any) -> None:
    before = copy.deepcopy(toy_data)

    flips = attack(toy_model, toy_data, budget, targets=TARGETS, seed=4)

    assert len(flips) <= budget
    assert flips == attack(toy_model, toy_data, budget, targets=TARGETS, seed=4)
    assert flips.apply(toy_data).is_undirected()
    assert not flips.apply(toy_data).has_self_loops()
    for key in before.keys():
        assert torch.equal(toy_data[key], before[key])


class Fragile(torch.nn.Module):
    """Any flip turns every answer; differentiable in the weights."""

    def __init__(self, graph: PairGraph) -> None:
        super().__init__()
        self.clean = _dense(graph).float()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        changed = (torch.zeros_like(self.clean).index_put(tuple(edge_index), edge_weight) - self.clean).abs().sum()
        return torch.stack([1 - changed, changed - 1]).expand(len(x), 2)


@pytest.mark.parametrize("budget", [1, 7])
def test_flips_are_made_and_within_the_budget(attack: Attack, budget: int, toy_data: Data) -> None:
    """Counted on dense matrices, where there is something to count: any flip hurts this model."""
    graph = read_data(toy_data)[0]
    labels = torch.zeros(60, dtype=torch.int64)
    flips = attack(Fragile(graph), toy_data, budget, targets=TARGETS, labels=labels, seed=4)
    changed = _dense(graph) != _dense(flips.apply(graph))
    assert 1 <= changed.sum() / 2 <= budget
    assert changed.sum() / 2 == len(flips)


def test_targets_are_the_test_nodes_by_default(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    with pytest.raises(InputError, match="no test_mask"):
        attack(toy_model, toy_data, 3)
    data = copy.copy(toy_data)
    data.test_mask = torch.isin(torch.arange(60), TARGETS)
    assert attack(toy_model, data, 3) == attack(toy_model, toy_data, 3, targets=TARGETS)


def test_is_never_weaker_than_clean_or_start(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    start = short("lrbcd")(toy_model, toy_data, 6, targets=TARGETS, seed=9)
    assert len(start) > 0

    found = attack(toy_model, toy_data, 6, targets=TARGETS, start=start, seed=5)

    clean, begun, ended = (_accuracy(toy_model, toy_data, g) for g in (graph, start.apply(graph), found.apply(graph)))
    assert ended <= min(clean, begun)


def test_leaves_the_model_as_it_was(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    model = copy.deepcopy(toy_model)
    model.train()
    model.dropout.eval()
    model.second.bias.requires_grad_(False)
    model.first.weight.grad = torch.full_like(model.first.weight, 3.0)
    state = copy.deepcopy(model.state_dict())

    attack(model, toy_data, 3, targets=TARGETS)

    assert (model.training, model.first.training, model.dropout.training) == (True, True, False)
    assert [p.requires_grad for p in model.parameters()] == [True, True, True, False]
    assert torch.equal(model.first.weight.grad, torch.full_like(model.first.weight, 3.0))
    assert model.second.weight.grad is None
    assert all(torch.equal(model.state_dict()[key], state[key]) for key in state)


def test_works_without_gradients_around_it(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    with torch.no_grad():
        inside = attack(toy_model, toy_data, 3, targets=TARGETS)
    assert inside == attack(toy_model, toy_data, 3, targets=TARGETS)


def test_does_not_touch_global_randomness(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    attack(toy_model, toy_data, 3, targets=TARGETS)
    assert torch.equal(torch.get_rng_state(), state)


def test_takes_features_and_any_graph(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    expected = attack(toy_model, toy_data, 3, targets=TARGETS)
    mask = torch.zeros(60, dtype=torch.bool)
    mask[TARGETS] = True
    graph = read_data(toy_data)[0]
    assert attack(toy_model, (toy_data.x, graph), Budget(3, "absolute"), targets=mask, labels=toy_data.y) == expected


def test_a_complete_graph_and_two_nodes_are_graphs_too(attack: Attack) -> None:
    def model(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        degree = edge_weight.new_zeros(len(x)).index_add(0, edge_index[0], edge_weight)
        return torch.stack([degree, 1.5 - degree], dim=1)

    for num_nodes, budget in ((2, 1), (5, 10)):
        pairs = torch.triu_indices(num_nodes, num_nodes, 1)
        x, labels = torch.ones(num_nodes, 1), torch.zeros(num_nodes, dtype=torch.int64)
        data = (x, PairGraph(num_nodes, pairs))
        flips = attack(model, data, budget, targets=torch.arange(num_nodes), labels=labels)
        assert len(flips) <= budget
        assert flips.added.shape[1] == 0


@pytest.mark.parametrize("name", those_that("knows_local_budgets"))
def test_keeps_local_budgets(name: str, toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    for share in (0.25, 0.5):
        flips = short(name)(toy_model, toy_data, Budget(0.5, local=share), targets=TARGETS)
        assert (flips.degree() <= (share * graph.degree()).floor()).all()


@pytest.mark.parametrize("name", those_that("knows_local_budgets", can=False))
def test_refuses_local_budgets_that_it_does_not_know(name: str, toy_data: Data, toy_model: Any) -> None:
    with pytest.raises(BudgetError, match="LRBCD"):
        short(name)(toy_model, toy_data, Budget(0.5, local=0.5), targets=TARGETS)


@pytest.mark.parametrize("name", names())
def test_a_local_budget_is_imposed_only_by_those_that_say_so(name: str, toy_data: Data) -> None:
    local = short(name).limits(Budget(0.5), read_data(toy_data)[0], TARGETS).local
    assert (local is not None) == registry[name].imposes_local_budget


@pytest.mark.parametrize("name", those_that("needs_gradient", can=False))
def test_needs_predictions_only(name: str, toy_data: Data, toy_model: Any) -> None:
    model = torch.no_grad()(toy_model)
    assert short(name)(model, toy_data, 3, targets=TARGETS) == short(name)(toy_model, toy_data, 3, targets=TARGETS)


@pytest.mark.parametrize("name", those_that("needs_gradient"))
def test_refuses_a_model_without_gradients(name: str, toy_data: Data, toy_model: Any) -> None:
    with pytest.raises(UnsupportedModelError, match="no gradient to follow"):
        short(name)(torch.no_grad()(toy_model), toy_data, 3, targets=TARGETS)


def cheat(answer: Perturbation) -> Attack:
    """An attack that returns what it is told to."""

    class Cheat(Attack):
        knows_local_budgets = True

        def _run(self, scene: Scene) -> Perturbation:
            return answer

    return Cheat()


def test_the_call_counts_the_flips_itself(toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    two = Perturbation.of_flips(graph, torch.tensor([[0, 0], [1, 2]]))
    with pytest.raises(BudgetError, match="2 flips were made; the budget allows 1"):
        cheat(two)(toy_model, toy_data, 1, targets=TARGETS)
    with pytest.raises(BudgetError, match="at node 0"):
        cheat(two)(toy_model, toy_data, Budget(2, "absolute", local=0.0), targets=TARGETS)
    with pytest.raises(GraphError, match="is an edge already"):
        cheat(Perturbation(60, added=graph.pairs[:, :1]))(toy_model, toy_data, 1, targets=TARGETS)


def test_the_call_keeps_the_clean_graph_if_nothing_is_worse(toy_data: Data, toy_model: Any) -> None:
    model = lambda x, edge_index, edge_weight: torch.eye(2)[toy_data.y]  # noqa: E731
    flips = Perturbation.of_flips(read_data(toy_data)[0], torch.tensor([[0], [1]]))
    assert len(cheat(flips)(model, toy_data, 1, targets=TARGETS)) == 0


def test_bad_input_is_explained(toy_data: Data, toy_model: Any) -> None:
    attack = short("random-flip")
    graph = read_data(toy_data)[0]
    three = Perturbation.of_flips(graph, torch.tensor([[0, 0, 0], [1, 2, 3]]))
    with pytest.raises(BudgetError, match="3 flips"):
        attack(toy_model, toy_data, 2, targets=TARGETS, start=three)
    with pytest.raises(BudgetError, match=r"Budget\(0.1\)"):
        attack(toy_model, toy_data, 0.1, targets=TARGETS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="targets names no nodes"):
        attack(toy_model, toy_data, 1, targets=torch.empty(0, dtype=torch.int64))
    with pytest.raises(InputError, match="targets must be nodes from 0 to 59"):
        attack(toy_model, toy_data, 1, targets=torch.tensor([60]))
    with pytest.raises(InputError, match=r"targets holds 60 zeros and ones.*Use mask\.bool\(\)"):
        attack(toy_model, toy_data, 1, targets=torch.isin(torch.arange(60), TARGETS).long())
    with pytest.raises(InputError, match="labels are missing"):
        attack(toy_model, (toy_data.x, graph), 1, targets=TARGETS)
    with pytest.raises(InputError, match="targets are missing"):
        attack(toy_model, (toy_data.x, graph), 1, labels=toy_data.y)
    with pytest.raises(InputError, match="labels must be"):
        attack(toy_model, toy_data, 1, targets=TARGETS, labels=toy_data.y[:5])
    with pytest.raises(InputError, match="x has 5 rows"):
        attack(toy_model, (toy_data.x[:5], graph), 1, targets=TARGETS, labels=toy_data.y)
    with pytest.raises(InputError, match="a PyG Data or a tuple"):
        attack(toy_model, graph, 1, targets=TARGETS, labels=toy_data.y)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="restarts"):
        attack(toy_model, toy_data, 1, targets=TARGETS, restarts=0)


def test_restarts_never_hurt(toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    once, often = (short("random-flip")(toy_model, toy_data, 5, targets=TARGETS, restarts=r) for r in (1, 10))
    assert _accuracy(toy_model, toy_data, often.apply(graph)) <= _accuracy(toy_model, toy_data, once.apply(graph))


@torch.no_grad()
def _accuracy(model: Any, data: Data, graph: PairGraph) -> float:
    model.eval()
    return accuracy(model(data.x, *graph.edge_index())[TARGETS], data.y[TARGETS])


@pytest.mark.parametrize("name", names())
@settings(max_examples=350)
@given(pair_graphs(), st.data())
def test_budgets_hold_whatever_the_graph(name: str, graph: PairGraph, data: st.DataObject) -> None:
    """Both kinds of budget, global and local, over 2,000 cases: counted on dense matrices, not by the library."""
    num_nodes = graph.num_nodes
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    x, labels = torch.randn(num_nodes, 3, generator=generator), torch.arange(num_nodes) % 3
    targets = torch.tensor(sorted(data.draw(st.sets(st.integers(0, num_nodes - 1), min_size=1))))
    kind = data.draw(st.sampled_from(["incident", "half-degree"]))
    epsilon = data.draw(st.floats(0, 1))
    local = data.draw(st.none() | st.floats(0, 1)) if registry[name].knows_local_budgets else None

    def model(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return x.index_add(0, edge_index[0], edge_weight[:, None] * x[edge_index[1]])

    attack, budget = short(name), Budget(epsilon, kind, local)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MaskedGradientWarning)  # of graphs whose targets have no one to be joined to
        flips = attack(model, (x, graph), budget, targets=targets, labels=labels, seed=1)

    before, after = _dense(graph), _dense(flips.apply(graph))
    changed = before != after
    is_target = torch.zeros(num_nodes, dtype=torch.bool)
    is_target[targets] = True
    touching = (before & (is_target[:, None] | is_target)).sum() / 2
    half = before.sum(1)[targets].sum() / 2
    assert changed.sum() / 2 <= round(epsilon * float(touching if kind == "incident" else half))
    assert torch.equal(changed, changed.t())
    assert not after.diagonal().any()
    if local is not None:
        assert (changed.sum(1) <= (local * before.sum(1)).floor()).all()
    elif attack.imposes_local_budget:
        assert (changed.sum(1) <= attack.limits(budget, graph, targets).local).all()


def _dense(graph: PairGraph) -> Tensor:
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    i, j = graph.pairs
    dense[i, j] = dense[j, i] = True
    return dense


def test_targets_need_labels_that_the_model_knows(toy_data: Data, toy_model: Any) -> None:
    labels = toy_data.y.clone()
    labels[TARGETS[0]] = -1
    with pytest.raises(InputError, match="negative label"):
        short("prbcd")(toy_model, toy_data, 3, targets=TARGETS, labels=labels)
    labels[TARGETS[0]] = 5
    with pytest.raises(InputError, match="label 5"):
        short("prbcd")(toy_model, toy_data, 3, targets=TARGETS, labels=labels)


class Interrupted(Exception):
    pass


class Unplugged:
    """A model that counts how often it is asked, and loses power at the last of so many calls."""

    def __init__(self, model: Any, calls: int = 0) -> None:
        self.model, self.calls, self.asked = model, calls, 0

    def __call__(self, *arguments: Any) -> Tensor:
        self.asked += 1
        if self.asked == self.calls:
            raise Interrupted
        return self.model(*arguments)


@pytest.mark.parametrize("name", those_that("keeps_checkpoints"))
@pytest.mark.parametrize("share", [0.05, 0.35, 0.6, 0.95])
def test_an_interrupted_attack_resumes_bit_identically(
    name: str, share: float, toy_data: Data, toy_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was doing: after a share of its calls of the model, the power goes."""
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    attack, counted, folder = short(name), Unplugged(toy_model), tmp_path / "state"
    whole = attack(counted, toy_data, 6, targets=TARGETS, seed=3, restarts=2)
    with pytest.raises(Interrupted):
        unplugged = Unplugged(toy_model, round(share * counted.asked) + 2)
        attack(unplugged, toy_data, 6, targets=TARGETS, seed=3, restarts=2, checkpoint=folder)
    again = Unplugged(toy_model)
    assert attack(again, toy_data, 6, targets=TARGETS, seed=3, restarts=2, checkpoint=folder) == whole
    assert not list(folder.glob("*"))
    if share == 0.35:  # in the middle of the first run, with steps behind it
        assert again.asked < counted.asked


def test_another_attacks_checkpoint_is_refused(
    toy_data: Data, toy_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    attack = short("prbcd")
    with pytest.raises(Interrupted):
        attack(Unplugged(toy_model, 6), toy_data, 6, targets=TARGETS, checkpoint=tmp_path)
    for change in ({"seed": 1}, {"budget": 5}, {"targets": TARGETS[:-1]}):
        arguments: dict[str, Any] = {"targets": TARGETS, "budget": 6, "seed": 0, **change}
        with pytest.raises(ModelFileError, match="another run"):
            attack(toy_model, toy_data, checkpoint=tmp_path, **arguments)
    with pytest.raises(ModelFileError, match="another run"):
        short("pgd")(toy_model, toy_data, 6, targets=TARGETS, checkpoint=tmp_path)
