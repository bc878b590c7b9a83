"""The numerical core: reference versions and fast ones, forward and backward."""

from purigraph.kernels.edge_scores import edge_scores
from purigraph.kernels.features import Features
from purigraph.kernels.node_codes import node_codes
from purigraph.kernels.propagate import propagate

__all__ = ["Features", "edge_scores", "node_codes", "propagate"]
