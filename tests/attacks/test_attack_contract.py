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
from purigraph.attacks import Attack, Scene, attacks, create, memory
from purigraph.errors import (
    BudgetError,
    GraphError,
    InputError,
    MaskedGradientWarning,
    ModelFileError,
    UnknownNameError,
)
from purigraph.graph import PairGraph, read_data
from purigraph.graph.budget import Budget
from purigraph.graph.perturbation import Perturbation
from purigraph.metrics import accuracy

# Short runs: the contract does not depend on strength.
SHORT: dict[str, dict[str, Any]] = {
    "prbcd": {"epochs": 6, "fine_tune_epochs": 3, "block_size": 200, "final_samples": 3},
    "lrbcd": {"epochs": 6, "fine_tune_epochs": 3, "block_size": 200, "final_samples": 3},
    "pgd": {"epochs": 9, "final_samples": 3},
    "evolutionary": {"population": 6, "generations": 3},
}


def short(name: str) -> Attack:
    return create(name, **SHORT.get(name, {}))


@pytest.fixture(params=attacks.names())
def attack(request: pytest.FixtureRequest) -> Attack:
    return short(request.param)


TARGETS = torch.arange(0, 60, 3)


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_keeps_its_contract(attack: Attack, budget: int, toy_data: Data, toy_model: Any) -> None:
    before = copy.deepcopy(toy_data)

    flips = attack(toy_model, toy_data, None, TARGETS, budget, seed=4)

    assert len(flips) <= budget
    assert flips == attack(toy_model, toy_data, None, TARGETS, budget, seed=4)
    assert flips.apply(toy_data).is_undirected()
    assert not flips.apply(toy_data).has_self_loops()
    for key in before.keys():
        assert torch.equal(toy_data[key], before[key])


def test_is_never_weaker_than_clean_or_start(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    start = short("lrbcd")(toy_model, toy_data, None, TARGETS, 6, seed=9)
    assert len(start) > 0

    found = attack(toy_model, toy_data, None, TARGETS, 6, start=start, seed=5)

    clean, begun, ended = (_accuracy(toy_model, toy_data, g) for g in (graph, start.apply(graph), found.apply(graph)))
    assert ended <= min(clean, begun)


def test_leaves_the_model_as_it_was(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    model = copy.deepcopy(toy_model)
    model.train()
    model.dropout.eval()
    model.second.bias.requires_grad_(False)
    model.first.weight.grad = torch.full_like(model.first.weight, 3.0)
    state = copy.deepcopy(model.state_dict())

    attack(model, toy_data, None, TARGETS, 3)

    assert (model.training, model.first.training, model.dropout.training) == (True, True, False)
    assert [p.requires_grad for p in model.parameters()] == [True, True, True, False]
    assert torch.equal(model.first.weight.grad, torch.full_like(model.first.weight, 3.0))
    assert model.second.weight.grad is None
    assert all(torch.equal(model.state_dict()[key], state[key]) for key in state)


def test_works_without_gradients_around_it(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    with torch.no_grad():
        inside = attack(toy_model, toy_data, None, TARGETS, 3)
    assert inside == attack(toy_model, toy_data, None, TARGETS, 3)


def test_does_not_touch_global_randomness(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    attack(toy_model, toy_data, None, TARGETS, 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_takes_features_and_any_graph(attack: Attack, toy_data: Data, toy_model: Any) -> None:
    expected = attack(toy_model, toy_data, None, TARGETS, 3)
    mask = torch.zeros(60, dtype=torch.bool)
    mask[TARGETS] = True
    graph = read_data(toy_data)[0]
    assert attack(toy_model, (toy_data.x, graph), toy_data.y, mask, Budget(3, "absolute")) == expected


def test_a_complete_graph_and_two_nodes_are_graphs_too(attack: Attack) -> None:
    def model(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        degree = edge_weight.new_zeros(len(x)).index_add(0, edge_index[0], edge_weight)
        return torch.stack([degree, 1.5 - degree], dim=1)

    for num_nodes, budget in ((2, 1), (5, 10)):
        pairs = torch.triu_indices(num_nodes, num_nodes, 1)
        x, labels = torch.ones(num_nodes, 1), torch.zeros(num_nodes, dtype=torch.int64)
        flips = attack(model, (x, PairGraph(num_nodes, pairs)), labels, torch.arange(num_nodes), budget)
        assert len(flips) <= budget
        assert flips.added.shape[1] == 0


def test_settings_make_the_same_attack(attack: Attack) -> None:
    again = type(attack)(**attack.settings())
    assert again.settings() == attack.settings()
    assert repr(again) == repr(attack)


@pytest.mark.parametrize("name", ["lrbcd", "random-flip", "dice", "evolutionary"])
def test_keeps_local_budgets(name: str, toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    for share in (0.25, 0.5):
        flips = short(name)(toy_model, toy_data, None, TARGETS, Budget(0.5, local=share))
        assert (flips.degree() <= (share * graph.degree()).floor()).all()


@pytest.mark.parametrize("name", ["prbcd", "pgd"])
def test_refuses_local_budgets_that_it_does_not_know(name: str, toy_data: Data, toy_model: Any) -> None:
    with pytest.raises(BudgetError, match="LRBCD"):
        short(name)(toy_model, toy_data, None, TARGETS, Budget(0.5, local=0.5))


class Cheat(Attack):
    """Returns what it is told to."""

    def __init__(self, answer: Perturbation) -> None:
        super().__init__()
        self.answer = answer

    def _run(self, scene: Scene) -> Perturbation:
        return self.answer


def test_the_call_counts_the_flips_itself(toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    two = Perturbation.of_flips(graph, torch.tensor([[0, 0], [1, 2]]))
    with pytest.raises(BudgetError, match="2 flips were made; the budget allows 1"):
        Cheat(two)(toy_model, toy_data, None, TARGETS, 1)
    with pytest.raises(BudgetError, match="at node 0"):
        Cheat(two)(toy_model, toy_data, None, TARGETS, Budget(2, "absolute", local=0.0))
    with pytest.raises(GraphError, match="is an edge already"):
        Cheat(Perturbation(60, added=graph.pairs[:, :1]))(toy_model, toy_data, None, TARGETS, 1)


def test_the_call_keeps_the_clean_graph_if_nothing_is_worse(toy_data: Data, toy_model: Any) -> None:
    model = lambda x, edge_index, edge_weight: torch.eye(2)[toy_data.y]  # noqa: E731
    flips = Perturbation.of_flips(read_data(toy_data)[0], torch.tensor([[0], [1]]))
    assert len(Cheat(flips)(model, toy_data, None, TARGETS, 1)) == 0


def test_bad_input_is_explained(toy_data: Data, toy_model: Any) -> None:
    attack = short("random-flip")
    graph = read_data(toy_data)[0]
    three = Perturbation.of_flips(graph, torch.tensor([[0, 0, 0], [1, 2, 3]]))
    with pytest.raises(BudgetError, match="3 flips"):
        attack(toy_model, toy_data, None, TARGETS, 2, start=three)
    with pytest.raises(BudgetError, match=r"Budget\(0.1\)"):
        attack(toy_model, toy_data, None, TARGETS, 0.1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no targets"):
        attack(toy_model, toy_data, None, torch.empty(0, dtype=torch.int64), 1)
    with pytest.raises(InputError, match="0 to 59"):
        attack(toy_model, toy_data, None, torch.tensor([60]), 1)
    with pytest.raises(InputError, match="labels are missing"):
        attack(toy_model, (toy_data.x, graph), None, TARGETS, 1)
    with pytest.raises(InputError, match="labels must be"):
        attack(toy_model, toy_data, toy_data.y[:5], TARGETS, 1)
    with pytest.raises(InputError, match="x has 5 rows"):
        attack(toy_model, (toy_data.x[:5], graph), toy_data.y, TARGETS, 1)
    with pytest.raises(InputError, match="a PyG Data or a tuple"):
        attack(toy_model, graph, toy_data.y, TARGETS, 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="restarts"):
        attack(toy_model, toy_data, None, TARGETS, 1, restarts=0)
    with pytest.raises(UnknownNameError, match="Did you mean 'prbcd'"):
        create("prbdc")
    with pytest.raises(InputError, match=r"PRBCD has no settings \['epoch'\].*epochs"):
        create("prbcd", epoch=3)
    with pytest.raises(InputError, match="already"):
        create(attack, loss="margin")
    with pytest.raises(UnknownNameError, match="loss"):
        create("prbcd", loss="hinge")


def test_restarts_never_hurt(toy_data: Data, toy_model: Any) -> None:
    graph = read_data(toy_data)[0]
    once, often = (short("random-flip")(toy_model, toy_data, None, TARGETS, 5, restarts=r) for r in (1, 10))
    assert _accuracy(toy_model, toy_data, often.apply(graph)) <= _accuracy(toy_model, toy_data, once.apply(graph))


@torch.no_grad()
def _accuracy(model: Any, data: Data, graph: PairGraph) -> float:
    model.eval()
    return accuracy(model(data.x, *graph.edge_index())[TARGETS], data.y[TARGETS])


TINY: dict[str, dict[str, Any]] = {
    "prbcd": {"epochs": 2, "fine_tune_epochs": 1, "block_size": 66, "final_samples": 2},
    "lrbcd": {"epochs": 2, "fine_tune_epochs": 1, "block_size": 66, "final_samples": 2},
    "pgd": {"epochs": 3, "final_samples": 2},
    "evolutionary": {"population": 3, "generations": 1},
}


@pytest.mark.parametrize("name", attacks.names())
@settings(max_examples=350)
@given(pair_graphs(), st.data())
def test_budgets_hold_whatever_the_graph(name: str, graph: PairGraph, data: st.DataObject) -> None:
    """Both kinds of budget, global and local, over 2,000 cases: counted on dense matrices, not by the library."""
    num_nodes = graph.num_nodes
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    x, labels = torch.randn(num_nodes, 3, generator=generator), torch.arange(num_nodes) % 3
    targets = torch.tensor(sorted(data.draw(st.sets(st.integers(0, num_nodes - 1), min_size=1))))
    kind = data.draw(st.sampled_from(["incident", "half_degree"]))
    epsilon = data.draw(st.floats(0, 1))
    local = data.draw(st.none() | st.floats(0, 1)) if create(name).knows_local_budgets else None

    def model(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return x.index_add(0, edge_index[0], edge_weight[:, None] * x[edge_index[1]])

    attack = create(name, **TINY.get(name, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MaskedGradientWarning)  # of graphs whose targets have no one to be joined to
        flips = attack(model, (x, graph), labels, targets, Budget(epsilon, kind, local), seed=1)

    before, after = _dense(graph), _dense(flips.apply(graph))
    changed = before != after
    is_target = torch.zeros(num_nodes, dtype=torch.bool)
    is_target[targets] = True
    touching = (before & (is_target[:, None] | is_target)).sum() / 2
    half = before.sum(1)[targets].sum() / 2
    assert changed.sum() / 2 <= round(epsilon * float(touching if kind == "incident" else half))
    assert torch.equal(changed, changed.t())
    assert not after.diagonal().any()
    share = local if local is not None else 0.5 if name == "lrbcd" else None
    if share is not None:
        assert (changed.sum(1) <= (share * before.sum(1)).floor()).all()


def _dense(graph: PairGraph) -> Tensor:
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    i, j = graph.pairs
    dense[i, j] = dense[j, i] = True
    return dense


def test_targets_need_labels_that_the_model_knows(toy_data: Data, toy_model: Any) -> None:
    labels = toy_data.y.clone()
    labels[TARGETS[0]] = -1
    with pytest.raises(InputError, match="negative label"):
        short("prbcd")(toy_model, toy_data, labels, TARGETS, 3)
    labels[TARGETS[0]] = 5
    with pytest.raises(InputError, match="label 5"):
        short("prbcd")(toy_model, toy_data, labels, TARGETS, 3)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("name", ["prbcd", "lrbcd", "pgd", "evolutionary"])
@pytest.mark.parametrize("calls", [3, 12, 17, 30])
def test_an_interrupted_attack_goes_on_to_the_same_flips(
    name: str, calls: int, toy_data: Data, toy_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was doing: `calls` evaluations of the model, then the power goes."""
    monkeypatch.setattr(memory, "_SECONDS_BETWEEN", 0.0)
    attack, path, left = short(name), tmp_path / "state", [calls]

    def unplugged(*arguments: Any) -> Tensor:
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted
        return toy_model(*arguments)

    whole = attack(toy_model, toy_data, None, TARGETS, 6, seed=3, restarts=2)
    with pytest.raises(Interrupted):
        attack(unplugged, toy_data, None, TARGETS, 6, seed=3, restarts=2, checkpoint=path)
    assert attack(toy_model, toy_data, None, TARGETS, 6, seed=3, restarts=2, checkpoint=path) == whole
    assert not list(tmp_path.iterdir())


def test_another_attacks_checkpoint_is_refused(
    toy_data: Data, toy_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_SECONDS_BETWEEN", 0.0)
    calls = [0]

    def unplugged(*arguments: Any) -> Tensor:
        calls[0] += 1
        if calls[0] == 6:
            raise Interrupted
        return toy_model(*arguments)

    with pytest.raises(Interrupted):
        short("prbcd")(unplugged, toy_data, None, TARGETS, 6, checkpoint=tmp_path / "state")
    for change in ({"seed": 1}, {"budget": 5}, {"targets": TARGETS[:-1]}):
        arguments = {"targets": TARGETS, "budget": 6, "seed": 0} | change
        with pytest.raises(ModelFileError, match="another run"):
            short("prbcd")(toy_model, toy_data, None, checkpoint=tmp_path / "state", **arguments)
