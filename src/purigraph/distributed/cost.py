r"""What a purification step costs a rank: the formulae of docs/distributed.md, to plan a run and to check one.

With $n$ own nodes, $M$ own entries, $h$ halo nodes, $s$ rows and $x$ entries sent to others, chunks of $c$ columns and
numbers of $b$ bytes:

$$\text{bytes sent} = b\,[\,s\,(K Z_1 + Z_2 + 1) + x\,]$$
$$\text{memory} \approx b\,[\,n\,(2 Z_2 + Z_1 + (K+1)\,c) + (n + h + s)\,c + 5 M\,] + 4\,[\,2 M + x\,]$$
"""

from __future__ import annotations

from dataclasses import dataclass

from purigraph.distributed.purification import CHUNK, RankReport
from purigraph.purifiers import GPRGAE


@dataclass(frozen=True)
class StepCost:
    """What one step costs one rank.

    Attributes:
        sent_bytes: What it sends to others.
        memory_bytes: What it holds at most, without the process itself and its libraries.
        multiplications: Of numbers, about.
    """

    sent_bytes: int
    memory_bytes: int
    multiplications: int


def step_cost(purifier: GPRGAE, rank: RankReport, *, chunk: int = CHUNK, number_bytes: int = 4) -> StepCost:
    """Return what a step costs a rank that holds what a report (or a plan) says."""
    filters, z1, z2 = purifier.hops + 1, purifier.node_channels, purifier.edge_channels
    hops, kept = purifier.hops, min(chunk, z1)
    if purifier.encoder == "gcn":
        filters, hops, kept = 1, 2, min(chunk, z1)
    wide = min(chunk, max(z1, z2))
    sent = number_bytes * (rank.sent_rows * (hops * z1 + z2 + 1) + rank.cut_entries)
    nodes = rank.nodes * (2 * z2 + z1 + (hops + 1) * kept)
    exchanged = (rank.nodes + rank.halo + rank.sent_rows) * wide
    memory = number_bytes * (nodes + exchanged + 5 * rank.entries) + 4 * (2 * rank.entries + rank.cut_entries)
    work = rank.nodes * filters * z1 * 2 * z2 + rank.entries * (hops * z1 + z2)
    return StepCost(sent, memory, work)
