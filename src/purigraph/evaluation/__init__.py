"""Evaluation of defences: robust accuracy, the worst case, edge detection, convergence."""

from purigraph.evaluation.affected import affected_nodes, unaffected_share, unaffected_shares
from purigraph.evaluation.convergence import Convergence, convergence, lipschitz_constant
from purigraph.evaluation.edge_detection import EdgeDetection, edge_detection
from purigraph.evaluation.ensemble import Member, focused_ensemble, hour_ensemble, thorough_ensemble
from purigraph.evaluation.feature_flips import flip_features
from purigraph.evaluation.predictions import as_attacks_see_it, model_accuracy, predict
from purigraph.evaluation.reliability import find_doubts
from purigraph.evaluation.robust_accuracy import Evaluation, evaluate
from purigraph.evaluation.trials import Record
from purigraph.evaluation.worst import WorstCase, worst_case
from purigraph.evaluation.yardsticks import Yardsticks, measure_yardsticks

__all__ = [
    "Convergence",
    "EdgeDetection",
    "Evaluation",
    "Member",
    "Record",
    "WorstCase",
    "Yardsticks",
    "affected_nodes",
    "as_attacks_see_it",
    "convergence",
    "edge_detection",
    "evaluate",
    "find_doubts",
    "flip_features",
    "focused_ensemble",
    "hour_ensemble",
    "lipschitz_constant",
    "measure_yardsticks",
    "model_accuracy",
    "predict",
    "thorough_ensemble",
    "unaffected_share",
    "unaffected_shares",
    "worst_case",
]
