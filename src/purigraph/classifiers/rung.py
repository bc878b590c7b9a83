"""RUNG, robust by an aggregation that drops edges between nodes that have grown far apart."""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor

from purigraph.classifiers.base import Adjacency, Classifier, NodeFeatures, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.mlp import MLP
from purigraph.kernels.propagation import propagate
from purigraph.kernels.weighted_median import distance_to_neighbours
from purigraph.settings import setting


@registry.register("rung")
class RUNG(Classifier):
    r"""Robust unbiased aggregation, by `Hou et al. (2024) <https://arxiv.org/abs/2311.14934>`_.

    Logits $F^{(0)} = \mathrm{MLP}(X)$ are smoothed over the graph under a minimax concave penalty (MCP) $\rho_\gamma$,
    which stops growing at the distance $\gamma$, so that an edge between nodes further apart pulls at neither:

    $$\min_F \sum_{(i, j) \in E} \rho_\gamma(y_{ij}) + \lambda \sum_i \lVert f_i - f^{(0)}_i \rVert_2^2, \qquad
      y_{ij} = \Bigl\lVert \frac{f_i}{\sqrt{d_i}} - \frac{f_j}{\sqrt{d_j}} \Bigr\rVert_2, \qquad
      \rho_\gamma(y) = \min\Bigl(y - \frac{y^2}{2 \gamma}, \frac{\gamma}{2}\Bigr)$$

    by K steps of quasi-Newton iteratively reweighted least squares, each a layer:

    $$W_{ij} = \frac{\partial \rho_\gamma(y_{ij})}{\partial y_{ij}^2}
             = \max\Bigl(0, \frac{1}{2 y_{ij}} - \frac{1}{2 \gamma}\Bigr), \qquad
      F \leftarrow (\mathrm{diag}(q) + \lambda I)^{-1} \bigl((W \odot \tilde A) F + \lambda F^{(0)}\bigr), \qquad
      q_i = \sum_j \frac{W_{ij} A_{ij}}{d_i}$$

    with $d_i = 1 + \sum_j A_{ij}$ and $\tilde A = D^{-1/2} A D^{-1/2}$. The self-loop counts in the degree and W is 0
    there, as in the paper. To $y$ a small number is added: nodes with equal logits have a finite weight. Nothing is
    learnt but the MLP, which has dropout after its hidden layers.

    The public code departs from these equations in two ways. It takes the distances for constants, so that an attack
    gets no gradient through the weights W: `detach=True`. And it takes the square root of the distance once more
    before the penalty: `second_root=True`, with which $\gamma$ cuts at a distance of $\gamma^2$.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    trial_settings = MappingProxyType({"hidden_channels": 8, "num_steps": 3})

    hidden_channels: int = setting("The width of the MLP's hidden layers.", default=64, ge=1)
    num_layers: int = setting("The number of layers of the MLP.", default=2, ge=1)
    dropout: float = setting("The share that is dropped after every hidden layer.", default=0.5, ge=0, lt=1)
    input_dropout: float = setting("The share of the features that is dropped.", default=0.0, ge=0, lt=1)
    num_steps: int = setting("K, the number of smoothing steps.", default=10, ge=0)
    gamma: float = setting(
        "The distance from which on an edge counts nothing; the paper tries 0.5, 1, 2, 3 and 5.", default=3.0, gt=0
    )
    smoothing: float = setting(
        "1 / (1 + lambda): how much the neighbours count against the node itself; the paper tries 0.7, 0.8 and 0.9.",
        default=0.9,
        gt=0,
        lt=1,
    )
    epsilon: float = setting("What is added to every distance.", default=0.01, gt=0)
    detach: bool = setting(
        "Take the weights W for constants in all gradients, as the public code does: attacks are blind to them.",
        default=False,
    )
    second_root: bool = setting(
        "Apply the penalty to the square root of the distance, as the public code does.", default=False
    )

    def _build(self) -> None:
        self.mlp = MLP.inside(self)
        self.mlp.first.dropout = self.input_dropout  # an MLP drops before its first layer too

    def forward(self, x: NodeFeatures, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        first: Tensor = self.mlp(x)
        edges = Edges(edge_index, edge_weight, first.shape[0], first.dtype)
        normalised, loop = edges.normalised_with_loops()
        inverse_root = loop.sqrt().unsqueeze(1)
        by_degree = edges.weight * loop.index_select(0, edges.target)
        pull = 1 / self.smoothing - 1
        h = first
        for _ in range(self.num_steps):
            weight = self._edge_weight(h * inverse_root, edges)
            curvature = pull + weight.new_zeros(len(h)).index_add(0, edges.target, weight * by_degree)
            h = (propagate(edges.pattern, weight * normalised, h) + pull * first) / curvature.unsqueeze(1)
        return h

    def _edge_weight(self, h: Tensor, edges: Edges) -> Tensor:
        """(M,) W, from the logits divided by the root of the degree, (N, C)."""
        if self.detach:
            h = h.detach()
        distance = distance_to_neighbours(h, h, edges.pattern) + self.epsilon
        if self.second_root:
            distance = distance.sqrt()
        return torch.relu(0.5 / distance - 0.5 / self.gamma)
