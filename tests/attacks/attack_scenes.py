"""A small graph with two communities, and a GCN that has learned it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from purigraph.graph import PairGraph


class TinyGCN(nn.Module):
    """Two layers, self-loops, symmetric normalisation; nothing but index_add."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, hidden)
        self.second = nn.Linear(hidden, num_classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        row, col = edge_index
        inverse = (edge_weight.new_ones(len(x)).index_add(0, row, edge_weight)).rsqrt()
        value = edge_weight * inverse[row] * inverse[col]

        def spread(h: Tensor) -> Tensor:
            return (h * inverse.square()[:, None]).index_add(0, row, value[:, None] * h[col])

        hidden = self.dropout(spread(self.first(x)).relu())
        return spread(self.second(hidden))


def two_communities(num_nodes: int, seed: int, dtype: torch.dtype = torch.float32) -> Data:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % 2
    i, j = torch.triu_indices(num_nodes, num_nodes, 1)
    chance = torch.where(y[i] == y[j], 6.0, 1.0) / num_nodes
    chosen = torch.rand(len(i), generator=generator) < chance
    pairs = torch.stack([i, j])[:, chosen]
    x = torch.randn(num_nodes, 6, generator=generator, dtype=dtype)
    x[:, 0] += (2 * y - 1) * 0.7
    return Data(x=x, y=y, edge_index=PairGraph(num_nodes, pairs).edge_index()[0])


def train(data: Data, seed: int = 0) -> TinyGCN:
    torch.manual_seed(seed)
    model = TinyGCN(data.x.shape[1], 2).to(data.x.dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=0.03)
    ones = data.x.new_ones(data.edge_index.shape[1])
    for _ in range(60):
        optimizer.zero_grad()
        functional.cross_entropy(model(data.x, data.edge_index, ones), data.y).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval()
