"""The numerical core: reference and fast versions, forward and backward, on tensors and sparsity patterns."""

from purigraph.kernels.csr import Pattern, SymmetricPattern
from purigraph.kernels.edge_scores import edge_scores
from purigraph.kernels.features import Features
from purigraph.kernels.hops import all_hops
from purigraph.kernels.node_codes import node_codes
from purigraph.kernels.propagation import propagate

__all__ = ["Features", "Pattern", "SymmetricPattern", "all_hops", "edge_scores", "node_codes", "propagate"]
