import pytest
import torch
from hypothesis import given

from helpers import pair_graphs, random_pair_graph
from purigraph.errors import GraphError
from purigraph.graph import PairGraph, inverse_sqrt, to_scipy


@given(pair_graphs())
def test_symmetric_csr_holds_every_pair_in_both_rows(graph: PairGraph) -> None:
    dense = torch.zeros(graph.num_nodes, graph.num_nodes)
    dense[graph.pairs[0], graph.pairs[1]] = graph.weight
    dense = dense + dense.t()
    csr = graph.csr
    rebuilt = torch.zeros_like(dense)
    rebuilt[csr.row, csr.col.long()] = graph.weight[csr.pair.long()]
    assert torch.equal(rebuilt, dense)
    assert torch.equal(torch.from_numpy(to_scipy(graph).toarray()), dense)
    for row in range(graph.num_nodes):
        columns = csr.col[csr.rowptr[row] : csr.rowptr[row + 1]]
        assert (columns.diff() > 0).all()
    assert torch.allclose(graph.weighted_degree(), dense.sum(1))
    assert torch.equal(graph.degree(), csr.rowptr.diff())


@given(pair_graphs())
def test_normalisation_matches_the_dense_formula(graph: PairGraph) -> None:
    graph = graph.with_weight(graph.weight.double())
    dense = torch.from_numpy(to_scipy(graph).toarray())
    scale = inverse_sqrt(dense.sum(1))
    expected = (scale[:, None] * dense * scale)[graph.pairs[0], graph.pairs[1]]
    assert torch.allclose(graph.normalised_weight(), expected)
    loops = dense + torch.eye(graph.num_nodes)
    scale = loops.sum(1).rsqrt()
    expected = scale[:, None] * loops * scale
    value, diagonal = graph.normalised_weight_with_loops()
    assert torch.allclose(value, expected[graph.pairs[0], graph.pairs[1]])
    assert torch.allclose(diagonal, expected.diagonal())


def test_normalisation_of_isolated_nodes_is_zero_with_zero_gradient() -> None:
    weight = torch.zeros(1, requires_grad=True)
    graph = PairGraph(3, torch.tensor([[0], [1]]), weight)
    value = graph.normalised_weight()
    value.sum().backward()
    assert value.item() == 0
    assert weight.grad is not None
    assert weight.grad.item() == 0


def test_with_weight_shares_the_structure() -> None:
    graph = random_pair_graph(30, 60)
    csr = graph.csr
    other = graph.with_weight(graph.weight * 2)
    assert other.csr is csr
    assert other != graph
    assert other.with_weight(graph.weight) == graph


def test_subgraph_keeps_the_inner_edges() -> None:
    graph = PairGraph(5, torch.tensor([[0, 0, 1, 3], [1, 3, 3, 4]]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    inner = graph.subgraph(torch.tensor([3, 1, 4]))
    assert inner == PairGraph(3, torch.tensor([[0, 1], [1, 2]]), torch.tensor([3.0, 4.0]))


def test_find_gives_positions_and_minus_one() -> None:
    graph = PairGraph(5, torch.tensor([[0, 1], [1, 3]]))
    assert graph.find(torch.tensor([1, 2, 8])).tolist() == [0, -1, 1]
    assert PairGraph(2, torch.empty(2, 0, dtype=torch.int64)).find(torch.tensor([1])).tolist() == [-1]


def test_renumbered_graphs_have_their_own_weights() -> None:
    graph = PairGraph(5, torch.tensor([[1], [3]]), torch.tensor([0.5]))
    nodes, renumbered = graph.touched
    assert nodes is not None
    assert nodes.tolist() == [1, 3]
    assert renumbered == PairGraph(2, torch.tensor([[0], [1]]), torch.tensor([0.5]))
    other_nodes, other = graph.with_weight(torch.tensor([2.0])).touched
    assert other_nodes is nodes
    assert other.weight.tolist() == [2.0]
    assert renumbered.weight.tolist() == [0.5]
    whole = PairGraph(2, torch.tensor([[0], [1]]))
    assert whole.touched == (None, whole)


@given(pair_graphs())
def test_both_entries_of_every_pair_are_known(graph: PairGraph) -> None:
    csr = graph.csr
    assert torch.equal(csr.pair[csr.entries].long(), torch.arange(graph.num_pairs).expand(2, -1))
    transposed, mirrored = csr.by_column
    assert transposed is csr
    assert torch.equal(csr.row[mirrored], csr.col.long())
    assert torch.equal(csr.col[mirrored].long(), csr.row)


def test_weights_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(GraphError, match=r"shape \(1,\), not \(2,\)"):
        PairGraph(3, torch.tensor([[0], [1]]), torch.ones(2))


def test_repr_and_device() -> None:
    graph = random_pair_graph(30, 60)
    assert repr(graph) == "PairGraph(num_nodes=30, num_pairs=60)"
    assert graph.to("cpu") == graph
