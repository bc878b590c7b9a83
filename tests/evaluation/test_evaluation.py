from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import models

import purigraph as pg
from helpers import communities
from purigraph import evaluation
from purigraph.errors import InputError
from purigraph.evaluation import Member
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.perturbation import Perturbation

QUICK = {"epochs": 12, "fine_tune_epochs": 3, "block_size": 400, "final_samples": 3}


@pytest.fixture(scope="module")
def scene() -> tuple[nn.Module, Data]:
    """A trained GCN and a graph with test nodes."""
    data = communities(num_nodes=120, seed=1)
    data.test_mask = torch.arange(data.num_nodes) % 3 == 0
    torch.manual_seed(0)
    model = models.GCN(data.num_features, 16, 2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data.x, data.edge_index)[~data.test_mask], data.y[~data.test_mask])
        loss.backward()
        optimizer.step()
    return model, data


def test_evaluate_reports_clean_and_attacked(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    model = pg.protect(gcn, trained)
    result = pg.evaluate(model, data, epsilons=[0.0, 0.3], seeds=[0, 1], **QUICK)
    assert result.epsilons() == [0.0, 0.3]
    assert result.attacked(0.0) == result.clean == evaluation.model_accuracy(model, data)
    assert result.attacked(0.3) <= result.clean
    assert len(result.accuracies(0.3)) == 2
    for record in result.records:
        assert len(record.perturbation) <= record.budget
        attacked = record.perturbation.apply(data)
        assert record.accuracy == evaluation.model_accuracy(model, attacked)
        assert record.mode == "adaptive"
    assert "clean" in str(result)
    assert result.to_dict()["attacked"]["0.3"] == result.attacked(0.3)
    with pytest.raises(InputError, match=r"Nothing was evaluated at epsilon 0\.7"):
        result.attacked(0.7)


def test_transferred_attacks_are_found_elsewhere(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    model = pg.protect(gcn, trained)
    own = pg.evaluate(gcn, data, epsilons=[0.3], **QUICK)
    transferred = pg.evaluate(model, data, epsilons=[0.3], transfer_from=gcn, **QUICK)
    assert transferred.records[0].mode == "transferred"
    assert transferred.records[0].perturbation == own.records[0].perturbation


def test_a_folder_lets_a_run_go_on(scene: tuple[nn.Module, Data], tmp_path: Path) -> None:
    gcn, data = scene
    first = pg.evaluate(gcn, data, epsilons=[0.2], folder=tmp_path, **QUICK)
    again = pg.evaluate(gcn, data, epsilons=[0.2, 0.3], folder=tmp_path, **QUICK)
    assert again.records[0].perturbation == first.records[0].perturbation
    assert again.records[0].seconds == 0 < again.records[1].seconds
    assert len(list(tmp_path.iterdir())) == 2
    with torch.no_grad():
        next(gcn.parameters()).mul_(1.0001)
    other = pg.evaluate(gcn, data, epsilons=[0.2], folder=tmp_path, **QUICK)
    assert other.records[0].seconds > 0
    plain = pg.evaluate(plain_model, data, attack="random-flip", epsilons=[0.2], folder=tmp_path)
    assert len(plain.records) == 1


def plain_model(x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None) -> torch.Tensor:
    return x[:, :2]


def test_missing_targets_say_so(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    bare = communities()
    with pytest.raises(InputError, match="no test_mask"):
        pg.evaluate(gcn, bare)
    with pytest.raises(InputError, match="no target nodes"):
        pg.evaluate(gcn, data, targets=torch.zeros(data.num_nodes, dtype=torch.bool))


def test_worst_case_is_the_lowest_of_all(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    model = pg.protect(gcn, trained)
    small = {key: value for key, value in QUICK.items() if key != "fine_tune_epochs"}
    ensemble = [
        Member("transferred", "prbcd", QUICK, view="transfer"),
        Member("adaptive", "prbcd", {**QUICK, "loss": "margin"}),
        Member("local", "lrbcd", small, needs_local=True),
        Member("warm", "prbcd", {**QUICK, "loss": "margin"}, start="transferred"),
        Member("fewer", "prbcd", QUICK, view="fewer steps"),
        Member("more", "prbcd", QUICK, view="more steps"),
    ]
    worst = pg.worst_case(model, data, epsilons=[0.1, 0.3], ensemble=ensemble)
    assert list(worst.results) == [member.name for member in ensemble]
    for epsilon in (0.1, 0.3):
        values = {name: result.attacked(epsilon) for name, result in worst.results.items()}
        assert worst.attacked(epsilon) == min(values.values())
        assert values["warm"] <= values["transferred"]
        assert values[worst.strongest(epsilon)] == worst.attacked(epsilon)
        beaten = min(values[name] for name in ("transferred", "local", "fewer", "more")) < values["adaptive"]
        assert beaten == any(f"eps {epsilon:g}:" in warning for warning in worst.warnings)
    assert "worst case" in str(worst)
    assert worst.to_dict()["worst"]["0.1"] == worst.attacked(0.1)
    unprotected = pg.worst_case(gcn, data, epsilons=[0.1], ensemble=ensemble)
    assert list(unprotected.results) == ["adaptive", "local"]


def test_the_default_ensemble_names_every_view() -> None:
    names = {member.view for member in evaluation.default_ensemble()}
    assert names == {"model", "transfer", "fewer steps", "more steps"}


def test_edge_detection(trained: pg.GPRGAE) -> None:
    data = communities()
    graph = as_pair_graph(data)
    across = torch.tensor([[0, 2, 4], [13, 25, 37]])  # between the communities
    free = across[:, graph.find(across[0] * graph.num_nodes + across[1]) < 0]
    found = evaluation.edge_detection(trained, data.x, graph, Perturbation(graph.num_nodes, added=free))
    assert 0 <= found.auc <= 1
    assert found.true_weight > 0


def test_affected_nodes_are_within_reach() -> None:
    path = PairGraph(6, torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
    flip = Perturbation(6, removed=torch.tensor([[0], [1]]))
    assert evaluation.affected_nodes(path, flip, hops=1).nonzero().flatten().tolist() == [0, 1]
    assert evaluation.affected_nodes(path, flip, hops=2).nonzero().flatten().tolist() == [0, 1, 2]
    assert evaluation.unaffected_share(path, flip, hops=2) == 0.5
    added = Perturbation(6, added=torch.tensor([[0], [5]]))
    assert evaluation.unaffected_share(path, added, hops=1) == pytest.approx(4 / 6)


def test_affected_nodes_are_all_whose_logits_changed(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    graph = as_pair_graph(data)
    flip = Perturbation.of_flips(graph, graph.pairs[:, :2])
    before, after = evaluation.predict(gcn, data), evaluation.predict(gcn, flip.apply(data))
    changed = (before - after).abs().max(1).values > 1e-6
    # Normalisation looks one hop further than messages do: a neighbour's degree counts too.
    assert not (changed & ~evaluation.affected_nodes(graph, flip, hops=3)).any()


def test_convergence_and_lipschitz(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    constant = evaluation.lipschitz_constant(trained, data.x, data, pairs=5)
    assert constant > 0
    assert constant == evaluation.lipschitz_constant(trained, data.x, data, pairs=5)
    steps = evaluation.convergence(gcn, trained, data, alphas=[0.5, 1.0], max_steps=4, lipschitz=constant)
    assert [one.alpha for one in steps] == [0.5, 1.0]
    for one in steps:
        assert len(one.accuracies) == 5
        assert len(one.relative_change) == 4
        assert one.accuracies[0] == evaluation.model_accuracy(gcn, data)
        assert one.bound == pytest.approx(1 - one.alpha * (1 - constant))
        assert one.rate > 0


def test_lipschitz_norms_count_absent_edges_as_zero() -> None:
    from purigraph.evaluation.convergence import _distance

    one = PairGraph(3, torch.tensor([[0], [1]]), torch.tensor([3.0]))
    other = PairGraph(3, torch.tensor([[0], [2]]), torch.tensor([4.0]))
    assert _distance(one, other) == pytest.approx(5.0)
