"""Reading the node features that callers pass: any layout and any kind of numbers become a checked matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from purigraph.errors import InputError

#: Features must not exceed this: products of larger ones leave the range of single precision.
LARGEST_FEATURE = 1e15

_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)


def read_features(x: Any, num_nodes: int | None = None, *, name: str = "x", dtype: torch.dtype | None = None) -> Tensor:
    """Return node features as a floating point matrix that takes part in no gradient.

    Integers and booleans become float32, and so do half precision numbers, whose products overflow. A matrix that is
    fine is returned as it is, not copied.

    Args:
        x: (N, F) numbers, dense or in one of PyTorch's sparse layouts (COO, CSR).
        num_nodes: N, the number of nodes. Default: not checked.
        name: The caller's name for the argument, used in messages.
        dtype: The dtype of the result. Default: that of `x`, see above.

    Raises:
        InputError: If it is not such a matrix, or an entry is not finite or too large; the message names the first.

    >>> read_features(torch.tensor([[True, False]])).dtype
    torch.float32
    """
    if x is None:
        raise InputError(f"{name} is missing: node features (N, F) are needed.")
    if not isinstance(x, Tensor):
        raise InputError(f"{name} must be a tensor of node features (N, F), not a {type(x).__name__}.")
    if x.dim() != 2 or x.is_complex() or x.layout not in _LAYOUTS or x.is_quantized:
        raise InputError(
            f"{name} must be a matrix of numbers (nodes, features), dense or sparse (COO, CSR); it is {x.dtype} of "
            f"shape {tuple(x.shape)} ({x.layout})."
        )
    if num_nodes is not None and x.shape[0] != num_nodes:
        raise InputError(f"{name} has {x.shape[0]} rows, but the graph has {num_nodes} nodes.")
    read = x.detach() if x.requires_grad else x
    wanted = dtype or (x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32)
    check_range(read, name=name)
    read = read.to(wanted)
    # What was made in inference mode can't be used in training.
    return read.clone() if read.is_inference() and not torch.is_inference_mode_enabled() else read


def check_range(x: Tensor, *, name: str = "x") -> None:
    """Raise `InputError` if an entry of a matrix, dense or sparse, is not finite or too large."""
    values = _values(x)
    if values.numel() == 0 or not values.is_floating_point():
        return
    if values.dtype.itemsize == 1:
        values = values.float()  # PyTorch can't compare numbers of 8 bits
    low, high = (float(bound) for bound in values.detach().aminmax())  # both are NaN if any value is
    if low >= -LARGEST_FEATURE and high <= LARGEST_FEATURE:
        return
    values = values.double()  # in half precision, the bound itself is infinite
    bad = ~(values.abs() <= LARGEST_FEATURE)
    first = bad.nonzero()[0]
    value = float(values[tuple(first)])
    row, column = first.tolist() if x.layout == torch.strided else _position(x, int(first))
    if value - value == 0:
        raise InputError(
            f"{name} is {value:g} in row {row}, column {column}: that is too large for single precision, as products "
            f"overflow. Scale the features to at most {LARGEST_FEATURE:g} ({int(bad.sum())} entries are larger)."
        )
    raise InputError(
        f"{name} is {value} in row {row}, column {column}: node features must be finite ({int(bad.sum())} entries are "
        "not). Replace these values first."
    )


def _values(x: Tensor) -> Tensor:
    if x.layout == torch.sparse_coo:
        return x.detach().coalesce().values()
    return x.detach().values() if x.layout == torch.sparse_csr else x.detach()


def _position(x: Tensor, entry: int) -> tuple[int, int]:
    """Return the row and the column of an entry of a sparse matrix."""
    if x.layout == torch.sparse_coo:
        row, column = x.coalesce().indices()[:, entry].tolist()
        return row, column
    row = int(torch.searchsorted(x.crow_indices(), torch.tensor(entry, device=x.device), right=True)) - 1
    return row, int(x.col_indices()[entry])
