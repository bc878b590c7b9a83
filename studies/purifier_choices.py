"""Two choices that the paper and its authors' code make differently: `python studies/purifier_choices.py [SEED ...]`.

Injected pairs per edge (the text's p = 1.5; the code's 1.5 directed entries are 0.75 pairs), and whether the two
directions of the symmetry loss come from one forward pass or from two with dropout masks of their own. Judged on
validation edges alone: AUC and AP over the paper's ten validation sets, which are the same for all.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

from common import MODELS, piece, split_of

import purigraph as pg

STUDY = "purifier-choices"
EPOCHS = 1000


def fit(seed: int, injection: float, passes: int) -> dict[str, Any]:
    """Train on Cora and say how the validation edges are told apart."""
    split = split_of("cora", seed)
    purifier = pg.GPRGAE().fit(
        split.train,
        validation=split.validation,
        seed=seed,
        checkpoint=MODELS / f"choice-{seed}-{injection:g}-{passes}.checkpoint",
        progress=True,
        epochs=EPOCHS,
        injection=injection,
        symmetry_passes=passes,
    )
    return {"training": dict(purifier.provenance or {})}


if __name__ == "__main__":
    for seed in [int(seed) for seed in sys.argv[1:]] or [0, 1]:
        for injection, passes in product((1.5, 0.75), (1, 2)):
            name = f"cora-{injection:g}-{passes}-{seed}"
            piece(STUDY, name, lambda s=seed, i=injection, p=passes: fit(s, i, p))
