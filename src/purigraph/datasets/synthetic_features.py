"""Features of a generated citation network: words from topic mixtures, or dense vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from purigraph.datasets.raw_graph import sorted_unique
from purigraph.datasets.synthetic_communities import Communities, Integers

# Words: their number per paper, and the Zipf-Mandelbrot law of their frequency, (rank + 12)^-1.1, as in Cora.
WORDS_MEAN, WORDS_SPREAD = 20.0, 6.5
ZIPF_OFFSET, ZIPF_EXPONENT = 12, 1.1
# A word is from the class's topic, from the community's keywords, or any; the shares differ between papers.
TOPIC_SHARE, KEYWORD_SHARE = 0.47, 0.15
SHARE_SHAPE = 2.0
# How much a class prefers words: log-normal tilt of the common frequencies.
TOPIC_TILT = 1.6
NUM_KEYWORDS = 20
# A paper with another field's label takes this share of its topic words from that field, the rest from where it is.
OWN_TOPIC_SHARE = 0.6

# Dense features: the length of the class's, and of the community's, centre beside unit noise per dimension.
DENSE_CLASS, DENSE_COMMUNITY = 4.0, 3.0
BLOCK = 1 << 16


def draw_words(communities: Communities, nodes: Integers, num_features: int, rng: np.random.Generator) -> Any:
    """Return an (N, F) SciPy CSR array of 0 and 1: row r has the words of node `nodes[r]`, at least one."""
    field, of, label = communities.field, communities.of[nodes], communities.label[nodes]
    num_classes = len(communities.field_start)
    frequency = (np.arange(num_features) + ZIPF_OFFSET) ** -ZIPF_EXPONENT
    topics = frequency * np.exp(TOPIC_TILT * rng.standard_normal((num_classes, num_features)))
    # One table for all topics: the running sum of topic c goes from c to c + 1.
    topic_table = np.cumsum(topics / topics.sum(1, keepdims=True), axis=1)
    topic_table += np.arange(num_classes)[:, None]
    keywords = _pick(np.sqrt(frequency), rng.random((len(field), NUM_KEYWORDS)))

    count = np.maximum(np.round(rng.normal(WORDS_MEAN, WORDS_SPREAD, len(nodes))), 1).astype(np.int64)
    topical = 2 * TOPIC_SHARE * rng.beta(SHARE_SHAPE, SHARE_SHAPE, len(nodes))
    keyed = 2 * KEYWORD_SHARE * rng.beta(SHARE_SHAPE, SHARE_SHAPE, len(nodes))
    total = np.maximum(topical + keyed, 1)

    codes = []
    for first in range(0, len(nodes), BLOCK):
        row = np.repeat(np.arange(first, min(first + BLOCK, len(nodes))), count[first : first + BLOCK])
        community = of[row]
        topic = np.where(rng.random(len(row)) < OWN_TOPIC_SHARE, label[row], field[community])
        draw = rng.random(len(row)) * total[row]
        word = np.where(
            draw < topical[row],
            _locate(topic_table.ravel(), topic + rng.random(len(row))) % num_features,
            np.where(
                draw < (topical + keyed)[row],
                keywords[community, rng.integers(NUM_KEYWORDS, size=len(row))],
                _pick(frequency, rng.random(len(row))),
            ),
        )
        codes.append(sorted_unique(row * num_features + word))
    code = np.concatenate(codes)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(code // num_features, minlength=len(nodes)))])
    ones = np.ones(len(code), dtype=np.float32)
    return sparse.csr_array((ones, code % num_features, indptr), shape=(len(nodes), num_features))


def draw_dense(
    communities: Communities, nodes: Integers, num_features: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return (N, F) float32: row r is normally distributed around the centres of `nodes[r]`'s class and community."""
    of, label = communities.of[nodes], communities.label[nodes]
    num_classes = len(communities.field_start)

    def centres(count: int, length: float) -> NDArray[np.float32]:
        scale = np.float32(length / np.sqrt(num_features))
        return scale * rng.standard_normal((count, num_features), dtype=np.float32)

    of_class, of_community = centres(num_classes, DENSE_CLASS), centres(len(communities.field), DENSE_COMMUNITY)
    # As with words: a paper with the label of another field is in part about the field that it is in.
    of_community += np.float32(1 - OWN_TOPIC_SHARE) * of_class[communities.field]
    of_class *= np.float32(OWN_TOPIC_SHARE)
    x = np.empty((len(nodes), num_features), dtype=np.float32)
    for first in range(0, len(nodes), BLOCK):
        block = slice(first, first + BLOCK)
        rng.standard_normal(dtype=np.float32, out=x[block])
        x[block] += of_class[label[block]]
        x[block] += of_community[of[block]]
    return x


def _pick(weight: NDArray[np.floating[Any]], uniform: NDArray[np.floating[Any]]) -> Integers:
    """Return indices drawn with probability proportional to `weight`, from uniform numbers in [0, 1)."""
    table = np.cumsum(weight)
    return _locate(table / table[-1], uniform)


def _locate(table: NDArray[np.floating[Any]], value: NDArray[np.floating[Any]]) -> Integers:
    # The last entry of a running sum may be slightly less than its integer, by rounding.
    return np.minimum(np.searchsorted(table, value, side="right"), len(table) - 1)
