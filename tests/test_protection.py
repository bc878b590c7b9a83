from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.contrib.nn import PRBCDAttack
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, models

import purigraph as pg
from purigraph.anchors.distillation import predict_logits
from purigraph.errors import InputError, NoGradientError, NotFittedError, UnsupportedModelError
from purigraph.graph import PairGraph, as_pair_graph, read_data
from purigraph.graph.sampling import sample_non_edges
from purigraph.purifiers import Purifier


def gcn() -> models.GCN:
    torch.manual_seed(0)
    return models.GCN(24, 8, 2, 2, dropout=0.5)


def test_it_classifies_the_purified_graph(trained: pg.GPRGAE, data: Data) -> None:
    classifier = gcn().eval()
    model = pg.protect(classifier, trained)
    purified = trained(data)
    expected = classifier(data.x, data.edge_index, edge_weight=purified.edge_weight)
    assert torch.allclose(model(data.x, data.edge_index), expected)


def test_train_mode_reaches_the_classifier_and_not_the_purifier(trained: pg.GPRGAE, data: Data) -> None:
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            seen.append(edge_weight)
            return x

    model = pg.protect(Spy(), trained)
    seen.clear()  # of the graph that `protect` tried
    model.train()
    model(data.x, data.edge_index)
    model.eval()
    model(data.x, data.edge_index)
    assert torch.equal(*seen)


def test_measuring_a_model_leaves_every_part_in_its_mode(trained: pg.GPRGAE, data: Data) -> None:
    classifier = gcn().eval()
    model = pg.protect(classifier, trained)
    assert not model.training, "it is as the classifier is"
    model.training = True  # as a wrapper of the user's own would be
    predict_logits(model, data)
    assert model.training
    assert not any(part.training for part in classifier.modules())


def test_gradients_reach_the_input_weights_through_both(trained: pg.GPRGAE, data: Data) -> None:
    weight = torch.ones(data.edge_index.shape[1], requires_grad=True)
    model = pg.protect(gcn(), trained).eval()
    model(data.x, data.edge_index, weight).square().sum().backward()
    assert weight.grad is not None
    assert (weight.grad != 0).float().mean() > 0.9
    assert all(parameter.grad is None for parameter in model.purifier.parameters())


def test_further_arguments_pass_through(trained: pg.GPRGAE, data: Data) -> None:
    class Flexible(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, *extra: object, w: Tensor, flag: str = "") -> object:
            return w.shape, extra, flag

    model = pg.protect(Flexible(), trained, weight_arg="w")
    shape, extra, flag = model(data.x, data.edge_index, None, 7, flag="yes")
    assert (shape, extra, flag) == ((data.edge_index.shape[1],), (7,), "yes")


@pytest.mark.parametrize("kind", [models.GAT, models.GraphSAGE, models.GIN])
def test_models_without_weights_need_a_threshold(kind: type[nn.Module], trained: pg.GPRGAE, data: Data) -> None:
    classifier = kind(24, 8, 2, 2).eval()
    with pytest.raises(UnsupportedModelError, match="ignores it .*threshold="):
        pg.protect(classifier, trained)
    model = pg.protect(classifier, trained, threshold=0.5)
    kept = trained(data).edge_weight >= 0.5
    assert 0 < int(kept.sum()) < len(kept)
    assert torch.equal(model(data.x, data.edge_index), classifier(data.x, data.edge_index[:, kept]))
    assert "threshold=0.5" in repr(model)


def test_what_can_t_be_protected_is_refused(trained: pg.GPRGAE) -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return x

    with pytest.raises(UnsupportedModelError, match=r"takes no 'edge_weight' \(it takes x, edge_index\)"):
        pg.protect(Plain(), trained)
    with pytest.raises(UnsupportedModelError, match="layer 'conv' .*cached=True"):
        cached = nn.Module()
        cached.conv = GCNConv(24, 2, cached=True)
        pg.protect(cached, trained)
    with pytest.raises(UnsupportedModelError, match="cached=True"):
        pg.protect(GCNConv(24, 2, cached=True), trained)
    with pytest.raises(InputError, match="between 0 and 1"):
        pg.protect(gcn(), trained, threshold=1.5)

    with pytest.raises(NotFittedError, match="has not been fitted"):
        pg.protect(gcn(), pg.GPRGAE(in_channels=24))


class TwoHops(Purifier):
    """Adds an edge between nodes with a common neighbour; its weight is the clipped entry of A + A A."""

    @property
    def adds_edges(self) -> bool:
        return True

    def purify(self, x: Tensor, graph: pg.PairGraph) -> pg.PairGraph:
        i, j = graph.pairs
        adjacency = torch.zeros(graph.num_nodes, graph.num_nodes).index_put((i, j), graph.weight)
        adjacency = adjacency + adjacency.t()
        upper = (adjacency + adjacency @ adjacency).clamp(max=1).triu(1)
        pairs = (upper > 0).nonzero().t()
        return pg.PairGraph(graph.num_nodes, pairs, upper[pairs[0], pairs[1]])


def test_a_purifier_that_adds_edges_returns_them(data: Data) -> None:
    path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1], [1, 2, 1]]), edge_attr=torch.ones(3, 2))
    result = TwoHops()(path)
    assert sorted(map(tuple, result.edge_index.t().tolist())) == [
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
        (2, 1),
    ]
    assert "edge_attr" not in result
    assert path.edge_index.shape == (2, 3)
    with pytest.raises(InputError, match="can add edges"):
        TwoHops()(path.x, path.edge_index)
    with pytest.raises(InputError, match="can add edges"):
        TwoHops().relaxed(path.x, path.edge_index, torch.ones(3), torch.ones(3))


def test_what_adds_edges_protects_through_the_graph_it_returns(data: Data) -> None:
    classifier, purifier = gcn().eval(), TwoHops()
    model = pg.protect(classifier, purifier)
    purified = purifier(data)
    assert purified.edge_index.shape[1] > data.edge_index.shape[1]
    expected = classifier(data.x, purified.edge_index, edge_weight=purified.edge_weight)
    torch.testing.assert_close(model(data.x, data.edge_index), expected)
    there = as_pair_graph(data).edge_index()[0]  # sorted, so that a pair's two entries can be switched off together
    keep = (there.sum(0) % 5 != 0).float()
    found = model.relaxed(data.x, there, torch.ones_like(keep), keep)
    torch.testing.assert_close(found, model(data.x, there[:, keep > 0]))


def test_pyg_s_own_attack_runs_around_a_protected_model(trained: pg.GPRGAE, data: Data) -> None:
    model = pg.protect(gcn(), trained).eval()
    attack = PRBCDAttack(model, block_size=200, epochs=4, epochs_resampling=2, log=False)
    edge_index, flipped = attack.attack(data.x, data.edge_index, data.y, budget=5)
    assert flipped.shape[1] <= 5
    assert model(data.x, edge_index).shape == (data.num_nodes, 2)


def half_there(data: Data, num_new: int = 40) -> tuple[Tensor, Tensor]:
    """An edge list with further pairs, and a presence for every entry: most edges 1, some 0, some new pairs 1."""
    graph = read_data(data)[0]
    more = sample_non_edges(graph, num_new, torch.Generator().manual_seed(0))
    codes = torch.cat([graph.codes, more])
    presence = torch.ones(len(codes))
    presence[::7] = 0
    presence[graph.num_pairs :: 2] = 0
    order = codes.argsort()
    edge_index, weight = PairGraph.from_codes(graph.num_nodes, codes[order], presence[order]).edge_index()
    return edge_index, weight


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.5}, {"threshold": 0.5}, {"max_steps": 1}], ids=str)
def test_whole_presences_are_the_model_itself(trained: pg.GPRGAE, data: Data, settings: dict[str, Any]) -> None:
    model = pg.protect(gcn(), trained.with_settings(**settings)).eval()
    edge_index, presence = half_there(data)
    there = presence > 0
    expected = model(data.x, edge_index[:, there])
    found = model.relaxed(data.x, edge_index, torch.ones_like(presence), presence)
    torch.testing.assert_close(found, expected)
    weight = trained.relaxed(data.x, edge_index, torch.ones_like(presence), presence)
    assert (weight[~there] == 0).all()
    assert (weight[there] > 0).all()


def test_absent_edges_would_come_back_as_small_weights(trained: pg.GPRGAE, data: Data) -> None:
    """Why attacks need `relaxed`: the purifier gives an edge of hardly any weight its weight back."""
    edge_index, presence = half_there(data)
    absent = presence == 0
    assert trained(data.x, edge_index, presence.clamp(min=1e-7))[absent].mean() > 0.1


@pytest.mark.parametrize("lean", [False, True])
def test_gradients_of_presences_equal_finite_differences(lean: bool, data: Data) -> None:
    purifier = pg.GPRGAE(in_channels=24, hops=3, node_channels=4, edge_channels=6).double()
    graph = read_data(data)[0]
    x = data.x.double()
    presence = torch.rand(graph.num_pairs, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def total(presence: Tensor) -> Tensor:
        return purifier.trace(x, graph, presence=presence, lean=lean, tolerance=0.0).graph.weight.square().sum()

    presence.requires_grad_()
    (gradient,) = torch.autograd.grad(total(presence), presence)
    for entry in range(0, graph.num_pairs, graph.num_pairs // 10):
        step = torch.zeros_like(presence)
        step[entry] = 1e-5
        with torch.no_grad():
            slope = (total(presence + step) - total(presence - step)) / 2e-5
        assert float(gradient[entry]) == pytest.approx(float(slope), rel=1e-5, abs=1e-9)


def test_any_purifier_can_be_attacked_by_parts(data: Data) -> None:
    class Halve(Purifier):
        def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
            return graph.with_weight(torch.full_like(graph.weight, 0.5))

    edge_index, presence = half_there(data)
    weight = Halve().relaxed(data.x, edge_index, torch.ones_like(presence), presence)
    assert torch.equal(weight, 0.5 * presence)


def test_a_folder_is_no_purifier() -> None:
    with pytest.raises(InputError, match="purifiers.load"):
        pg.protect(gcn(), "my-purifier")  # type: ignore[arg-type]


def test_a_threshold_can_be_attacked_straight_through(trained: pg.GPRGAE, data: Data) -> None:
    removing = pg.protect(gcn(), trained, threshold=0.5).eval()
    model = pg.protect(removing.classifier, trained, threshold=0.5, straight_through=True).eval()
    torch.testing.assert_close(model(data.x, data.edge_index), removing(data.x, data.edge_index))
    edge_index, presence = half_there(data)
    there = presence > 0
    ones = torch.ones_like(presence)
    part = presence.clone().requires_grad_()
    found = model.relaxed(data.x, edge_index, ones, part)
    torch.testing.assert_close(found, model(data.x, edge_index[:, there]))
    (gradient,) = torch.autograd.grad(found.square().sum(), part)
    assert (gradient != 0).float().mean() > 0.5
    assert "straight_through=True" in repr(model.with_purifier(trained))
    plain = model.unprotected()(data.x, data.edge_index)
    torch.testing.assert_close(plain, removing.classifier(data.x, data.edge_index))
    with pytest.raises(InputError, match="give threshold="):
        pg.protect(gcn(), trained, straight_through=True)
    with pytest.raises(UnsupportedModelError, match="ignores it"):
        pg.protect(models.GAT(24, 8, 2, 2), trained, threshold=0.5, straight_through=True)


class Mean(nn.Module):
    """A layer that accepts weights and may ignore them, with batch normalisation and dropout, and counts its calls."""

    def __init__(self, uses_weights: bool, in_channels: int | None = 24) -> None:
        super().__init__()
        if in_channels is not None:
            self.in_channels = in_channels
        self.linear, self.norm, self.drop = nn.Linear(24, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)
        self.uses_weights, self.calls = uses_weights, 0

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        self.calls += 1
        h = self.drop(self.norm(self.linear(x)))
        message = h[edge_index[0]]
        if self.uses_weights and edge_weight is not None:
            message = message * edge_weight.unsqueeze(1)
        return h.index_add(0, edge_index[1], message)


def test_a_model_that_ignores_its_weights_is_noticed(trained: pg.GPRGAE) -> None:
    with pytest.raises(UnsupportedModelError, match=r"Mean accepts 'edge_weight' but ignores it.*threshold="):
        pg.protect(Mean(uses_weights=False), trained)
    pg.protect(Mean(uses_weights=False), trained, threshold=0.5)
    pg.protect(Mean(uses_weights=True), trained)


def test_without_the_number_of_features_it_is_noticed_at_the_first_call(data: Data) -> None:
    model = pg.protect(Mean(uses_weights=False, in_channels=None), TwoHops())
    with pytest.raises(UnsupportedModelError, match="ignores it"):
        model(data.x, data.edge_index)
    honest = pg.protect(Mean(uses_weights=True, in_channels=None), TwoHops()).eval()
    assert honest(data.x, data.edge_index).shape == (120, 2)


def test_the_check_leaves_a_model_as_it_was(trained: pg.GPRGAE) -> None:
    model = Mean(uses_weights=True).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    pg.protect(model, trained)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert model.calls == 0
    assert all(parameter.grad is None for parameter in model.parameters())


def test_models_that_use_no_edges_or_can_t_be_tried_are_not_refused(trained: pg.GPRGAE) -> None:
    class NeedsMore(Mean):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, batch: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x, edge_index)

    class ForThisGraphOnly(Mean):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            assert len(x) == 120
            return super().forward(x, edge_index)

    for model in (NeedsMore(uses_weights=False), ForThisGraphOnly(uses_weights=False)):
        pg.protect(model, trained)
    pg.protect(pg.classifiers.create("mlp", 24, 2), trained)
    lazy = nn.Module()
    lazy.conv = GCNConv(-1, 2)
    lazy.forward = lambda x, edge_index, edge_weight=None: lazy.conv(x, edge_index, edge_weight)  # type: ignore[assignment]
    pg.protect(lazy, trained)
    assert isinstance(lazy.conv.lin.weight, nn.UninitializedParameter)


@pytest.mark.parametrize("name", pg.classifiers.names())
def test_our_own_classifiers_pass(name: str, trained: pg.GPRGAE) -> None:
    pg.protect(pg.classifiers.create(name, 24, 2), trained)


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_models_called_with_data_are_told_how_to_be_wrapped(threshold: float | None, trained: pg.GPRGAE) -> None:
    class OfData(nn.Module):
        def forward(self, data: Data) -> Tensor:
            return data.x

    with pytest.raises(UnsupportedModelError, match="takes a single argument, 'data'") as error:
        pg.protect(OfData(), trained, threshold=threshold)
    namespace: dict[str, Any] = {"torch": torch, "Data": Data}
    advice = str(error.value).partition("Wrap it:\n")[2]
    exec("\n".join(line.removeprefix("    ") for line in advice.splitlines()), namespace)
    assert pg.protect(namespace["Wrapped"](OfData()), trained, threshold=threshold) is not None


def test_a_model_without_gradients_is_told_what_works(trained: pg.GPRGAE, data: Data) -> None:
    data.test_mask = torch.arange(120) < 20
    model = pg.protect(models.GAT(24, 8, 2, 2), trained, threshold=0.5)
    with pytest.raises(NoGradientError) as error:
        pg.evaluate(model, data, epsilons=0.1, epochs=1)
    message = str(error.value)
    assert 0 < message.index("transfer_from=") < message.index("'evolutionary'")
    quick = {"epochs": 2, "fine_tune_epochs": 1, "block_size": 50, "final_samples": 2}
    assert len(pg.evaluate(model, data, epsilons=0.1, transfer_from=gcn(), **quick).records) == 1
