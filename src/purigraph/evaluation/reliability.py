"""Whether a measured robustness can be believed: what is proven, and signs that an attack had no fair chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph import losses
from purigraph.attacks import Model, Victim
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.victim import frozen
from purigraph.errors import NoGradientError
from purigraph.evaluation.predictions import predict
from purigraph.graph import as_pair_graph
from purigraph.graph.pair_space import PairSpace

# Pairs at which the gradient is looked at, beside the edges of the graph (as many at most).
_PROBES = 1000


class Proof(NamedTuple):
    """What no edit of the edges can change.

    Attributes:
        accuracy: The share of the targets that are right and proven to stay so.
        share: The share of the targets whose answers are proven, right or wrong.
    """

    accuracy: float
    share: float


def proven(model: Model, data: Data, targets: Tensor) -> Proof:
    """Return what is proven about a model's answers: by its certificate, or because it looks at no edge.

    A model proves answers through a method `certificate(data, targets=)` whose result has `fixed`, (N,) bool (see
    `purigraph.anchors.Certificate`), or by an attribute `uses_edges` that is False.
    """
    certificate = getattr(model, "certificate", None)
    if certificate is not None:
        fixed: Tensor = certificate(data, targets=targets).fixed[targets]
    elif getattr(model, "uses_edges", True) is False:
        fixed = torch.ones_like(targets, dtype=torch.bool)
    else:
        return Proof(0.0, 0.0)
    right = predict(model, data)[targets].argmax(1) == data.y[targets]
    return Proof(float((fixed & right).double().mean()), float(fixed.double().mean()))


def find_doubts(model: Model, data: Data, targets: Tensor, *, seed: int = 0) -> list[str]:
    """Return reasons not to trust attacks on a model, after the conventions of RobustBench; none if all is well.

    Forward passes must be deterministic and finite, and the gradient with respect to the edges must be there and not be
    zero everywhere.

    Args:
        model: `(x, edge_index, edge_weight) -> logits`.
        data: x, edge_index, edge_weight, y.
        targets: (M,) int64.
        seed: The seed of the pairs at which the gradient is looked at.
    """
    doubts = []
    one, other = predict(model, data), predict(model, data)
    if not bool(one[targets].isfinite().all()):
        doubts.append("Its outputs are not all finite.")
    elif not torch.allclose(one, other, rtol=1e-4, atol=1e-5):
        gap = float((one - other).abs().max())
        doubts.append(
            f"Two calls with the same graph differ by {gap:.2g}: the model is random, and attacks optimise noise. Fix "
            "its randomness, or average over it inside the model."
        )
    doubts += _doubts_of_gradient(model, data, targets, seed)
    return doubts


def _doubts_of_gradient(model: Model, data: Data, targets: Tensor, seed: int) -> list[str]:
    graph = as_pair_graph(data)
    generator = torch.Generator().manual_seed(seed)
    space = PairSpace(graph.num_nodes, touching=targets, device=graph.device)
    fresh = space.sample(_PROBES, generator)
    edges = graph.codes[torch.randperm(graph.num_pairs, generator=generator)[:_PROBES].to(graph.device)]
    codes = torch.unique(torch.cat([fresh, edges]))
    if len(codes) == 0:
        return []
    graph = graph.with_weight(graph.weight.to(_dtype(data.x)))
    overlay = Overlay(graph, codes)
    flips = torch.full((len(codes),), 1e-3, dtype=graph.weight.dtype, device=graph.device)
    with torch.inference_mode(False), frozen(model):
        victim = Victim(model, data.x, data.y, targets, losses.create("margin"))
        try:
            _, gradient = victim.gradient(overlay, flips)
        except NoGradientError:
            return ["No gradient flows from its outputs back to the edges: only attacks without gradients count."]
    if not bool(gradient.any()):
        return [f"The gradient is exactly 0 at {len(codes)} pairs: it is masked, or the model does not use the edges."]
    return []


def _dtype(x: Any) -> torch.dtype:
    return x.dtype if isinstance(x, Tensor) and x.is_floating_point() else torch.float32
