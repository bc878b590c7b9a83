"""PRBCD: projected randomized block coordinate descent."""

from __future__ import annotations

from purigraph.attacks.block_descent import BlockDescent


class PRBCD(BlockDescent):
    r"""Projected randomized block coordinate descent, with one budget for the whole graph.

    From `Robustness of Graph Neural Networks at Scale <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021),
    in the form that the GPR-GAE paper evaluates with. The projection is the nearest point with
    $\sum_e p_e \leq \Delta$. See `BlockDescent` for the steps and the learning rate.

    Args:
        loss: what is maximised (`purigraph.losses`).
        epochs: steps with resampling.
        fine_tune_epochs: steps on the best block, with falling rate.
        rounding: whether these steps bring the weights to whole flips, which makes the attack several points
            stronger at the same cost; False is the paper's form.
        block_size: pairs looked at; several times the budget.
        learning_factor: of the learning rate.
        final_samples: choices of whole flips that are tried; the first takes those with the most weight.
    """

    def __init__(
        self,
        *,
        loss: str = "tanh-margin",
        epochs: int = 400,
        fine_tune_epochs: int = 100,
        rounding: bool = True,
        block_size: int = 10_000,
        learning_factor: float = 100.0,
        final_samples: int = 20,
    ) -> None:
        super().__init__(
            loss=loss,
            resampled_steps=epochs,
            fixed_steps=0 if rounding else fine_tune_epochs,
            rounding_steps=fine_tune_epochs if rounding else 0,
            block_size=block_size,
            learning_factor=learning_factor,
            final_samples=final_samples,
        )
        self.epochs = epochs
        self.fine_tune_epochs = fine_tune_epochs
        self.rounding = rounding
