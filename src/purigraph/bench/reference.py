"""The reference side: the equations as printed, with one node encoding per step and one edge product per edge."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.utils import negative_sampling

from purigraph.classifiers.edges import Edges
from purigraph.graph import PairGraph, pair_codes
from purigraph.kernels.reference import reference_encoding, reference_scores, reference_step
from purigraph.metrics import ranking_scores
from purigraph.purifiers.gpr_gae.links import LinkModel

# Pairs scored at a time if all would not fit in memory: 2 directions x 2,048 + 512 channels x 4 bytes each.
_BATCH = 200_000


def named_parameters(links: LinkModel, *, frozen: bool) -> dict[str, Tensor]:
    """Return the parameters by their names in the equations."""
    live = links.frozen() if frozen else links.trainable()
    p, q = live.code_weight.chunk(2, dim=1)
    return {
        "node_weight": live.node_weight,
        "node_bias": live.node_bias,
        "gamma": live.gamma,
        "edge_weight": torch.cat([p, q]),
        "edge_bias": live.code_constant[: p.shape[1]],
        "score_weight": live.score_weight,
        "score_bias": live.score_bias,
    }


def purify(links: LinkModel, x: Tensor, graph: PairGraph, steps: int) -> Tensor:
    """Purify in `steps` steps with alpha = 1; differentiable in the weights of the graph."""
    parameters = named_parameters(links, frozen=True)
    weight = graph.weight
    for _ in range(steps):
        weight = reference_step(x, graph.pairs, weight, parameters, batch=_BATCH)
    return weight


def diffused(edges: Edges, alpha: float = 0.15, top_k: int = 64) -> Tensor:
    """Return the largest entries (N, k) of every row of personalised PageRank, with sum 1; plain autograd."""
    value, loop = edges.normalised_with_loops()
    transition = torch.diag(loop).index_put((edges.pattern.row, edges.pattern.col.long()), value, accumulate=True)
    inverse = alpha * torch.linalg.inv(torch.eye(len(loop)) - (1 - alpha) * transition)
    kept: Tensor = inverse.topk(min(top_k, len(loop)), dim=1).values
    return kept / kept.sum(1, keepdim=True)


def training_epoch(
    links: LinkModel, optimizer: torch.optim.Optimizer, x: Tensor, graph: PairGraph, injection: float
) -> None:
    """Train one epoch with dense dropout, PyG's negative sampling and the loss of the paper."""
    edge_index, _ = graph.edge_index()
    count = round(injection * graph.num_pairs)
    negative = negative_sampling(edge_index, graph.num_nodes, 2 * count, force_undirected=True)
    negative = negative[:, negative[0] < negative[1]]
    codes = torch.unique(pair_codes.encode(negative[0], negative[1], graph.num_nodes))
    merged, at_original, _ = pair_codes.merge(graph.codes, codes)
    is_original = torch.zeros(len(merged), dtype=torch.bool)
    is_original[at_original] = True
    weight = (torch.rand(len(merged)) * 2 + 1) * (torch.rand(len(merged)) >= 0.2)
    perturbed = PairGraph.from_codes(graph.num_nodes, merged, weight)
    parameters = named_parameters(links, frozen=False)
    encoding = reference_encoding(functional.dropout(x, 0.7), perturbed.pairs, weight, parameters)
    forward, backward = reference_scores(encoding, perturbed.pairs, parameters).sigmoid()
    each = functional.binary_cross_entropy((forward + backward) / 2, is_original.float(), reduction="none")
    loss = each[is_original].mean() + each[~is_original].mean() + 0.2 * (forward - backward).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def validate(links: LinkModel, x: Tensor, sets: list[tuple[PairGraph, PairGraph, Tensor]]) -> None:
    """Score every validation set: (graph, scored pairs, which of them are original edges)."""
    parameters = named_parameters(links, frozen=True)
    for graph, scored, is_original in sets:
        encoding = reference_encoding(x, graph.pairs, graph.weight, parameters)
        probability = reference_scores(encoding, scored.pairs, parameters).sigmoid().mean(0)
        ranking_scores(probability[is_original], probability[~is_original])
