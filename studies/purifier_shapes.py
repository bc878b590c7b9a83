"""Which small purifier does what the paper's does, sooner: `python studies/purifier_shapes.py [SEED ...]`.

Shapes (hops K, node channels Z1, edge channels Z2) and learning rates on Cora, judged on validation edges alone: AUC and
AP over the paper's ten validation sets, which are the same for all, with the time of the training, the number of
parameters and the time of one purification. The paper's shape is trained by the paper's settings, 2,000 epochs; the
others stop once validation has not improved for 200 epochs. Times are seconds of the processor on one thread
(`OMP_NUM_THREADS=1`), so that other work on the machine does not count.
"""

from __future__ import annotations

import statistics
import sys
import time
from itertools import product
from typing import Any

import torch
from common import MODELS, piece, split_of

import purigraph as pg
from purigraph.tables import Table

STUDY = "purifier-shapes"
PAPER = (7, 128, 512)
SHAPES = [(3, 64, 128), (3, 64, 64), (3, 32, 64), (5, 32, 64), (7, 64, 128), (2, 32, 64)]
RATES = [0.02, 0.01]
SMALL_TRAINING: dict[str, Any] = {"epochs": 2000, "validate_every": 10, "patience": 200}


def fit(seed: int, shape: tuple[int, int, int], training: dict[str, Any]) -> dict[str, Any]:
    """Train one shape and say how well validation edges are told apart, and what that cost."""
    split = split_of("cora", seed)
    hops, node_channels, edge_channels = shape
    purifier = pg.GPRGAE(hops=hops, node_channels=node_channels, edge_channels=edge_channels)
    # Compiled kernels, caches and the structure of the graphs should not count for the first shape alone.
    purifier.fit(split.train, validation=split.validation, epochs=1)
    started = time.process_time()
    name = f"shape-{seed}-{'-'.join(map(str, shape))}-{training.get('learning_rate', 'paper')}"
    purifier.fit(
        split.train,
        validation=split.validation,
        seed=seed,
        checkpoint=MODELS / f"{name}.checkpoint",
        progress=True,
        **training,
    )
    took = time.process_time() - started
    purifier.save_pretrained(MODELS / name)
    return {
        "shape": list(shape),
        "training": dict(purifier.provenance or {}),
        "training_seconds": round(took, 1),
        "parameters": sum(one.numel() for one in purifier.parameters()),
        "purify_milliseconds": round(1000 * _purify_seconds(purifier, split.test), 1),
    }


def _purify_seconds(purifier: pg.GPRGAE, data: Any) -> float:
    times = []
    with torch.no_grad():
        for _ in range(12):
            started = time.process_time()
            purifier(data)
            times.append(time.process_time() - started)
    return statistics.median(times[2:])


def show(results: list[dict[str, Any]]) -> None:
    """Print one row per shape and learning rate, averaged over the seeds."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in results:
        groups.setdefault((*one["shape"], one["training"]["settings"]["learning_rate"]), []).append(one)

    def mean(members: list[dict[str, Any]], *path: str) -> float:
        values = []
        for member in members:
            for key in path:
                member = member[key]
            values.append(float(member))  # type: ignore[arg-type]
        return statistics.mean(values)

    rows = [
        [
            *(str(part) for part in key),
            f"{mean(members, 'training', 'auc'):.4f}",
            f"{mean(members, 'training', 'ap'):.4f}",
            f"{mean(members, 'training', 'epochs_run'):.0f}",
            f"{mean(members, 'training_seconds'):.0f}",
            f"{mean(members, 'parameters') / 1000:.0f}",
            f"{mean(members, 'purify_milliseconds'):.0f}",
        ]
        for key, members in groups.items()
    ]
    columns = ["K", "Z1", "Z2", "rate", "AUC", "AP", "epochs", "seconds", "thousand parameters", "purify ms"]
    Table("Shapes of GPR-GAE on Cora, validation edges", columns, rows).print()


if __name__ == "__main__":
    done = []
    for seed in [int(seed) for seed in sys.argv[1:]] or [0, 1]:
        for rate, shape in product(RATES, SHAPES):
            name = f"cora-{'-'.join(map(str, shape))}-{rate:g}-{seed}"
            training = {**SMALL_TRAINING, "learning_rate": rate}
            done.append(piece(STUDY, name, lambda s=seed, z=shape, t=training: fit(s, z, t)))
        name = f"cora-{'-'.join(map(str, PAPER))}-paper-{seed}"
        done.append(piece(STUDY, name, lambda s=seed: fit(s, PAPER, {})))
    show(done)
