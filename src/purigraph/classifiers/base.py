"""What every classifier is: a module from features and edges to logits, saved and loaded by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from torch import Tensor

from purigraph.errors import InputError
from purigraph.kernels import Features
from purigraph.pretrained import Pretrained
from purigraph.registry import Registry

NodeFeatures: TypeAlias = Tensor | Features


class Classifier(Pretrained):
    r"""A node classifier: logits $f(X, A) \in \mathbb{R}^{N \times C}$ from node features and weighted edges.

    It knows how to be built and called; how it is trained is written in `purigraph.training`. The contract, tested
    over every registered name: renumbering the nodes renumbers the logits; weights of 1 are the same as no
    weights; an edge of weight 0 is the same as no edge; the logits are differentiable in the edge weights, finite
    and with finite gradients at weight 0.

    Args:
        in_channels: F, the number of features.
        out_channels: C, the number of classes.
        hyper: The subclass's own hyper-parameters, kept to save them.
    """

    #: Where the paper departs from the defaults: hyper-parameters by the name of the dataset.
    paper_hyper: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    _positive: ClassVar[tuple[str, ...]] = ("hidden_channels", "num_layers", "hops", "heads", "top_k")
    _shares: ClassVar[tuple[str, ...]] = ("dropout", "input_dropout")

    def __init__(self, in_channels: int, out_channels: int, **hyper: Any) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self._hyper = hyper
        self._check({"in_channels": in_channels, "out_channels": out_channels, **hyper})

    @abstractmethod
    def forward(self, x: NodeFeatures, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Classify every node.

        Args:
            x: (N, F) floating point, dense or sparse (COO, CSR); or `purigraph.kernels.Features`, which is
                prepared once for many calls.
            edge_index: (2, M) int64, sources and targets; an undirected edge is listed in both directions.
            edge_weight: (M,) not negative; ones when left out.

        Returns:
            (N, C) logits.
        """

    def _config(self) -> dict[str, Any]:
        return {"in_channels": self.in_channels, "out_channels": self.out_channels, **self._hyper}

    @classmethod
    def _identity(cls) -> str:
        names = [name for name in classifiers if classifiers[name] is cls]
        return f"classifier/{names[0]}" if names else super()._identity()

    def _check(self, arguments: dict[str, Any]) -> None:
        for name in ("in_channels", "out_channels", *self._positive):
            value = arguments.get(name, 1)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"{type(self).__name__}: {name} must be a positive integer, not {value!r}.")
        for name in self._shares:
            value = arguments.get(name, 0.0)
            if not 0 <= value < 1:
                raise InputError(f"{type(self).__name__}: {name} must be in [0, 1), not {value!r}.")

    def extra_repr(self) -> str:
        """The configuration, for `print(model)`."""
        return ", ".join(f"{name}={value!r}" for name, value in self._config().items())


classifiers: Registry[type[Classifier]] = Registry("classifier")
