"""The groups of a generated citation network: classes, the communities in them, and labels that deviate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# Field c holds a share of the nodes that falls as (c+1)^-0.7: with 7 classes, Cora's sizes within 3 points.
CLASS_SIZE_EXPONENT = 0.7
# A community has this many nodes per mean degree (20 nodes at Cora's), and log-normal sizes.
COMMUNITY_SIZE_PER_DEGREE = 5.0
COMMUNITY_SIZE_SPREAD = 0.5
# The share of a community that is labelled as another field is Beta distributed: mostly small, sometimes a half.
FOREIGN_LABELS_MEAN = 0.23
FOREIGN_LABELS_SHAPE = 0.5


@dataclass(frozen=True)
class Communities:
    """The groups. Nodes are ordered by field and, in a field, by community, so that every group is a range.

    Attributes:
        field_start, field_end: (C,) the range of nodes of every field.
        start, end: (K,) the range of nodes of every community.
        field: (K,) the field of every community.
        sister: (K,) the community of another field that it is related to.
        of: (N,) the community of every node.
        label: (N,) the class of every node: its community's field or, for some, the sister's.
    """

    field_start: Integers
    field_end: Integers
    start: Integers
    end: Integers
    field: Integers
    sister: Integers
    of: Integers
    label: Integers


def draw_communities(num_nodes: int, num_edges: int, num_classes: int, rng: np.random.Generator) -> Communities:
    """Divide `num_nodes` into classes of unequal size, and these into communities that fit the mean degree."""
    share = np.arange(1, num_classes + 1) ** -CLASS_SIZE_EXPONENT
    field_end = _ranges(share, np.zeros(num_classes, dtype=np.int64), np.array([num_nodes]))
    field_start = np.concatenate([[0], field_end[:-1]])
    field_size = field_end - field_start

    community_size = COMMUNITY_SIZE_PER_DEGREE * max(2 * num_edges / num_nodes, 1.0)
    per_field = np.maximum(np.round(field_size / community_size), 1).astype(np.int64)
    field = np.repeat(np.arange(num_classes), per_field)
    end = _ranges(rng.lognormal(0, COMMUNITY_SIZE_SPREAD, len(field)), field, field_size)
    start = np.concatenate([[0], end[:-1]])

    # A sister is any community outside the field: draw among those, and skip the field's own.
    first = np.concatenate([[0], np.cumsum(per_field)[:-1]])[field]
    outside = len(field) - per_field[field]
    sister = (rng.random(len(field)) * outside).astype(np.int64)
    sister += np.where(sister >= first, per_field[field], 0)
    if num_classes == 1:
        sister = np.arange(len(field))

    of = np.repeat(np.arange(len(field)), end - start)
    odds = (1 - FOREIGN_LABELS_MEAN) / FOREIGN_LABELS_MEAN
    foreign_share = rng.beta(FOREIGN_LABELS_SHAPE, FOREIGN_LABELS_SHAPE * odds, len(field))
    foreign = rng.random(num_nodes) < foreign_share[of]
    label = np.where(foreign, field[sister[of]], field[of])
    return Communities(field_start, field_end, start, end, field, sister, of, label)


def _ranges(weight: NDArray[np.floating[Any]], group: Integers, group_size: Integers) -> Integers:
    """Return the ends of consecutive ranges that divide every group's nodes by weight, with at least one node each.

    Shapes: weight (K,) and group (K,) ascending, group_size (G,); returns (K,).
    """
    members = np.bincount(group)
    last = np.cumsum(members) - 1
    total = np.cumsum(weight)
    before = np.concatenate([[0.0], total[last[:-1]]])
    share = (total - before[group]) / (total[last] - before)[group]
    rank = np.arange(1, len(group) + 1) - (last - members + 1)[group]
    start = np.cumsum(group_size) - group_size
    end: Integers = start[group] + rank + np.round(share * (group_size - members)[group]).astype(np.int64)
    return end
