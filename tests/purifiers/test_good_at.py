"""GOOD-AT with a classifier: what it looks at, what it cuts, and how it comes back from a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from helpers import communities
from purigraph import attacks, checkpoints, purifiers
from purigraph.classifiers import GCN
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.perturbation import Perturbation
from purigraph.graph.sampling import sample_non_edges
from purigraph.graph.splits import inductive_split
from purigraph.purifiers import GOODAT
from purigraph.training import fit_against_attacks, train

SHORT = {"epochs": 15, "batch_size": 256}


def gcn(seed: int = 0) -> GCN:
    """A classifier that has learned the two communities."""
    data = communities()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = GCN(24, 2, hidden_channels=8)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(60):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data.x, data.edge_index), data.y).backward()
            optimiser.step()
    return model.eval()


ATTACK = attacks.PRBCD(epochs=6, fine_tune_epochs=4, block_size=2000)


def fitted(**changes: Any) -> GOODAT:
    purifier = GOODAT(num_detectors=3, hidden_channels=16)
    return purifier.fit(communities(), **{"classifier": gcn(), "attack": ATTACK, **SHORT, **changes})


@pytest.fixture(scope="module")
def purifier() -> GOODAT:
    return fitted()


def injected(data: Data, count: int = 60) -> tuple[Data, torch.Tensor]:
    """The graph with edges between the communities, and which of its entries they are."""
    graph = as_pair_graph(data)
    more = sample_non_edges(graph, 4 * count, torch.Generator().manual_seed(3))
    pairs = PairGraph.from_codes(graph.num_nodes, more).pairs
    across = pairs[:, data.y[pairs[0]] != data.y[pairs[1]]][:, :count]
    attacked = Perturbation(graph.num_nodes, added=across).apply(data)
    added = torch.cat([torch.zeros(data.edge_index.shape[1]), torch.ones(2 * across.shape[1])]).bool()
    return attacked, added


def test_it_tells_true_edges_from_added_ones(purifier: GOODAT) -> None:
    data, added = injected(communities())
    scores = purifier.suspicion(data.x, data, data.edge_index)
    assert float(scores[added].mean()) > float(scores[~added].mean()) + 0.2
    weight = purifier(data).edge_weight
    assert set(weight.tolist()) == {0.0, 1.0}
    assert float(weight[added].mean()) < float(weight[~added].mean())


def test_the_scores_are_the_printed_equations(purifier: GOODAT) -> None:
    data, _ = injected(communities())
    graph = as_pair_graph(data)
    assert purifier.classifier is not None
    with torch.no_grad():
        known = torch.cat([data.x, purifier.classifier(data.x, *graph.edge_index())], dim=1)
        highest = torch.zeros(graph.num_pairs)
        for detector in purifier.detectors:
            upper, lower = torch.cat([detector.feature_weight, detector.logit_weight]).chunk(2, dim=1)
            whole = torch.cat([upper, lower])  # W, (2 (F + C), H)

            def directed(i: torch.Tensor, j: torch.Tensor, detector: nn.Module = detector, whole=whole):
                hidden = detector.norm(torch.cat([known[i], known[j]], dim=1) @ whole).relu()
                return torch.sigmoid(hidden @ detector.score_weight + detector.score_bias)

            first, second = graph.pairs
            highest = torch.maximum(highest, (directed(first, second) + directed(second, first)) / 2)
    found = purifier.suspicion(data.x, graph, graph.pairs)
    torch.testing.assert_close(found, highest)
    kept = purifier.purify(data.x, graph).weight
    assert torch.equal(kept, (found <= purifier.threshold).float())


def test_the_logits_are_those_of_the_graph_at_hand(purifier: GOODAT) -> None:
    data, added = injected(communities())
    edges = data.edge_index[:, ~added]
    bare = torch.empty(2, 0, dtype=torch.int64)
    in_graph, alone = (purifier.suspicion(data.x, graph_of(graph, data), edges) for graph in (edges, bare))
    assert not torch.allclose(in_graph, alone)


def graph_of(edge_index: torch.Tensor, data: Data) -> PairGraph:
    return as_pair_graph(Data(edge_index=edge_index, num_nodes=data.num_nodes))


def test_every_detector_has_samples_of_its_own_and_one_is_enough(purifier: GOODAT) -> None:
    first, second = (detector.feature_weight for detector in purifier.detectors[:2])
    assert not torch.equal(first, second)
    data, _ = injected(communities())
    ensemble = purifier.suspicion(data.x, data, data.edge_index)
    one = fitted()
    one.detectors = one.detectors[:1]
    one._settings = one.settings.replace(num_detectors=1)
    assert (ensemble >= one.suspicion(data.x, data, data.edge_index)).all()


def test_the_verdict_comes_before_the_presence(purifier: GOODAT) -> None:
    """Half of an edge that is kept is half an edge; half of one that is cut is none."""
    data, _ = injected(communities())
    graph = as_pair_graph(data)
    almost = torch.full((graph.num_pairs,), 1 - 1e-6)
    assert torch.allclose(purifier.purify_parts(data.x, graph, almost).weight, purifier.purify(data.x, graph).weight)
    half = purifier.purify_parts(data.x, graph, torch.full_like(almost, 0.5)).weight
    assert set(half.tolist()) <= {0.0, 0.5}


def test_straight_through_changes_gradients_alone(purifier: GOODAT) -> None:
    data, _ = injected(communities())
    graph = as_pair_graph(data)
    soft = purifier.variants()["straight-through"]
    part = torch.full((graph.num_pairs,), 0.9, requires_grad=True)
    direction = torch.randn(graph.num_pairs, generator=torch.Generator().manual_seed(0))
    gradients, weights = [], []
    for one in (purifier, soft):
        weights.append(one.purify_parts(data.x, graph, part).weight)
        gradients.append(torch.autograd.grad((weights[-1] * direction).sum(), part)[0])
    torch.testing.assert_close(*weights)
    cut = weights[0] == 0
    assert cut.any()
    assert (gradients[0][cut] == 0).all()
    assert (gradients[1][cut] != 0).any()
    assert soft.variants() == {}


def test_it_is_saved_with_its_classifier(purifier: GOODAT, tmp_path: Path) -> None:
    data, _ = injected(communities())
    purifier.save_pretrained(tmp_path)
    loaded = purifiers.load(tmp_path)
    assert isinstance(loaded, GOODAT)
    assert isinstance(loaded.classifier, GCN)
    assert loaded.summary().startswith("Trained 3 detectors, on ")
    assert torch.equal(
        loaded.suspicion(data.x, data, data.edge_index), purifier.suspicion(data.x, data, data.edge_index)
    )


def test_the_given_classifier_is_copied_and_untouched() -> None:
    model = gcn()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    purifier = fitted(classifier=model)
    assert purifier.classifier is not model
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_the_same_seed_gives_the_same_bits_and_labels_are_not_read(purifier: GOODAT) -> None:
    data = communities()
    data.y = torch.randint(0, 9, data.y.shape)
    again = GOODAT(num_detectors=3, hidden_channels=16).fit(data, classifier=gcn(), attack=ATTACK, **SHORT)
    other = fitted(seed=1)
    for name, tensor in purifier.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert not torch.equal(other.detectors[0].score_weight, purifier.detectors[0].score_weight)


def test_an_interrupted_fit_goes_on(purifier: GOODAT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    calls = []

    class Interrupted(attacks.PRBCD):
        """The same attack, which is stopped at the third call."""

        def _run(self, scene: Any) -> Perturbation:
            calls.append(scene)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return super()._run(scene)

    attack = Interrupted(**ATTACK.settings.values())
    with pytest.raises(KeyboardInterrupt):
        fitted(attack=attack, checkpoint=tmp_path)
    again = fitted(attack=attack, checkpoint=tmp_path)
    assert len(calls) == 4  # two detectors were kept
    for name, tensor in purifier.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert not list(tmp_path.glob("*.safetensors"))


def test_other_models_can_be_attacked() -> None:
    asked: list[nn.Module] = []

    def attack(model: nn.Module, *arguments: Any, **options: Any) -> Perturbation:
        asked.append(model)
        return ATTACK(model, *arguments, **options)

    models = [gcn(1), gcn(2)]
    fitted(attack=attack, attacked=models)
    assert [models.index(model) for model in asked] == [0, 1, 0]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="An attack needs something to attack"):
        fitted(classifier=None)
    with pytest.raises(InputError, match="A Linear is not registered under a name"):
        fitted(classifier=nn.Linear(24, 2))
    with pytest.raises(InputError, match="added no edge"):
        fitted(attack=lambda *_, **__: Perturbation(120))
    with pytest.raises(NotFittedError, match="fit_against_attacks"):
        GOODAT()(communities())
    with pytest.raises(InputError, match="trained on 24 features"):
        fitted()(torch.zeros(120, 5), communities().edge_index)
    with pytest.raises(InputError, match="hidden_channels belong to the trained"):
        fitted().with_settings(hidden_channels=3)
    with pytest.raises(InputError, match="no edges"):
        GOODAT().fit(Data(x=torch.ones(3, 2), edge_index=torch.empty(2, 0, dtype=torch.int64)))


def test_the_default_attack_is_pgd_where_all_pairs_fit_and_prbcd_elsewhere() -> None:
    from purigraph.training.against_attacks import default_attack

    small, large = default_attack(communities()), default_attack(communities(num_nodes=500), attack_epochs=10)
    assert small == attacks.PGD(epochs=100)
    assert large == attacks.PRBCD(epochs=6, fine_tune_epochs=4, block_size=100_000)


def test_the_wiring_wants_a_split_or_a_classifier() -> None:
    with pytest.raises(InputError, match="no classifier to attack"):
        fit_against_attacks(GOODAT(), communities())
    with pytest.raises(InputError, match="an InductiveSplit"):
        fit_against_attacks(GOODAT(), communities(), classifier=gcn(), surrogates=2)
    with pytest.raises(InputError, match="GPRGAE learns from no attacks"):
        fit_against_attacks(purifiers.GPRGAE(), communities())
    short = {**SHORT, "attack_epochs": 3}
    made = fit_against_attacks(GOODAT(num_detectors=1), communities(), classifier=gcn(), **short)
    assert made.is_fitted


def test_surrogates_are_trained_on_the_split_and_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    data, role = communities(), torch.arange(120) % 5
    data.train_mask, data.val_mask, data.test_mask = role == 0, role == 1, role == 2
    attacked: list[nn.Module] = []
    call = attacks.PGD.__call__

    def listening(self: attacks.PGD, model: nn.Module, *arguments: Any, **options: Any) -> Perturbation:
        attacked.append(model)
        return call(self, model, *arguments, **options)

    monkeypatch.setattr(attacks.PGD, "__call__", listening)
    monkeypatch.setattr("purigraph.training.against_attacks.train", partial(train, settings={"epochs": 3}))
    short = {**SHORT, "attack_epochs": 3, "surrogates": 2}
    purifier = fit_against_attacks(GOODAT(num_detectors=3), inductive_split(data), **short)
    assert attacked[0] is attacked[2] is not attacked[1]
    assert purifier.classifier is not None
    weights = [model.first.weight for model in (purifier.classifier, *attacked[:2])]
    assert len({tuple(weight.flatten().tolist()) for weight in weights}) == 3
