import copy
import dataclasses
import json
import pickle
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities, random_pair_graph
from purigraph import checkpoints
from purigraph.errors import InputError, ModelFileError, NotFittedError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.injection import inject
from purigraph.kernels.reference import reference_step
from purigraph.metrics import ranking_scores
from purigraph.purifiers.gpr_gae.fit_settings import FitOptions, FitSettings
from purigraph.purifiers.gpr_gae.links import LinkMap
from purigraph.purifiers.gpr_gae.perturb import perturb
from purigraph.purifiers.gpr_gae.training import Training


def small(**changes: object) -> pg.GPRGAE:
    return pg.GPRGAE(**{"hops": 3, "node_channels": 8, "edge_channels": 16, **changes})  # type: ignore[arg-type]


def bits(model: pg.GPRGAE) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- perturbed graphs -------------------------------------------------------------------------------------------------


def test_an_adversary_injects_the_pairs_that_it_scores_highest() -> None:
    graph = as_pair_graph(communities())
    seen: list[PairGraph] = []

    def scores(pairs: PairGraph) -> torch.Tensor:
        seen.append(pairs)
        return -pairs.codes.double()

    perturbed = perturb(graph, 1.0, 0.0, 1.0, torch.Generator().manual_seed(0), (0.5, scores))
    (pool,) = seen
    hard = round(0.5 * graph.num_pairs)
    assert pool.num_pairs == 10 * hard
    injected = perturbed.graph.codes[~perturbed.is_original]
    assert torch.isin(pool.codes[:hard], injected).all()
    assert graph.num_pairs - 0.1 * hard < len(injected) <= graph.num_pairs, "few random ones are among them"
    assert not torch.isin(injected, graph.codes).any()


def test_adversarial_training_learns_and_is_repeatable() -> None:
    data, make = communities(), pg.GPRGAE(hops=2, node_channels=8, edge_channels=8)
    found = [make.fit(data, epochs=15, seed=1, adversarial=share)(data).edge_weight for share in (0.5, 0.5, 0.0)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize(("p", "q", "eta"), [(1.5, 0.2, 3.0), (0.5, 0.5, 1.0), (2.0, 0.0, 2.0)])
def test_perturbed_graphs_have_exact_sizes(p: float, q: float, eta: float) -> None:
    graph = as_pair_graph(communities())
    generator = torch.Generator().manual_seed(0)
    perturbed = perturb(graph, p, q, eta, generator)
    original, weight = perturbed.is_original, perturbed.graph.weight
    injected = round(p * graph.num_pairs)
    assert perturbed.graph.num_pairs == graph.num_pairs + injected
    assert int(original.sum()) == graph.num_pairs
    assert torch.equal(perturbed.graph.codes[original], graph.codes)
    assert (perturbed.graph.codes.diff() > 0).all()
    masked = weight == 0
    assert int(masked[original].sum()) == round(q * graph.num_pairs)
    assert int(masked[~original].sum()) == round(q * injected)
    left = weight[~masked]
    assert left.min() >= 1 / eta - 1e-6
    assert left.max() <= 1
    assert graph.weight.unique().tolist() == [1.0]
    if eta > 1:
        assert left.mean().item() == pytest.approx((1 + 1 / eta) / 2, abs=0.05)


def test_masks_are_uniform_over_edges() -> None:
    graph = as_pair_graph(communities(num_nodes=30))
    generator = torch.Generator().manual_seed(0)
    hits = torch.zeros(graph.num_pairs)
    for _ in range(600):
        perturbed = perturb(graph, 0.5, 0.3, 1.0, generator)
        hits += (perturbed.graph.weight == 0)[perturbed.is_original]
    share = round(0.3 * graph.num_pairs) / graph.num_pairs
    deviation = (600 * share * (1 - share)) ** 0.5
    assert (hits - 600 * share).abs().max() < 4.5 * deviation


def test_too_much_injection_is_refused() -> None:
    full = torch.ones(6, 6).triu(1).nonzero().t()
    with pytest.raises(InputError, match="free pairs"):
        small().fit(Data(x=torch.randn(6, 3), edge_index=full), epochs=1, holdout=0.3)


# --- training ---------------------------------------------------------------------------------------------------------


def test_training_learns_to_tell_edges_from_injected_ones() -> None:
    data = communities(num_nodes=200)
    purifier = small().fit(data, epochs=150, seed=1)
    # Half of the random pairs join a community too: knowing the communities exactly gives 0.69.
    assert purifier.report.auc > 0.68
    graph = as_pair_graph(data)
    attacked = inject(graph, graph.num_pairs // 2, torch.Generator().manual_seed(5))
    weight = purifier.purify(data.x, attacked.graph).weight
    auc, _ = ranking_scores(weight[attacked.is_original], weight[~attacked.is_original])
    assert auc > 0.68


def test_same_seed_same_bits_and_another_seed_others() -> None:
    data = communities()
    first, again, other = (small().fit(data, epochs=6, seed=seed) for seed in (3, 3, 4))
    assert same(bits(first), bits(again))
    assert not same(bits(first), bits(other))


def test_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    small().fit(communities(), epochs=2, seed=9)
    assert torch.equal(torch.rand(3), expected)


def test_labels_and_masks_are_never_read() -> None:
    class Tattling(Data):
        def __getattribute__(self, key: str) -> object:
            if key in {"y", "train_mask", "val_mask", "test_mask"}:
                raise AssertionError(f"{key} was read")
            return super().__getattribute__(key)

    plain = communities()
    watched = Tattling(x=plain.x, edge_index=plain.edge_index)
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        watched[name] = plain.y
    with pytest.raises(AssertionError, match="y was read"):
        _ = watched.y
    purifier = small().fit(watched, epochs=3)
    assert same(bits(purifier), bits(small().fit(Data(x=plain.x, edge_index=plain.edge_index), epochs=3)))
    random_labels = copy.copy(plain)
    random_labels.y = torch.randint(0, 9, plain.y.shape)
    assert same(bits(purifier), bits(small().fit(random_labels, epochs=3)))


def test_the_best_epoch_is_really_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    from purigraph.purifiers.gpr_gae import training

    scores = iter([(0.5, 0.5), (0.9, 0.9), (0.4, 0.4), (0.3, 0.3)])
    monkeypatch.setattr(training, "_validation_scores", lambda *_: next(scores))
    four = small().fit(communities(), epochs=4, validate_every=1)
    scores = iter([(0.5, 0.5), (0.9, 0.9)])
    two = small().fit(communities(), epochs=2, validate_every=1)
    assert (four.report.best_epoch, four.report.score) == (2, 1.8)
    assert same(bits(four), bits(two))


def test_early_stop() -> None:
    purifier = small().fit(communities(), epochs=400, patience=6, validate_every=2, learning_rate=1e-9)
    assert purifier.report.epochs_run < 400
    assert purifier.report.epochs_run - purifier.report.best_epoch >= 6


@pytest.mark.parametrize("passes", [1, 2])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, passes: int) -> None:
    data, path = communities(), tmp_path / "run"
    whole = small().fit(data, epochs=8, symmetry_passes=passes)
    small().fit(data, epochs=5, checkpoint=path, symmetry_passes=passes)
    resumed = small().fit(data, epochs=8, checkpoint=path, symmetry_passes=passes)
    assert same(bits(whole), bits(resumed))
    assert resumed.report.best_epoch == whole.report.best_epoch
    with pytest.raises(ModelFileError, match="another run"):
        small().fit(data, epochs=8, checkpoint=path, seed=1, symmetry_passes=passes)


@pytest.mark.parametrize("name", ["perturb", "training_loss"])
def test_an_interrupted_run_goes_on_to_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of an epoch, before and after its random draws."""
    from purigraph.purifiers.gpr_gae import training

    data, path = communities(), tmp_path / "run"
    whole = small().fit(data, epochs=7)
    real, calls = getattr(training, name), [0]

    def interrupted(*arguments: object) -> object:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training, name, interrupted)
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    with pytest.raises(KeyboardInterrupt):
        small().fit(data, epochs=7, checkpoint=path)
    assert path.exists()
    monkeypatch.undo()
    assert same(bits(small().fit(data, epochs=7, checkpoint=path)), bits(whole))


def test_a_checkpoint_belongs_to_its_data(tmp_path: Path) -> None:
    data, path = communities(), tmp_path / "run"
    small().fit(data, epochs=3, checkpoint=path)
    other_features, other_weights = data.clone(), data.clone()
    other_features.x = 2 * data.x
    other_weights.edge_weight = torch.full((data.edge_index.shape[1],), 0.5)
    for other in (other_features, other_weights):
        with pytest.raises(ModelFileError, match="another run"):
            small().fit(other, epochs=3, checkpoint=path)
    with pytest.raises(InputError, match="3 epochs already"):
        small().fit(data, epochs=2, checkpoint=path)


def test_batch_ratio_trains_on_a_share_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Spy(LinkMap):
        def logits(self, h, graph, scored=None, first_codes=None):  # type: ignore[no-untyped-def]
            seen.append((graph if scored is None else scored).num_pairs)
            return super().logits(h, graph, scored, first_codes)

    monkeypatch.setattr("purigraph.purifiers.gpr_gae.links.LinkMap", Spy)
    run = Training(small(), communities(), settings=FitSettings(batch_ratio=0.2, validate_every=100))
    pairs = run.task.graph.num_pairs
    for _ in range(60):
        run.epoch()
    assert seen == [round(0.2 * pairs) + round(0.2 * round(1.5 * pairs))] * 60
    run.validate()
    assert run.auc > 0.55


def test_inductive_graphs_are_told_apart_by_node_ids() -> None:
    data = communities()
    data.n_id = torch.arange(data.num_nodes)
    kept = torch.arange(data.num_nodes - 20)
    train = data.subgraph(kept)
    counted = [
        set(one.scored.pairs[:, one.is_original].flatten().tolist())
        for one in Training(small(), train, data).task.validation_sets
    ]
    # Every scored edge touches one of the 20 further nodes, so all other ends are neighbours of them.
    graph = as_pair_graph(data)
    touching = (graph.pairs >= data.num_nodes - 20).any(0)
    assert counted == [set(graph.pairs[:, touching].flatten().tolist())] * len(counted)
    del train.n_id
    everything = Training(small(), train, data).task.validation_sets[0]
    assert int(everything.is_original.sum()) == graph.num_pairs > int(touching.sum())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": 3}, "no setting 'epoch': did you mean 'epochs'"),
        ({"epochs": 0}, "epochs=0 is not valid"),
        ({"masking": 1.0}, "masking=1.0 is not valid"),
        ({"validation": communities(num_features=7)}, "24 features, validation has 7"),
        ({"nonsense_xyz": 1}, "it has: epochs"),
    ],
)
def test_wrong_settings_say_so(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small().fit(communities(), **change)  # type: ignore[arg-type]


def test_graphs_that_can_t_be_learned_from_are_refused() -> None:
    nothing = torch.empty(2, 0, dtype=torch.int64)
    with pytest.raises(InputError, match="0 edges: too few"):
        small().fit(Data(x=torch.randn(9, 3), edge_index=nothing), epochs=1)
    with pytest.raises(InputError, match="x is missing"):
        small().fit(Data(edge_index=nothing, num_nodes=3), epochs=1)
    with pytest.raises(InputError, match="No edge touches a validation node"):
        data = communities()
        larger = Data(x=torch.cat([data.x, data.x[:2]]), edge_index=data.edge_index)
        data.n_id, larger.n_id = torch.arange(120), torch.arange(122)
        small().fit(data, validation=larger, epochs=1)


@pytest.mark.parametrize(
    "change", [{"encoder": "gcn"}, {"self_loops": True}, {"hops": 2}, {"max_steps": 1, "threshold": 0.1}]
)
def test_every_ablation_trains_and_purifies(change: dict[str, object], tmp_path: Path) -> None:
    data = communities()
    purifier = small(**change).fit(data, epochs=5, reweighting=1.0, injection=0.5)
    weight = purifier(data).edge_weight
    assert ((weight >= 0) & (weight <= 1)).all()
    if "threshold" in change:
        assert set(weight.unique().tolist()) <= {0.0, 1.0}
    purifier.save_pretrained(tmp_path)
    assert torch.equal(pg.GPRGAE.from_pretrained(tmp_path)(data).edge_weight, weight)


def test_double_precision_and_sparse_features_train() -> None:
    data = communities()
    data.x = data.x.double()
    purifier = small().fit(data, epochs=4)
    assert purifier.state_dict()["links.node_weight"].dtype == torch.float64
    assert purifier(data).edge_weight.dtype == torch.float32  # no weights came in: PyG's default goes out
    sparse = communities()
    sparse.x = sparse.x.to_sparse_csr()
    assert small().fit(sparse, epochs=4).report.epochs_run == 4


# --- purification -----------------------------------------------------------------------------------------------------


def test_steps_follow_the_printed_equations(trained: pg.GPRGAE) -> None:
    purifier = copy.deepcopy(trained).double()
    data = communities(seed=2)
    graph = as_pair_graph(data)
    graph = graph.with_weight(graph.weight.double())
    links = purifier.links
    assert links is not None
    width = links.code_weight.shape[1] // 2
    parameters = {
        "node_weight": links.node_weight,
        "node_bias": links.node_bias,
        "gamma": links.gamma(),
        "edge_weight": torch.cat([links.code_weight[:, :width], links.code_weight[:, width:]]),
        "edge_bias": links.code_bias,
        "score_weight": links.score_weight,
        "score_bias": links.score_bias,
    }
    expected, changes = graph, []
    for _ in range(4):
        delta = reference_step(data.x.double(), expected.pairs, expected.weight, parameters).detach() - expected.weight
        changes.append(float(delta.norm() / expected.weight.norm()))
        expected = expected.with_weight(expected.weight + 0.7 * delta)
    result = purifier.trace(data.x.double(), graph, alpha=0.7, tolerance=0, max_steps=4, history=True)
    assert torch.allclose(result.graph.weight, expected.weight)
    assert result.relative_change == pytest.approx(changes)
    assert len(result.weights) == 5
    assert torch.equal(result.weights[0], graph.weight)
    assert not result.converged


def test_it_stops_when_little_changes(trained: pg.GPRGAE) -> None:
    data = communities()
    loose = trained.trace(data, tolerance=10.0)
    assert len(loose.relative_change) == 1
    assert loose.converged
    exact = trained.trace(data, tolerance=0, max_steps=3)
    assert len(exact.relative_change) == 3


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("edge_batch", [None, 5])
def test_gradients_with_respect_to_the_input_weights(lean: bool, edge_batch: int | None) -> None:
    purifier = pg.GPRGAE(in_channels=4, hops=2, node_channels=3, edge_channels=3).double()
    graph = random_pair_graph(9, 12, dtype=torch.float64)
    x = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def purified(weight: torch.Tensor) -> torch.Tensor:
        options = {"tolerance": 0.0, "max_steps": 3, "lean": lean, "edge_batch": edge_batch}
        return purifier.trace(x, graph.with_weight(weight), **options).graph.weight  # type: ignore[arg-type]

    start = (graph.weight + 0.1).requires_grad_()
    assert gradcheck(purified, (start,))
    assert all(parameter.grad is None for parameter in purifier.parameters())


@pytest.mark.parametrize("edge_batch", [1, 7, 100000])
def test_batches_of_edges_give_equal_results(trained: pg.GPRGAE, edge_batch: int) -> None:
    data = communities(seed=4)
    whole = trained.trace(data)
    batched = trained.trace(data, edge_batch=edge_batch)
    assert torch.allclose(batched.graph.weight, whole.graph.weight, atol=1e-6)
    with pytest.raises(InputError, match="edge_batch must be at least 1"):
        trained.trace(data, edge_batch=0)


@pytest.mark.parametrize("settings", [{}, {"max_steps": 1}, {"alpha": 0.6, "max_steps": 3, "tolerance": 0.0}])
def test_scores_of_edges_are_their_purified_weights(trained: pg.GPRGAE, settings: dict[str, float]) -> None:
    data, purifier = communities(), trained.with_settings(**settings)
    purified = purifier.trace(data).graph
    scores = purifier.score_edges(data.x, data, purified.edge_index()[0])
    assert torch.allclose(scores, purified.edge_index()[1], atol=1e-6)


def test_kept_constants_notice_every_change(trained: pg.GPRGAE) -> None:
    purifier = copy.deepcopy(trained)
    data = communities()
    before = purifier(data).edge_weight
    data.x[0] += 5
    moved = purifier(data).edge_weight
    assert not torch.equal(before, moved)
    assert purifier.links is not None
    with torch.no_grad():
        purifier.links.node_weight.mul_(0.5)
    assert not torch.equal(purifier(data).edge_weight, moved)
    assert torch.equal(pickle.loads(pickle.dumps(purifier))(data).edge_weight, purifier(data).edge_weight)


def test_editors_know_the_settings_of_fit() -> None:
    assert FitOptions.__annotations__.keys() == FitSettings.model_fields.keys()


def test_wrong_features_and_untrained_use_say_so(trained: pg.GPRGAE, data: Data, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="trained on 24 features per node"):
        trained(data.x[:, :5], data.edge_index)
    with pytest.raises(NotFittedError, match="call fit"):
        pg.GPRGAE()(data)
    with pytest.raises(NotFittedError, match="call fit"):
        pg.GPRGAE().save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"alpha=2\.0 is not valid"):
        pg.GPRGAE(alpha=2.0)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_saved_purifier_comes_back_bit_by_bit(trained: pg.GPRGAE, data: Data, tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path / "purifier")
    loaded = pg.GPRGAE.from_pretrained(tmp_path / "purifier")
    assert same(bits(trained), bits(loaded))
    assert loaded.settings == trained.settings
    assert loaded.is_fitted
    assert loaded.report == dataclasses.replace(trained.report, seconds=None)
    assert torch.equal(loaded(data).edge_weight, trained(data).edge_weight)
    document = json.loads((tmp_path / "purifier" / "config.json").read_text())
    assert document["config"]["in_channels"] == 24
    assert document["training"]["seed"] == 0
    assert document["training"]["settings"]["epochs"] == 30


def test_files_that_do_not_fit_are_refused(trained: pg.GPRGAE, tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    document = json.loads(config.read_text())
    document["config"]["node_channels"] = 9
    config.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="shape"):
        pg.GPRGAE.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not a model")
    with pytest.raises(ModelFileError, match="model.safetensors"):
        pg.GPRGAE.from_pretrained(tmp_path)
