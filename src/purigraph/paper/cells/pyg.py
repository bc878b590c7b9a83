"""PyG's PRBCDAttack, with the budget, the block and the epochs of ours."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from purigraph.evaluation import model_accuracy
from purigraph.graph import as_pair_graph
from purigraph.graph.budget import Budget
from purigraph.paper.cells import accuracy
from purigraph.paper.models import make_defence
from purigraph.runs import Context


class Config(accuracy.Config):
    """A model and an attack of the name prbcd; its epochs, block, learning factor and loss are PyG's too."""


def measure(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Return the accuracy that PyG's attack leaves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG warns that its contrib package is experimental
        from torch_geometric.contrib.nn import PRBCDAttack
    chosen = Config(**config)
    assert chosen.attack is not None
    scene = chosen.scene(context)
    model: Any = make_defence(chosen.defence, scene).model.eval()
    test = scene.split.test
    targets = test.test_mask.nonzero().squeeze(1)
    budget = Budget(chosen.attack.epsilon).resolve(as_pair_graph(test), targets)
    settings = chosen.attack.settings
    started = time.monotonic()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chosen.seed)
        attack = PRBCDAttack(
            model,
            block_size=settings["block_size"],
            epochs=settings["epochs"] + settings["fine_tune_epochs"],
            epochs_resampling=settings["epochs"],
            lr=settings["learning_factor"],
            loss=settings["loss"].replace("-", "_"),
            log=False,
        )
        edge_index, _ = attack.attack(test.x, test.edge_index, test.y, budget=budget, idx_attack=targets)
    perturbed = test.clone()
    perturbed.edge_index = edge_index
    return {
        "values": {"": model_accuracy(model, perturbed)},
        "num_targets": len(targets),
        "max_flips": budget,
        "costs": {"attack": {"seconds": time.monotonic() - started, "megabytes": None}},
    }
