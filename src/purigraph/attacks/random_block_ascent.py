"""The common base of PRBCD and LRBCD: ascent on a random block that is resampled along the way."""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeVar

from purigraph.attacks.block_ascent import BlockAscent, Steps
from purigraph.settings import setting

R = TypeVar("R", bound="RandomBlockAscent")


class RandomBlockAscent(BlockAscent):
    """Block ascent (see `BlockAscent`) on a random block that is much smaller than the number of pairs."""

    epochs: int = setting("Number of steps with resampling.", default=400, ge=0)
    fine_tune_epochs: int = setting("Number of steps on the best block, with a decaying rate.", default=100, ge=0)
    rounding: bool = setting(
        "Whether the steps on the best block drive the weights to whole flips, which makes the attack several points "
        "stronger at the same cost; False is the paper's form.",
        default=True,
    )
    block_size: int = setting("B, the number of pairs in a block; several times the budget.", default=10_000, ge=1)

    trial_settings = MappingProxyType({"epochs": 4, "fine_tune_epochs": 3, "block_size": 200, "final_samples": 3})

    def with_epochs(self: R, epochs: int) -> R:
        """Return the same attack with this many epochs and a quarter as many for fine-tuning."""
        return self.replace(epochs=epochs, fine_tune_epochs=max(epochs // 4, 1))

    def _steps(self) -> Steps:
        return Steps(
            resampled=self.epochs,
            fixed=0 if self.rounding else self.fine_tune_epochs,
            rounding=self.fine_tune_epochs if self.rounding else 0,
        )

    def _most_pairs(self) -> int:
        return self.block_size
