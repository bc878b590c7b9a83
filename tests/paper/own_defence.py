"""A defence of someone's own, for the tests."""

from __future__ import annotations

from torch import nn

from purigraph.graph.splits import InductiveSplit
from purigraph.training import train


def make(split: InductiveSplit, seed: int) -> nn.Module:
    return train("appnp", "vanilla", split, seed=seed, settings={"epochs": 3}).model
