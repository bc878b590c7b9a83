"""Reading the edge weights that callers pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from purigraph.errors import GraphError

#: Weights must not exceed this: sums and norms of larger ones leave the range of single precision.
LARGEST_WEIGHT = 1e15

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_weight_form(edge_weight: Any, num_entries: int) -> None:
    """Raise `GraphError` unless this is a floating point tensor of shape (M,)."""
    if not isinstance(edge_weight, Tensor):
        raise GraphError(f"edge_weight must be a tensor of shape ({num_entries},), not a {type(edge_weight).__name__}.")
    if edge_weight.shape != (num_entries,):
        raise GraphError(
            f"edge_weight must have one entry per column of edge_index, shape ({num_entries},), "
            f"not {tuple(edge_weight.shape)}."
        )
    if edge_weight.layout != torch.strided:
        raise GraphError("edge_weight must be a dense tensor: use edge_weight.to_dense().")
    if edge_weight.dtype not in _FLOATS:
        raise GraphError(f"edge_weight must be floating point, not {edge_weight.dtype}: use edge_weight.float().")


def check_weight_range(edge_weight: Tensor, *, lowest: float = 0.0) -> None:
    """Raise `GraphError` if a weight is not finite, below `lowest`, or above `LARGEST_WEIGHT`."""
    weight = edge_weight.detach()
    if weight.numel() == 0:
        return
    low, high = (float(bound) for bound in weight.aminmax())  # both are NaN if any weight is
    if low >= lowest and high <= LARGEST_WEIGHT:
        return
    bad = ~((weight >= lowest) & (weight <= LARGEST_WEIGHT))
    first = int(bad.nonzero()[0])
    value = float(weight[first])
    if LARGEST_WEIGHT < value < float("inf"):
        raise GraphError(
            f"edge_weight[{first}] is {value:g}: weights must be at most {LARGEST_WEIGHT:g}, as sums of larger ones "
            f"overflow ({int(bad.sum())} are too large). Divide all of them by the largest."
        )
    raise GraphError(
        f"edge_weight[{first}] is {value}: weights must be finite and not negative ({int(bad.sum())} are not)."
    )
