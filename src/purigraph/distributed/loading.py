"""From edges in files to the rows that a rank holds: every rank reads a share and sends each end to its owner."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.distributed.group import Group
from purigraph.distributed.partition import balanced_ranges, count_entries
from purigraph.distributed.parts import GraphParts
from purigraph.distributed.row_block import RowBlock, build_row_block
from purigraph.errors import GraphError
from purigraph.graph.pair_codes import MOST_NODES
from purigraph.kernels.csr import counting_order


@dataclass(frozen=True)
class LoadedRows:
    """The rows of one rank with the weights of the files.

    Attributes:
        block: The rows.
        weight: (M,) float32, the weight of every entry.
        upper: The number of pairs (i, j), i < j, that every rank owns through i.
    """

    block: RowBlock
    weight: Tensor
    upper: list[int]

    @property
    def num_pairs(self) -> int:
        """Return E, the number of undirected edges of the whole graph."""
        return sum(self.upper)


def load_rows(parts: GraphParts, group: Group) -> LoadedRows:
    """Read a graph; all ranks call this together, and each gets its own rows.

    Raises:
        GraphError: If an edge is listed more than once, or only some edges in both directions.
    """
    if 2 * parts.num_nodes > MOST_NODES:
        raise GraphError(f"{parts.folder} has {parts.num_nodes} nodes: there can be at most {MOST_NODES // 2}.")
    source, target, weight = _read_share(parts, group)
    entries = group.total(count_entries(source, target, parts.num_nodes).to(group.device)).cpu()
    bounds = balanced_ranges(entries, parts.num_nodes, group.size)
    keys, weight = _send_to_owners(source, target, weight, bounds, parts.num_nodes, group)
    del source, target
    codes, weight = _unique(keys, weight, bounds[group.rank], parts, group)
    del keys
    row = torch.div(codes, parts.num_nodes, rounding_mode="floor")
    column = codes - row * parts.num_nodes
    del codes
    upper = group.gather((row + bounds[group.rank] < column).sum().to(group.device)).tolist()
    block = build_row_block(row, column, bounds, group)
    return LoadedRows(block, weight, upper)


def _read_share(parts: GraphParts, group: Group) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the ends and weights of this rank's share of the files, the ends as small as they can be."""
    dtype = torch.int32 if parts.num_nodes <= torch.iinfo(torch.int32).max else torch.int64
    batches = [
        (batch.source.to(dtype), batch.target.to(dtype), batch.weight)
        for batch in parts.edge_batches(group.rank, group.size)
    ]
    empty = torch.empty(0, dtype=dtype)
    source = torch.cat([empty, *(batch[0] for batch in batches)])
    target = torch.cat([empty, *(batch[1] for batch in batches)])
    if not parts.weighted:
        return source, target, None
    return source, target, torch.cat([torch.empty(0), *(batch[2] for batch in batches if batch[2] is not None)])


def _send_to_owners(
    source: Tensor, target: Tensor, weight: Tensor | None, bounds: list[int], num_nodes: int, group: Group
) -> tuple[Tensor, Tensor | None]:
    """Return the keys and weights of the entries in the own rows, in any order.

    The key of entry (i, j) is 2 (i' N + j) for an edge listed as (i, j) and one more for one listed as (j, i), where i'
    counts from the owner's first node: sorted keys are sorted entries, with repetitions next to each other.
    """
    inner = torch.tensor(bounds[1:-1], dtype=source.dtype)
    starts = torch.tensor(bounds[:-1])
    received, weights = [], []
    for listed, (row, column) in enumerate(((source, target), (target, source))):
        owner = torch.bucketize(row, inner, right=True, out_int32=True)
        pointers, order = counting_order(owner, group.size)
        counts = pointers.diff().tolist()
        keys = row.index_select(0, order).long()
        keys -= torch.repeat_interleave(starts, torch.tensor(counts))
        keys.mul_(num_nodes).add_(column.index_select(0, order)).mul_(2).add_(listed)
        received.append(group.exchange_unknown(keys.to(group.device), counts)[0].cpu())
        if weight is not None:
            values = weight.index_select(0, order).to(group.device)
            weights.append(group.exchange_unknown(values, counts)[0].cpu())
    return torch.cat(received), torch.cat(weights) if weight is not None else None


def _unique(keys: Tensor, weight: Tensor | None, start: int, parts: GraphParts, group: Group) -> tuple[Tensor, Tensor]:
    """Return the sorted codes i' N + j of the entries, each once, and their weights; check how they were listed."""
    if weight is None:
        keys = keys.sort().values
    else:
        keys, order = keys.sort()
        weight = weight.index_select(0, order)
    _refuse(keys[1:] == keys[:-1], keys, start, parts, "is listed more than once in the same direction: remove those")
    codes = keys >> 1
    again = torch.zeros(len(codes), dtype=torch.bool)
    again[1:] = codes[1:] == codes[:-1]
    twice, whole = group.total(torch.tensor([int(again.sum()), len(codes)], device=group.device)).tolist()
    if twice == 0:
        return codes, torch.ones(len(codes)) if weight is None else weight
    if 2 * twice != whole:
        once = torch.ones(len(codes), dtype=torch.bool)
        once[again] = False
        once[:-1] &= ~again[1:]
        _refuse(once, keys, start, parts, "has no reverse edge, but others do: list every edge once, or all in both")
        raise GraphError(f"{parts.folder}: some edges are listed in both directions, others only in one.")
    if weight is None:
        codes = codes[~again]
        return codes, torch.ones(len(codes))
    first, second = weight[~again], weight[again]
    mean = (first + second) / 2
    apart = (first - second).abs() > 2e-5 * mean + 2e-8
    _refuse(apart, keys[~again], start, parts, "has two different weights, one in each direction")
    return codes[~again], mean


def _refuse(wrong: Tensor, keys: Tensor, start: int, parts: GraphParts, what: str) -> None:
    if wrong.any():
        code = int(keys[int(wrong.nonzero()[0])]) >> 1
        pair = sorted([code // parts.num_nodes + start, code % parts.num_nodes])
        raise GraphError(f"{parts.folder}: edge {pair} {what}.")
