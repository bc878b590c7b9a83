"""GOOD-AT: an ensemble of detectors of adversarial edges, each trained on graphs under attack."""

from purigraph.purifiers.good_at.model import GOODAT
from purigraph.purifiers.good_at.training import AttackedFitSettings

__all__ = ["GOODAT", "AttackedFitSettings"]
