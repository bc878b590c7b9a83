"""The tasks of the appendix on structural encodings."""

from __future__ import annotations

import pytest
import torch

from helpers import random_pair_graph
from purigraph.graph import PairGraph, to_scipy
from purigraph.paper.structure import FilterEncoder, StructureModel, connections


def codes(pairs: torch.Tensor, number: int) -> set[int]:
    assert bool((pairs[0] < pairs[1]).all())
    return set((pairs[0] * number + pairs[1]).tolist())


def test_connections_are_what_the_dense_matrix_says() -> None:
    graph = random_pair_graph(40, 60)
    graph = PairGraph(40, graph.pairs)
    dense = torch.from_numpy(to_scipy(graph).toarray())
    upper = torch.triu(torch.ones(40, 40, dtype=torch.bool), diagonal=1)
    hop1, hop2 = (dense > 0) & upper, ((dense @ dense) > 0) & upper
    found = connections(graph, torch.Generator().manual_seed(0))
    assert codes(found.edges, 40) == codes(hop1.nonzero().t(), 40)
    assert codes(found.two_hop, 40) == codes(hop2.nonzero().t(), 40)
    assert codes(found.direct_only, 40) == codes((hop1 & ~hop2).nonzero().t(), 40)
    assert len(codes(found.non_edges, 40)) == found.edges.shape[1]
    assert not codes(found.non_edges, 40) & codes(found.edges, 40)
    assert len(codes(found.non_two_hop, 40)) == found.two_hop.shape[1]
    assert not codes(found.non_two_hop, 40) & codes(found.two_hop, 40)


def test_connections_touch_the_nodes_that_they_must() -> None:
    graph, touching = PairGraph(40, random_pair_graph(40, 60).pairs), torch.arange(40) % 3 == 0
    found = connections(graph, torch.Generator().manual_seed(0), touching)
    for pairs in vars(found).values():
        assert bool(touching[pairs].any(0).all())


def test_the_filters_are_powers_of_the_normalised_adjacency() -> None:
    torch.manual_seed(0)
    graph, x = PairGraph(12, random_pair_graph(12, 15).pairs), torch.randn(12, 5)
    encoder = FilterEncoder(5, 3, hops=3)
    dense = torch.from_numpy(to_scipy(graph).toarray()).float()
    scale = dense.sum(1).clamp(min=1).rsqrt()
    matrix = scale[:, None] * dense * scale[None, :]
    h = encoder.linear(x)
    hops = [torch.linalg.matrix_power(matrix, m) @ h for m in range(4)]
    gamma = encoder.coefficients
    expected = [h] + [sum((gamma[k - 1, m] * hops[m] for m in range(k + 1)), torch.zeros_like(h)) for k in range(1, 4)]
    torch.testing.assert_close(encoder(x, graph), torch.cat(expected, dim=1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gamma.abs().sum(1), torch.ones(3))


@pytest.mark.parametrize("kind", ["gpr-gae", "gcn", "sage", "gin"])
def test_scores_do_not_depend_on_the_direction_of_a_pair(kind: str) -> None:
    graph, x = PairGraph(12, random_pair_graph(12, 15).pairs), torch.randn(12, 5)
    model = StructureModel(kind, 5, 2, 3, 4, 0.5).eval()  # type: ignore[arg-type]
    h, head = model(x, graph), model.heads[0]
    torch.testing.assert_close(head(h, graph.pairs), head(h, graph.pairs.flip(0)))
