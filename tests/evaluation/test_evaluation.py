import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import models

import purigraph as pg
from helpers import communities
from purigraph import attacks, checkpoints, evaluation
from purigraph.attacks import RandomFlip
from purigraph.errors import InputError, MaskedGradientWarning, UnsupportedModelError
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
    dense = _dense(data)
    incident = int((dense & (data.test_mask[:, None] | data.test_mask)).sum()) // 2
    for record in result.records:
        attacked = record.perturbation.apply(data)
        flips = int((dense != _dense(attacked)).sum()) // 2
        assert flips == record.to_dict()["added"] + record.to_dict()["removed"]
        assert flips <= record.max_flips == round(record.epsilon * incident)
        assert flips > 0 or record.epsilon == 0
        assert record.accuracy == evaluation.model_accuracy(model, attacked)
        assert record.mode == "adaptive"
    assert "clean" in str(result)
    assert result.to_dict()["attacked"]["0.3"] == result.attacked(0.3)
    with pytest.raises(InputError, match=r"Nothing was evaluated at epsilon 0\.7"):
        result.attacked(0.7)


def _dense(data: Data) -> torch.Tensor:
    dense = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.bool)
    dense[tuple(data.edge_index)] = True
    return dense


def test_kinds_of_budgets(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    half = round(0.3 * int(_dense(data).sum(1)[data.test_mask].sum()) / 2)
    for kind in ("half-degree", "half_degree"):
        result = pg.evaluate(gcn, data, attack="dice", epsilons=[0.3], budget_kind=kind)
        assert result.records[0].max_flips == half
    absolute = pg.evaluate(gcn, data, attack="dice", epsilons=[5], budget_kind="absolute")
    assert absolute.records[0].max_flips == 5


def test_an_evaluation_begins_where_another_ended(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    first = pg.evaluate(gcn, data, epsilons=[0.1, 0.3], seeds=[0, 1], **QUICK)
    nothing = {"attack": "random-flip", "epsilons": [0.3, 0.1], "seeds": [1, 0]}
    warm, cold = pg.evaluate(gcn, data, starts=first, **nothing), pg.evaluate(gcn, data, **nothing)
    for record in warm.records:
        begin = first.perturbation(record.epsilon, record.seed)
        assert record.accuracy <= evaluation.model_accuracy(gcn, begin.apply(data))
    assert warm.attacked(0.3) < cold.attacked(0.3)
    with pytest.raises(InputError, match=r"epsilon 0\.2 with seed 0"):
        pg.evaluate(gcn, data, attack="random-flip", epsilons=[0.2], starts=first)


def test_transferred_attacks_are_found_elsewhere(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    model = pg.protect(gcn, trained)
    own = pg.evaluate(gcn, data, epsilons=[0.3], **QUICK)
    transferred = pg.evaluate(model, data, epsilons=[0.3], transfer_from=gcn, **QUICK)
    assert transferred.records[0].mode == "transferred"
    assert transferred.records[0].perturbation == own.records[0].perturbation


def test_a_run_resumes_from_its_checkpoint(scene: tuple[nn.Module, Data], tmp_path: Path) -> None:
    gcn, data = scene
    first = pg.evaluate(gcn, data, epsilons=[0.2], checkpoint=tmp_path, **QUICK)
    again = pg.evaluate(gcn, data, epsilons=[0.2, 0.3], checkpoint=tmp_path, **QUICK)
    assert again.records[0].perturbation == first.records[0].perturbation
    assert again.records[0].seconds == first.records[0].seconds > 0  # the time of the attack, not of the reading
    assert len(list(tmp_path.iterdir())) == 2
    with torch.no_grad():
        next(gcn.parameters()).mul_(1.0001)
    other = pg.evaluate(gcn, data, epsilons=[0.2], checkpoint=tmp_path, **QUICK)
    assert other.records[0].seconds > 0
    assert len(list(tmp_path.iterdir())) == 3
    plain = pg.evaluate(plain_model, data, attack="random-flip", epsilons=[0.2], checkpoint=tmp_path)
    assert len(plain.records) == 1


@pytest.mark.parametrize("attack", [name for name in attacks.names() if attacks.registry[name].keeps_checkpoints])
def test_an_interrupted_attack_resumes_from_the_checkpoint(
    attack: str, scene: tuple[nn.Module, Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of an attack too: its state is in a folder beside the perturbations, and gone in the end."""
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    gcn, data = scene
    settings = {"attack": attack, "epsilons": [0.2], **attacks.registry[attack].trial_settings}
    calls, fatal = 0, -1

    def unplugged(*arguments: object) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == fatal:
            raise KeyboardInterrupt
        return gcn(*arguments)

    whole = pg.evaluate(unplugged, data, **settings)
    calls, fatal = 0, round(0.6 * calls)
    with pytest.raises(KeyboardInterrupt):
        pg.evaluate(unplugged, data, checkpoint=tmp_path, **settings)
    assert [path.suffix for path in tmp_path.iterdir()] == [".checkpoint"]
    earlier = checkpoints.seconds_in(next(tmp_path.iterdir()))
    resumed = pg.evaluate(unplugged, data, checkpoint=tmp_path, **settings)
    assert resumed.records[0].seconds > earlier > 0
    assert resumed.records[0].perturbation == whole.records[0].perturbation
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]


def test_a_kept_perturbation_is_not_taken_for_anothers(scene: tuple[nn.Module, Data], tmp_path: Path) -> None:
    gcn, data = scene

    def newly_kept(model: nn.Module | Callable[..., torch.Tensor], data: Data) -> int:
        before = len(list(tmp_path.iterdir()))
        pg.evaluate(model, data, attack="dice", epsilons=[0.2], checkpoint=tmp_path)
        return len(list(tmp_path.iterdir())) - before

    def shifted(by: float) -> Callable[..., torch.Tensor]:
        return lambda x, edge_index, edge_weight: gcn(x, edge_index, edge_weight) * by

    other_features = data.clone()
    other_features.x = data.x + 0.1
    sigmoid = copy.deepcopy(gcn)
    sigmoid.act = nn.Sigmoid()  # neither in the parameters nor in the name
    for model, graph in ((gcn, data), (gcn, other_features), (sigmoid, data), (shifted(1), data), (shifted(2), data)):
        assert newly_kept(model, graph) == 1
        assert newly_kept(model, graph) == 0
    sparse = data.clone()
    sparse.x = data.x.to_sparse_csr()
    assert pg.evaluate(gcn_on_dense(gcn), sparse, attack="dice", epsilons=[0.2], checkpoint=tmp_path).records


def gcn_on_dense(gcn: nn.Module) -> Callable[..., torch.Tensor]:
    return lambda x, edge_index, edge_weight: gcn(x.to_dense(), edge_index, edge_weight)


def plain_model(x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None) -> torch.Tensor:
    return x[:, :2]


def test_missing_targets_say_so(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    bare = communities()
    with pytest.raises(InputError, match="no test_mask"):
        pg.evaluate(gcn, bare)
    with pytest.raises(InputError, match="targets names no nodes"):
        pg.evaluate(gcn, data, targets=torch.zeros(data.num_nodes, dtype=torch.bool))
    unlabelled = data.clone()
    unlabelled.y = torch.full_like(data.y, -1)
    with pytest.raises(InputError, match="negative label"):
        pg.evaluate(gcn, unlabelled)
    del unlabelled.y
    with pytest.raises(InputError, match=r"data\.y is missing"):
        pg.evaluate(gcn, unlabelled)
    with pytest.raises(InputError, match="not negative"):
        pg.evaluate(gcn, data, epsilons=[0.1, -0.1], progress=True)


def test_worst_case_is_the_lowest_of_all(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    model = pg.protect(gcn, trained)
    small = {key: value for key, value in QUICK.items() if key != "fine_tune_epochs"}
    ensemble = [
        Member("transferred", "prbcd", QUICK, view="transfer"),
        Member("adaptive", "prbcd", {**QUICK, "loss": "margin"}),
        Member("local", "lrbcd", small),
        Member("warm", "prbcd", {**QUICK, "loss": "margin"}, begins_from="transferred"),
        Member("fewer", "prbcd", QUICK, view="fewer-steps"),
        Member("more", "prbcd", QUICK, view="more-steps"),
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
    assert list(unprotected.results) == ["adaptive", "local", "warm"]  # "warm" then starts from nothing


class Quantised(nn.Module):
    """A GCN whose weights are cut to 0 and 1: nothing flows back but through the self-loops' branch."""

    def __init__(self, gcn: nn.Module) -> None:
        super().__init__()
        self.gcn = gcn

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        return self.gcn(x, edge_index, (edge_weight > 0.5).float() + 0 * edge_weight)


def test_a_gradient_free_attack_that_wins_is_a_sign_of_masked_gradients(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    ensemble = [
        Member("adaptive", "prbcd", {**QUICK, "final_samples": 1}),
        Member("evolutionary", "evolutionary", {"generations": 15, "population": 16}, begins_from="adaptive"),
    ]
    with pytest.warns(MaskedGradientWarning, match="exactly 0"):
        worst = pg.worst_case(Quantised(gcn), data, epsilons=[0.3], ensemble=ensemble)
    assert worst.strongest(0.3) == "evolutionary"
    assert any("'evolutionary' is stronger than the adaptive" in warning for warning in worst.warnings)


def test_a_model_without_gradients_is_still_attacked(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    cut = pg.protect(gcn, trained, threshold=0.5)
    ensemble = [Member("prbcd", "prbcd", QUICK), Member("flips", "random-flip")]
    worst = pg.worst_case(cut, data, epsilons=[0.3], ensemble=ensemble)
    assert list(worst.results) == ["flips"]
    assert "'prbcd' was left out" in worst.warnings[0]
    with pytest.raises(UnsupportedModelError, match="No attack of the ensemble"):
        pg.worst_case(cut, data, epsilons=[0.3], ensemble=ensemble[:1])
    with pytest.raises(InputError, match="Nothing was evaluated at epsilon 0.9"):
        worst.attacked(0.9)


@pytest.mark.parametrize(
    ("ensemble", "message"),
    [
        ([], "empty"),
        ([Member("a", "prbcd"), Member("a", "dice")], "Two members"),
        ([Member("a", "prbcd", view="fewer steps")], "fewer steps"),
        ([Member("a", "prbcd", {"epoch": 3})], "no setting 'epoch'"),
        ([Member("a", "prbdc")], "Did you mean 'prbcd'"),
        ([Member("a", "prbcd", begins_from="b"), Member("b", "prbcd")], "no earlier member"),
    ],
)
def test_an_ensemble_that_makes_no_sense_is_refused(
    ensemble: list[Member], message: str, scene: tuple[nn.Module, Data]
) -> None:
    gcn, data = scene
    with pytest.raises(InputError, match=message):
        pg.worst_case(gcn, data, ensemble=ensemble)


def test_the_transferred_attack_knows_the_weights_name(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene

    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gcn = gcn

        def forward(
            self, x: torch.Tensor, edge_index: torch.Tensor, scale: object = None, w: torch.Tensor | None = None
        ) -> torch.Tensor:
            assert scale is None
            return self.gcn(x, edge_index, w)

    ensemble = [Member("transferred", "prbcd", QUICK, view="transfer")]
    usual = pg.worst_case(pg.protect(gcn, trained), data, epsilons=[0.3], ensemble=ensemble)
    renamed = pg.worst_case(pg.protect(Renamed(), trained, weight_arg="w"), data, epsilons=[0.3], ensemble=ensemble)
    assert renamed.attacked(0.3) == usual.attacked(0.3)


def test_models_that_keep_the_first_graph_are_refused(scene: tuple[nn.Module, Data]) -> None:
    data = scene[1]
    cached = models.GCN(data.num_features, 16, 2, 2, cached=True)
    with pytest.raises(UnsupportedModelError, match="cached=True"):
        pg.evaluate(cached, data, attack="evolutionary")
    with pytest.raises(UnsupportedModelError, match="cached=True"):
        RandomFlip()(cached, data, 3)


def test_what_is_measured_is_what_was_attacked(scene: tuple[nn.Module, Data]) -> None:
    """One direction per edge, self-loops, other edge attributes: the model sees what the attack saw."""
    gcn, data = scene
    both = pg.evaluate(gcn, data, epsilons=[0.3], **QUICK)
    one_way = data.clone()
    loops = torch.arange(5).repeat(2, 1)
    one_way.edge_index = torch.cat([data.edge_index[:, data.edge_index[0] < data.edge_index[1]], loops], dim=1)
    one_way.edge_attr = torch.ones(one_way.edge_index.shape[1], 3)
    result = pg.evaluate(gcn, one_way, epsilons=[0.3], **QUICK)
    assert result.clean == both.clean
    assert result.records[0].perturbation == both.records[0].perturbation
    assert result.attacked(0.3) == both.attacked(0.3)


def test_the_default_ensemble_names_every_view(trained: pg.GPRGAE) -> None:
    names = {member.view for member in evaluation.thorough_ensemble()}
    assert names == {"model", "transfer", *trained.variants(), "small-weights"}
    assert {member.view for member in evaluation.thorough_ensemble([])} == {"model", "transfer"}


def test_a_view_that_the_model_does_not_have(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    ensemble = [Member("a", "prbcd", QUICK), Member("b", "prbcd", QUICK, view="no-steps")]
    with pytest.raises(InputError, match="model, transfer, fewer-steps, more-steps, small-weights"):
        pg.worst_case(pg.protect(gcn, trained), data, ensemble=ensemble)
    # A model without a purifier can't say which views there are: the member is left out, as in the default ensemble.
    assert list(pg.worst_case(gcn, data, epsilons=[0.1], ensemble=ensemble).results) == ["a"]


def test_epochs_make_every_member_shorter(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    ensemble = [
        Member("prbcd", attacks.PRBCD(block_size=400)),
        Member("pgd", attacks.PGD, {"loss": "margin"}),
        Member("evolutionary", "evolutionary", {"population": 4}),
        Member("dice", "dice"),
    ]
    worst = pg.worst_case(gcn, data, epsilons=[0.1], ensemble=ensemble, epochs=8)
    assert [result.records[0].attack for result in worst.results.values()] == [
        repr(attacks.PRBCD(block_size=400, epochs=8, fine_tune_epochs=2)),
        repr(attacks.PGD(loss="margin", epochs=8)),
        repr(attacks.Evolutionary(population=4, generations=16)),
        repr(attacks.DICE()),
    ]
    with pytest.raises(InputError, match="epochs must be at least 1"):
        pg.worst_case(gcn, data, epochs=0)


def test_tables_are_printed_as_wide_as_the_terminal(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    worst = pg.worst_case(gcn, data, epsilons=[0.1], ensemble=[Member("flips", "random-flip")])
    for result in (worst, worst.results["flips"]):
        console = Console(width=70)
        with console.capture() as capture:
            console.print(result)
        assert max(map(len, capture.get().splitlines())) <= 70
        assert f"{100 * worst.clean:.1f}" in capture.get()
        assert f"{100 * worst.attacked(0.1):.1f}" in str(result)


def test_edge_detection(trained: pg.GPRGAE) -> None:
    data = communities()
    graph = as_pair_graph(data)
    across = torch.tensor([[0, 2, 4], [13, 25, 37]])  # between the communities
    free = across[:, graph.find(across[0] * graph.num_nodes + across[1]) < 0]
    found = evaluation.edge_detection(trained, data.x, graph, Perturbation(graph.num_nodes, added=free))
    assert found.auc > 0.9  # what joins the communities weighs less
    assert found.true_weight > 0.5


def test_affected_nodes_are_within_reach() -> None:
    path = PairGraph(6, torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
    flip = Perturbation(6, removed=torch.tensor([[0], [1]]))
    for layers, normalised, expected in ((1, False, [0, 1]), (2, False, [0, 1, 2]), (1, True, [0, 1, 2])):
        affected = evaluation.affected_nodes(path, flip, layers, normalised=normalised)
        assert affected.nonzero().flatten().tolist() == expected
    assert evaluation.unaffected_share(path, flip, 2, normalised=False) == 0.5
    assert evaluation.unaffected_share(path, flip, 2, normalised=False, targets=torch.tensor([2, 3])) == 0.5
    added = Perturbation(6, added=torch.tensor([[0], [5]]))
    assert evaluation.unaffected_share(path, added, 1, normalised=False) == pytest.approx(4 / 6)


def test_unaffected_shares_fall_with_the_budget(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    found = pg.evaluate(gcn, data, attack="random-flip", epsilons=[0.0, 0.01, 0.3], seeds=[0, 1])
    shares = evaluation.unaffected_shares(found, data, layers=1, normalised=False)
    assert list(shares) == [0.0, 0.01, 0.3]
    assert 1 == shares[0.0] > shares[0.01] > shares[0.3]


def test_affected_nodes_are_all_whose_logits_changed(scene: tuple[nn.Module, Data]) -> None:
    gcn, data = scene
    graph = as_pair_graph(data)
    flip = Perturbation.of_flips(graph, graph.pairs[:, :2])
    before, after = evaluation.predict(gcn, data), evaluation.predict(gcn, flip.apply(data))
    changed = (before - after).abs().max(1).values > 1e-6
    assert not (changed & ~evaluation.affected_nodes(graph, flip, layers=2)).any()
    assert (changed & ~evaluation.affected_nodes(graph, flip, layers=2, normalised=False)).any()


def test_convergence_and_lipschitz(scene: tuple[nn.Module, Data], trained: pg.GPRGAE) -> None:
    gcn, data = scene
    constant = evaluation.lipschitz_constant(trained, data.x, data, samples=5)
    assert constant > 0
    assert constant == evaluation.lipschitz_constant(trained, data.x, data, samples=5)
    assert constant != evaluation.lipschitz_constant(trained, data.x, data, samples=5, injection=0.1)
    damped = trained.with_settings(alpha=0.5, threshold=0.5)
    assert constant == evaluation.lipschitz_constant(damped, data.x, data, samples=5)
    steps = evaluation.convergence(gcn, trained, data, alphas=[0.5, 1.0], max_steps=4, lipschitz=constant)
    assert [one.alpha for one in steps] == [0.5, 1.0]
    for one in steps:
        assert len(one.accuracies) == 5
        assert len(one.relative_change) == 4
        assert one.accuracies[0] == evaluation.model_accuracy(gcn, data)
        assert one.bound == pytest.approx(1 - one.alpha * (1 - constant))
        weights = trained.trace(data, alpha=one.alpha, tolerance=0.0, max_steps=4, history=True).weights
        first, last = (weights[1] - weights[0]).norm(), (weights[4] - weights[3]).norm()
        assert one.rate == pytest.approx(float(last / first) ** (1 / 3))
    damped, whole = steps
    assert damped.relative_change[0] == pytest.approx(
        whole.relative_change[0]
    )  # of the direction, before the step size


def test_lipschitz_norms_count_absent_edges_as_zero() -> None:
    from purigraph.evaluation.convergence import _distance

    one = PairGraph(3, torch.tensor([[0], [1]]), torch.tensor([3.0]))
    other = PairGraph(3, torch.tensor([[0], [2]]), torch.tensor([4.0]))
    assert _distance(one, other) == pytest.approx(5.0)
