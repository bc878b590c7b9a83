"""Reading and checking the nodes, masks and labels that callers pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import GraphError, InputError
from purigraph.numbers import read_integer


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
    nodes = _as_tensor(nodes, name, "integer node indices or a bool mask")
    if nodes.dtype == torch.bool:
        if nodes.shape != (num_nodes,):
            several = nodes.dim() == 2 and nodes.shape[0] == num_nodes
            raise InputError(
                f"{name} is a mask of shape {tuple(nodes.shape)}; it must be ({num_nodes},), one entry per node."
                + (f" Choose one of its {nodes.shape[1]} splits: mask[:, 0]." if several else "")
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


def read_mask(mask: Any, num_nodes: int, *, name: str, split: int | None = None) -> Tensor:
    """Return the mask of one split, (N,) bool; it may be empty.

    Args:
        mask: (N,) bool, or (N, S) for S splits.
        num_nodes: N, the number of nodes.
        name: The caller's name for the mask, used in messages.
        split: The index of the split, from 0 to S - 1. Default: there must be only one.

    Raises:
        GraphError: If it is not such a mask.
        InputError: If there is no such split.
    """
    read = _as_tensor(mask, name, "a bool mask")
    if read.dtype != torch.bool or read.dim() not in (1, 2) or read.shape[0] != num_nodes:
        zeros_and_ones = read.numel() > 0 and not read.is_complex() and bool(((read == 0) | (read == 1)).all())
        advice = " Use mask.bool()." if read.dtype != torch.bool and zeros_and_ones else ""
        raise GraphError(
            f"{name} must be boolean with one entry per node, shape ({num_nodes},) or "
            f"({num_nodes}, number of splits); it is {tuple(read.shape)} {read.dtype}.{advice}"
        )
    if read.dim() == 1:
        if split not in (None, 0):
            raise InputError(f"split must be in 0..0 for {name}, not {split}.")
        return read
    if split is None:
        raise GraphError(
            f"{name} has {read.shape[1]} splits, but one is needed: choose one, for example with "
            "purigraph.graph.splits.choose_split(data, 0)."
        )
    number = read_integer(split, name="split", least=-(2**63))
    if not 0 <= number < read.shape[1]:
        raise InputError(f"split must be in 0..{read.shape[1] - 1} for {name}, not {split}.")
    return read[:, number]


def read_labels(labels: Any, num_nodes: int, *, name: str) -> Tensor:
    """Return the labels of all nodes, (N,) int64; a negative value marks an unlabelled node.

    Args:
        labels: (N,) integers.
        num_nodes: N, the number of nodes.
        name: The caller's name for the argument, used in messages.

    Raises:
        GraphError: If it is not such a tensor; the message says how to convert it.
    """
    read = _as_tensor(labels, name, f"({num_nodes},) integers")
    if read.shape == (num_nodes,) and not read.is_floating_point() and not read.is_complex():
        return read.long()
    advice = ""
    if read.dim() == 2 and read.shape[0] == num_nodes:
        advice = f" Use {name}.squeeze(1)." if read.shape[1] == 1 else f" If it is one-hot, use {name}.argmax(1)."
    elif read.shape == (num_nodes,) and read.is_floating_point():
        advice = f" Use {name}.long()."
    raise GraphError(
        f"{name} must be ({num_nodes},) integers, one integer label per node; it is {tuple(read.shape)} "
        f"{read.dtype}.{advice}"
    )


def require_labels(labels: Tensor, nodes: Tensor, *, name: str) -> None:
    """Raise `InputError` if one of the nodes (M,) has a negative label, that is, no label."""
    missing = nodes[labels[nodes] < 0]
    if len(missing):
        raise InputError(
            f"{len(missing)} nodes of {name} have a negative label, that is, no label; the first is node "
            f"{int(missing[0])}. Leave them out of {name}."
        )


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
    if targets is None:
        targets = read_mask(stored.test_mask, num_nodes, name="data.test_mask")
        chosen = read_nodes(targets, num_nodes, name="data.test_mask")
        source = "data.test_mask"
    else:
        chosen, source = read_nodes(targets, num_nodes, name="targets"), "targets"
    known = (
        read_labels(stored.y, num_nodes, name="data.y")
        if labels is None
        else read_labels(labels, num_nodes, name="labels")
    )
    chosen = chosen.to(known.device)
    require_labels(known, chosen, name=source)
    return chosen, known


def _as_tensor(value: Any, name: str, expected: str) -> Tensor:
    try:
        read: Tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{name} must be {expected}, not a {type(value).__name__}.") from None
    return read.detach()
