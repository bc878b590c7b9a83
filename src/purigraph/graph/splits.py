"""Splits: the nodes for training, validation and testing, and the graph that each phase may see.

The protocol is that of the paper: a few labelled nodes per class and a stratified share of test nodes; all other nodes
are unlabelled training nodes. It is inductive: training never sees a validation or test node, and validation never
sees a test node.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import GraphError, InputError
from purigraph.graph.border import count_nodes
from purigraph.graph.edge_structure import check_range
from purigraph.graph.edge_weights import check_weight_form
from purigraph.graph.nodes import read_labels, read_mask
from purigraph.graph.sparse_features import select_rows
from purigraph.numbers import is_real, read_integer, read_seed

MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True)
class InductiveSplit:
    """The three nested graphs of an inductive split, each an induced subgraph of the whole graph.

    Every graph has `n_id` (M,) int64, ascending (its node k is node `n_id[k]` of the whole graph), and the three masks
    (M,), restricted to its nodes.

    Attributes:
        train: The nodes that are neither validation nor test nodes: labelled (`train_mask`) and unlabelled.
        validation: The training nodes and the validation nodes.
        test: All nodes.
    """

    train: Data
    validation: Data
    test: Data


def attach_split(
    data: Data,
    *,
    seed: int,
    train_per_class: int = 20,
    val_per_class: int = 20,
    test_share: float = 0.1,
) -> Data:
    r"""Return a copy of `data` with boolean `train_mask`, `val_mask` and `test_mask`, each (N,), sampled per class.

    Of a class with n nodes, `train_per_class` are for training, `val_per_class` for validation and
    $\lceil \mathrm{test\_share} \cdot n \rceil$ for testing. The rest, and all nodes with a negative label, are
    unlabelled training nodes and in none of the masks. Tensors are shared with `data`, which is not modified.

    Args:
        data: A graph with integer labels `y` (N,).
        seed: The random seed of the split; global random state is neither read nor changed.
        train_per_class: The number of labelled training nodes per class. Default: 20.
        val_per_class: The number of validation nodes per class. Default: 20.
        test_share: The share of each class used for testing, rounded up to whole nodes. Default: 0.1.

    Raises:
        InputError: If an argument is out of range.
        GraphError: If labels are missing or a class has too few nodes; the message names the class.
    """
    train_per_class = read_integer(train_per_class, name="train_per_class")
    val_per_class = read_integer(val_per_class, name="val_per_class")
    if not is_real(test_share) or not 0 <= test_share < 1:
        raise InputError(f"test_share must be in [0, 1), not {test_share!r}.")
    labels = _labels(data)
    rng = np.random.default_rng(read_seed(seed))
    masks = {name: np.zeros(len(labels), dtype=bool) for name in MASKS}
    for label in np.unique(labels[labels >= 0]):
        members = rng.permutation(np.flatnonzero(labels == label))
        # 0.07 * 100 is 7.000000000000001 in floating point, and must not become 8.
        num_test = math.ceil(test_share * len(members) - 1e-9)
        needed = train_per_class + val_per_class + num_test
        if len(members) < needed:
            raise GraphError(
                f"class {label} has {len(members)} nodes, but the split needs {needed}: {train_per_class} "
                f"for training, {val_per_class} for validation and {num_test} for testing. Lower "
                f"train_per_class or val_per_class, or give this class's nodes the label -1 (unlabelled)."
            )
        ends = np.cumsum([train_per_class, val_per_class, num_test])
        for name, chosen in zip(MASKS, np.split(members, ends)[:3], strict=True):
            masks[name][chosen] = True
    out = copy.copy(data)
    for name, mask in masks.items():
        out[name] = torch.from_numpy(mask).to(torch.as_tensor(data.y).device)
    return out


def inductive_split(data: Data, *, split: int = 0) -> InductiveSplit:
    """Return the three graphs that training, validation and testing may use.

    Edges keep their order and weights; graph-level attributes are copied.

    Args:
        data: A graph with boolean masks `train_mask`, `val_mask`, `test_mask`: (N,), or (N, S) for S splits.
        split: The index of the split, from 0 to S - 1. Default: 0.

    Raises:
        GraphError: If a mask is missing, has the wrong shape or type, or shares a node with another mask.
        InputError: If there is no such split.
    """
    _check(data)
    train, validation, test = (_mask(data, name, split) for name in MASKS)
    for left, right, both in (
        ("train_mask", "val_mask", train & validation),
        ("train_mask", "test_mask", train & test),
        ("val_mask", "test_mask", validation & test),
    ):
        if both.any():
            raise GraphError(
                f"{left} and {right} share {int(both.sum())} nodes, the first is node "
                f"{int(both.nonzero()[0])}: each node can be in only one mask."
            )
    whole = copy.copy(data)
    for name, mask in zip(MASKS, (train, validation, test), strict=True):
        whole[name] = mask
    return InductiveSplit(
        train=induced_part(whole, ~(validation | test)),
        validation=induced_part(whole, ~test),
        test=induced_part(whole, torch.ones_like(test)),
    )


def choose_split(data: Data, split: int) -> Data:
    """Return a copy of `data` whose masks (N,) are column `split` of its (N, S) masks."""
    out = copy.copy(data)
    for name in MASKS:
        out[name] = _mask(data, name, split)
    return out


def _check(data: Data) -> None:
    """Refuse edges and features of which no part could be taken."""
    num_nodes = count_nodes(data)
    check_range(data.edge_index, num_nodes)
    if "edge_weight" in data and data.edge_weight is not None:
        check_weight_form(data.edge_weight, data.edge_index.shape[1])
    if isinstance(data.x, Tensor) and data.x.layout not in (torch.strided, torch.sparse_coo, torch.sparse_csr):
        raise GraphError(f"data.x must be dense or sparse by rows, not {data.x.layout}: use data.x.to_sparse_csr().")
    if data.x is not None and not (isinstance(data.x, Tensor) and data.x.shape[:1] == (num_nodes,)):
        found = tuple(data.x.shape) if isinstance(data.x, Tensor) else f"a {type(data.x).__name__}"
        raise GraphError(f"data.x must be a tensor with one row per node, ({num_nodes}, F), not {found}.")


def _labels(data: Data) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if "y" not in data:
        raise GraphError("A stratified split needs labels: data.y is missing.")
    labels: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        read_labels(data.y, count_nodes(data), name="data.y").cpu().numpy()
    )
    return labels


def _mask(data: Data, name: str, split: int) -> Tensor:
    if name not in data:
        raise GraphError(
            f"data.{name} is missing: create a split with purigraph.graph.attach_split(data, seed=0), or set "
            f"{', '.join(MASKS)} yourself."
        )
    return read_mask(data[name], count_nodes(data), name=f"data.{name}", split=split)


def induced_part(data: Data, keep: Tensor) -> Data:
    """Return the induced subgraph on the nodes of the mask `keep` (N,), in their original order, with their masks."""
    nodes = keep.nonzero().squeeze(1)
    position = torch.full_like(keep, -1, dtype=torch.int64)
    position[nodes] = torch.arange(len(nodes), device=keep.device)
    ends = position[data.edge_index.long()]  # bytes would be taken for a mask
    inside = (ends >= 0).all(0)
    out = copy.copy(data)
    for key, value in data.to_dict().items():
        if key == "edge_index":
            out[key] = ends[:, inside]
        elif data.is_edge_attr(key):
            out[key] = value[inside]
        elif data.is_node_attr(key):
            out[key] = _rows(value, nodes)
    if "num_nodes" in data:
        out.num_nodes = len(nodes)
    out.n_id = nodes
    return out


def _rows(value: Any, nodes: Tensor) -> Any:
    """Return the entries (M, ...) of some nodes, of a tensor, an array or a list with one entry per node."""
    if isinstance(value, Tensor):
        return select_rows(value, nodes)
    chosen = nodes.tolist()
    return value[chosen] if isinstance(value, np.ndarray) else [value[node] for node in chosen]
