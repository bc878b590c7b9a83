"""A purification of a few nodes before the real one: the memory that a run reports is then that of its work.

Libraries load code, start threads and take buffers when they are first used: pyarrow when it reads, BLAS when it
multiplies, gloo when it sends. That is tens of megabytes per process, whatever the graph.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from purigraph.distributed.group import Group
from purigraph.distributed.parts_writer import write_parts
from purigraph.distributed.purification import purify_rank
from purigraph.distributed.run_folder import RunFolder
from purigraph.graph import PairGraph
from purigraph.purifiers import GPRGAE

# Large enough for products to take the buffers that large ones take.
_NODES = 512


def rehearse(purifier: GPRGAE, group: Group) -> None:
    """Purify a path of nodes with the purifier in this process, and exchange a number with the other ranks."""
    assert purifier.links is not None, "a fitted purifier has parameters"
    nodes = torch.arange(_NODES)
    path = PairGraph(_NODES, torch.stack([nodes[:-1], nodes[1:]]))
    with TemporaryDirectory(prefix="purigraph-") as folder:
        parts = write_parts(path, Path(folder) / "graph", x=torch.ones(_NODES, purifier.links.in_channels))
        output = Path(folder) / "purified"
        RunFolder(output).begin("rehearsal")
        purify_rank(parts.folder, purifier, output, Group())
    group.gather_rows(torch.zeros(1, device=group.device))
    group.wait()
