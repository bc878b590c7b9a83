"""GPR-GAE, the purifier of the paper: a generalized PageRank graph auto-encoder."""

from purigraph.purifiers.gpr_gae.fit_settings import FitReport, FitSettings
from purigraph.purifiers.gpr_gae.model import GPRGAE
from purigraph.purifiers.gpr_gae.purification import Purification

__all__ = ["GPRGAE", "FitReport", "FitSettings", "Purification"]
