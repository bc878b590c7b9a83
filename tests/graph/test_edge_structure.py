"""An edge list's structure is worked out once per tensor, and never outlives it."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given

from helpers import pair_graphs, random_pair_graph
from purigraph.errors import GraphError
from purigraph.graph import PairGraph, read_edge_index
from purigraph.graph import edge_structure as module
from purigraph.graph.edge_structure import EdgeStructure, list_edges, structure_of


@given(pair_graphs())
def test_what_a_graph_says_of_its_list_is_what_the_list_says(graph: PairGraph) -> None:
    edge_index = list_edges(graph)
    assert torch.equal(edge_index, graph.edge_index()[0])
    known, found = structure_of(edge_index, graph.num_nodes), EdgeStructure(edge_index, graph.num_nodes)
    assert torch.equal(known.undirected.pair, found.undirected.pair)
    assert torch.equal(known.undirected.multiplicity, found.undirected.multiplicity)
    assert torch.equal(known.undirected.graph.pairs, found.undirected.graph.pairs)
    assert torch.equal(known.by_target.order, found.by_target.order)
    assert torch.equal(known.by_target.pattern.col, found.by_target.pattern.col)
    assert torch.equal(known.by_target.pattern.rowptr, found.by_target.pattern.rowptr)
    assert known.by_target.is_edge is found.by_target.is_edge is None


def test_a_list_is_read_once_and_again_after_it_was_written_to() -> None:
    edge_index = random_pair_graph(20, 40).edge_index()[0]
    first = structure_of(edge_index, 20)
    assert structure_of(edge_index, 20) is first
    assert structure_of(edge_index, 21) is not first
    assert structure_of(edge_index.clone(), 20) is not first
    edge_index[:, 0] = 19
    assert structure_of(edge_index, 20) is not first
    edge_index[0, 0] = 20
    with pytest.raises(GraphError, match="column 0 is"):
        structure_of(edge_index, 20)


def test_a_structure_goes_with_its_list() -> None:
    edge_index = random_pair_graph(20, 40).edge_index()[0]
    structure_of(edge_index, 20)
    entries = len(module._structures._entries)
    del edge_index
    gc.collect()
    assert len(module._structures._entries) == entries - 1


def test_readers_of_one_list_do_not_share_their_weights() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    one, _ = read_edge_index(edge_index)
    one.weight.zero_()
    other, entries = read_edge_index(edge_index)
    assert other.weight.tolist() == [1.0]
    assert entries.weight.tolist() == [1.0, 1.0]
    assert other.csr is one.csr


def test_directed_lists_are_refused_every_time() -> None:
    edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
    for _ in range(2):
        with pytest.raises(GraphError, match="this graph is directed"):
            read_edge_index(edge_index)
    assert structure_of(edge_index, 3).by_target.pattern.col.tolist() == [1, 0, 1]  # but a classifier may have it


def test_threads_may_read_at_once() -> None:
    graphs = [random_pair_graph(30, 60, seed) for seed in range(12)]

    def read(graph: PairGraph) -> bool:
        edge_index, weight = graph.edge_index()
        return all(read_edge_index(edge_index, weight, 30)[0] == graph for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, graphs * 3))
