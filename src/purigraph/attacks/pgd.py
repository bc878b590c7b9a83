"""PGD: projected gradient ascent on all pairs at once."""

from __future__ import annotations

from purigraph.attacks.block_descent import BlockDescent


class PGD(BlockDescent):
    r"""Projected gradient ascent on the flip weights of all $N(N-1)/2$ pairs, without sampling.

    From `Topology Attack and Defense for Graph Neural Networks <https://arxiv.org/abs/1906.04214>`_
    (Xu et al. 2019), with the rate $\eta_0 / \sqrt{t}$. For small graphs: the model sees a complete graph, as an edge
    list of $N(N-1)$ entries (4.4 million for Citeseer) and never as a dense matrix. The attack itself takes about
    110 bytes per entry at its peak (half a gigabyte there); what the model takes is its own affair.

    Args:
        loss: what is maximised (`purigraph.losses`).
        epochs: steps.
        rounding: whether the last third of them brings the weights to whole flips.
        learning_factor: of the learning rate.
        final_samples: choices of whole flips that are tried; the first takes those with the most weight.
    """

    def __init__(
        self,
        *,
        loss: str = "tanh-margin",
        epochs: int = 200,
        rounding: bool = True,
        learning_factor: float = 100.0,
        final_samples: int = 20,
    ) -> None:
        super().__init__(
            loss=loss,
            resampled_steps=0,
            fixed_steps=epochs - epochs // 3 if rounding else epochs,
            rounding_steps=epochs // 3 if rounding else 0,
            block_size=None,
            learning_factor=learning_factor,
            final_samples=final_samples,
        )
        self.epochs = epochs
        self.rounding = rounding
