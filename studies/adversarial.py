"""Adversarial training on Cora, seed 0, `cpu` profile: `python studies/adversarial.py`.

Clean accuracy and accuracy under PRBCD for vanilla and adversarially trained GCN and GPRGNN.
"""

from __future__ import annotations

from typing import Any

from common import MODELS, classifier_for, piece, split_of

import purigraph as pg
from purigraph.attacks import paper_settings
from purigraph.training import PROFILES

STUDY = "adversarial"


def measure(classifier: str, regime: str) -> dict[str, Any]:
    settings = PROFILES["cpu"] if regime == "adversarial" else None
    model = classifier_for("cora", classifier, 0, regime, settings)
    attack = {**paper_settings("prbcd", "cora", on_gpr_gae=False), "rounding": True}
    result = pg.evaluate(model, split_of("cora", 0).test, attack="prbcd", checkpoint=MODELS / "perturbations", **attack)
    return {"classifier": classifier, "regime": regime, "profile": "cpu", **result.to_dict()}


if __name__ == "__main__":
    for classifier in ("gcn", "gprgnn"):
        for regime in ("vanilla", "adversarial"):
            piece(STUDY, f"cora-{classifier}-{regime}-0", lambda c=classifier, r=regime: measure(c, r))
