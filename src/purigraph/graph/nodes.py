"""Reading and checking the nodes and labels that callers pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import InputError


def read_nodes(nodes: Any, num_nodes: int, *, name: str) -> Tensor:
    """Return a set of nodes as indices (M,) int64, ascending, each once.

    Args:
        nodes: (N,) bool mask or (M,) integer indices, with at least one node.
        num_nodes: N, the number of nodes.
        name: The caller's name for the argument, used in messages.

    Raises:
        InputError: If it is neither, is empty, or contains a node that does not exist.

    >>> read_nodes(torch.tensor([False, True, True]), 3, name="targets")
    tensor([1, 2])
    """
    nodes = torch.as_tensor(nodes)
    if nodes.dtype == torch.bool:
        if nodes.shape != (num_nodes,):
            raise InputError(
                f"{name} is a mask of shape {tuple(nodes.shape)}; it must be ({num_nodes},), one entry per node."
            )
        nodes = nodes.nonzero().squeeze(1)
    elif nodes.dim() != 1 or nodes.is_floating_point() or nodes.is_complex():
        raise InputError(
            f"{name} must be (M,) integer node indices or an ({num_nodes},) bool mask, not "
            f"{tuple(nodes.shape)} {nodes.dtype}."
        )
    if len(nodes) == 0:
        raise InputError(f"{name} names no nodes: at least one is needed.")
    found: Tensor = torch.unique(nodes.long())
    # As indices, this would repeat nodes 0 and 1. (With one or two nodes, it may well be indices.)
    if len(nodes) == num_nodes > 2 and found[0] >= 0 and found[-1] <= 1:
        raise InputError(
            f"{name} holds {num_nodes} zeros and ones of {nodes.dtype}, one per node: it looks like a mask, but would "
            "be read as indices. Use mask.bool()."
        )
    if found[0] < 0 or found[-1] >= num_nodes:
        wrong = int(found[0] if found[0] < 0 else found[-1])
        raise InputError(f"{name} must be nodes from 0 to {num_nodes - 1}; {wrong} is not.")
    return found


def read_labels(labels: Any, num_nodes: int, *, name: str) -> Tensor:
    """Return the labels of all nodes, (N,) int64; a negative value marks an unlabelled node.

    Args:
        labels: (N,) integers.
        num_nodes: N, the number of nodes.
        name: The caller's name for the argument, used in messages.
    """
    read: Tensor = torch.as_tensor(labels)
    if read.shape != (num_nodes,) or read.is_floating_point():
        raise InputError(f"{name} must be ({num_nodes},) integers, not {tuple(read.shape)} {read.dtype}.")
    return read.long()


def read_targets(data: object, targets: Any, labels: Any, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the target nodes, (M,) int64 ascending, and the labels of all nodes, (N,) int64.

    Args:
        data: The graph. A `Data` provides the defaults.
        targets: See `read_nodes`. Default: `data.test_mask`.
        labels: See `read_labels`. Default: `data.y`.
        num_nodes: N, the number of nodes.

    Raises:
        InputError: If one of them is missing or malformed, or if a target has no label.
    """
    stored = data if isinstance(data, Data) else Data()
    if labels is None and stored.y is None:
        raise InputError("labels are missing, as data.y is missing: pass (N,) integers, or a Data with y.")
    if targets is None and "test_mask" not in stored:
        raise InputError("targets are missing, as data has no test_mask: pass the target nodes as targets=...")
    chosen = (
        read_nodes(stored.test_mask, num_nodes, name="data.test_mask")
        if targets is None
        else read_nodes(targets, num_nodes, name="targets")
    )
    known = (
        read_labels(stored.y, num_nodes, name="data.y")
        if labels is None
        else read_labels(labels, num_nodes, name="labels")
    )
    chosen = chosen.to(known.device)
    if int(known[chosen].min()) < 0:
        raise InputError("Some targets have a negative label, that is, no label: leave them out of the targets.")
    return chosen, known
