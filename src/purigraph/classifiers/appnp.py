"""Predict, then propagate by personalised PageRank."""

from __future__ import annotations

from purigraph.classifiers.base import registry
from purigraph.classifiers.polynomial import PolynomialClassifier, pagerank_coefficients
from purigraph.settings import setting


@registry.register("appnp")
class APPNP(PolynomialClassifier):
    r"""Predict then propagate, by `Gasteiger et al. (2019) <https://arxiv.org/abs/1810.05997>`_.

    $$Z^{(k+1)} = (1 - \alpha) \tilde A Z^{(k)} + \alpha Z^{(0)}, \quad Z^{(0)} = \mathrm{MLP}(X), \quad
      \tilde A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

    which is $\sum_k \gamma_k \tilde A^k Z^{(0)}$ with $\gamma_k = \alpha (1-\alpha)^k$ and $\gamma_K = (1-\alpha)^K$.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    alpha: float = setting("The teleport probability.", default=0.1, gt=0, le=1)

    def _build(self) -> None:
        super()._build()
        # Not saved: the coefficients are not learnt and follow from the configuration.
        self.register_buffer("coefficients", pagerank_coefficients(self.hops, self.alpha), persistent=False)
