"""A graph overlaid with a block and a block, and the gradient that every candidate gets through it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric.data import Data

import purigraph as pg
from helpers import pair_graphs
from purigraph import losses
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.victim import Victim
from purigraph.graph import PairGraph, read_data
from purigraph.graph.pair_space import PairSpace
from purigraph.graph.perturbation import Perturbation


@given(pair_graphs(), st.data())
def test_overlay_equals_the_dense_definition(graph: PairGraph, data: st.DataObject) -> None:
    num_nodes = graph.num_nodes
    space = PairSpace(num_nodes)
    assume(space.size > 0)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 50)))
    codes = space.sample(data.draw(st.integers(0, space.size)), generator)
    flip = torch.rand(len(codes), generator=generator)

    overlay = Overlay(graph, codes)
    row, col = overlay.edge_index
    dense = torch.zeros(num_nodes, num_nodes)
    dense[row, col] = overlay.whole_weight * overlay.presence(flip)

    expected = torch.zeros(num_nodes, num_nodes)
    expected[graph.pairs[0], graph.pairs[1]] = graph.weight
    is_edge = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    is_edge[graph.pairs[0], graph.pairs[1]] = True
    i, j = overlay.pairs
    expected[i, j] = torch.where(is_edge[i, j], expected[i, j] * (1 - flip), flip)
    torch.testing.assert_close(dense, expected + expected.t())
    assert ((row * num_nodes + col).diff() > 0).all()
    assert not (row == col).any()


def test_whole_flips_are_the_perturbed_graph(toy_data: Data) -> None:
    graph = read_data(toy_data)[0]
    codes = PairSpace(60).sample(500, torch.Generator().manual_seed(0))
    codes = torch.unique(torch.cat([codes, graph.codes[::4]]))
    overlay = Overlay(graph, codes)
    flipped = torch.arange(len(codes)) % 3 == 0
    presence = overlay.presence(flipped.float())

    expected = Perturbation.of_flips(graph, overlay.pairs[:, flipped]).apply(graph).edge_index()[0]
    assert torch.equal(overlay.edge_index[:, presence > 0], expected)


@pytest.mark.parametrize("loss", losses.names())
def test_gradient_equals_finite_differences(loss: str, tiny_data: Data, tiny_model: Any) -> None:
    graph = read_data(tiny_data)[0]
    graph = graph.with_weight(graph.weight.double())
    every = PairSpace(8)
    overlay = Overlay(graph, every.codes(torch.arange(every.size)))
    flip = torch.rand(every.size, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 0.8 + 0.1
    victim = Victim(tiny_model, tiny_data.x, tiny_data.y, torch.tensor([0, 3, 4, 6]), losses.create(loss))

    verdict, gradient = victim.gradient(overlay, flip)

    assert verdict == victim.relaxed(overlay, flip)
    step = 1e-6
    for entry in range(every.size):
        up, down = flip.clone(), flip.clone()
        up[entry] += step
        down[entry] -= step
        rise = victim.relaxed(overlay, up).loss
        fall = victim.relaxed(overlay, down).loss
        assert float(gradient[entry]) == pytest.approx((rise - fall) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("loss", ["margin", "cross-entropy"])
def test_gradient_through_a_protected_model_equals_finite_differences(
    loss: str, tiny_data: Data, tiny_model: Any
) -> None:
    """Every pair of a tiny graph, through five purification steps and the classifier, at flips by halves."""
    torch.manual_seed(0)
    purifier = pg.GPRGAE(in_channels=tiny_data.num_features, hops=3, node_channels=4, edge_channels=6).double()
    purifier.provenance = {"weights": "random"}
    model = pg.protect(tiny_model, purifier.with_settings(tolerance=0.0))
    graph = read_data(tiny_data)[0]
    graph = graph.with_weight(graph.weight.double())
    every = PairSpace(8)
    overlay = Overlay(graph, every.codes(torch.arange(every.size)))
    flip = torch.rand(every.size, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 0.8 + 0.1
    victim = Victim(model, tiny_data.x, tiny_data.y, torch.tensor([0, 3, 4, 6]), losses.create(loss))

    gradient = victim.gradient(overlay, flip)[1]

    assert (gradient != 0).all()
    for entry in range(every.size):
        step = torch.zeros_like(flip)
        step[entry] = 1e-6
        slope = (victim.relaxed(overlay, flip + step).loss - victim.relaxed(overlay, flip - step).loss) / 2e-6
        assert float(gradient[entry]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_whole_flips_through_a_protected_model_are_the_attacked_graph(tiny_data: Data, tiny_model: Any) -> None:
    """The hill that the attack climbs is the model itself at its corners."""
    torch.manual_seed(0)
    purifier = pg.GPRGAE(in_channels=tiny_data.num_features, hops=3, node_channels=4, edge_channels=6).double()
    purifier.provenance = {"weights": "random"}
    model = pg.protect(tiny_model, purifier)
    graph = read_data(tiny_data)[0]
    graph = graph.with_weight(graph.weight.double())
    every = PairSpace(8)
    overlay = Overlay(graph, every.codes(torch.arange(every.size)))
    victim = Victim(model, tiny_data.x, tiny_data.y, torch.arange(8), losses.create("margin"))
    for seed in range(5):
        flipped = torch.rand(every.size, generator=torch.Generator().manual_seed(seed)) < 0.2
        attacked = Perturbation.of_flips(graph, overlay.pairs[:, flipped]).apply(graph)
        assert victim.relaxed(overlay, flipped.double()) == pytest.approx(victim.verdict(attacked))
