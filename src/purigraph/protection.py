"""A classifier behind a purifier, as a single module that can be used, attacked and saved like any other."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, overload

from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph.anchored import Anchored
from purigraph.anchors import Anchor
from purigraph.attacks import SmallWeights
from purigraph.errors import InputError, NotFittedError, UnsupportedModelError
from purigraph.model_checks import refuse_caches, refuse_data_models, refuse_ignored_weights
from purigraph.numbers import is_real
from purigraph.purifiers import Purifier
from purigraph.purifiers.base import require_fitted
from purigraph.purifiers.cut import cut_parts
from purigraph.trusted_pairs import TrustedPairs


class Protected(nn.Module):
    """A classifier that sees every graph through a purifier; differentiable end to end.

    `forward(x, edge_index, edge_weight=None, ...)` purifies the graph, then calls the classifier with the purified
    edges and weights and all other arguments. Create it with `protect`, which checks that the two are compatible.
    """

    def __init__(
        self,
        classifier: nn.Module,
        purifier: Purifier,
        weight_arg: str | None,
        threshold: float | None,
        straight_through: bool = False,
        memory: TrustedPairs | None = None,
    ) -> None:
        super().__init__()
        self.classifier = classifier
        self.purifier = purifier
        self.memory = memory
        self.weight_arg = weight_arg
        self.threshold = threshold
        self.straight_through = straight_through
        # Whether it is known that the classifier uses its weights; `protect` can't tell without the number of features.
        self._weights_checked = False
        self.training = classifier.training

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the classifier's output on the purified graph."""
        if self.memory is not None:
            edge_index, edge_weight, _ = self.memory.restore(len(x), edge_index, edge_weight)
        return self._purified_output(x, edge_index, edge_weight, None, *args, **kwargs)

    def relaxed(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, presence: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the output for partially present edges, by `presence` (M,); see `Purifier.relaxed`.

        Attacks optimise their flips on this. If all presences are 0 or 1, it is `forward` on the present edges.
        """
        if self.memory is not None:
            edge_index, edge_weight, there = self.memory.restore(len(x), edge_index, edge_weight, presence)
            assert there is not None  # as a presence was given
            presence = there
        return self._purified_output(x, edge_index, edge_weight, presence, *args, **kwargs)

    def _purified_output(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        presence: Tensor | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if self.purifier.factored:
            factors = self.purifier.factor_edges(x, edge_index, edge_weight, presence)
            return self.classifier(x, factors, *args, **kwargs)
        edges, weight = self.purifier.purify_edges(x, edge_index, edge_weight, presence)
        return self._classify(x, edges, weight, None if self.purifier.adds_edges else presence, *args, **kwargs)

    def _classify(
        self, x: Tensor, edge_index: Tensor, weight: Tensor, presence: Tensor | None, *args: Any, **kwargs: Any
    ) -> Any:
        if self.straight_through:
            assert self.threshold is not None
            # Cut by its own weight, then there by its presence: an edge that is there by half is not a weak one.
            weight = cut_parts(weight, self.threshold, presence)
        elif self.threshold is not None:
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
        if purifier.factored:
            _require_factors(self.classifier, purifier, self.threshold)
        other = Protected(
            self.classifier, purifier, self.weight_arg, self.threshold, self.straight_through, self.memory
        )
        other._weights_checked = self._weights_checked
        return other

    def views(self) -> Mapping[str, nn.Module]:
        """Return other models that attacks may be easier to find on.

        They are this one with variants of its purifier, and this one with parts of edges as small weights.
        """
        if self.threshold is not None:
            return {}
        variants = {name: self.with_purifier(variant) for name, variant in self.purifier.variants().items()}
        return {**variants, "small-weights": SmallWeights(self)}

    def extra_repr(self) -> str:
        """Return the text that `repr` shows next to the two parts."""
        if self.threshold is None:
            return f"weight_arg={self.weight_arg!r}"
        return f"threshold={self.threshold}" + (", straight_through=True" if self.straight_through else "")


class Unprotected(nn.Module):
    """A classifier called as `(x, edge_index, edge_weight=None)`, whatever the name of its weight argument.

    A classifier that takes no weights sees the edges with a weight above 0; the weights then have no gradient.
    """

    def __init__(self, classifier: nn.Module, weight_arg: str | None, memory: TrustedPairs | None = None) -> None:
        super().__init__()
        self.classifier = classifier
        self.weight_arg = weight_arg
        self.memory = memory
        self.training = classifier.training

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the classifier's output."""
        if self.memory is not None:
            edge_index, edge_weight, _ = self.memory.restore(len(x), edge_index, edge_weight)
        if self.weight_arg is not None:
            return self.classifier(x, edge_index, *args, **{self.weight_arg: edge_weight}, **kwargs)
        kept = edge_index if edge_weight is None else edge_index[:, edge_weight.detach() > 0]
        return self.classifier(x, kept, *args, **kwargs)

    def extra_repr(self) -> str:
        """Return the text that `repr` shows next to the classifier."""
        return f"weight_arg={self.weight_arg!r}"


@overload
def protect(
    classifier: nn.Module,
    purifier: Purifier,
    *,
    anchor: None = None,
    weight_arg: str = "edge_weight",
    threshold: float | None = None,
    straight_through: bool = False,
    trusted: Data | None = None,
) -> Protected: ...


@overload
def protect(
    classifier: nn.Module,
    purifier: Purifier | None,
    *,
    anchor: Anchor,
    weight_arg: str = "edge_weight",
    threshold: float | None = None,
    straight_through: bool = False,
    trusted: Data | None = None,
) -> Anchored: ...


def protect(
    classifier: nn.Module,
    purifier: Purifier | None,
    *,
    anchor: Anchor | None = None,
    weight_arg: str = "edge_weight",
    threshold: float | None = None,
    straight_through: bool = False,
    trusted: Data | None = None,
) -> Protected | Anchored:
    """Put a purifier in front of a node classifier, an anchor beside it, or both.

    Args:
        classifier: Any PyG-style model called as `classifier(x, edge_index, ..., edge_weight=...)`.
        purifier: A fitted purifier; None, with an anchor, for none.
        anchor: A fitted anchor, whose answers stand where it is sure, whatever happens to the edges.
        weight_arg: The name of the classifier's edge weight argument.
        threshold: For models that take no weights (plain GAT, SAGE, GIN), edges with a purified weight below this are
            removed instead. Removal has no gradient: to attack such a model, transfer attacks from another one
            (`purigraph.evaluate(..., transfer_from=...)`), or use `straight_through`.
        straight_through: With a threshold, for models that do take weights: removed edges get the weight 0 and the
            others 1, which is the same to such a model, with the gradient of a sigmoid around the threshold, which an
            attack can follow.
        trusted: A graph whose edges are known to be right, such as yesterday's: between two of its nodes, edges that
            were added since are ignored and removed ones are restored (see `TrustedPairs`). Default: every edge is
            judged by the purifier.

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
    memory = None if trusted is None else TrustedPairs(trusted)
    if anchor is not None:
        if not isinstance(anchor, Anchor):
            raise InputError(f"The anchor is a {type(anchor).__name__}: pass a fitted purigraph.Anchor.")
        if not anchor.is_fitted:
            raise NotFittedError(
                "This Anchor has not been fitted: call fit(classifier, trusted), or load a fitted one."
            )
        if purifier is None:
            refuse_caches(classifier)
            return Anchored(Unprotected(classifier, weight_arg, memory), anchor)
        options: dict[str, Any] = {
            "weight_arg": weight_arg,
            "threshold": threshold,
            "straight_through": straight_through,
            "trusted": trusted,
        }
        return Anchored(protect(classifier, purifier, **options), anchor)
    purifier = require_fitted(purifier)
    refuse_caches(classifier)
    refuse_data_models(classifier)
    if purifier.factored:
        _require_factors(classifier, purifier, threshold)
        _require_weights(classifier, weight_arg)  # whoever transfers attacks calls it with edges
        if straight_through:
            raise InputError("straight_through is about edges that a threshold removes, and there are none to remove.")
        return Protected(classifier, purifier, weight_arg, None, memory=memory)
    if threshold is not None:
        if not is_real(threshold) or not 0 <= threshold <= 1:
            raise InputError(f"threshold must be a number between 0 and 1, not {threshold!r}.")
        if not straight_through:
            return Protected(classifier, purifier, None, threshold, memory=memory)
    elif straight_through:
        raise InputError("straight_through is about edges that a threshold removes: give threshold=... too.")
    _require_weights(classifier, weight_arg)
    model = Protected(classifier, purifier, weight_arg, threshold, straight_through, memory)
    widths = (getattr(part, "in_channels", None) for part in (classifier, purifier))
    known = next((width for width in widths if isinstance(width, int) and width > 0), None)
    if known is not None:
        model.check_weights(known)
    return model


def _require_factors(classifier: nn.Module, purifier: Purifier, threshold: float | None) -> None:
    if threshold is not None:
        raise InputError(
            f"This {type(purifier).__name__} returns the factors of an adjacency, and threshold is about edges: leave "
            "it out."
        )
    if getattr(classifier, "takes_factors", False) is not True:
        raise UnsupportedModelError(
            f"This {type(purifier).__name__} returns the factors of an adjacency, which {_full_name(classifier)} can't "
            "be given: use a GCN, an APPNP or a GPRGNN of purigraph.classifiers, or a purifier that returns edges, "
            'such as SVD(reconstruction="edges").'
        )


def _full_name(classifier: nn.Module) -> str:
    return f"{type(classifier).__module__}.{type(classifier).__qualname__}"


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
