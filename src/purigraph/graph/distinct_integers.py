"""Sampling integers without replacement."""

from __future__ import annotations

import torch
from torch import Tensor

from purigraph.errors import InputError


def distinct_integers(bound: int, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` distinct integers below `bound`, ascending, drawn uniformly from all such sets."""
    if count > bound:
        raise InputError(f"{count} distinct values can't be drawn from {bound}.")
    if 3 * count >= bound:
        return torch.randperm(bound, generator=generator)[:count].sort().values
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < count:
        # Few rounds are needed: collisions are rare if count is below a third of the bound.
        missing = count - len(found)
        draws = torch.randint(bound, (missing + missing // 4 + 8,), generator=generator)
        found = torch.unique(torch.cat([found, draws]))
    # The surplus is dropped at random, not by size: by symmetry, every set is equally likely.
    if len(found) > count:
        found = found[torch.randperm(len(found), generator=generator)[:count].sort().values]
    return found
