"""The graph convolutional network."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from purigraph.classifiers.base import Adjacency, registry
from purigraph.classifiers.layered import Aggregate, LayeredClassifier, zero_biases
from purigraph.classifiers.normalised import product_with_loops


@registry.register("gcn")
class GCN(LayeredClassifier):
    r"""The graph convolutional network of `Kipf and Welling (2017) <https://arxiv.org/abs/1609.02907>`_.

    $$H^{(l+1)} = \sigma\bigl(\tilde D^{-1/2} (A + I) \tilde D^{-1/2} H^{(l)} W^{(l)} + b^{(l)}\bigr)$$

    with $\tilde D_{ii} = 1 + \sum_j A_{ij}$ and $\sigma$ = ReLU, except after the last layer. It computes the same
    function as a stack of PyG's `GCNConv`, about six times faster if edge weights need gradients (see
    `purigraph.kernels.propagation`).

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    takes_factors = True

    def _build_aggregation(self, widths: Sequence[int]) -> None:
        self.biases = zero_biases(widths)

    def _aggregation(self, edge_index: Adjacency, edge_weight: Tensor | None, h: Tensor) -> Aggregate:
        product = product_with_loops(edge_index, edge_weight, h)
        return lambda number, h: product(h) + self.biases[number]
