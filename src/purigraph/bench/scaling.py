"""How the time of one purification step scales with the number of edges and the purifier's dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from purigraph.bench.measure import by_turns, child_memory, floor_seconds
from purigraph.bench.workloads import PurifyStep

FEATURES = 128


@dataclass(frozen=True)
class Growth:
    """One purification step at one size: seconds, nanoseconds per edge, the multiple of the floor, peak memory."""

    num_nodes: int
    num_edges: int
    hops: int
    node_channels: int
    edge_channels: int
    seconds: float
    ns_per_edge: float
    floor_multiple: float | None
    mb: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the measurement as JSON values."""
        return asdict(self)


def growth_with_edges(edges: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)) -> Iterator[Growth]:
    """Measure one step on graphs with 10 edges per node."""
    for num_edges in edges:
        yield _one(num_edges // 10, num_edges, memory=True)


def growth_with_shape(num_nodes: int = 2708, num_edges: int = 5278) -> Iterator[Growth]:
    """Measure one step at Cora's size for other values of K, Z1 and Z2."""
    shapes = [(2, 128, 512), (7, 128, 512), (12, 128, 512), (7, 64, 512), (7, 256, 512), (7, 128, 256), (7, 128, 1024)]
    for hops, node_channels, edge_channels in shapes:
        yield _one(
            num_nodes, num_edges, hops=hops, node_channels=node_channels, edge_channels=edge_channels, memory=False
        )


def _one(
    num_nodes: int,
    num_edges: int,
    *,
    hops: int = 7,
    node_channels: int = 128,
    edge_channels: int = 512,
    memory: bool,
) -> Growth:
    size = {"num_nodes": num_nodes, "num_edges": num_edges, "num_features": FEATURES}
    shape = {"hops": hops, "node_channels": node_channels, "edge_channels": edge_channels}
    work = PurifyStep(**size, **shape)
    seconds = by_turns({"ours": work.ours}, rounds=5 if num_edges <= 10**6 else 1)["ours"]
    del work
    standard = (hops + 1) * node_channels == 1024 and edge_channels == 512
    floor = floor_seconds(num_nodes) if standard else None
    return Growth(
        num_nodes,
        num_edges,
        hops,
        node_channels,
        edge_channels,
        seconds,
        1e9 * seconds / num_edges,
        None if floor is None else seconds / floor,
        child_memory("purify_step", "ours", **size) if memory else None,
    )
