"""The soft median network, with a robust aggregation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from purigraph.classifiers.base import Adjacency, registry
from purigraph.classifiers.edges import Edges
from purigraph.classifiers.layered import Aggregate, LayeredClassifier, zero_biases
from purigraph.kernels.diffusion import Diffusion, pagerank
from purigraph.kernels.exponent import LARGEST_EXPONENT
from purigraph.kernels.propagation import propagate
from purigraph.kernels.weighted_median import distance_to_neighbours, median_index
from purigraph.memo import Memo
from purigraph.settings import setting


@registry.register("soft-median")
class SoftMedianGDC(LayeredClassifier):
    r"""Soft Median with graph diffusion, by `Geisler et al. (2021) <https://arxiv.org/abs/2110.14038>`_.

    The adjacency is replaced by personalised PageRank $S = \alpha (I - (1-\alpha) \tilde A)^{-1}$, of which every row
    keeps its k largest entries, scaled to a sum of 1. The weighted mean of a GCN is replaced by the weighted soft
    median. With $h = x W$, the weights $a_{ij}$ and their dimension-wise weighted median $\bar h_i$:

    $$x'_i = b + \frac{\sum_j a_{ij}}{\sum_j s_{ij} a_{ij}} \sum_j s_{ij} a_{ij} h_j, \qquad
      s_{ij} = \exp\Bigl(-\frac{\lVert \bar h_i - h_j \rVert_2}{T \sqrt{Z}}\Bigr)$$

    A neighbour far from the median counts little. As T goes to infinity this becomes the weighted mean, as T goes to 0
    the neighbour nearest to the median. It is differentiable through the diffusion and can thus be attacked adaptively.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    temperature: float = setting("The temperature T.", default=0.2, gt=0)
    alpha: float = setting("The teleport probability.", default=0.15, gt=0, lt=1)
    top_k: int = setting("The number k of entries to keep per row.", default=64, ge=1)
    tolerance: float = setting(
        "Tolerance of the diffusion; see `purigraph.kernels.diffusion.pagerank`.", default=1e-4, gt=0
    )
    exact_below: int = setting(
        "With fewer nodes than this, the diffusion is an exact N x N inverse.", default=1000, ge=0
    )

    def _build_aggregation(self, widths: Sequence[int]) -> None:
        self.biases = zero_biases(widths)
        # Training uses the same two graphs in every epoch.
        self._diffusions: Memo[Diffusion] = Memo(2)

    def _aggregation(self, edge_index: Adjacency, edge_weight: Tensor | None, h: Tensor) -> Aggregate:
        # What a diffusion depends on besides the edges.
        context = h.shape[0], h.dtype, h.device
        edges_alone = edge_index if edge_weight is None and isinstance(edge_index, Tensor) else None
        diffusion = None if edges_alone is None else self._diffusions.get(edges_alone, *context)
        if diffusion is None:
            diffusion = self.diffuse(Edges(edge_index, edge_weight, h.shape[0], h.dtype))
            if edges_alone is not None:
                self._diffusions.put(edges_alone, diffusion, *context)
        return lambda number, h: soft_median(h, diffusion, self.temperature) + self.biases[number]

    def diffuse(self, edges: Edges) -> Diffusion:
        """Return the graph to aggregate over: k weighted neighbours per node, with weights that sum to 1."""
        neighbour, weight = pagerank(
            edges.pattern,
            *edges.normalised_with_loops(),
            alpha=self.alpha,
            top_k=self.top_k,
            tolerance=self.tolerance,
            exact_below=self.exact_below,
        )
        return Diffusion(neighbour, weight / weight.sum(1, keepdim=True))


def soft_median(h: Tensor, neighbours: Diffusion, temperature: float) -> Tensor:
    """Return the weighted soft median of every node's neighbours; see `SoftMedianGDC`.

    Shapes: h (N, Z), neighbours (N, k) give (N, Z).
    """
    neighbour, weight = neighbours
    pattern = neighbours.pattern
    median = h.gather(0, median_index(h.detach(), neighbour, weight.detach()))
    distance = distance_to_neighbours(median, h, pattern).view_as(weight) / math.sqrt(h.shape[1])
    exponent = -distance / temperature
    with torch.no_grad():
        # A neighbour of weight 0 does not count: the shift that keeps exp in range must not come from it.
        shift = torch.where(weight > 0, exponent, -math.inf).amax(1, keepdim=True)
    mass = weight * (exponent - shift).clamp(max=LARGEST_EXPONENT).exp()
    value = mass * (weight.sum(1) / mass.sum(1)).unsqueeze(1)
    return propagate(pattern, value.reshape(-1), h)
