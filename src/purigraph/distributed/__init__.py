"""One graph over many processes or machines, for graphs that one machine can't hold.

The graph is split by rows: every rank holds the edges of its own nodes and what is computed for them, and the ranks
exchange what their edges need, on `torch.distributed`. `purify` starts the ranks, by `torchrun` or on Ray, and gives
the weights that one process would give; `fit` trains a purifier. See docs/distributed.md.
"""

from purigraph.distributed.cost import StepCost, step_cost
from purigraph.distributed.engines import engines
from purigraph.distributed.fit import fit, read_curve
from purigraph.distributed.generate import generate_parts
from purigraph.distributed.group import Group, joined
from purigraph.distributed.parts import GraphParts, describe_parts
from purigraph.distributed.parts_writer import PartsWriter, write_parts
from purigraph.distributed.purification import RankReport, purify_rank
from purigraph.distributed.purify import PurifiedParts, purify
from purigraph.distributed.ranks import Ranks
from purigraph.distributed.run_folder import RunFolder, read_purified
from purigraph.distributed.subgraphs import BatchSettings
from purigraph.distributed.training import fit_rank

__all__ = [
    "BatchSettings",
    "GraphParts",
    "Group",
    "PartsWriter",
    "PurifiedParts",
    "RankReport",
    "Ranks",
    "RunFolder",
    "StepCost",
    "describe_parts",
    "engines",
    "fit",
    "fit_rank",
    "generate_parts",
    "joined",
    "purify",
    "purify_rank",
    "read_curve",
    "read_purified",
    "step_cost",
    "write_parts",
]
