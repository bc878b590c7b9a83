"""What must be true of every registered classifier."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers import pair_graphs, random_pair_graph
from purigraph import classifiers
from purigraph.classifiers import Classifier
from purigraph.errors import GraphError, InputError, UnknownNameError
from purigraph.kernels import Features

NAMES = classifiers.names()
WITH_EDGES = [name for name in NAMES if classifiers.registry[name].uses_edges]
IN, OUT = 6, 3

close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-11)


def make(name: str, **hyper: object) -> Classifier:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = {**classifiers.registry[name].trial_settings, **hyper}
        model = classifiers.create(name, IN, OUT, **settings)
        for parameter in model.parameters():  # zero biases would hide mistakes
            torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def features(num_nodes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_nodes, IN, generator=generator, dtype=torch.float64)


def edges(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Both directions, weights in (0, 1]."""
    graph = random_pair_graph(12, 25, seed, torch.float64)
    edge_index, _ = graph.edge_index()
    generator = torch.Generator().manual_seed(seed)
    weight = 0.1 + 0.9 * torch.rand(graph.num_pairs, generator=generator, dtype=torch.float64)
    return edge_index, graph.with_weight(weight).edge_index()[1]


@pytest.mark.parametrize("name", NAMES)
@given(graph=pair_graphs(), seed=st.integers(0, 100))
def test_renumbering_the_nodes_renumbers_the_logits(name, graph, seed):
    model, x = make(name), features(graph.num_nodes, seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(graph.num_nodes, generator=generator)
    # Weights of their own kind: with equal ones a weighted median may be undecided between two neighbours.
    spread = torch.rand(graph.num_pairs, generator=generator, dtype=torch.float64)
    graph = graph.with_weight(graph.weight * (0.5 + spread))
    edge_index, weight = graph.edge_index()
    shuffled = torch.randperm(edge_index.shape[1], generator=generator)
    position = torch.argsort(order)

    logits = model(x, edge_index, weight)
    renumbered = model(x[order], position[edge_index[:, shuffled]], weight[shuffled])

    assert logits.shape == (graph.num_nodes, OUT)
    close(renumbered, logits[order])


@pytest.mark.parametrize("name", NAMES)
def test_weight_one_is_no_weight(name):
    model, x, (edge_index, _) = make(name), features(12), edges()

    close(model(x, edge_index, torch.ones(edge_index.shape[1], dtype=torch.float64)), model(x, edge_index))


@pytest.mark.parametrize("name", NAMES)
def test_weight_zero_is_no_edge(name):
    model, x, (edge_index, weight) = make(name), features(12), edges()
    gone = (edge_index.sum(0) % 3) == 0

    close(model(x, edge_index, weight.masked_fill(gone, 0.0)), model(x, edge_index[:, ~gone], weight[~gone]))


@pytest.mark.parametrize("name", NAMES)
def test_given_self_loops_are_ignored(name):
    model, x, (edge_index, weight) = make(name), features(12), edges()
    loops = torch.tensor([[1, 5], [1, 5]])
    heavy = torch.tensor([7.0, 0.0], dtype=torch.float64)

    close(
        model(x, torch.cat([edge_index, loops], 1), torch.cat([weight, heavy])),
        model(x, edge_index, weight),
    )


@pytest.mark.parametrize("name", WITH_EDGES)
def test_gradient_with_respect_to_edge_weights(name):
    model, x, (edge_index, weight) = make(name), features(12), edges()

    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w), (weight.clone().requires_grad_(),))


@pytest.mark.parametrize("name", WITH_EDGES)
def test_gradient_is_finite_at_weight_zero_and_sees_missing_edges(name):
    model, x, (edge_index, weight) = make(name), features(12), edges()
    absent = (edge_index.sum(0) % 3) == 0
    weight = weight.masked_fill(absent, 0.0).requires_grad_()

    logits = model(x, edge_index, weight)
    (gradient,) = torch.autograd.grad((logits * torch.randn(logits.shape, dtype=torch.float64)).sum(), weight)

    assert torch.isfinite(logits).all()
    assert torch.isfinite(gradient).all()
    assert (gradient[absent] != 0).any()


@pytest.mark.parametrize("name", NAMES)
def test_graph_without_edges(name):
    x = features(4)

    logits = make(name)(x, torch.empty(2, 0, dtype=torch.int64))

    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", NAMES)
def test_saving_and_loading_is_bit_identical(name, tmp_path):
    model, x, (edge_index, weight) = make(name), features(12), edges()
    before = torch.get_rng_state()

    model.save_pretrained(tmp_path / name)
    loaded = classifiers.load(tmp_path / name)

    assert torch.equal(torch.get_rng_state(), before)
    assert type(loaded) is type(model)
    assert loaded.settings == model.settings
    assert torch.equal(loaded(x, edge_index, weight), model(x, edge_index, weight))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["csr", "coo", "features"])
def test_sparse_features_give_the_same(name, form):
    model, (edge_index, weight) = make(name), edges()
    x = features(12) * (torch.arange(12 * IN).view(12, IN) % 9 == 0)
    sparse = {"csr": Tensor.to_sparse_csr, "coo": Tensor.to_sparse, "features": Features}[form](x)

    close(model(sparse, edge_index, weight), model(x, edge_index, weight))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["dense", "csr", "coo", "features"])
def test_training_step_reaches_every_parameter(name, form):
    model, (edge_index, weight) = make(name).train(), edges()
    x = features(12)
    given = {"dense": Tensor.clone, "csr": Tensor.to_sparse_csr, "coo": Tensor.to_sparse, "features": Features}

    model(given[form](x), edge_index, weight).square().sum().backward()

    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_kernels_in_plain_torch_give_the_same(name, monkeypatch):
    model, x, (edge_index, weight) = make(name), features(12), edges()

    def run() -> tuple[Tensor, ...]:
        w = weight.clone().requires_grad_()
        logits = model(x, edge_index, w)
        gradients = torch.autograd.grad(logits.square().sum(), [w, *model.parameters()], allow_unused=True)
        return logits.detach(), *(g for g in gradients if g is not None)

    fast = run()
    monkeypatch.setenv("PURIGRAPH_KERNELS", "torch")
    monkeypatch.setattr("purigraph.kernels.compiled.AVAILABLE", False)
    close(run(), fast)
    monkeypatch.setattr("torch.backends.mkl.is_available", lambda: False)
    close(run(), fast)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_is_said(name):
    model, x, (edge_index, weight) = make(name), features(12), edges()

    with pytest.raises(InputError, match="x has 5 features, but the model was built for 6"):
        model(x[:, :5], edge_index)
    with pytest.raises(InputError, match="has no setting 'in_chanels': did you mean 'in_channels'"):
        classifiers.create(name, IN, OUT, in_chanels=3)
    with pytest.raises(InputError, match="in_channels=0 is not valid: .* greater than or equal to 1"):
        classifiers.create(name, 0, OUT)
    if model.uses_edges:
        with pytest.raises(GraphError, match=r"column 0 is \[0, 12\], but there are 12 nodes"):
            model(x, torch.tensor([[0], [12]]))
        with pytest.raises(GraphError, match="one entry per column"):
            model(x, edge_index, weight[1:])
        with pytest.raises(GraphError, match=r"shape \(2, number of edges\)"):
            model(x, edge_index.t())


@pytest.mark.parametrize(("setting", "message"), [("hidden_channels", "equal to 1"), ("num_layers", "equal to 1")])
def test_settings_have_bounds(setting, message):
    with pytest.raises(InputError, match=f"{setting}=0 is not valid: .*{message}"):
        classifiers.GCN(IN, OUT, **{setting: 0})


def test_names_and_settings():
    assert {"appnp", "evennet", "gat", "gcn", "gprgnn", "mlp", "soft-median"} <= set(NAMES)
    assert classifiers.create("appnp", IN, OUT).settings.values() == {
        "in_channels": IN,
        "out_channels": OUT,
        "hidden_channels": 64,
        "num_layers": 2,
        "hops": 10,
        "alpha": 0.1,
        "dropout": 0.5,
    }
    assert classifiers.GPRGNN(IN, OUT).dropout == 0.2
    with pytest.raises(UnknownNameError, match="Did you mean 'gprgnn'"):
        classifiers.create("gpr-gnn", IN, OUT)


@pytest.mark.parametrize("name", ["gcn", "gat", "soft-median"])
def test_three_layers(name):
    model, x, (edge_index, weight) = make(name, num_layers=3), features(12), edges()

    assert model(x, edge_index, weight).shape == (12, OUT)
    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w), (weight.clone().requires_grad_(),))


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_model_notices_new_features_and_parameters(name):
    """What a frozen model keeps between calls never outlives what it came from."""
    model, x, (edge_index, weight) = make(name).requires_grad_(False), features(12), edges()

    def fresh() -> Tensor:
        other = make(name)
        other.load_state_dict(model.state_dict())
        return other(x.clone(), edge_index.clone(), weight).detach()

    for change in (
        lambda: None,
        lambda: x.mul_(2),
        lambda: next(model.parameters()).mul_(0.5),
        lambda: setattr(next(model.parameters()), "data", next(model.parameters()).data * 3),
        lambda: model(x, edge_index, weight).zero_(),  # the caller's own, whatever it does with it
    ):
        first = model(x, edge_index, weight).clone()
        assert torch.equal(first, model(x, edge_index, weight))
        change()
        assert torch.equal(model(x, edge_index, weight), fresh())


@pytest.mark.parametrize("name", NAMES)
def test_inference_mode(name):
    model, x, (edge_index, weight) = make(name), features(12), edges()
    expected = model(x, edge_index, weight)
    with torch.inference_mode():
        assert torch.equal(model(x.clone(), edge_index.clone(), weight.clone()), expected)
        assert torch.equal(model(x, edge_index, weight), expected)


def test_a_classifier_on_the_hub_is_loaded_by_its_address(tmp_path, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    saved = classifiers.create("gcn", 3, 2)
    saved.save_pretrained(tmp_path)
    asked = []

    def download(repo_id, **_):
        asked.append(repo_id)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert torch.equal(classifiers.load("hf://owner/name").first.weight, saved.first.weight)
    assert asked == ["owner/name"]
