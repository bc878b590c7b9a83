"""The layer that takes the node features: dense, sparse, or prepared for many calls."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from purigraph.classifiers.base import NodeFeatures
from purigraph.errors import InputError
from purigraph.kernels import Features
from purigraph.kernels.feature_matrix import LARGEST_FEATURE, check_range, read_features
from purigraph.memo import Memo

# The output of a frozen layer is cached if it is not larger than this.
_KEPT_BYTES = 1 << 28


class FirstLayer(nn.Linear):
    """A linear layer with dropout on its input, $X' W^T + b$, for features in any form.

    Dropping a zero changes nothing, so dropout and product only touch the non-zeros of sparse features. A frozen layer
    (no parameter requires a gradient) caches its output for the last dense `x`: an attack on the edges needs it
    thousands of times, and it is most of what a small GCN computes.

    Args:
        in_features: F, the number of features.
        out_features: Z, the number of outputs.
        bias: Whether to add b.
        dropout: Dropout probability of the input in training.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self.dropout = dropout
        self._kept: Memo[tuple[Tensor, int]] = Memo()

    def forward(self, x: NodeFeatures) -> Tensor:
        """Return the outputs (N, Z) for features (N, F)."""
        if not isinstance(x, Features) and (not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point()):
            x = read_features(x, dtype=self.weight.dtype)
        self.check(x)
        dropout = self.dropout if self.training else 0.0
        if isinstance(x, Features):
            bias = self.weight.new_zeros(self.out_features) if self.bias is None else self.bias
            return x.linear(self.weight.t(), bias, dropout=dropout)
        if x.layout == torch.strided:
            return self._dense(x, dropout)
        product: Tensor = torch.sparse.mm(_sparse_dropout(x, dropout), self.weight.t())
        _check_product(product, x)
        return product if self.bias is None else product + self.bias

    def check(self, x: Features | Tensor) -> None:
        """Raise `InputError` if features (N, F) are not of the width and type that the layer was built for."""
        width = x.num_features if isinstance(x, Features) else x.shape[-1]
        if width != self.in_features:
            raise InputError(f"x has {width} features, but the model was built for {self.in_features}.")
        if x.dtype != self.weight.dtype:
            raise InputError(
                f"x is {x.dtype}, but the model's parameters are {self.weight.dtype}: convert one of them, e.g. with "
                "x.float() or model.double()."
            )

    def _dense(self, x: Tensor, dropout: float) -> Tensor:
        parameters = [self.weight] if self.bias is None else [self.weight, self.bias]
        if dropout > 0 or any(tensor.requires_grad or tensor.is_inference() for tensor in (x, *parameters)):
            self._kept = Memo()
            product = functional.linear(functional.dropout(x, dropout), self.weight, self.bias)
            _check_product(product, x)
            return product
        state = [(id(parameter), parameter.data_ptr(), parameter._version) for parameter in parameters]
        kept = self._kept.get(x, state)
        if kept is not None and kept[0]._version == kept[1]:
            return kept[0]
        product = functional.linear(x, self.weight, self.bias)
        _check_product(product, x)
        if product.numel() * product.element_size() <= _KEPT_BYTES and not product.is_inference():
            self._kept.put(x, (product, product._version), state)
        return product


def _check_product(product: Tensor, x: Tensor) -> None:
    """Raise `InputError` if features that are not finite, or too large, are the reason for such a product.

    The product is looked at first, as it has far fewer columns than the features. (If the features are fine, the
    parameters are to blame, and the training says so.)
    """
    if product.numel():
        low, high = (float(bound) for bound in product.detach().aminmax())
        if not (low >= -LARGEST_FEATURE and high <= LARGEST_FEATURE):
            check_range(x)


def _sparse_dropout(x: Tensor, dropout: float) -> Tensor:
    if dropout == 0:
        return x
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
        values = functional.dropout(x.values(), dropout)
        return torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True)
    values = functional.dropout(x.values(), dropout)
    return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, size=x.shape, check_invariants=False)
