"""Perturbations of a graph: the edges that an attacker added and removed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.errors import GraphError, ModelFileError
from purigraph.graph import pair_codes
from purigraph.graph.border import Entries, read_data
from purigraph.graph.pair_graph import PairGraph
from purigraph.tensor_files import read_header, read_tensors, write_tensors

_FORMAT = "purigraph.perturbation/1"
_MOST_NODES = 3_000_000_000


def _no_pairs() -> Tensor:
    return torch.empty((2, 0), dtype=torch.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Perturbation:
    r"""A set of undirected flips $A' = A + \Delta$, $\Delta_{ij} = \Delta_{ji} \in \{-1, 0, 1\}$.

    A perturbation is immutable, lives on the CPU and is equal to any other that flips the same pairs. Pairs may be
    given in any order and direction; they are stored with i < j, sorted, each once.

    Args:
        num_nodes: N, the number of nodes of the graphs that it applies to.
        added: (2, a) integer, the pairs that become edges. Default: none.
        removed: (2, r) integer, the edges that are removed. Default: none.

    Raises:
        GraphError: If there is a self-loop, a node out of range, or a pair that is both added and removed.

    >>> flips = Perturbation(4, added=torch.tensor([[3], [0]]))
    >>> flips, len(flips)
    (Perturbation(num_nodes=4, added=1, removed=0), 1)
    >>> flips.added.tolist()
    [[0], [3]]
    """

    num_nodes: int
    added: Tensor = field(default_factory=_no_pairs)
    removed: Tensor = field(default_factory=_no_pairs)

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_nodes", pair_codes.read_num_nodes(self.num_nodes))
        for name in ("added", "removed"):
            codes = _codes(self.num_nodes, getattr(self, name), name)
            object.__setattr__(self, name, pair_codes.decode(codes, self.num_nodes))
        both = torch.isin(self._added_codes, self._removed_codes)
        if both.any():
            pair = self.added[:, both][:, 0].tolist()
            raise GraphError(f"pair {pair} is both added and removed: a flip is only one of the two.")

    @classmethod
    def of_flips(cls, graph: PairGraph, pairs: Tensor) -> Perturbation:
        """Return the perturbation of `graph` that flips `pairs` (2, m): edges are removed, other pairs are added."""
        codes = _codes(graph.num_nodes, pairs, "pairs")
        is_edge = graph.find(codes.to(graph.device)).cpu() >= 0
        pairs = pair_codes.decode(codes, graph.num_nodes)
        return cls(graph.num_nodes, added=pairs[:, ~is_edge], removed=pairs[:, is_edge])

    @classmethod
    def between(cls, before: PairGraph | Data, after: PairGraph | Data) -> Perturbation:
        """Return the perturbation that turns the edges of `before` into those of `after`; weights are ignored."""
        old, new = _read(before), _read(after)
        if old.num_nodes != new.num_nodes:
            raise GraphError(
                f"The graphs have {old.num_nodes} and {new.num_nodes} nodes: a perturbation changes edges only."
            )
        added = new.pairs[:, old.find(new.codes) < 0]
        removed = old.pairs[:, new.find(old.codes) < 0]
        return cls(old.num_nodes, added=added, removed=removed)

    def flips(self) -> Tensor:
        """Return all flipped pairs, (2, a + r) int64, sorted."""
        codes, _, _ = pair_codes.merge(self._added_codes, self._removed_codes)
        return pair_codes.decode(codes, self.num_nodes)

    def degree(self) -> Tensor:
        """Return the number of flips at every node, (N,) int64."""
        return torch.bincount(self.flips().flatten(), minlength=self.num_nodes)

    def invert(self) -> Perturbation:
        """Return the perturbation that undoes this one (restored edges have weight 1)."""
        return Perturbation(self.num_nodes, added=self.removed, removed=self.added)

    def check(self, graph: PairGraph) -> None:
        """Raise `GraphError` unless no added pair is an edge of `graph` and every removed one is."""
        if graph.num_nodes != self.num_nodes:
            raise GraphError(f"This perturbation is for {self.num_nodes} nodes, but the graph has {graph.num_nodes}.")
        there = graph.find(self._added_codes.to(graph.device)) >= 0
        if there.any():
            pair = self.added[:, there.cpu()][:, 0].tolist()
            raise GraphError(f"pair {pair} can't be added: it is an edge already ({int(there.sum())} such pairs).")
        missing = graph.find(self._removed_codes.to(graph.device)) < 0
        if missing.any():
            pair = self.removed[:, missing.cpu()][:, 0].tolist()
            raise GraphError(f"pair {pair} can't be removed: it is not an edge ({int(missing.sum())} such pairs).")

    @overload
    def apply(self, graph: PairGraph) -> PairGraph: ...

    @overload
    def apply(self, graph: Data) -> Data: ...

    def apply(self, graph: PairGraph | Data) -> PairGraph | Data:
        """Return a new graph with the flips applied; added edges have weight 1, other edges keep their weights.

        A `Data` keeps its edge order, dtype, self-loops and attributes; added edges come last, in both directions if
        the other edges are.

        Raises:
            GraphError: If an added pair is already an edge, a removed pair is not an edge, or edges are added to a
                `Data` with edge attributes other than `edge_weight` (their values for new edges are unknown).
        """
        if isinstance(graph, Data):
            return self._apply_to_data(graph)
        self.check(graph)
        device = graph.device
        keep = torch.ones(graph.num_pairs, dtype=torch.bool, device=device)
        keep[graph.find(self._removed_codes.to(device))] = False
        codes, at_kept, _ = pair_codes.merge(graph.codes[keep], self._added_codes.to(device))
        weight = graph.weight.new_ones(len(codes))
        weight[at_kept] = graph.weight[keep]
        return PairGraph.from_codes(graph.num_nodes, codes, weight)

    def _apply_to_data(self, data: Data) -> Data:
        graph, entries = read_data(data)
        self.check(graph)
        edge_level = [key for key in data.keys() if key != "edge_index" and data.is_edge_attr(key)]  # noqa: SIM118
        unknown = [key for key in edge_level if key != "edge_weight"]
        if unknown and self.added.shape[1]:
            raise GraphError(
                f"Edges can't be added to a Data with the edge attributes {unknown}: "
                "the new edges' values are unknown. Remove these attributes first."
            )
        edge_index = data.edge_index
        assert edge_index is not None  # read_data has checked it
        gone = torch.zeros(graph.num_pairs + 1, dtype=torch.bool, device=edge_index.device)
        gone[graph.find(self._removed_codes.to(graph.device))] = True
        keep = ~gone[entries.pair]  # a self-loop's -1 selects the extra last entry, which is never gone
        added = self.added.to(edge_index)
        if _has_both_directions(graph, entries):
            added = torch.cat([added, added.flip(0)], dim=1)
        out = copy.copy(data)
        out.edge_index = torch.cat([edge_index[:, keep], added], dim=1)
        for key in edge_level:
            value: Any = data[key][keep]
            if key == "edge_weight":
                value = torch.cat([value, value.new_ones(added.shape[1])])
            out[key] = value
        return out

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the contents in hexadecimal digits, the same on every machine."""
        sha = hashlib.sha256(f"{_FORMAT} {self.num_nodes} {self.added.shape[1]} ".encode())
        for pairs in (self.added, self.removed):
            sha.update(pairs.contiguous().numpy().astype("<i8").tobytes())
        return sha.hexdigest()

    def save(self, path: str | Path, metadata: Mapping[str, str] | None = None) -> None:
        """Write a safetensors file with `metadata` (for example, the name of the attack) in its header."""
        header = {
            **(metadata or {}),
            "format": _FORMAT,
            "num_nodes": str(self.num_nodes),
            "sha256": self.digest,
        }
        write_tensors(path, {"added": self.added, "removed": self.removed}, header)

    @classmethod
    def load(cls, path: str | Path) -> Perturbation:
        """Read a file written by `save` (of purigraph 0.1.0 or later) and check that it is complete.

        Raises:
            ModelFileError: If the file is missing, damaged, or was not written by `save`.
        """
        about = read_header(path)
        shapes = {name: one.shape for name, one in about.tensors.items()}
        told = about.metadata.get("num_nodes", "")
        readable = shapes.keys() == {"added", "removed"} and told.isascii() and told.isdecimal()
        if about.metadata.get("format") != _FORMAT or not readable:
            raise ModelFileError(f"{path} is not a perturbation saved by purigraph ({_FORMAT}).")
        # Sizes are compared before anything is allocated. Codes of pairs, up to N^2, are 64-bit integers.
        num_nodes = int(told) if len(told) < 12 else _MOST_NODES + 1
        if num_nodes > _MOST_NODES:
            raise ModelFileError(f"{path} is damaged: it can't be for a graph of {told[:20]} nodes.")
        for name, shape in shapes.items():
            if len(shape) != 2 or shape[0] != 2 or shape[1] > num_nodes * (num_nodes - 1) // 2:
                raise ModelFileError(
                    f"{path} is damaged: {name} has the shape {shape}, which is not that of pairs of {num_nodes} nodes."
                )
        tensors, header = read_tensors(path)
        try:
            loaded = cls(num_nodes, tensors["added"], tensors["removed"])
        except GraphError as error:
            raise ModelFileError(f"{path} is damaged: {error}") from None
        if loaded.digest != header.get("sha256"):
            raise ModelFileError(f"{path} is damaged: its contents do not match the hash stored in it.")
        return loaded

    @cached_property
    def _added_codes(self) -> Tensor:
        return pair_codes.encode(self.added[0], self.added[1], self.num_nodes)

    @cached_property
    def _removed_codes(self) -> Tensor:
        return pair_codes.encode(self.removed[0], self.removed[1], self.num_nodes)

    def __len__(self) -> int:
        return self.added.shape[1] + self.removed.shape[1]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Perturbation)
            and self.num_nodes == other.num_nodes
            and torch.equal(self.added, other.added)
            and torch.equal(self.removed, other.removed)
        )

    def __hash__(self) -> int:
        return int(self.digest[:16], 16)

    def __repr__(self) -> str:
        added, removed = self.added.shape[1], self.removed.shape[1]
        return f"Perturbation(num_nodes={self.num_nodes}, added={added}, removed={removed})"


def _codes(num_nodes: int, pairs: Tensor, name: str) -> Tensor:
    """Return the sorted unique codes of pairs in any order and direction, on the CPU."""
    if not isinstance(pairs, Tensor) or pairs.dim() != 2 or pairs.shape[0] != 2:
        found = tuple(pairs.shape) if isinstance(pairs, Tensor) else type(pairs).__name__
        raise GraphError(f"{name} must be a tensor of shape (2, number of pairs), not {found}.")
    if pairs.layout != torch.strided:
        raise GraphError(
            f"{name} is a sparse tensor ({pairs.layout}): give the pairs themselves, (2, number of pairs)."
        )
    if pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool:
        raise GraphError(f"{name} must hold integers, not {pairs.dtype}.")
    pairs = pairs.detach().cpu().long()
    outside = ((pairs < 0) | (pairs >= num_nodes)).any(0)
    if outside.any():
        pair = pairs[:, outside][:, 0].tolist()
        raise GraphError(f"{name} contains {pair}, but nodes run from 0 to {num_nodes - 1}.")
    loop = pairs[0] == pairs[1]
    if loop.any():
        pair = pairs[:, loop][:, 0].tolist()
        raise GraphError(f"{name} contains the self-loop {pair}: a flip connects or disconnects two different nodes.")
    codes: Tensor = torch.unique(pair_codes.encode(pairs[0], pairs[1], num_nodes))
    return codes


def _read(graph: PairGraph | Data) -> PairGraph:
    return read_data(graph)[0] if isinstance(graph, Data) else graph


def _has_both_directions(graph: PairGraph, entries: Entries) -> bool:
    """Whether a list has every edge in both directions; a list without edges counts as such."""
    return int((entries.pair >= 0).sum()) != graph.num_pairs or graph.num_pairs == 0
