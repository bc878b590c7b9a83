"""The soft median network, robust by its aggregation."""

from __future__ import annotations

import math
import weakref
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor, nn

from purigraph.classifiers.base import Classifier, NodeFeatures, classifiers
from purigraph.classifiers.diffusion import Diffusion, pagerank
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.first_layer import FirstLayer
from purigraph.classifiers.propagation import Pattern, propagate
from purigraph.classifiers.weighted_median import distance_to_neighbours, median_index
from purigraph.errors import InputError

# exp of this is finite in single precision, with room to multiply.
_LARGEST_EXPONENT = 60.0


@classifiers.register("soft-median")
class SoftMedianGDC(Classifier):
    r"""Soft Median with graph diffusion, by `Geisler et al. (2021) <https://arxiv.org/abs/2110.14038>`_.

    The adjacency is replaced by personalised PageRank $S = \alpha (I - (1-\alpha) \tilde A)^{-1}$, of which every row
    keeps its k largest entries, scaled to a sum of 1; and the weighted mean of a GCN by the weighted soft median. With
    $h = x W$, the weights $a_{ij}$ and their dimension-wise weighted median $\bar h_i$:

    $$x'_i = b + \frac{\sum_j a_{ij}}{\sum_j s_{ij} a_{ij}} \sum_j s_{ij} a_{ij} h_j, \qquad
      s_{ij} = \exp\Bigl(-\frac{\lVert \bar h_i - h_j \rVert_2}{T \sqrt{Z}}\Bigr)$$

    A neighbour far from the median counts little. T to infinity is the weighted mean, T to 0 the neighbour nearest to
    the median. Differentiable through the diffusion, so that it can be attacked adaptively.

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hidden_channels: The width of the hidden layers; 64 in the paper, 256 for OGB-arXiv.
        num_layers: 2 in the paper, 3 for OGB-arXiv.
        temperature: T; 0.2 in the paper, 5 for OGB-arXiv.
        alpha: The teleport probability; 0.15 in the paper, 0.1 for OGB-arXiv.
        top_k: k.
        dropout: The share that is dropped after every hidden layer.
        input_dropout: The share of the features that is dropped.
        tolerance: Of the diffusion; see `purigraph.classifiers.diffusion.pagerank`.
        exact_below: With fewer nodes than this the diffusion is an exact inverse, N x N.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    paper_hyper = MappingProxyType(
        {"ogbn-arxiv": {"hidden_channels": 256, "num_layers": 3, "temperature": 5.0, "alpha": 0.1}}
    )

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        num_layers: int = 2,
        temperature: float = 0.2,
        alpha: float = 0.15,
        top_k: int = 64,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        tolerance: float = 1e-4,
        exact_below: int = 1000,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            temperature=temperature,
            alpha=alpha,
            top_k=top_k,
            dropout=dropout,
            input_dropout=input_dropout,
            tolerance=tolerance,
            exact_below=exact_below,
        )
        if not temperature > 0:
            raise InputError(f"SoftMedianGDC: temperature must be positive, not {temperature!r}.")
        if not 0 < alpha < 1:
            raise InputError(f"SoftMedianGDC: alpha must be in (0, 1), not {alpha!r}.")
        if not tolerance > 0:
            raise InputError(f"SoftMedianGDC: tolerance must be positive, not {tolerance!r}.")
        self.temperature, self.alpha, self.top_k = temperature, alpha, top_k
        self.tolerance, self.exact_below = tolerance, exact_below
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.first = FirstLayer(widths[0], widths[1], bias=False, dropout=input_dropout)
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths[1:]))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths[1:])
        self.dropout = nn.Dropout(dropout)
        self._diffusions = _Memo()
        for layer in (self.first, *self.others):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node; see `Classifier.forward`."""
        h: Tensor = self.first(x)
        diffusion = self._diffusions.get(edge_index, h) if edge_weight is None else None
        if diffusion is None:
            diffusion = self.diffuse(Edges(edge_index, edge_weight, h.shape[0], h.dtype))
            if edge_weight is None:
                self._diffusions.put(edge_index, h, diffusion)
        h = soft_median(h, diffusion, self.temperature) + self.biases[0]
        for layer, bias in zip(self.others, list(self.biases)[1:], strict=True):
            h = soft_median(layer(self.dropout(h.relu())), diffusion, self.temperature) + bias
        return h

    def diffuse(self, edges: Edges) -> Diffusion:
        """The graph that is aggregated over: k weighted neighbours per node, their weights summing to 1."""
        neighbour, weight = pagerank(
            edges,
            alpha=self.alpha,
            top_k=self.top_k,
            tolerance=self.tolerance,
            exact_below=self.exact_below,
        )
        return Diffusion(neighbour, weight / weight.sum(1, keepdim=True))


def soft_median(h: Tensor, neighbours: Diffusion, temperature: float) -> Tensor:
    """The weighted soft median of every node's neighbours; see `SoftMedianGDC`.

    Shapes: h (N, Z), neighbours (N, k) give (N, Z).
    """
    neighbour, weight = neighbours
    num_nodes, width = neighbour.shape
    rowptr = torch.arange(0, num_nodes * width + 1, width, device=h.device)
    pattern = Pattern(rowptr, neighbour.reshape(-1), num_nodes)
    median = h.gather(0, median_index(h.detach(), neighbour, weight.detach()))
    distance = distance_to_neighbours(median, h, pattern).view(num_nodes, width) / math.sqrt(h.shape[1])
    exponent = -distance / temperature
    with torch.no_grad():
        # A neighbour of weight 0 is none: the shift that keeps exp in range must not come from it.
        shift = torch.where(weight > 0, exponent, -math.inf).amax(1, keepdim=True)
    mass = weight * (exponent - shift).clamp(max=_LARGEST_EXPONENT).exp()
    value = mass * (weight.sum(1) / mass.sum(1)).unsqueeze(1)
    return propagate(pattern, value.reshape(-1), h)


class _Memo:
    """The diffusions of the unweighted graphs seen last: training meets the same two graphs in every epoch.

    A graph is known again by the very tensor of its edges, alive and not written to since.
    """

    _size = 2

    def __init__(self) -> None:
        self._entries: list[tuple[weakref.ref[Tensor], object, Diffusion]] = []

    def get(self, edge_index: Tensor, h: Tensor) -> Diffusion | None:
        for reference, state, diffusion in self._entries:
            if reference() is edge_index and state == _state(edge_index, h):
                return diffusion
        return None

    def put(self, edge_index: Tensor, h: Tensor, diffusion: Diffusion) -> None:
        entry = (weakref.ref(edge_index), _state(edge_index, h), diffusion)
        self._entries = [*self._entries, entry][-self._size :]

    def __deepcopy__(self, memo: object) -> _Memo:
        return _Memo()

    def __reduce__(self) -> tuple[type[_Memo], tuple[()]]:
        return _Memo, ()


def _state(edge_index: Tensor, h: Tensor) -> object:
    return edge_index._version, h.shape[0], h.dtype, h.device
