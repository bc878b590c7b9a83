r"""The rows of a graph that one rank holds, and how values of other ranks' nodes and edges reach it.

A rank owns the nodes of a contiguous range and, with them, their rows of the symmetric adjacency: an edge within the
range has two entries here, an edge to another rank's node has one here and one there. The columns of the local pattern
are the own nodes, 0 to n-1, followed by the *halo*: the nodes of other ranks that own edges lead to, ascending.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from purigraph.distributed.group import Group
from purigraph.kernels.csr import Pattern, counting_order, row_pointers


@dataclass(frozen=True)
class RowBlock:
    """The rows of one rank.

    Attributes:
        bounds: (ranks + 1,) the ranges of all ranks.
        rank: This rank.
        pattern: n x (n + h); columns ascend within a row by the numbers of the nodes.
        halo: (h,) int64, the nodes of other ranks that the columns from n on stand for, ascending.
        halo_counts: How many of them every rank owns.
        sent: (s,) the own nodes whose rows other ranks need, by rank; a node may be needed by several.
        sent_counts: How many of them every rank needs.
        mirror: (M,) where the value of the entry (j, i) is found for every entry (i, j): below M an own entry, from M
            on a received one.
        cut: (c,) the entries that lead to other ranks, in the order in which those ranks expect their values.
        cut_counts: How many of them lead to every rank; as many come back.
    """

    bounds: list[int]
    rank: int
    pattern: Pattern
    halo: Tensor
    halo_counts: list[int]
    sent: Tensor
    sent_counts: list[int]
    mirror: Tensor
    cut: Tensor
    cut_counts: list[int]

    @property
    def start(self) -> int:
        """Return the first own node."""
        return self.bounds[self.rank]

    @property
    def num_own(self) -> int:
        """Return n, the number of own nodes."""
        return self.pattern.num_rows

    @property
    def num_columns(self) -> int:
        """Return n + h."""
        return self.pattern.num_cols

    @property
    def num_entries(self) -> int:
        """Return M, the number of own entries."""
        return self.pattern.num_entries

    def gather(self, rows: Tensor, out: Tensor, group: Group, needed: Tensor | None = None) -> None:
        """Write the values of all columns to `out` (n + h, Z): own ones from `rows` (n, Z), others from their ranks.

        What is sent is put together in `needed` (s, Z), if it is given.
        """
        out[: self.num_own].copy_(rows)
        if group.size > 1:
            needed = torch.index_select(rows, 0, self.sent, out=needed)
            group.exchange(out[self.num_own :], needed, self.halo_counts, self.sent_counts)

    def mirrored(self, values: Tensor, group: Group) -> Tensor:
        """Return the value of the entry (j, i) for every entry (i, j), given those of the own entries, (M,)."""
        if len(self.cut):
            received = values.new_empty(len(self.cut))
            group.exchange(received, values.index_select(0, self.cut), self.cut_counts, self.cut_counts)
            values = torch.cat([values, received])
        elif group.size > 1:  # all ranks take part, also those that nobody needs
            group.exchange(values.new_empty(0), values.new_empty(0), self.cut_counts, self.cut_counts)
        return values.index_select(0, self.mirror)

    def upper(self) -> Tensor:
        """Return the entries (i, j) with i < j, (E,) int64: together, those of all ranks are all pairs, in order."""
        own = torch.arange(self.start, self.start + self.num_own, device=self.halo.device)
        return (self.rows(own) < self.columns(own)).nonzero().squeeze(1)

    def rows(self, own: Tensor) -> Tensor:
        """Return a value for the row of every entry, (M,), from the values of the own nodes (n,)."""
        return torch.repeat_interleave(own, self.pattern.rowptr.diff(), output_size=self.num_entries)

    def columns(self, own: Tensor, halo: Tensor | None = None) -> Tensor:
        """Return a value for the column of every entry, (M,), from the values of the own nodes and of the halo."""
        return torch.cat([own, self.halo if halo is None else halo]).index_select(0, self.pattern.col)


def build_row_block(row: Tensor, column: Tensor, bounds: list[int], group: Group) -> RowBlock:
    """Build the rows of this rank; all ranks call this together.

    Args:
        row: (M,) int64, the own node of every entry, counted from the first one; ascending.
        column: (M,) int64, the other node, ascending within a row. Both directions of an edge are entries (of their
            ranks).
        bounds: The ranges of all ranks.
        group: The ranks.
    """
    start, stop = bounds[group.rank], bounds[group.rank + 1]
    own = stop - start
    is_own = (column >= start) & (column < stop)
    halo = torch.unique(column[~is_own])
    local = torch.where(is_own, column - start, 0)
    local[~is_own] = own + torch.searchsorted(halo, column[~is_own])
    pattern = Pattern(row_pointers(row, own), local, own + len(halo))
    halo_counts = _per_rank(halo, bounds)
    sent, sent_counts = group.exchange_unknown(halo, halo_counts)
    mirror, cut, cut_counts = _mirror(pattern, own, halo_counts)
    group.bytes_sent = 0  # what follows is counted per step
    small = pattern.col.dtype
    return RowBlock(
        bounds,
        group.rank,
        pattern,
        halo,
        halo_counts,
        (sent - start).to(small),
        sent_counts,
        mirror.to(small),
        cut.to(small),
        cut_counts,
    )


def _per_rank(nodes: Tensor, bounds: list[int]) -> list[int]:
    """Return how many of the ascending nodes are in every range."""
    cuts = torch.searchsorted(nodes, torch.tensor(bounds, dtype=nodes.dtype)).tolist()
    return [end - begin for begin, end in pairwise(cuts)]


def _mirror(pattern: Pattern, own: int, halo_counts: list[int]) -> tuple[Tensor, Tensor, list[int]]:
    """Return `mirror`, `cut` and `cut_counts` of a `RowBlock`.

    Sorted by (column, row), the entries to other ranks are in the order in which those ranks list them, by (row,
    column). So are the entries between own nodes, whose mirrored entry is an own one.
    """
    pointers, by_column = counting_order(pattern.col, pattern.num_cols)
    within = int(pointers[own])
    cut = by_column[within:].clone()
    column_ends = [own]
    for count in halo_counts:
        column_ends.append(column_ends[-1] + count)
    places = pointers[torch.tensor(column_ends)].tolist()
    cut_counts = [end - begin for begin, end in pairwise(places)]
    mirror = torch.empty(pattern.num_entries, dtype=torch.int64)
    inside = (pattern.col < own).nonzero().squeeze(1)
    mirror[inside] = by_column[:within]
    del by_column, inside
    # What is received comes by rank, and from a rank in the order of the own entries that lead to it.
    position = pattern.num_entries
    for (first, last), count in zip(pairwise(column_ends), cut_counts, strict=True):
        if count:
            leading = ((pattern.col >= first) & (pattern.col < last)).nonzero().squeeze(1)
            mirror[leading] = torch.arange(position, position + count)
            position += count
    return mirror, cut, cut_counts
