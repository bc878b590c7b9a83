"""What a model must not do if its answers are to depend on the graph that it is given."""

from __future__ import annotations

from torch import nn

from purigraph.errors import UnsupportedModelError


def refuse_caches(model: object) -> None:
    """Raise `UnsupportedModelError` if a layer of the model keeps the first graph that it sees (PyG's `cached=True`).

    Such a model looks perfectly robust: it never sees what was changed.
    """
    if not isinstance(model, nn.Module):
        return
    for name, layer in model.named_modules():
        if getattr(layer, "cached", False) is True:
            where = f"layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__
            raise UnsupportedModelError(
                f"{where} has cached=True: it would keep the first graph it sees and never look at a purified or "
                "attacked one. Build it with cached=False."
            )
