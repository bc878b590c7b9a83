"""Node features, dense or sparse, and their product with a weight matrix under dropout.

Bag-of-words features are 1-2 % dense: dropout and the product then only touch the non-zeros, which is about fifty times
cheaper and gives the same result, as dropping a zero changes nothing.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor

from purigraph.kernels.csr import Pattern, row_pointers
from purigraph.kernels.feature_matrix import read_features
from purigraph.kernels.products import product, product_into
from purigraph.memo import Memo

# Measured with 128 columns: below this share of non-zeros the sparse product is faster.
_SPARSE_BELOW = 0.1


# The last features that were prepared, which the parts of a model share.
_recent: Memo[Features] = Memo()


class Features:
    """A feature matrix (N, F), stored in the form that multiplies fastest.

    Args:
        x: (N, F) dense, or in one of PyTorch's sparse layouts (COO, CSR); see `read_features`.
    """

    def __init__(self, x: Tensor) -> None:
        # A model in half precision needs features in half precision.
        x = read_features(x, dtype=x.dtype if isinstance(x, Tensor) and x.is_floating_point() else None)
        self.num_nodes, self.num_features = x.shape
        self.dtype = x.dtype
        self._dense: Tensor | None = None
        if x.layout == torch.strided:
            nonzeros = int(torch.count_nonzero(x))
            if nonzeros >= _SPARSE_BELOW * x.numel():
                self._dense = x
                return
        self._pattern, self._value = _sparse_parts(x)

    @classmethod
    def of(cls, x: Tensor) -> Features:
        """Return the features of a tensor, without gradients; the same object while it is the tensor of the last call.

        Preparing them reads the whole matrix, which takes longer than a small model does.
        """
        if x.requires_grad:
            return cls(x.detach())
        found = _recent.get(x)
        if found is None:
            found = cls(x)
            _recent.put(x, found)
        return found

    def scaled_rows(self, factor: Tensor) -> Features:
        """Return the features with every row multiplied by a factor, (N,); what was prepared is shared."""
        scaled = copy.copy(self)
        if self._dense is not None:
            scaled._dense = self._dense * factor.unsqueeze(1)
        else:
            scaled._value = self._value * factor[self._pattern.row]
        return scaled

    @property
    def is_sparse(self) -> bool:
        """Whether products only use the non-zeros."""
        return self._dense is None

    def linear(
        self, weight: Tensor, bias: Tensor, *, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return dropout(x) W + b, shape (N, Z); differentiable in `weight` (F, Z) and `bias` (Z,)."""
        if self._dense is not None:
            x = self._dense
            if dropout > 0:
                x = x * _keep(x, dropout, generator)
            return torch.addmm(bias, x, weight)
        value = self._value
        if dropout > 0:
            value = value * _keep(value, dropout, generator)
        return cast(Tensor, _SparseLinear.apply(self._pattern, value, weight)) + bias  # type: ignore[no-untyped-call]

    def row_norms(self, scale: Tensor) -> Tensor:
        """Return the Euclidean norms (N,) of the rows of x, with the columns scaled by `scale` (F,)."""
        if self._dense is not None:
            return (self._dense * scale).square().sum(1).sqrt()
        squares = product(self._pattern, self._value.square().to(scale.dtype), scale.square().unsqueeze(1))
        return squares.squeeze(1).sqrt()

    def times(self, weight: Tensor) -> Tensor:
        """Return x W, shape (N, Z), without gradients: for inference with small W (F, Z), faster than `linear`."""
        if self._dense is not None:
            return self._dense @ weight
        return product(self._pattern, self._value.to(weight.dtype), weight)


def _sparse_parts(x: Tensor) -> tuple[Pattern, Tensor]:
    """Return the pattern and the values of a matrix in any layout."""
    if x.layout == torch.sparse_csr:
        return Pattern(x.crow_indices(), x.col_indices(), x.shape[1]), x.values()
    coo = x if x.layout == torch.sparse_coo else x.to_sparse_coo()
    coo = coo.coalesce()
    row, col = coo.indices()
    return Pattern(row_pointers(row, x.shape[0]), col, x.shape[1]), coo.values()


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, value: Tensor, weight: Tensor) -> Tensor:
        ctx.pattern, ctx.value = pattern, value
        return _multiply(pattern, value, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        transposed, order = ctx.pattern.by_column
        return None, None, _multiply(transposed, ctx.value[order], gradients[0])


def _multiply(pattern: Pattern, value: Tensor, dense: Tensor) -> Tensor:
    out = dense.new_empty(pattern.num_rows, dense.shape[1])
    product_into(out, pattern, value.to(dense.dtype), dense.contiguous())
    return out


def _keep(values: Tensor, dropout: float, generator: torch.Generator | None) -> Tensor:
    """Return inverted dropout factors: 0 with probability `dropout`, else 1 / (1 - dropout)."""
    draws = torch.rand(values.shape, generator=generator, device=values.device)
    return (draws >= dropout).to(values.dtype) / (1 - dropout)
