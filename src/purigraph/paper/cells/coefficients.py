"""The coefficients of GPR-GAE's filters after training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purigraph.errors import InputError
from purigraph.paper.cells.base import CellConfig
from purigraph.paper.models import fitted_purifier
from purigraph.paper.specs import PurifierSpec
from purigraph.purifiers import GPRGAE
from purigraph.runs import Context


class Config(CellConfig):
    """A GPR-GAE."""

    purifier: PurifierSpec


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    r"""Return $\gamma_{k,m}$ of filter k and hop m, by "k,m", for all filters but the first, which is fixed.

    As in the paper, signs are turned so that the last coefficient of every filter is positive.
    """
    chosen = Config(**config)
    purifier = fitted_purifier(chosen.purifier, chosen.scene(context))[0]
    if not isinstance(purifier, GPRGAE) or purifier.links is None or purifier.links.encoder != "gpr":
        raise InputError("Only a gpr-gae with filters has coefficients.")
    gamma = purifier.links.gamma().detach()
    return {
        "values": {
            f"{k},{m}": float(gamma[k, m]) * (-1 if gamma[k, k] < 0 else 1)
            for k in range(1, len(gamma))
            for m in range(k + 1)
        }
    }
