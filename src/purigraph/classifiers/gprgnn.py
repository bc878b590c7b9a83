"""The generalised PageRank network."""

from __future__ import annotations

from torch import nn

from purigraph.classifiers.base import registry
from purigraph.classifiers.polynomial import PolynomialClassifier, random_coefficients
from purigraph.settings import setting


@registry.register("gprgnn")
class GPRGNN(PolynomialClassifier):
    r"""The generalised PageRank network of `Chien et al. (2021) <https://arxiv.org/abs/2006.07988>`_.

    $$Z = \sum_{k=0}^{K} \gamma_k \tilde A^k\, \mathrm{MLP}(X), \qquad
      \tilde A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$$

    with learnt $\gamma$, which may become negative. They are initialised at random: uniform in $\pm\sqrt{3/(K+1)}$,
    divided by the sum of their absolute values.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) give (N, C).
    """

    dropout: float = setting("Dropout probability before every layer of the MLP.", default=0.2, ge=0, lt=1)

    def _build(self) -> None:
        super()._build()
        self.coefficients = nn.Parameter(random_coefficients(self.hops))
