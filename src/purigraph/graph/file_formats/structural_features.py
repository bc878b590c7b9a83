"""Features for nodes that have none: random signs by node id, through which a purifier sees the structure alone."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from purigraph.graph.file_formats.node_ids import NodeIds
from purigraph.graph.npz_archive import check_memory

#: The number of structural features.
WIDTH = 256


def structural_features(ids: NodeIds) -> Tensor:
    r"""Return features (N, 256) that say nothing about a node but who it is: a 1, and 255 signs drawn by its id.

    A purifier spreads features along edges: of these, nodes with common neighbours get similar mixtures, and the spread
    1 tells degrees. They do not depend on the edges, so who edits edges can't change them, and a node has the same ones
    in every snapshot, whatever the order of the rows.

    Random features make message passing see structure that it is blind to otherwise: "Random Features Strengthen Graph
    Neural Networks", SDM 2021.

    >>> x = structural_features(NodeIds(["alice", "bob"]))
    >>> x.shape, bool((x == structural_features(NodeIds(["bob", "alice"])).flip(0)).all())
    (torch.Size([2, 256]), True)
    """
    check_memory(8 * WIDTH * len(ids), f"Structural features of {len(ids):,} nodes take", "give features of your own")
    size = WIDTH // 8
    drawn = b"".join(hashlib.blake2b(name.encode("utf-8"), digest_size=size).digest() for name in ids.names())
    bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8)).reshape(len(ids), WIDTH)
    x = torch.from_numpy(bits.astype(np.float32) * 2 - 1)
    if len(x):
        x[:, 0] = 1
    return x
