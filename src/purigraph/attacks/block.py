"""A block of pairs that an attack optimises, and their flip weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from purigraph.attacks.edits import Space
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.scene import Scene
from purigraph.graph import pair_codes

# Flip weights lie between this and one minus this. Not 0: models may take logarithms or roots of weights, and an entry
# of weight 0 would have no gradient there.
EPSILON = 1e-7


@dataclass(frozen=True)
class Block:
    """Pairs, merged with the graph, and their flip weights (B,) between `EPSILON` and 1 - `EPSILON`."""

    overlay: Overlay
    weight: Tensor

    @classmethod
    def sample(cls, space: Space, size: int, scene: Scene) -> Block:
        """Return a random block that includes the start's flips with full weight."""
        start = scene.start_codes()
        weight = torch.full_like(start, 1 - EPSILON, dtype=scene.graph.weight.dtype)
        return cls._fill(start, weight, space, size, scene)

    def resample(self, space: Space, scene: Scene) -> Block:
        """Return a block with the weighted entries, at most half of the block, filled up with new pairs."""
        size = len(self.weight)
        if size == space.size:
            return self
        keep = self.weight > EPSILON
        most = size - size // 2
        if int(keep.sum()) > most:
            keep = torch.zeros_like(keep)
            keep[torch.topk(self.weight, most, sorted=False).indices] = True
        return self._fill(self.overlay.codes[keep], self.weight[keep], space, size, scene)

    @classmethod
    def _fill(cls, codes: Tensor, weight: Tensor, space: Space, size: int, scene: Scene) -> Block:
        fresh = space.sample(size - len(codes), scene.generator, taken=codes)
        merged, at_codes, _ = pair_codes.merge(codes, fresh)
        merged_weight = torch.full_like(merged, EPSILON, dtype=weight.dtype)
        merged_weight[at_codes] = weight
        return cls(Overlay(scene.graph, merged), merged_weight)

    def with_weight(self, weight: Tensor) -> Block:
        """Return the same pairs with other weights, clipped; the overlay, and thus the edge list, is shared."""
        return Block(self.overlay, weight.clamp(EPSILON, 1 - EPSILON))

    def heaviest(self, count: int) -> Block:
        """Return the same pairs; all but the `count` largest weights are reset to `EPSILON`."""
        kept = torch.topk(self.weight, min(count, len(self.weight)), sorted=False).indices
        weight = torch.full_like(self.weight, EPSILON)
        weight[kept] = self.weight[kept]
        return Block(self.overlay, weight)

    def has_weight(self) -> Tensor:
        """Return which entries have a weight above `EPSILON`, (B,) bool."""
        return self.weight > EPSILON
