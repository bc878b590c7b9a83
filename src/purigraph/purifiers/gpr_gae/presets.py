"""The presets of GPR-GAE, and which of them suits a graph.

The shapes were compared by `purigraph paper run purifier-shapes` on validation edges of Cora. `fast` does as well as
the paper's there in an eighth of the time; `large` gives up a little more to end in minutes on larger graphs.
"""

from __future__ import annotations

from purigraph.graph import PairGraph
from purigraph.purifiers.preset import Preset

# Cora, 2,708 nodes, takes some ten minutes with the paper's shape and 2,000 epochs; the time grows about linearly.
PAPER_UP_TO_NODES = 5_000
PAPER_UP_TO_EDGES = 50_000
# Up to this size, `fast` takes some ten minutes.
FAST_UP_TO_NODES = 25_000
FAST_UP_TO_EDGES = 150_000

PRESETS = {
    "paper": Preset(
        "The shape and the training of the paper.",
        shape={"hops": 7, "node_channels": 128, "edge_channels": 512},
        training={"epochs": 2000, "learning_rate": 0.01, "validate_every": 3, "patience": None},
    ),
    "fast": Preset(
        "A small shape, trained until validation stops improving.",
        shape={"hops": 3, "node_channels": 64, "edge_channels": 128},
        training={"epochs": 2000, "learning_rate": 0.02, "validate_every": 10, "patience": 200},
    ),
    "large": Preset(
        "A smaller shape, trained for at most 700 epochs.",
        shape={"hops": 3, "node_channels": 64, "edge_channels": 64},
        training={"epochs": 700, "learning_rate": 0.02, "validate_every": 20, "patience": 100},
    ),
}


def preset_for(graph: PairGraph) -> str:
    """Return the name of the preset that trains on a graph in minutes rather than hours.

    >>> import torch
    >>> pair = torch.tensor([[0], [1]])
    >>> [preset_for(PairGraph(nodes, pair)) for nodes in (2_708, 19_717, 34_493)]
    ['paper', 'fast', 'large']
    """
    if graph.num_nodes <= PAPER_UP_TO_NODES and graph.num_pairs <= PAPER_UP_TO_EDGES:
        return "paper"
    if graph.num_nodes <= FAST_UP_TO_NODES and graph.num_pairs <= FAST_UP_TO_EDGES:
        return "fast"
    return "large"
