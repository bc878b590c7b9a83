"""The presets of GPR-GAE, and which of them suits a graph.

<<<<<<< HEAD
The shape of `fast` was chosen by `purigraph paper run purifier-shapes` on validation edges of Cora, and its number of
epochs so that a graph of 34,000 nodes and 250,000 edges takes less than ten minutes on two cores.
=======
The shape of `fast` was chosen by `studies/purifier_shapes.py` on validation edges of Cora, and its number of epochs to
keep a graph of 34,000 nodes and 250,000 edges under ten minutes on two cores: an estimate from the time per epoch.
>>>>>>> w-i2
"""

from __future__ import annotations

from purigraph.graph import PairGraph
from purigraph.purifiers.preset import Preset

# Cora, 2,708 nodes, takes some ten minutes with the paper's shape and 2,000 epochs; the time grows about linearly.
PAPER_UP_TO_NODES = 5_000
PAPER_UP_TO_EDGES = 50_000

PRESETS = {
    "paper": Preset(
        "The shape and the training of the paper.",
        shape={"hops": 7, "node_channels": 128, "edge_channels": 512},
        training={"epochs": 2000, "learning_rate": 0.01, "validate_every": 3, "patience": None},
    ),
    "fast": Preset(
        "A small shape, trained until validation stops improving.",
        shape={"hops": 3, "node_channels": 64, "edge_channels": 64},
        training={"epochs": 700, "learning_rate": 0.02, "validate_every": 20, "patience": 100},
    ),
}


def preset_for(graph: PairGraph) -> str:
    """Return the name of the preset that trains on a graph in minutes rather than hours.

    >>> import torch
    >>> preset_for(PairGraph(100_000, torch.tensor([[0], [1]])))
    'fast'
    """
    small = graph.num_nodes <= PAPER_UP_TO_NODES and graph.num_pairs <= PAPER_UP_TO_EDGES
    return "paper" if small else "fast"
