"""Each classifier against its definition."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import functional

from helpers import random_pair_graph
from purigraph.classifiers import APPNP, GAT, GCN, GPRGNN, EvenNet, SoftMedianGDC
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.polynomial import random_coefficients
from purigraph.classifiers.soft_median import soft_median
from purigraph.errors import InputError
from purigraph.kernels.csr import Pattern
from purigraph.kernels.diffusion import Diffusion, _inverted, pagerank
from purigraph.kernels.propagation import propagate
from purigraph.kernels.weighted_median import distance_to_neighbours, median_index

N, IN, OUT = 30, 5, 3


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(N, IN)


@pytest.fixture
def graph() -> tuple[Tensor, Tensor]:
    return random_pair_graph(N, 80, dtype=torch.float64).edge_index()


def dense(edge_index: Tensor, weight: Tensor, num_nodes: int = N) -> Tensor:
    """A[target, source]."""
    return torch.zeros(num_nodes, num_nodes).index_put((edge_index[1], edge_index[0]), weight, accumulate=True)


def test_propagate_is_a_matrix_product_also_with_repeated_entries():
    rowptr, col = torch.tensor([0, 3, 3, 5]), torch.tensor([1, 1, 0, 3, 2])
    pattern = Pattern(rowptr, col, 4)
    value, h = torch.randn(5, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    matrix = torch.zeros(3, 4).index_put((pattern.row, col), value, accumulate=True)

    torch.testing.assert_close(propagate(pattern, value, h), matrix @ h)
    assert torch.autograd.gradcheck(lambda v, h: propagate(pattern, v, h), (value, h))


def test_gcn_is_a_stack_of_pygs(x, graph):
    model = GCN(IN, OUT, hidden_channels=7, num_layers=3).eval()
    h = x
    for layer, (linear, bias) in enumerate(zip([model.first, *model.others], model.biases, strict=True)):
        conv = pyg.GCNConv(linear.in_features, linear.out_features)
        conv.lin.weight.data, conv.bias.data = linear.weight.data, bias.data
        h = conv(h if layer == 0 else h.relu(), *graph)

    torch.testing.assert_close(model(x, *graph), h)


def test_directed_edges_carry_from_source_to_target(x):
    model = GCN(IN, OUT).eval()
    edge_index = torch.tensor([[0, 2], [1, 1]])
    conv = pyg.GCNConv(IN, 64)
    conv.lin.weight.data = model.first.weight.data
    out = pyg.GCNConv(64, OUT)
    out.lin.weight.data = model.others[0].weight.data

    torch.testing.assert_close(model(x[:3], edge_index), out(conv(x[:3], edge_index).relu(), edge_index))


def test_gat_is_pygs_on_an_unweighted_graph(x, graph):
    model = GAT(IN, OUT, hidden_channels=8, heads=2).eval()
    first, last = pyg.GATConv(IN, 4, heads=2), pyg.GATConv(8, OUT)
    for conv, linear, attention in zip([first, last], [model.first, *model.others], model.attention, strict=True):
        conv.lin.weight.data = linear.weight.data
        conv.att_src.data, conv.att_dst.data = attention.source.data[None], attention.target.data[None]
        conv.bias.data = attention.bias.data.normal_()

    torch.testing.assert_close(model(x, graph[0]), last(first(x, graph[0]).relu(), graph[0]))


@pytest.mark.parametrize("exponent", [1.0, 1 / math.log(2)])
def test_gat_with_weights_is_a_softmax_of_score_plus_log_weight(x, graph, exponent):
    model = GAT(IN, OUT, num_layers=1, weight_exponent=exponent).eval()
    attention, h = model.attention[0], model.first(x)
    target, source = (h * attention.target).sum(1), (h * attention.source).sum(1)
    # log(0) is minus infinity, which softmax takes for no edge.
    score = functional.leaky_relu(target[:, None] + source[None, :], 0.2)
    weight = dense(*graph) + torch.eye(N)
    expected = (score + exponent * weight.log()).softmax(1) @ h + attention.bias

    torch.testing.assert_close(model(x, *graph), expected)


def test_gat_is_not_swamped_by_an_edge_of_weight_zero():
    model = GAT(2, 2, num_layers=1)
    model.first.weight.data = torch.eye(2)
    model.attention[0].source.data, model.attention[0].target.data = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2)
    model.float().eval()
    x = torch.tensor([[1.0, 2.0], [1e4, 3.0]], dtype=torch.float32)
    weight = torch.zeros(1, dtype=torch.float32, requires_grad=True)

    logits = model(x, torch.tensor([[1], [0]]), weight)
    logits.sum().backward()

    assert torch.equal(logits, x)
    assert torch.isfinite(weight.grad).all()


def test_gat_refuses_an_exponent_with_infinite_gradient():
    with pytest.raises(InputError, match=r"weight_exponent=0\.5 is not valid: .* greater than or equal to 1"):
        GAT(IN, OUT, weight_exponent=0.5)
    with pytest.raises(InputError, match=r"hidden_channels \(10\) must be a multiple of heads \(4\)"):
        GAT(IN, OUT, hidden_channels=10, heads=4)


def test_appnp_is_pygs(x, graph):
    model = APPNP(IN, OUT, hops=10, alpha=0.1).eval()

    torch.testing.assert_close(model(x, *graph), pyg.APPNP(10, 0.1)(model.mlp(x), *graph))


def test_gprgnn_is_its_polynomial(x, graph):
    model = GPRGNN(IN, OUT, hops=4).eval()
    matrix = dense(*graph) + torch.eye(N)
    scale = matrix.sum(1).rsqrt()
    matrix = scale[:, None] * matrix * scale
    expected = sum(c * torch.linalg.matrix_power(matrix, k) @ model.mlp(x) for k, c in enumerate(model.coefficients))

    torch.testing.assert_close(model(x, *graph), expected)


def test_random_coefficients_sum_to_one_in_absolute_value():
    drawn = torch.stack([random_coefficients(10) for _ in range(50)])

    torch.testing.assert_close(drawn.abs().sum(1), torch.ones(50))
    assert (drawn < 0).any()
    assert (drawn > 0).any()


def test_evennet_ignores_odd_hops():
    model = EvenNet(IN, OUT).eval()
    path = torch.arange(7)
    edge_index = torch.cat([torch.stack([path[:-1], path[1:]]), torch.stack([path[1:], path[:-1]])], 1)
    x = torch.randn(7, IN, requires_grad=True)

    model(x, edge_index)[3].sum().backward()

    assert (x.grad[[0, 2, 4, 6]] == 0).all()
    assert (x.grad[[1, 3, 5]] != 0).any(1).all()


def test_evennet_starts_from_pagerank_and_wants_even_hops():
    model = EvenNet(IN, OUT, hops=4, alpha=0.1)

    torch.testing.assert_close(model.coefficients.data, torch.tensor([0.1, 0.1 * 0.9**2, 0.9**4]))
    with pytest.raises(InputError, match="hops=5 is not valid: .* multiple of 2"):
        EvenNet(IN, OUT, hops=5)


def exact_pagerank(edge_index: Tensor, weight: Tensor, alpha: float) -> Tensor:
    matrix = dense(edge_index, weight) + torch.eye(N)
    scale = matrix.sum(1).rsqrt()
    return alpha * torch.linalg.inv(torch.eye(N) - (1 - alpha) * scale[:, None] * matrix * scale)


def diffuse(edges: Edges, **settings: float) -> Diffusion:
    return pagerank(edges.pattern, *edges.normalised_with_loops(), **settings)


def scattered(diffusion: Diffusion) -> Tensor:
    return torch.zeros(N, N).scatter_add(1, diffusion.neighbour, diffusion.weight)


@pytest.mark.parametrize("exact_below", [0, 1000])
@pytest.mark.parametrize("directed", [False, True])
def test_pagerank_is_the_inverse(graph, exact_below, directed):
    edge_index, weight = graph
    if directed:
        weight = torch.rand(len(weight))
    edges = Edges(edge_index, weight, N, torch.float64)

    whole = scattered(diffuse(edges, alpha=0.15, top_k=N, tolerance=1e-14, exact_below=exact_below))
    cut = diffuse(edges, alpha=0.15, top_k=4, tolerance=1e-14, exact_below=exact_below)

    expected = exact_pagerank(edge_index, weight, 0.15)
    torch.testing.assert_close(whole, expected)
    torch.testing.assert_close(cut.weight.sort(1).values, expected.topk(4).values.sort(1).values)
    torch.testing.assert_close(expected.gather(1, cut.neighbour) * (cut.weight > 0), cut.weight)


def test_pagerank_is_off_by_no_more_than_the_tolerance(graph):
    edge_index, weight = graph
    edges = Edges(edge_index, weight, N, torch.float64)
    bound = 1e-3 * torch.outer(*[(edges.degree() + 1).sqrt()] * 2)

    off = exact_pagerank(edge_index, weight, 0.15) - scattered(
        diffuse(edges, alpha=0.15, top_k=N, tolerance=1e-3, exact_below=0)
    )

    assert (off <= bound).all()
    assert (off >= -1e-12).all()


def check_gradient_of_pagerank(edge_index: Tensor, weight: Tensor, top_k: int, exact_below: int) -> None:
    def rows(weight: Tensor) -> Tensor:
        edges = Edges(edge_index, weight, N, torch.float64)
        settings = {"alpha": 0.15, "top_k": top_k, "tolerance": 1e-14, "exact_below": exact_below}
        return diffuse(edges, **settings).weight.square().sum(1)

    assert torch.autograd.gradcheck(rows, (weight.requires_grad_(),))


@pytest.mark.parametrize("top_k", [3, N])
def test_gradient_through_the_pushes(graph, top_k):
    weight = 0.2 + torch.rand(graph[0].shape[1])
    check_gradient_of_pagerank(graph[0], weight, top_k, exact_below=0)


@pytest.mark.parametrize("sampled_cost", [0, 1e9], ids=["sampled", "whole product"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("top_k", [3, N])
def test_gradient_through_the_inverse(graph, top_k, symmetric, sampled_cost, monkeypatch):
    monkeypatch.setattr("purigraph.kernels.diffusion._SAMPLED_COST", sampled_cost)
    monkeypatch.setattr("purigraph.kernels.diffusion._BLOCK", 7)  # does not divide the number of nodes
    weight = torch.ones(graph[0].shape[1]) if symmetric else 0.2 + torch.rand(graph[0].shape[1])
    check_gradient_of_pagerank(graph[0], weight, top_k, exact_below=N + 1)


def test_a_symmetric_matrix_that_is_not_positive_definite_is_inverted_too():
    matrix = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    torch.testing.assert_close(_inverted(matrix) @ matrix, torch.eye(2))


def test_pushes_on_several_threads_give_the_same(graph, monkeypatch):
    edge_index, weight = graph

    def run() -> tuple[Tensor, Tensor]:
        w = weight.clone().requires_grad_()
        diffusion = diffuse(Edges(edge_index, w, N, torch.float64), alpha=0.15, top_k=8, exact_below=0)
        return diffusion.weight.detach(), torch.autograd.grad(diffusion.weight.square().sum(), w)[0]

    alone = run()
    monkeypatch.setattr("purigraph.kernels.threads._WORTH_A_THREAD", 1)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    torch.testing.assert_close(run(), alone)


def test_soft_median_with_pushes_is_the_exact_one(x, graph):
    model = SoftMedianGDC(IN, OUT, top_k=10, tolerance=1e-14, exact_below=0).eval()
    exact = SoftMedianGDC(IN, OUT, top_k=10).eval()
    exact.load_state_dict(model.state_dict())
    edge_index, weight = graph[0], 0.2 + torch.rand(graph[0].shape[1])
    w = weight.clone().requires_grad_()

    torch.testing.assert_close(model(x, edge_index, weight), exact(x, edge_index, weight))
    torch.testing.assert_close(
        torch.autograd.grad(model(x, edge_index, w).square().sum(), w),
        torch.autograd.grad(exact(x, edge_index, w).square().sum(), w),
    )


def neighbourhoods(width: int = 6) -> Diffusion:
    neighbour = torch.stack([torch.randperm(N)[:width] for _ in range(N)])
    weight = torch.rand(N, width)
    weight[torch.rand(N, width) < 0.2] = 0
    weight[:, 0] += 0.1
    return Diffusion(neighbour, weight)


def test_soft_median_at_high_temperature_is_the_weighted_mean():
    h, neighbours = torch.randn(N, 4), neighbourhoods()

    torch.testing.assert_close(soft_median(h, neighbours, 1e9), scattered(neighbours) @ h, rtol=1e-6, atol=1e-6)


def test_soft_median_is_its_definition():
    h, (neighbour, weight) = torch.randn(N, 4), neighbourhoods()
    rows = []
    for i in range(N):
        values, mass = h[neighbour[i]], weight[i]
        median = []
        for z in range(4):
            order = values[:, z].argsort()
            place = int((mass[order].cumsum(0) >= mass.sum() / 2).nonzero()[0])
            median.append(values[order[place], z])
        soft = (-(torch.stack(median) - values).norm(dim=1) / math.sqrt(4) / 0.2).softmax(0) * mass
        rows.append(mass.sum() / soft.sum() * soft @ values)

    torch.testing.assert_close(soft_median(h, Diffusion(neighbour, weight), 0.2), torch.stack(rows))


def test_soft_median_leaves_an_outlier_out():
    h = torch.tensor([[0.0], [0.1], [0.2], [100.0]])
    neighbours = Diffusion(torch.arange(4).repeat(4, 1), torch.full((4, 4), 0.25))

    assert (soft_median(h, neighbours, 0.2) < 0.2).all()


def test_compiled_median_is_the_sorted_one(monkeypatch):
    neighbour, weight = neighbourhoods(17)
    h = torch.randn(N, 5)
    h[:, 0] = h[:, 0].round()  # ties

    fast = h.gather(0, median_index(h, neighbour, weight))
    monkeypatch.setenv("PURIGRAPH_KERNELS", "torch")
    torch.testing.assert_close(fast, h.gather(0, median_index(h, neighbour, weight)))


def test_distance_and_its_gradient():
    pattern = Pattern(torch.tensor([0, 2, 2, 5]), torch.tensor([0, 3, 1, 1, 2]), 4)
    center, h = torch.randn(3, 2, requires_grad=True), torch.randn(4, 2, requires_grad=True)

    expected = (center[pattern.row] - h[pattern.col]).norm(dim=1)
    torch.testing.assert_close(distance_to_neighbours(center, h, pattern), expected)
    assert torch.autograd.gradcheck(lambda c, h: distance_to_neighbours(c, h, pattern), (center, h))
    same = torch.zeros(3, 2, requires_grad=True)
    distance_to_neighbours(same, torch.zeros(4, 2), pattern).sum().backward()
    assert (same.grad == 0).all()


def test_soft_median_notices_that_a_graph_was_changed_in_place(x, graph):
    model = SoftMedianGDC(IN, OUT).eval()
    edge_index = graph[0].clone()
    before = model(x, edge_index)
    assert torch.equal(model(x, edge_index), before)

    edge_index[:, :20] = 0

    torch.testing.assert_close(model(x, edge_index), copy.deepcopy(model)(x, edge_index.clone()))
    assert not torch.allclose(model(x, edge_index), before)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x, graph[0]), before)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"alpha": 1.0}, {"tolerance": 0.0}, {"top_k": 0}])
def test_soft_median_refuses(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        SoftMedianGDC(IN, OUT, **wrong)
