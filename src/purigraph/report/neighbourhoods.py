"""Pictures of the neighbourhoods of suspicious edges: which nodes and edges, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from purigraph.audit import Audit

SIZE = 300.0
_MARGIN = 26.0
_MOST_NEIGHBOURS = 10
_ROUNDS = 200

Points = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DrawnNode:
    """A node of a picture."""

    name: str
    x: float
    y: float
    is_end: bool


@dataclass(frozen=True)
class DrawnEdge:
    """An edge of a picture, from (x1, y1) to (x2, y2)."""

    x1: float
    y1: float
    x2: float
    y2: float
    weight: float
    suspicious: bool
    main: bool


@dataclass(frozen=True)
class Picture:
    """An edge with the nodes around it.

    Attributes:
        source: One end of the edge.
        target: The other.
        weight: Its weight.
        hidden: How many neighbours are left out.
    """

    source: str
    target: str
    weight: float
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    hidden: int


def pictures(audit: Audit, most: int = 6) -> list[Picture]:
    """Return pictures of the most suspicious edges, no two of the same place."""
    score = audit.evidence.score.cpu()
    ranked = torch.argsort(torch.where(audit.suspicious, score, torch.inf), stable=True)
    order = ranked[: int(audit.suspicious.sum())].tolist()
    seen: set[int] = set()
    found: list[Picture] = []
    pairs = audit.graph.pairs.cpu()
    for edge in order:
        ends = pairs[:, edge].tolist()
        if seen.issuperset(ends):
            continue
        seen.update(ends)
        found.append(_picture(audit, edge))
        if len(found) == most:
            break
    return found


def _picture(audit: Audit, edge: int) -> Picture:
    graph, score = audit.graph, audit.evidence.score.cpu()
    csr = graph.csr
    i, j = (int(node) for node in graph.pairs[:, edge])
    rowptr, col, pair = csr.rowptr, csr.col, csr.pair
    around: dict[int, float] = {}
    for end in (i, j):
        part = slice(int(rowptr[end]), int(rowptr[end + 1]))
        for node, at in zip(col[part].tolist(), pair[part].tolist(), strict=True):
            if node not in (i, j):
                # Common neighbours first, then those of the surest edges.
                around[node] = around.get(node, 0.0) + 1 + float(score[at])
    chosen = sorted(around, key=lambda node: (-around[node], node))[: 2 * _MOST_NEIGHBOURS]
    nodes = [i, j, *chosen]
    position = {node: k for k, node in enumerate(nodes)}
    links: dict[tuple[int, int], int] = {}
    for node in nodes:
        part = slice(int(rowptr[node]), int(rowptr[node + 1]))
        for other, at in zip(col[part].tolist(), pair[part].tolist(), strict=True):
            if other in position and node < other:
                links[position[node], position[other]] = at
    at = layout(len(nodes), list(links)).tolist()
    drawn = [DrawnNode(audit.ids[node], at[k][0], at[k][1], k < 2) for k, node in enumerate(nodes)]
    edges = [
        DrawnEdge(at[a][0], at[a][1], at[b][0], at[b][1], float(score[one]), bool(audit.suspicious[one]), one == edge)
        for (a, b), one in links.items()
    ]
    edges.sort(key=lambda one: (one.main, one.suspicious))
    hidden = len(around) - len(chosen)
    return Picture(audit.ids[i], audit.ids[j], float(score[edge]), drawn, edges, hidden)


def layout(count: int, links: list[tuple[int, int]]) -> Points:
    """Return places (count, 2) in a square: linked nodes near each other, all others apart; always the same.

    Reference: Fruchterman and Reingold, "Graph Drawing by Force-directed Placement", 1991.
    """
    angle = 2 * np.pi * np.arange(count) / max(count, 1)
    # Not quite a circle: on one, forces could cancel each other.
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 + 0.1 * np.cos(3 * angle + 1))[:, None]
    first, second = (np.array([link[k] for link in links], dtype=np.int64) for k in (0, 1))
    ideal = 1.6 / np.sqrt(max(count, 1))
    for turn in range(_ROUNDS):
        apart = at[:, None] - at[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = (apart / distance[..., None] ** 2 * ideal**2).sum(1)
        along = at[first] - at[second]
        pull = along * (np.linalg.norm(along, axis=1, keepdims=True) / ideal)
        np.add.at(force, first, -pull)
        np.add.at(force, second, pull)
        force -= 0.3 * at  # parts without links must not drift away
        length = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        at = at + force / length * np.minimum(length, 0.15 * (1 - turn / _ROUNDS))
    low, high = at.min(0), at.max(0)
    placed: Points = _MARGIN + (at - low) / np.maximum(high - low, 1e-9) * (SIZE - 2 * _MARGIN)
    return placed
