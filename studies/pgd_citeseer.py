"""PGD over all pairs of Citeseer, through the purifier: `python studies/pgd_citeseer.py`.

2.2 million flips at once, seed 0: that it runs, what an epoch takes, and how much memory. A few epochs only, and a
purifier trained for 300; beside it PRBCD with as many epochs. docs/robustness.md shows the result.
"""

from __future__ import annotations

import resource
from typing import Any

from common import classifier_for, piece, purifier_for, split_of

import purigraph as pg

STUDY = "pgd-citeseer"
EPOCHS, EPSILON = 9, 0.25


def protected() -> pg.Protected:
    """The vanilla GCN behind the purifier."""
    return pg.protect(classifier_for("citeseer", "gcn", 0), purifier_for("citeseer", 0, epochs=300))


def measure(attack: str, **settings: Any) -> dict[str, Any]:
    """Accuracy under one adaptive attack, its time per epoch, and the most memory that the process has had."""
    test = split_of("citeseer", 0).test
    result = pg.evaluate(protected(), test, attack=attack, epsilons=[EPSILON], loss="margin", progress=True, **settings)
    (record,) = result.records
    return {
        **record.to_dict(),
        "clean": result.clean,
        "num_nodes": test.num_nodes,
        "attack": record.attack,
        "seconds_per_epoch": record.seconds / EPOCHS,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    piece(STUDY, "prbcd", lambda: measure("prbcd", epochs=EPOCHS - EPOCHS // 3, fine_tune_epochs=EPOCHS // 3))
    piece(STUDY, "pgd", lambda: measure("pgd", epochs=EPOCHS))
