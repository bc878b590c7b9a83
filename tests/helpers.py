"""Graphs and marks that many tests share. Everything here is made in a moment and without files."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

from purigraph.classifiers import Classifier
from purigraph.graph import InductiveSplit, PairGraph, attach_split, inductive_split
from purigraph.training import train

requires_data = pytest.mark.skipif(
    not os.environ.get("PURIGRAPH_DATA"), reason="PURIGRAPH_DATA is not set: the dataset files are not at hand"
)


def random_pair_graph(num_nodes: int, num_pairs: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> PairGraph:
    """A graph with isolated nodes, a hub and some weights of 0, as the kernels must bear them."""
    generator = torch.Generator().manual_seed(seed)
    first, last = 1, max(num_nodes - 2, 2)  # nodes 0 and N-1 stay isolated
    i = torch.randint(first, last, (3 * num_pairs,), generator=generator)
    j = torch.randint(first, last, (3 * num_pairs,), generator=generator)
    i[: num_pairs // 4] = first  # the hub
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    codes = torch.unique((low * num_nodes + high)[low < high])
    codes = codes[torch.randperm(len(codes), generator=generator)[:num_pairs]].sort().values
    weight = torch.rand(len(codes), generator=generator, dtype=torch.float64).to(dtype)
    weight[torch.rand(len(codes), generator=generator) < 0.2] = 0
    return PairGraph.from_codes(num_nodes, codes, weight)


def communities(num_nodes: int = 120, num_features: int = 24, seed: int = 0) -> Data:
    """Two communities with noisy features of their own: small, but something can be learned from it."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % 2
    same = y[:, None] == y[None, :]
    probability = torch.where(same, 8.0 / num_nodes, 1.0 / num_nodes)
    upper = torch.triu(torch.rand(num_nodes, num_nodes, generator=generator) < probability, diagonal=1)
    edge_index = (upper | upper.t()).nonzero().t().contiguous()
    centre = torch.randn(2, num_features, generator=generator)
    x = centre[y] + torch.randn(num_nodes, num_features, generator=generator)
    return Data(x=x, edge_index=edge_index, y=y)


@st.composite
def pair_graphs(draw: st.DrawFn, max_nodes: int = 12) -> PairGraph:
    """Any small weighted graph, the empty one and the complete one included."""
    num_nodes = draw(st.integers(1, max_nodes))
    everything = [i * num_nodes + j for i in range(num_nodes) for j in range(i + 1, num_nodes)]
    codes = sorted(draw(st.sets(st.sampled_from(everything)))) if everything else []
    weight = draw(st.lists(st.floats(0, 1, width=32), min_size=len(codes), max_size=len(codes)))
    return PairGraph.from_codes(num_nodes, torch.tensor(codes, dtype=torch.int64), torch.tensor(weight))


def community_models() -> tuple[InductiveSplit, Classifier]:
    """Return a split of two communities and a small GCN that was trained on it."""
    split = inductive_split(attach_split(communities(160), seed=0, train_per_class=5, val_per_class=8))
    return split, train("gcn", "vanilla", split, settings={"epochs": 60}, hyper={"hidden_channels": 8}).model
