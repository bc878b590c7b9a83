"""Checks that the output of a model depends on the graph passed to it."""

from __future__ import annotations

from torch import nn

from purigraph.errors import UnsupportedModelError


def refuse_caches(model: object) -> None:
    """Raise `UnsupportedModelError` if a layer of the model caches the first graph that it sees (PyG's `cached=True`).

    Such a model looks perfectly robust, as it never sees the changed graph.
    """
    if not isinstance(model, nn.Module):
        return
    for name, layer in model.named_modules():
        if getattr(layer, "cached", False) is True:
            where = f"layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__
            raise UnsupportedModelError(
                f"{where} has cached=True: it would cache the first graph it sees and ignore purified or attacked "
                "ones. Build it with cached=False."
            )
