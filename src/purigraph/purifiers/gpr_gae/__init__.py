"""GPR-GAE, the purifier of the paper: a generalized PageRank graph auto-encoder."""

from purigraph.purifiers.gpr_gae.model import GPRGAE
from purigraph.purifiers.gpr_gae.purification import Purification
from purigraph.purifiers.gpr_gae.training import FitReport, FitSettings

__all__ = ["GPRGAE", "FitReport", "FitSettings", "Purification"]
