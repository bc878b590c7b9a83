"""All kinds of cases, and how often each is drawn."""

from __future__ import annotations

import random

from fuzz import arrays, graph_files, models, options, own_files, service
from fuzz.harness import Judge, Kind, Verdict

KINDS: dict[str, tuple[Kind, int]] = {
    "graph-file": (graph_files.graph_file, 20),
    "model": (models.model, 14),
    "flips": (models.flips, 5),
    "checkpoint": (models.checkpoint, 6),
    "options": (options.options, 20),
    "small-commands": (options.small_commands, 2),
    "graphs": (arrays.graphs, 8),
    "saved-graphs": (arrays.saved_graphs, 4),
    "purification": (arrays.purification, 6),
    "fitting": (arrays.fitting, 5),
    "training": (arrays.training, 5),
    "attacking": (arrays.attacking, 6),
    "values": (arrays.values, 5),
    "protection": (arrays.protection, 4),
    "service": (service.service, 10),
    "online": (service.online, 5),
    "own-file": (own_files.own_file, 16),
    "feature-file": (own_files.feature_file, 8),
    "receipt": (own_files.receipt, 4),
    "page": (own_files.page, 3),
}


def run_seed(judge: Judge, seed: int) -> Verdict:
    """Run the case of a seed; the same seed is the same case."""
    rng = random.Random(seed)
    name = rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])[0]
    return judge.run(seed, name, KINDS[name][0], rng)
