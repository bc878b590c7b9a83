"""A classifier behind a purifier, as a single module that can be used, attacked and saved like any other."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

from purigraph.errors import InputError, NotFittedError, UnsupportedModelError
from purigraph.model_checks import refuse_caches, refuse_data_models, refuse_ignored_weights
from purigraph.numbers import is_number
from purigraph.purifiers import Purifier


class Protected(nn.Module):
    """A classifier that sees every graph through a purifier; differentiable end to end.

    `forward(x, edge_index, edge_weight=None, ...)` purifies the graph, then calls the classifier with the purified
    edges and weights and all other arguments. Create it with `protect`, which checks that the two are compatible.
    """

    def __init__(
        self, classifier: nn.Module, purifier: Purifier, weight_arg: str | None, threshold: float | None
    ) -> None:
        super().__init__()
        self.classifier = classifier
        self.purifier = purifier
        self.weight_arg = weight_arg
        self.threshold = threshold
        # Whether it is known that the classifier uses its weights; `protect` can't tell without the number of features.
        self._weights_checked = False

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the classifier's output on the purified graph."""
        return self._classify(x, *self.purifier.purify_edges(x, edge_index, edge_weight), *args, **kwargs)

    def relaxed(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the output for partially present edges, by `presence` (M,); see `Purifier.relaxed`.

        Attacks optimise their flips on this. If all presences are 0 or 1, it is `forward` on the present edges.
        """
        return self._classify(x, *self.purifier.purify_edges(x, edge_index, edge_weight, presence), *args, **kwargs)

    def _classify(self, x: Tensor, edge_index: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.threshold is not None:
            kept = edge_index[:, weight.detach() >= self.threshold]
            return self.classifier(x, kept, *args, **kwargs)
        assert self.weight_arg is not None
        if isinstance(x, Tensor) and x.dim() == 2:
            self.check_weights(x.shape[1])
        return self.classifier(x, edge_index, *args, **{self.weight_arg: weight}, **kwargs)

    def check_weights(self, num_features: int) -> None:
        """Raise `UnsupportedModelError` if the classifier ignores edge weights; checked once."""
        if self.weight_arg is not None and not self._weights_checked:
            refuse_ignored_weights(self.classifier, self.weight_arg, num_features)
            self._weights_checked = True

    def unprotected(self) -> nn.Module:
        """Return the classifier alone, with the signature of this model; transferred attacks are made on it."""
        return Unprotected(self.classifier, self.weight_arg)

    def with_purifier(self, purifier: Purifier) -> Protected:
        """Return the same classifier behind another purifier (for example, with other settings)."""
        other = Protected(self.classifier, purifier, self.weight_arg, self.threshold)
        other._weights_checked = self._weights_checked
        return other

    def extra_repr(self) -> str:
        """Return the text that `repr` shows next to the two parts."""
        return f"threshold={self.threshold}" if self.threshold is not None else f"weight_arg={self.weight_arg!r}"


class Unprotected(nn.Module):
    """A classifier called as `(x, edge_index, edge_weight=None)`, whatever the name of its weight argument.

    A classifier that takes no weights sees the edges with a weight above 0; the weights then have no gradient.
    """

    def __init__(self, classifier: nn.Module, weight_arg: str | None) -> None:
        super().__init__()
        self.classifier = classifier
        self.weight_arg = weight_arg

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the classifier's output."""
        if self.weight_arg is not None:
            return self.classifier(x, edge_index, *args, **{self.weight_arg: edge_weight}, **kwargs)
        kept = edge_index if edge_weight is None else edge_index[:, edge_weight.detach() > 0]
        return self.classifier(x, kept, *args, **kwargs)

    def extra_repr(self) -> str:
        """Return the text that `repr` shows next to the classifier."""
        return f"weight_arg={self.weight_arg!r}"


def protect(
    classifier: nn.Module,
    purifier: Purifier,
    *,
    weight_arg: str = "edge_weight",
    threshold: float | None = None,
) -> Protected:
    """Put a purifier in front of a node classifier.

    Args:
        classifier: Any PyG-style model called as `classifier(x, edge_index, ..., edge_weight=...)`.
        purifier: A fitted purifier.
        weight_arg: The name of the classifier's edge weight argument.
        threshold: For models that take no weights (plain GAT, SAGE, GIN), edges with a purified weight below this are
            removed instead. Removal has no gradient: to attack such a model, transfer attacks from another one
            (`purigraph.evaluate(..., transfer_from=...)`).

    Raises:
        UnsupportedModelError: If the classifier would not see the purified graph; the message says why and what to do.
        NotFittedError: If the purifier has not been fitted.

    >>> import purigraph as pg
    >>> from torch_geometric.nn.models import GCN
    >>> data = pg.datasets.load("synthetic-citation")
    >>> purifier = pg.GPRGAE(hops=2, node_channels=8, edge_channels=8).fit(data, epochs=1)
    >>> model = pg.protect(GCN(data.num_features, 8, 2, 7), purifier)
    """
    if not isinstance(classifier, nn.Module):
        raise InputError(f"The classifier is a {type(classifier).__name__}: pass a PyTorch module.")
    if not isinstance(purifier, Purifier):
        raise InputError(
            f"The purifier is a {type(purifier).__name__}: pass a fitted one, e.g. purigraph.purifiers.load(folder)."
        )
    if not purifier.is_fitted:
        raise NotFittedError(
            f"This {type(purifier).__name__} has not been fitted, so it protects nothing: call fit(data) on a trusted "
            "graph, or load a fitted one with purigraph.purifiers.load(folder)."
        )
    refuse_caches(classifier)
    refuse_data_models(classifier)
    if threshold is not None:
        if not is_number(threshold) or not 0 <= threshold <= 1:
            raise InputError(f"threshold must be a number between 0 and 1, not {threshold!r}.")
        return Protected(classifier, purifier, None, threshold)
    _require_weights(classifier, weight_arg)
    model = Protected(classifier, purifier, weight_arg, None)
    widths = (getattr(part, "in_channels", None) for part in (classifier, purifier))
    known = next((width for width in widths if isinstance(width, int) and width > 0), None)
    if known is not None:
        model.check_weights(known)
    return model


def _require_weights(classifier: nn.Module, weight_arg: str) -> None:
    parameters = inspect.signature(classifier.forward).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    way_out = "pass threshold=... to remove low-weight edges instead"
    if weight_arg not in parameters and not open_ended:
        raise UnsupportedModelError(
            f"{type(classifier).__name__}.forward takes no {weight_arg!r} (it takes {', '.join(parameters)}): name its "
            f"weight argument with weight_arg=..., or {way_out}."
        )
    # All ready-made models of PyG accept `edge_weight`; those that can't use it silently ignore it.
    if weight_arg == "edge_weight" and getattr(classifier, "supports_edge_weight", True) is False:
        raise UnsupportedModelError(
            f"{type(classifier).__name__} accepts edge_weight but ignores it (supports_edge_weight=False): {way_out}."
        )
