"""Node pairs as single integers, i * N + j with i < j: sorting codes sorts the pairs by (i, j)."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from purigraph.errors import GraphError
from purigraph.kernels.sorted_lists import merge
from purigraph.numbers import is_whole_number

__all__ = ["decode", "encode", "merge", "read_num_nodes"]

#: With more nodes than this, the code of the last pair is beyond int64.
MOST_NODES = math.isqrt(2**63 - 1)

Integers = npt.NDArray[np.integer[Any]]


def read_num_nodes(num_nodes: Any) -> int:
    """Return a number of nodes as a Python integer.

    Raises:
        GraphError: If it is no whole number, negative, or so large that pairs have no codes.
    """
    if not is_whole_number(num_nodes) or not 0 <= num_nodes <= MOST_NODES:
        raise GraphError(
            f"The number of nodes must be a whole number from 0 to {MOST_NODES}, not {num_nodes!r}. (Without "
            "num_nodes, it is the largest entry of edge_index plus one: number the nodes from 0.)"
        )
    return int(num_nodes)


@overload
def encode(i: Tensor, j: Tensor, num_nodes: int) -> Tensor: ...


@overload
def encode(i: Integers, j: Integers, num_nodes: int) -> Integers: ...


def encode(i: Tensor | Integers, j: Tensor | Integers, num_nodes: int) -> Tensor | Integers:
    """Return the codes (M,) int64 of pairs of nodes (M,) and (M,), in either order.

    >>> encode(torch.tensor([0, 3]), torch.tensor([2, 1]), 5)
    tensor([2, 8])
    """
    if isinstance(i, Tensor) and isinstance(j, Tensor):
        return torch.minimum(i, j).long() * num_nodes + torch.maximum(i, j)
    low: Integers = np.minimum(i, j).astype(np.int64, copy=False)
    return low * num_nodes + np.maximum(i, j)


@overload
def decode(codes: Tensor, num_nodes: int) -> Tensor: ...


@overload
def decode(codes: Integers, num_nodes: int) -> Integers: ...


def decode(codes: Tensor | Integers, num_nodes: int) -> Tensor | Integers:
    """Return the pairs (2, M), with i < j, of codes (M,).

    >>> decode(torch.tensor([2, 8]), 5)
    tensor([[0, 1],
            [2, 3]])
    """
    num_nodes = max(num_nodes, 1)  # without nodes, there are no codes either
    if isinstance(codes, Tensor):
        i = torch.div(codes, num_nodes, rounding_mode="floor")
        # Multiplying is several times faster than dividing again for the remainder.
        return torch.stack([i, codes - i * num_nodes])
    return np.stack(np.divmod(codes, num_nodes))
