"""Checks that a model can be called with a graph, and that its output depends on the graph passed to it."""

from __future__ import annotations

import copy
import inspect
import warnings

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

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


def refuse_data_models(classifier: nn.Module) -> None:
    """Raise `UnsupportedModelError` if a model is called as `forward(data)`, not as `forward(x, edge_index, ...)`."""
    parameters = inspect.signature(classifier.forward).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = [p for p in positional if p.default is p.empty]
    if open_ended or len(required) != 1 or any(p.name == "edge_index" for p in parameters):
        return
    name = type(classifier).__name__
    raise UnsupportedModelError(
        f"{name}.forward takes a single argument, {required[0].name!r}, but a protected model is called as "
        "forward(x, edge_index, edge_weight). Wrap it:\n"
        "    class Wrapped(torch.nn.Module):\n"
        "        def __init__(self, model):\n"
        "            super().__init__()\n"
        "            self.model = model\n"
        "        def forward(self, x, edge_index, edge_weight=None):\n"
        "            return self.model(Data(x=x, edge_index=edge_index, edge_weight=edge_weight))"
    )


def refuse_ignored_weights(classifier: nn.Module, weight_arg: str, num_features: int) -> None:
    """Raise `UnsupportedModelError` if a model uses the edges of a small graph but not their weights.

    The model runs in evaluation mode and without gradients, on a copy that shares only the parameters; neither its
    state nor the global random state changes. A model that can't be run this way is not refused.

    Args:
        classifier: The model.
        weight_arg: The name of its weight argument.
        num_features: The number of node features that it takes.
    """
    outputs = _outputs_on_a_small_graph(classifier, weight_arg, num_features)
    if outputs is None:
        return
    no_edges, *weighted = outputs
    ignored = all(_same(weighted[0], other) for other in weighted[1:])
    if ignored and not _same(weighted[0], no_edges):
        raise UnsupportedModelError(
            f"{type(classifier).__name__} accepts {weight_arg!r} but ignores it: on a small graph, its output is the "
            "same for weights of 1 and of 0, so it would not see what the purifier does. Pass threshold=... to remove "
            "low-weight edges instead, or name the argument that it does use with weight_arg=..."
        )


def _outputs_on_a_small_graph(classifier: nn.Module, weight_arg: str, num_features: int) -> list[Tensor] | None:
    """Return the outputs without edges and with weights of 1, of 0 and in between; None if there are no such."""
    parameters = list(classifier.parameters())
    if any(is_lazy(parameter) for parameter in parameters):
        return None  # the first call decides on their shapes: it must be the user's
    floating = [parameter for parameter in parameters if parameter.is_floating_point()]
    dtype = floating[0].dtype if floating else torch.get_default_dtype()
    device = floating[0].device if floating else torch.device("cpu")
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, num_features, generator=generator).to(device, dtype)
    ring = torch.arange(6, device=device)
    edge_index = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], dim=1)
    between = (torch.arange(1, 7, device=device) / 6).repeat(2).to(dtype)
    weights = [torch.ones_like(between), torch.zeros_like(between), between]
    devices = [device] if device.type == "cuda" else []
    try:
        model = copy.deepcopy(classifier, {id(parameter): parameter for parameter in parameters}).eval()
        with torch.random.fork_rng(devices), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [model(x, edge_index[:, :0], **{weight_arg: between[:0]})]
            found += [model(x, edge_index, **{weight_arg: weight}) for weight in weights]
    except Exception:
        # Whatever it is, it says nothing about the weights: the model may need further arguments or another graph.
        return None
    return found if all(isinstance(output, Tensor) for output in found) else None


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
