import networkx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data

from helpers import pair_graphs
from purigraph.errors import GraphError
from purigraph.graph import PairGraph, as_pair_graph, read_edge_index, to_scipy


@given(pair_graphs(), st.booleans(), st.integers(0, 1000))
def test_any_order_and_either_form_give_the_same_graph(graph: PairGraph, both: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    pairs, weight = graph.pairs, graph.weight
    if both:
        edge_index, weight = torch.cat([pairs, pairs.flip(0)], 1), weight.repeat(2)
    else:
        swap = torch.rand(graph.num_pairs, generator=generator) < 0.5
        edge_index = torch.where(swap, pairs.flip(0), pairs)
    order = torch.randperm(edge_index.shape[1], generator=generator)
    read, entries = read_edge_index(edge_index[:, order], weight[order], graph.num_nodes)
    assert read == graph
    assert torch.equal(entries.spread(read.weight), weight[order])


def test_self_loops_are_carried_along_untouched() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 1, 2]])
    graph, entries = read_edge_index(edge_index, torch.tensor([0.5, 0.5, 3.0, 4.0]))
    assert graph.num_pairs == 1
    assert entries.spread(torch.tensor([0.25])).tolist() == [0.25, 0.25, 3.0, 4.0]


def test_gradients_flow_to_all_entries_of_a_pair() -> None:
    weight = torch.ones(2, requires_grad=True)
    graph, _ = read_edge_index(torch.tensor([[0, 1], [1, 0]]), weight)
    graph.weight.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.5, 0.5]


def test_int32_indices_and_no_edges() -> None:
    graph, entries = read_edge_index(torch.empty(2, 0, dtype=torch.int32), num_nodes=4)
    assert (graph.num_nodes, graph.num_pairs) == (4, 0)
    assert entries.spread(graph.weight).shape == (0,)
    assert read_edge_index(torch.empty(2, 0, dtype=torch.int64))[0].num_nodes == 0


@pytest.mark.parametrize(
    ("edge_index", "weight", "message"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), None, r"shape \(2, number of edges\), not \(3, 2\)"),
        ([[0], [1]], None, "not list"),
        (torch.zeros(2, 2), None, "integers, not torch.float32"),
        (torch.tensor([[0, 1], [1, 7]]), None, r"column 1 is \[1, 7\], but there are 3 nodes"),
        (torch.tensor([[0], [-1]]), None, "1 columns are outside"),
        (torch.tensor([[0, 0], [1, 1]]), None, r"edge \[0, 1\] \(column 0\) is listed more than once: .*coalesce"),
        (torch.tensor([[0, 1, 1], [1, 0, 2]]), None, r"edge \[1, 2\] \(column 2\) has no reverse .*to_undirected"),
        (torch.tensor([[0], [1]]), torch.ones(2), r"shape \(1,\), not \(2,\)"),
        (torch.tensor([[0], [1]]), torch.ones(1, dtype=torch.int64), "floating point"),
        (torch.tensor([[0], [1]]), torch.tensor([-1.0]), r"edge_weight\[0\] is -1.0"),
        (torch.tensor([[0], [1]]), torch.tensor([float("nan")]), "finite and not negative"),
        (torch.tensor([[0], [1]]), torch.tensor([float("inf")]), "finite and not negative"),
        (torch.tensor([[0, 1], [1, 0]]), torch.tensor([0.1, 0.9]), "two different weights"),
    ],
)
def test_bad_edge_lists_say_what_is_wrong_and_where(edge_index: object, weight: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read_edge_index(edge_index, weight, 3)  # type: ignore[arg-type]


def test_every_form_becomes_the_same_graph() -> None:
    graph = PairGraph(4, torch.tensor([[0, 1], [1, 3]]), torch.tensor([0.5, 2.0]))
    edge_index, weight = graph.edge_index()
    network = networkx.Graph()
    network.add_nodes_from(range(4))
    network.add_edge(0, 1, weight=0.5)
    network.add_edge(3, 1, weight=2.0)
    forms = [
        graph,
        Data(edge_index=edge_index, edge_weight=weight, num_nodes=4),
        to_scipy(graph),
        sparse.triu(to_scipy(graph)),
        sparse.csr_matrix(to_scipy(graph)),
        network,
    ]
    for form in forms:
        assert as_pair_graph(form) == graph
    assert as_pair_graph(edge_index).num_pairs == 2


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.DiGraph([(0, 1)]), "not a DiGraph"),
        (networkx.MultiGraph([(0, 1)]), "not a MultiGraph"),
        (sparse.csr_array(np.ones((2, 3))), "square"),
        (Data(num_nodes=2), "edge_index is missing"),
        ("cora", "not a str"),
    ],
)
def test_other_forms_are_refused(graph: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        as_pair_graph(graph)
