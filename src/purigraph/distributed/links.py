r"""One purification step over the rows of a rank: equations (4) to (8) of the paper, as in `gpr_gae.links`.

The columns of $H^{(0)}$ don't meet before the codes do, so they are taken in chunks: for every chunk of Z1, all K hops
are computed (before each, the rows of other ranks that own edges lead to are fetched) and their share is added to the
codes; for every chunk of Z2, the Q of other ranks' nodes is fetched and the scores of the own entries are accumulated.
What exists at a time is the codes (n, 2 Z2), the hops of one chunk (K+1, n, c) and one chunk of the halo (h, c).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from purigraph.distributed.group import Group
from purigraph.distributed.parts import GraphParts
from purigraph.distributed.row_block import RowBlock
from purigraph.errors import InputError
from purigraph.graph import inverse_sqrt
from purigraph.kernels import Features, buffers
from purigraph.kernels.node_codes import add_node_codes
from purigraph.kernels.products import product_into
from purigraph.kernels.row_entries import add_row_scores, row_sums, scaled
from purigraph.purifiers.gpr_gae.links import LinkMap

# The filters whose share of the codes is added at a time: their weights are copied, whatever the size of the rank.
_FILTERS = 2


class RowLinks:
    """A `LinkMap` on the rows of one rank.

    Args:
        links: The map; the same on all ranks.
        block: The rows.
        h: (n, Z1), the initial embeddings of the own nodes.
        group: The ranks.
        chunk: c, the columns that are exchanged at a time.
    """

    def __init__(self, links: LinkMap, block: RowBlock, h: Tensor, group: Group, *, chunk: int) -> None:
        if chunk < 1:
            raise InputError(f"chunk must be at least 1, not {chunk}.")
        self._links, self._block, self._h, self._group, self._chunk = links, block, h, group, chunk
        widest = min(chunk, max(h.shape[1], len(links.score_weight)))
        self._columns = _Scratch(block.num_columns * widest, h)
        self._sent = _Scratch(len(block.sent) * widest, h)
        powers = len(links.gamma) if links.second is None else 2
        self._powers = _Scratch(powers * block.num_own * min(chunk, h.shape[1]), h)

    @torch.no_grad()
    def predict(self, weight: Tensor) -> Tensor:
        r"""Return $f_\theta$ for the own entries, (M,), given their weights (M,).

        The probability of a direction is computed by the rank of its source and sent to the other end, which has
        computed that of the reverse direction: both ends of a pair hold the same mean.
        """
        value, diagonal = self._normalised(weight)
        codes = self._codes(value, diagonal)
        probability = self._scores(codes, value).sigmoid_()
        del codes
        return probability.add_(self._block.mirrored(probability, self._group)).div_(2)

    def _normalised(self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the values of the normalised adjacency at the own entries, (M,), and on its diagonal, (n,)."""
        block, loops = self._block, self._links.self_loops
        degree = row_sums(block.pattern, weight)
        scale = inverse_sqrt(degree + 1 if loops else degree)
        every = self._gather(scale.unsqueeze(1))
        return scaled(block.pattern, weight, scale, every.squeeze(1)), scale * scale if loops else None

    def _codes(self, value: Tensor, diagonal: Tensor | None) -> Tensor:
        """Return P and Q of the own nodes, (n, 2 Z2)."""
        links, own = self._links, self._block.num_own
        codes = buffers.empty(own, links.code_weight.shape[1], like=self._h)
        codes.copy_(links.code_constant.expand_as(codes))
        h, filters, powers = self._h, len(links.gamma), len(links.gamma)
        if links.second is not None:
            # A GCN: the second layer takes the place of the embeddings, and only its own hop is encoded.
            h, powers = self._gcn_layer(value, diagonal), 2
        weight = links.code_weight.view(filters, h.shape[1], -1)
        for columns in self._chunks(h.shape[1]):
            hops = self._hops(h[:, columns], value, diagonal, powers)
            if links.second is not None:
                hops = hops[1:]
            for first in range(0, filters, _FILTERS):
                some = slice(first, first + _FILTERS)
                add_node_codes(codes, hops, links.gamma[some], weight[some, columns].reshape(-1, codes.shape[1]))
        return codes

    def _hops(self, h: Tensor, value: Tensor, diagonal: Tensor | None, powers: int) -> Tensor:
        """Return the first powers of the adjacency times some columns h (n, c), (powers, n, c)."""
        hops = self._powers.view(powers, *h.shape)
        hops[0] = h
        for m in range(1, powers):
            product_into(hops[m], self._block.pattern, value, self._gather(hops[m - 1]), diagonal)
        return hops

    def _gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all columns, (n + h, c), from those of the own nodes; overwrites what it returned last."""
        every = self._columns.view(self._block.num_columns, rows.shape[1])
        self._block.gather(rows, every, self._group, self._sent.view(len(self._block.sent), rows.shape[1]))
        return every

    def _gcn_layer(self, value: Tensor, diagonal: Tensor | None) -> Tensor:
        assert self._links.second is not None
        weight, bias = self._links.second
        first = torch.empty_like(self._h)
        for columns in self._chunks(self._h.shape[1]):
            first[:, columns] = self._hops(self._h[:, columns], value, diagonal, 2)[1]
        return torch.addmm(bias, functional.elu(first), weight)

    def _scores(self, codes: Tensor, like: Tensor) -> Tensor:
        """Return the logit of every own entry in its direction, (M,)."""
        links, block = self._links, self._block
        scores = torch.zeros_like(like)
        channels = len(links.score_weight)
        for columns in self._chunks(channels):
            q = codes[:, channels + columns.start : channels + columns.stop]
            add_row_scores(scores, block.pattern, codes, columns.start, self._gather(q), links.score_weight[columns])
        return scores.add_(links.score_bias)

    def _chunks(self, width: int) -> Iterator[slice]:
        for start in range(0, width, self._chunk):
            yield slice(start, min(start + self._chunk, width))


class _Scratch:
    """Memory that is used again and again, for matrices of different shapes."""

    def __init__(self, size: int, like: Tensor) -> None:
        self._memory = buffers.empty(max(size, 1), like=like)

    def view(self, *shape: int) -> Tensor:
        """Return the first part of the memory as a matrix of this shape."""
        return self._memory[: math.prod(shape)].view(shape)


@torch.no_grad()
def embed(links: LinkMap, parts: GraphParts, block: RowBlock) -> tuple[Tensor, Tensor | None]:
    """Return the initial embeddings of the own nodes, (n, Z1), and their names, (n,); features are read in batches."""
    if parts.num_features != len(links.node_weight):
        raise InputError(
            f"This purifier was trained on {len(links.node_weight)} features per node; {parts.folder} has "
            f"{parts.num_features}."
        )
    h = links.node_weight.new_empty(block.num_own, links.node_weight.shape[1])
    names = torch.empty(block.num_own, dtype=torch.int64) if parts.named else None
    first = 0
    for x, batch_names in parts.feature_batches(block.start, block.start + block.num_own):
        rows = slice(first, first + len(x))
        h[rows] = links.embed(Features(x.to(h)))
        if names is not None and batch_names is not None:
            names[rows] = batch_names
        first += len(x)
    return h, names
