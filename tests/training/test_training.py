"""Training on labelled nodes, on pseudo-labels, and on graphs under attack."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import checkpoints
from purigraph.classifiers import GCN, MLP, Classifier
from purigraph.errors import InputError, ModelFileError, NotFittedError, PurigraphError, UnknownNameError
from purigraph.graph.splits import InductiveSplit, attach_split, inductive_split
from purigraph.training import (
    PROFILES,
    AdversarialSettings,
    AttackSettings,
    ConsistencySettings,
    EdgeLossSettings,
    TrainingResult,
    TrainingSettings,
    graph_attack,
    names,
    pseudo_label,
    train,
)
from purigraph.training.run import Run

SHORT = TrainingSettings(epochs=12, patience=50)


@pytest.fixture(scope="module")
def split() -> InductiveSplit:
    data = attach_split(communities(160), seed=0, train_per_class=5, val_per_class=8)
    return inductive_split(data)


def build(seed: int) -> GCN:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return GCN(24, 2, hidden_channels=8)


def train_on(
    model: Any, train_graph: Data, validation: Data, regime: str = "vanilla", **options: Any
) -> TrainingResult:
    """Train a model that is made already, or what a function makes, on graphs of their own."""
    make = model if not isinstance(model, nn.Module) else (lambda seed: model)
    return train(make, regime, InductiveSplit(train_graph, validation, validation), **options)


def same(left: nn.Module, right: nn.Module) -> bool:
    states = left.state_dict(), right.state_dict()
    return states[0].keys() == states[1].keys() and all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def with_garbage_labels(data: Data, keep: Tensor) -> Data:
    changed = copy.copy(data)
    changed.y = torch.where(keep, data.y, 1 - data.y)
    return changed


class Counting(nn.Module):
    """A model that is stopped by Ctrl-C in the middle of an epoch."""

    def __init__(self, model: nn.Module, stop_at: int) -> None:
        super().__init__()
        self.model, self.calls, self.stop_at = model, 0, stop_at

    def forward(self, *inputs: Any) -> Tensor:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        logits: Tensor = self.model(*inputs)
        return logits


def test_it_learns(split):
    result = train_on(build(0), split.train, split.validation, settings=TrainingSettings(epochs=100))

    assert result.validation_accuracy > 0.8
    assert not result.model.training
    assert result.epochs_run == len(result.train_losses) == len(result.validation_losses) <= 100


def test_the_best_state_is_restored(split):
    result = train_on(build(0), split.train, split.validation, settings=TrainingSettings(epochs=60))
    nodes = split.validation.val_mask
    with torch.no_grad():
        logits = result.model(split.validation.x, split.validation.edge_index)[nodes]
    label = split.validation.y[nodes]
    margin = (logits.gather(1, label[:, None]) - logits.gather(1, 1 - label[:, None])).squeeze(1)

    assert result.best_epoch < result.epochs_run  # else there is nothing to restore
    assert result.validation_loss == min(result.validation_losses) == result.validation_losses[result.best_epoch - 1]
    assert float(torch.tanh(-margin).mean()) == pytest.approx(result.validation_loss, abs=1e-6)


def test_the_best_state_is_a_copy(split):
    run = Run(build(0), split.train, split.validation, SHORT, seed=0)
    run.complete("vanilla")
    kept = {name: tensor.clone() for name, tensor in run.best_state.items()}

    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.add_(1)

    assert all(torch.equal(run.best_state[name], kept[name]) for name in kept)


def test_patience_ends_the_training(split):
    settings = TrainingSettings(epochs=500, patience=7)
    result = train_on(build(0), split.train, split.validation, settings=settings)

    assert result.epochs_run == result.best_epoch + 7 < 500


def test_weight_decay_is_applied(split):
    norms = []
    for decay in (0.0, 0.1):
        settings = TrainingSettings(epochs=40, weight_decay=decay, patience=1000)
        run = Run(build(0), split.train, split.validation, settings, seed=0)
        run.complete("vanilla")
        norms.append(sum(float(p.detach().square().sum()) for p in run.model.parameters()))

    assert norms[1] < 0.7 * norms[0]


def test_the_losses_differ(split):
    ends = [
        train_on(build(0), split.train, split.validation, settings=SHORT.replace(loss=loss)).model
        for loss in ("tanh-margin", "cross_entropy")
    ]

    assert not same(*ends)


def test_the_same_seed_gives_the_same_bits_and_global_state_is_left_alone(split):
    before = torch.get_rng_state()
    first = train("gcn", "vanilla", split, settings=SHORT, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    second = train("gcn", "vanilla", split, settings=SHORT, seed=3)
    other = train("gcn", "vanilla", split, settings=SHORT, seed=4)

    assert same(first.model, second.model)
    assert first.train_losses == second.train_losses
    assert not same(first.model, other.model)


@pytest.mark.parametrize("regime", ["vanilla", "self", "edge-loss", "consistency", "adversarial"])
def test_labels_that_must_not_be_known_are_not_read(split, regime):
    hidden = InductiveSplit(
        train=with_garbage_labels(split.train, split.train.train_mask),
        validation=with_garbage_labels(split.validation, split.validation.val_mask),
        test=with_garbage_labels(split.test, torch.zeros_like(split.test.test_mask)),
    )
    settings = SHORT
    if regime == "adversarial":
        attack = AttackSettings(epochs=2, block_size=200)
        settings = AdversarialSettings(epochs=4, clean_epochs=1, patience=5, attack=attack)
    if regime == "edge-loss":
        settings = EdgeLossSettings(epochs=12, patience=50)
    if regime == "consistency":
        settings = ConsistencySettings(epochs=12, patience=50, views=2)

    honest = train("gcn", regime, split, settings=settings, hyper={"hidden_channels": 8})
    blind = train("gcn", regime, hidden, settings=settings, hyper={"hidden_channels": 8})

    assert same(honest.model, blind.model)


def test_training_graphs_that_let_the_answers_in_are_refused(split):
    with pytest.raises(InputError, match="The training graph holds 16 nodes of val_mask"):
        train_on(build(0), split.validation, split.validation)
    for name in ("x", "y", "train_mask"):
        incomplete = copy.copy(split.train)
        del incomplete[name]
        with pytest.raises(InputError, match=f"data.{name} is missing"):
            train_on(build(0), incomplete, split.validation)
    empty = copy.copy(split.train)
    empty.train_mask = torch.zeros_like(empty.train_mask)
    with pytest.raises(InputError, match="train_mask is empty"):
        train_on(build(0), empty, split.validation)


def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(split, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    settings = TrainingSettings(epochs=30, patience=50)
    whole = train_on(Counting(build(1), -1), split.train, split.validation, settings=settings, seed=5)

    path = tmp_path / "run.safetensors"
    for stop_at in (17, 12):
        with pytest.raises(KeyboardInterrupt):
            train_on(
                Counting(build(1), stop_at), split.train, split.validation, settings=settings, seed=5, checkpoint=path
            )
        torch.rand(3)
    resumed = train_on(
        Counting(build(1), -1), split.train, split.validation, settings=settings, seed=5, checkpoint=path
    )

    assert same(whole.model, resumed.model)
    assert resumed.train_losses == whole.train_losses
    assert resumed.validation_losses == whole.validation_losses
    assert (resumed.best_epoch, resumed.validation_loss) == (whole.best_epoch, whole.validation_loss)


def test_a_finished_run_is_read_back_and_another_run_is_refused(split, tmp_path):
    path = tmp_path / "run.safetensors"
    first = train_on(build(0), split.train, split.validation, settings=SHORT, checkpoint=path)

    stopped = Counting(build(0), 1)
    again = train_on(build(0), split.train, split.validation, settings=SHORT, checkpoint=path)
    assert same(first.model, again.model)
    with pytest.raises(ModelFileError, match="another run"):
        train_on(build(0), split.train, split.validation, settings=SHORT, seed=1, checkpoint=path)
    with pytest.raises(ModelFileError, match="another run"):
        train_on(stopped, split.train, split.validation, settings=SHORT, checkpoint=path)


def test_a_loss_that_is_not_finite_is_said(split):
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return x[:, :2] * self.weight / 0

    with pytest.raises(PurigraphError, match="The training loss became nan in epoch 1"):
        train_on(Broken(), split.train, split.validation)


def test_a_validation_loss_that_is_never_finite_is_said(split):
    class BrokenOnValidation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(24, 2)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.linear(x) * (1.0 if self.training else math.nan)

    with pytest.raises(PurigraphError, match="The validation loss was never finite in 12 epochs"):
        train_on(BrokenOnValidation(), split.train, split.validation, settings=SHORT)


def nn_linear() -> nn.Module:
    model = nn.Module()
    model.linear = nn.Linear(24, 2)
    model.forward = lambda x, edge_index: model.linear(x * x)
    return model


def test_any_module_can_be_trained(split):
    result = train_on(nn_linear(), split.train, split.validation, settings=SHORT)

    assert result.epochs_run == 12


def test_what_was_done_is_saved_with_the_model(split, tmp_path):
    result = train("gcn", "vanilla", split, settings=SHORT, seed=3)

    result.model.save_pretrained(tmp_path)

    written = json.loads((tmp_path / "config.json").read_text())["training"]
    assert (written["regime"], written["seed"], written["epochs_run"]) == ("vanilla", 3, 12)
    assert written["settings"] == SHORT.to_json()
    assert GCN.from_pretrained(tmp_path).provenance == written


def test_pseudo_labels_fill_what_is_missing(split):
    model = train_on(build(0), split.train, split.validation, settings=SHORT).model
    labelled = pseudo_label(model, split.train)
    known = split.train.train_mask

    assert labelled.train_mask.all()
    assert torch.equal(labelled.y[known], split.train.y[known])
    with torch.no_grad():
        assert torch.equal(labelled.y[~known], model(split.train.x, split.train.edge_index).argmax(1)[~known])
    assert not split.train.train_mask.all()  # untouched


def test_self_training_learns_from_all_nodes(split):
    result = train("gcn", "self", split, settings={"epochs": 60}, hyper={"hidden_channels": 8})

    assert result.regime == "self"
    assert result.validation_accuracy > 0.8
    assert not same(result.model, train("gcn", "vanilla", split, settings={"epochs": 60}).model)


def test_self_training_without_unlabelled_nodes_is_training(split):
    complete = copy.copy(split.train)
    complete.train_mask = torch.ones_like(complete.train_mask)
    built = []

    def counted(seed: int) -> Classifier:
        built.append(seed)
        return build(seed)

    train_on(counted, complete, split.validation, "self", settings=SHORT)

    assert len(built) == 1


def test_self_training_resumes(split, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    whole = train_on(lambda seed: Counting(build(seed), -1), split.train, split.validation, "self", settings=SHORT)
    stops = iter([-1, 9])
    with pytest.raises(KeyboardInterrupt):
        train_on(
            lambda seed: Counting(build(seed), next(stops)),
            split.train,
            split.validation,
            "self",
            settings=SHORT,
            checkpoint=tmp_path,
        )

    resumed = train_on(
        lambda seed: Counting(build(seed), -1),
        split.train,
        split.validation,
        "self",
        settings=SHORT,
        checkpoint=tmp_path,
    )

    assert same(whole.model, resumed.model)


class FakeAttack:
    """Cuts the first edges, and remembers how it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.labels: list[Tensor] = []

    def __call__(self, model: nn.Module, data: Data, labels: Tensor, nodes: Tensor, seed: int, /) -> Data:
        self.calls.append((data.num_nodes, len(nodes), seed))
        self.labels.append(labels)
        attacked = copy.copy(data)
        attacked.edge_index = data.edge_index[:, 40:]
        return attacked


def test_adversarial_training_calls_its_attack(split):
    attack = FakeAttack()
    settings = AdversarialSettings(epochs=7, clean_epochs=4, patience=50)

    result = train("gcn", "adversarial", split, settings=settings, attack=attack, seed=2)

    train_nodes, validation_nodes = split.train.num_nodes, split.validation.num_nodes
    assert [call[:2] for call in attack.calls] == [(train_nodes, train_nodes), (validation_nodes, 16)] * 3
    assert len({call[2] for call in attack.calls}) == 6
    assert result.best_epoch > 4  # the clean epochs can't be chosen
    assert len(result.validation_losses) == 3
    assert (attack.labels[1][~split.validation.val_mask] == -1).all()


def test_adversarial_training_trains_on_what_the_attack_gives(split):
    settings = AdversarialSettings(epochs=8, clean_epochs=2, patience=50)
    attacked = train("gcn", "adversarial", split, settings=settings, attack=FakeAttack())
    clean = train("gcn", "adversarial", split, settings=settings, attack=lambda model, data, *_: data)

    assert not same(attacked.model, clean.model)


@pytest.mark.parametrize("name", ["prbcd", "lrbcd"])
def test_adversarial_training_with_a_real_attack(split, name, tmp_path):
    attack = AttackSettings(name=name, epochs=3, block_size=300, projection="nearest")
    settings = AdversarialSettings(epochs=5, clean_epochs=2, patience=50, attack=attack)

    first = train("gcn", "adversarial", split, settings=settings, seed=1, checkpoint=tmp_path)
    second = train("gcn", "adversarial", split, settings=settings, seed=1)

    assert first.regime == "adversarial"
    assert same(first.model, second.model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adversarial.safetensors", "first.safetensors"]


def test_graph_attack_changes_edges_within_the_budget(split):
    model = train_on(build(0), split.train, split.validation, settings=SHORT).model
    nodes = split.train.train_mask.nonzero().squeeze(1)
    attacked = graph_attack(AttackSettings(epochs=5, block_size=500))(model, split.train, split.train.y, nodes, 0)

    assert attacked.num_nodes == split.train.num_nodes
    assert attacked.edge_index.shape[1] != 0
    assert not torch.equal(attacked.edge_index, split.train.edge_index)


def test_profiles_are_the_papers_and_a_smaller_one():
    paper, cpu = PROFILES["paper"], PROFILES["cpu"]

    assert (paper.epochs, paper.patience, paper.clean_epochs, paper.loss) == (3000, 200, 10, "tanh-margin")
    assert (paper.attack.epsilon, paper.attack.epochs, paper.attack.block_size) == (0.2, 20, 1_000_000)
    assert (cpu.epochs, cpu.attack.block_size, cpu.attack.epsilon) == (300, 50_000, 0.2)


class Watching(nn.Module):
    """A GCN that notes how many edges it was shown in training."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.shown = model, []

    def forward(self, x: Any, edge_index: Tensor) -> Tensor:
        if self.training:
            self.shown.append(edge_index)
        return self.model(x, edge_index)


def test_training_to_lose_edges_shows_other_remains_in_every_epoch(split):
    watched = []

    def make(seed: int) -> nn.Module:
        watched.append(Watching(build(seed)))
        return watched[-1]

    settings = {"epochs": 6, "isolated": 0.4, "dropped": 0.3}
    result = train(make, "edge-loss", split, settings=settings, seed=1)
    first, second = watched
    whole = {tuple(edge) for edge in split.train.edge_index.t().tolist()}
    assert all(edges.shape[1] == len(whole) for edges in first.shown)
    shares = [edges.shape[1] / len(whole) for edges in second.shown]
    # An edge is left if it is not dropped and neither end is isolated.
    assert sum(shares) / len(shares) == pytest.approx(0.7 * 0.6**2, abs=0.06)
    assert len({edges.shape[1] for edges in second.shown}) > 1
    for edges in second.shown:
        assert {tuple(edge) for edge in edges.t().tolist()} <= whole
        assert {tuple(edge) for edge in edges.flip(0).t().tolist()} <= whole
    again = train(make, "edge-loss", split, settings=settings, seed=1)
    assert same(result.model, again.model)
    train(make, "edge-loss", split, settings={**settings, "added": 0.5}, seed=1)
    for edges, lost in zip(watched[-1].shown, second.shown, strict=True):
        found = {tuple(edge) for edge in edges.t().tolist()}
        assert {tuple(edge) for edge in lost.t().tolist()} <= found
        assert len(found - whole) == 2 * round(0.5 * len(whole) / 2)  # both directions of non-edges
    nothing = train("gcn", "edge-loss", split, settings={"epochs": 3, "isolated": 1.0}, seed=1)
    with torch.no_grad():
        logits = nothing.model(split.test.x, split.test.edge_index)
    assert logits.isfinite().all()


def test_names_and_settings_that_do_not_exist_are_refused(split):
    assert {"adversarial", "self", "vanilla"} <= set(names())
    with pytest.raises(UnknownNameError, match=r"no regime named 'vanila'\. Did you mean 'vanilla'"):
        train("gcn", "vanila", split)
    with pytest.raises(InputError, match="TrainingSettings has no setting 'epoch': did you mean 'epochs'"):
        train("gcn", "vanilla", split, settings={"epoch": 3})
    with pytest.raises(InputError, match="learning_rate=0 is not valid"):
        train("gcn", "vanilla", split, settings={"learning_rate": 0})
    with pytest.raises(InputError, match="takes AdversarialSettings, not TrainingSettings"):
        train("gcn", "adversarial", split, settings=SHORT)
    with pytest.raises(InputError, match="takes no attack"):
        train("gcn", "vanilla", split, attack=FakeAttack())
    with pytest.raises(InputError, match="GCN has no setting 'depth'"):
        train("gcn", "vanilla", split, hyper={"depth": 3})


def test_validation_now_and_then(split):
    settings = TrainingSettings(epochs=10, validate_every=4)
    result = train_on(build(0), split.train, split.validation, settings=settings)
    assert len(result.validation_losses) == 2
    assert result.best_epoch in (4, 8)

    seldom = train_on(build(0), split.train, split.validation, settings=settings.replace(validate_every=50))
    assert seldom.best_epoch == 10  # there is always a best epoch


def test_an_mlp_is_trained_on_features_alone(split):
    result = train("mlp", "vanilla", split, settings=SHORT)

    assert isinstance(result.model, MLP)


def test_pseudo_labels_see_the_edge_weights(split):
    model = train_on(build(0), split.train, split.validation, settings=SHORT).model
    weighted = copy.copy(split.train)
    weighted.edge_weight = torch.rand(split.train.edge_index.shape[1], generator=torch.Generator().manual_seed(0)) ** 4
    with torch.no_grad():
        expected = model(weighted.x, weighted.edge_index, weighted.edge_weight).argmax(1)
    unknown = ~split.train.train_mask
    assert not torch.equal(expected[unknown], pseudo_label(model, split.train).y[unknown])
    assert torch.equal(expected[unknown], pseudo_label(model, weighted).y[unknown])


def test_a_checkpoint_belongs_to_its_edge_weights(split, tmp_path):
    path = tmp_path / "state"
    train_on(build(0), split.train, split.validation, settings=SHORT, checkpoint=path)
    weighted = copy.copy(split.train)
    weighted.edge_weight = torch.full((split.train.edge_index.shape[1],), 0.5)
    with pytest.raises(ModelFileError, match="another run"):
        train_on(build(0), weighted, split.validation, settings=SHORT, checkpoint=path)


def test_features_in_double_precision_train_a_model_in_double_precision(split):
    double = InductiveSplit(*(copy.copy(graph) for graph in (split.train, split.validation, split.test)))
    for graph in (double.train, double.validation, double.test):
        graph.x = graph.x.double()
    model = train("gcn", "self", double, settings=SHORT).model
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    with pytest.raises(InputError, match=r"x\.float\(\)"):
        model(split.test.x, split.test.edge_index)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: setattr(data, "y", None), "y is missing"),
        (lambda data: setattr(data, "y", torch.full_like(data.y, -1)), "negative label"),
        (lambda data: setattr(data, "x", data.x[0]), r"data\.x must be a matrix of numbers"),
    ],
)
def test_graphs_that_can_not_be_trained_on_are_named(change, message, split):
    broken = InductiveSplit(*(copy.copy(graph) for graph in (split.train, split.validation, split.test)))
    for graph in (broken.train, broken.validation):
        change(graph)
    with pytest.raises(InputError, match=message):
        train("gcn", "vanilla", broken, settings=SHORT)


def test_a_whole_graph_is_no_split(split):
    with pytest.raises(InputError, match="InductiveSplit"):
        train("gcn", "vanilla", split.test, settings=SHORT)


def test_training_on_purified_graphs_sees_their_weights_and_says_so(split: InductiveSplit) -> None:
    purifier = pg.Jaccard(similarity="cosine", cosine_threshold=0.1)
    purified = InductiveSplit(purifier(split.train), purifier(split.validation), split.test)
    assert 0 < int((purified.train.edge_weight == 0).sum()) < purified.train.num_edges
    found = train(build, "self", split, settings=SHORT, purifier=purifier)
    expected = train(build, "self", purified, settings=SHORT)
    assert same(found.model, expected.model)
    assert not same(found.model, train(build, "self", split, settings=SHORT).model)
    recipe = {"purifier": "jaccard", "settings": purifier.settings.to_json()}
    assert found.record() == {**expected.record(), "purifier": recipe}
    assert found.model.provenance == found.record()


def test_what_can_t_purify_the_training_graph_is_refused(split: InductiveSplit) -> None:
    with pytest.raises(InputError, match="attacks the training graph"):
        train(build, "adversarial", split, purifier=pg.Jaccard())
    with pytest.raises(NotFittedError, match="has not been fitted"):
        train(build, "vanilla", split, purifier=pg.GPRGAE(in_channels=24))
    with pytest.raises(InputError, match="purifiers.load"):
        train(build, "vanilla", split, purifier="folder")  # type: ignore[arg-type]


def test_weights_that_require_a_gradient_are_trained_with(split):
    graphs = [copy.copy(graph) for graph in (split.train, split.validation, split.test)]
    for graph in graphs:
        graph.edge_weight = torch.ones(graph.edge_index.shape[1], requires_grad=True) * 1.0
    train("gcn", "self", InductiveSplit(*graphs), settings=SHORT)
    assert graphs[0].edge_weight.requires_grad
