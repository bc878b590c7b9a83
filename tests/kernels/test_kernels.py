"""The fast kernels against the printed equations and against finite differences."""

import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from helpers import random_pair_graph
from purigraph.errors import InputError
from purigraph.graph import PairGraph, to_scipy
from purigraph.kernels import Features, all_hops, edge_scores, node_codes, threads
from purigraph.kernels.reference import reference_encoding, reference_scores, reference_step
from purigraph.purifiers.gpr_gae.links import LinkModel


@pytest.fixture(params=["auto", "torch"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs with the compiled kernels and with the PyTorch ones."""
    monkeypatch.setenv("PURIGRAPH_KERNELS", request.param)
    return str(request.param)


def randn(*shape: int, seed: int = 0, grad: bool = True) -> Tensor:
    values = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return values.requires_grad_(grad)


def test_all_hops_are_the_powers() -> None:
    graph = random_pair_graph(12, 20, dtype=torch.float64)
    h, diagonal = randn(12, 3, grad=False), randn(12, seed=1, grad=False)
    matrix = torch.from_numpy(to_scipy(graph).toarray()) + torch.diag(diagonal)
    hops = all_hops(h, graph.csr, graph.weight, diagonal, 3)
    expected = torch.stack([h, matrix @ h, matrix @ matrix @ h, matrix @ matrix @ matrix @ h])
    assert torch.allclose(hops, expected)


@pytest.mark.parametrize("with_diagonal", [False, True])
def test_all_hops_gradients(with_diagonal: bool) -> None:
    graph = random_pair_graph(9, 12, dtype=torch.float64)
    value = graph.weight.clone().requires_grad_()
    if with_diagonal:
        assert gradcheck(lambda h, v, d: all_hops(h, graph.csr, v, d, 3), (randn(9, 3), value, randn(9, seed=1)))
    assert gradcheck(lambda h, v: all_hops(h, graph.csr, v, None, 3), (randn(9, 3), value))
    constant = randn(9, 3, grad=False)
    assert gradcheck(lambda v: all_hops(constant, graph.csr, v, None, 2), (value,))


def test_edge_scores_gradients() -> None:
    graph = random_pair_graph(9, 12, dtype=torch.float64)
    assert gradcheck(lambda pq, w, b: edge_scores(pq, w, b, graph.csr), (randn(9, 10), randn(5, seed=1), randn(1)[0]))
    weight, bias = randn(5, grad=False), randn(1, grad=False)[0]
    assert gradcheck(lambda pq: edge_scores(pq, weight, bias, graph.csr), (randn(9, 10),))


@pytest.mark.parametrize("nodes", [None, [5, 1, 7]])
@pytest.mark.parametrize("constant_per_node", [False, True])
def test_node_codes_gradients(nodes: list[int] | None, constant_per_node: bool) -> None:
    listed = None if nodes is None else torch.tensor(nodes)
    rows = 9 if nodes is None else len(nodes)
    constant = randn(rows, 4) if constant_per_node else randn(4)
    inputs = (randn(4, 9, 3), randn(3, 4, seed=1), randn(9, 4, seed=2), constant)
    assert gradcheck(lambda *given: node_codes(*given, nodes=listed), inputs)


def test_node_codes_work_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = (randn(4, 9, 3), randn(3, 4, seed=1), randn(9, 4, seed=2), randn(4))
    whole = node_codes(*inputs)
    gradients = torch.autograd.grad(whole.square().sum(), inputs)
    monkeypatch.setattr(sys.modules["purigraph.kernels.node_codes"], "BLOCK_ROWS", 2)
    blocks = node_codes(*inputs)
    assert torch.allclose(blocks, whole)
    for one, other in zip(torch.autograd.grad(blocks.square().sum(), inputs), gradients, strict=True):
        assert torch.allclose(one, other)


@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
def test_features_products(layout: str) -> None:
    x = randn(9, 40, grad=False) * (torch.rand(9, 40, generator=torch.Generator().manual_seed(3)) < 0.05)
    given = {"dense": x, "coo": x.to_sparse_coo(), "csr": x.to_sparse_csr()}[layout]
    features = Features(given)
    assert features.is_sparse
    weight, bias = randn(40, 4), randn(4)
    assert torch.allclose(features.linear(weight, bias), x @ weight + bias)
    assert torch.allclose(features.times(weight.detach()), x @ weight)
    assert torch.allclose(features.row_norms(weight[:, 0].detach()), (x * weight[:, 0]).norm(dim=1))
    assert gradcheck(features.linear, (weight, bias))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_features_products_in_other_precisions(dtype: torch.dtype) -> None:
    x = (torch.rand(9, 40, generator=torch.Generator().manual_seed(3)) < 0.05).to(dtype)
    features, weight = Features(x), randn(40, 4, grad=False).to(dtype)
    assert features.times(weight).dtype == features.row_norms(weight[:, 0]).dtype == dtype
    assert torch.allclose(features.times(weight), x @ weight, atol=0.05)
    assert torch.allclose(features.row_norms(weight[:, 0]), (x * weight[:, 0]).norm(dim=1), atol=0.05)


def test_dropout_on_nonzeros_is_dropout() -> None:
    x = torch.ones(4, 2000) * (torch.arange(2000) % 20 == 0)
    features = Features(x)
    assert features.is_sparse
    weight, bias = torch.ones(2000, 1), torch.zeros(1)
    generator = torch.Generator().manual_seed(0)
    sums = torch.cat([features.linear(weight, bias, dropout=0.7, generator=generator) for _ in range(200)])
    assert sums.mean().item() == pytest.approx(100, rel=0.03)  # inverted dropout keeps the mean
    assert sums.var().item() == pytest.approx(100 * 0.7 / 0.3, rel=0.15)
    dense = Features(torch.ones(4, 100))
    assert not dense.is_sparse
    kept = dense.linear(torch.eye(100), torch.zeros(100), dropout=0.7, generator=generator)
    assert set(kept.unique().tolist()) <= {0.0, kept.max().item()}


def test_bad_features_are_refused() -> None:
    with pytest.raises(InputError, match="must be a matrix of numbers"):
        Features(torch.ones(3))
    with pytest.raises(InputError, match="x is nan in row 0, column 0"):
        Features(torch.tensor([[float("nan"), 1.0]]))


def link_model(dtype: torch.dtype, features: int = 30) -> LinkModel:
    model = LinkModel(
        features,
        hops=4,
        node_channels=8,
        edge_channels=16,
        encoder="gpr",
        self_loops=False,
        generator=torch.Generator().manual_seed(5),
    )
    return model.to(dtype)


def parameters_of(model: LinkModel) -> dict[str, Tensor]:
    """The same parameters as the printed equations name them."""
    width = model.code_weight.shape[1] // 2
    return {
        "node_weight": model.node_weight,
        "node_bias": model.node_bias,
        "gamma": model.gamma(),
        "edge_weight": torch.cat([model.code_weight[:, :width], model.code_weight[:, width:]]),
        "edge_bias": model.code_bias,
        "score_weight": model.score_weight,
        "score_bias": model.score_bias,
    }


@pytest.mark.parametrize(("num_nodes", "num_pairs"), [(40, 90), (400, 1500)])
@pytest.mark.parametrize(
    ("dtype", "close", "close_gradient"), [(torch.float32, 1e-5, 1e-4), (torch.float64, 1e-12, 1e-11)]
)
def test_the_split_equals_the_printed_equations(
    num_nodes: int, num_pairs: int, dtype: torch.dtype, close: float, close_gradient: float
) -> None:
    graph = random_pair_graph(num_nodes, num_pairs, dtype=dtype)
    x = randn(num_nodes, 30, grad=False).to(dtype)
    model = link_model(dtype)
    leaves = [graph.weight.requires_grad_(), *model.parameters()]
    mix = randn(2, graph.num_pairs, seed=9, grad=False).to(dtype)

    links = model.trainable()
    fast = links.logits(links.embed(Features(x)), graph)
    encoding = reference_encoding(x, graph.pairs, graph.weight, parameters_of(model))
    slow = reference_scores(encoding, graph.pairs, parameters_of(model))

    assert relative(fast, slow) < close
    ours = torch.autograd.grad((fast.sigmoid() * mix).sum(), leaves)
    theirs = torch.autograd.grad((slow.sigmoid() * mix).sum(), leaves)
    for one, other in zip(ours, theirs, strict=True):
        assert relative(one, other) < close_gradient


def test_scoring_some_pairs_equals_scoring_all() -> None:
    graph = random_pair_graph(60, 150, dtype=torch.float64)
    model = link_model(torch.float64).frozen()
    h = model.embed(Features(randn(60, 30, grad=False)))
    everything = model.logits(h, graph)
    chosen = torch.arange(0, graph.num_pairs, 7)
    some = PairGraph(60, graph.pairs[:, chosen])
    for first_codes in (None, model.first_filter_codes(h)):
        assert torch.allclose(model.logits(h, graph, some, first_codes), everything[:, chosen])


def test_reference_in_batches_is_the_reference() -> None:
    graph = random_pair_graph(40, 90, dtype=torch.float64)
    x, parameters = randn(40, 30, grad=False), parameters_of(link_model(torch.float64))
    whole = reference_step(x, graph.pairs, graph.weight, parameters)
    assert torch.allclose(reference_step(x, graph.pairs, graph.weight, parameters, batch=13), whole)


def test_two_threads_give_the_same_bits_as_one(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward; each range of rows is computed by one thread, whichever it is."""
    graph = random_pair_graph(3000, 20000)
    model = link_model(torch.float32).frozen()
    h = model.embed(Features(randn(3000, 30, grad=False).float()))
    pq = randn(3000, 32, grad=False).float()
    run, ranges = threads.run, []

    def counted(kernel: Any, parts: list[tuple[int, int]], *arguments: Any, **named: Any) -> None:
        ranges.append(len(parts))
        run(kernel, parts, *arguments, **named)

    monkeypatch.setattr(threads, "run", counted)

    def results(num_threads: int) -> list[Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(num_threads)
        ranges.clear()
        try:
            value, codes = graph.weight.clone().requires_grad_(), pq.clone().requires_grad_()
            hops = all_hops(h, graph.csr, value, None, 3)
            scores = edge_scores(codes, model.score_weight, model.score_bias, graph.csr)
            gradients = torch.autograd.grad(hops.square().sum() + scores.square().sum(), [value, codes])
        finally:
            torch.set_num_threads(before)
        return [hops.detach(), scores.detach(), *gradients]

    one = results(1)
    assert set(ranges) <= {1}
    two = results(2)
    assert set(ranges) == ({2} if kernels == "auto" else set())
    if kernels == "auto":  # PyTorch's own sums depend on its threads
        assert all(map(torch.equal, one, two))


def test_every_range_is_run_and_rows_are_shared_out_by_their_work() -> None:
    rowptr = torch.tensor([0, 900_000, 900_001, 900_002, 1_800_000], dtype=torch.int32).numpy()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        parts = threads.row_parts(rowptr, 10_000, 1)  # the work is more than int32 holds
        assert parts == [(0, 2), (2, 4)]
        seen = torch.zeros(4, dtype=torch.int64)

        def mark(out: Tensor, start: int, stop: int) -> None:
            out[start:stop] += 1

        threads.run(mark, parts, seen)
    finally:
        torch.set_num_threads(before)
    assert seen.tolist() == [1, 1, 1, 1]


def relative(value: Tensor, expected: Tensor) -> float:
    value, expected = value.detach(), expected.detach()
    scale = expected.abs().max()
    return float((value - expected).abs().max() / scale) if scale > 0 else float(value.abs().max())
