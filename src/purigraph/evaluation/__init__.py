"""Evaluation of defences: robust accuracy, the worst case, edge detection, convergence."""

from purigraph.evaluation.affected import affected_nodes, unaffected_share, unaffected_shares
from purigraph.evaluation.convergence import Convergence, convergence, lipschitz_constant
from purigraph.evaluation.edge_detection import EdgeDetection, edge_detection
from purigraph.evaluation.ensemble import Member, WorstCase, default_ensemble, worst_case
from purigraph.evaluation.robust_accuracy import (
    Evaluation,
    Record,
    as_attacks_see_it,
    evaluate,
    model_accuracy,
    predict,
)

__all__ = [
    "Convergence",
    "EdgeDetection",
    "Evaluation",
    "Member",
    "Record",
    "WorstCase",
    "affected_nodes",
    "as_attacks_see_it",
    "convergence",
    "default_ensemble",
    "edge_detection",
    "evaluate",
    "lipschitz_constant",
    "model_accuracy",
    "predict",
    "unaffected_share",
    "unaffected_shares",
    "worst_case",
]
