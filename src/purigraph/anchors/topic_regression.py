"""A student that regresses answers on words and topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from purigraph.anchors.students import Student
from purigraph.anchors.topics import Array, Topics, WordGraph
from purigraph.kernels import Features

# Chosen on the validation nodes of Cora, with a look at those of Citeseer and Chameleon.
_SHARPNESS = 6.0
_BALANCE = 5.0
# The ridges that `learn` chooses among: answers that follow the words closely want little, noisy ones want much.
_RIDGES = (4.0, 2.0, 1.0, 0.3, 0.1)
# With fewer nodes than this, none is held out to choose the ridge, which is then this one.
_ENOUGH_NODES = 40
_USUAL_RIDGE = 1.0
# Directions of the landmarks' kernel with less than this share of the largest variance are noise.
_NOISE = 1e-4


class TopicRegression(Student):
    r"""Kernel ridge regression of a classifier's answers on a node's words and on its topics.

    Words $a_v$ are the features, weighted by how rare they are, with norm 1. Topics $q_v$ are the part of them that
    neighbours share, with norm 1: the leading eigenvectors of $\frac12 A^T (P + P^2) A$ with the trusted nodes' words
    A and the mean over neighbours P (see `Topics`). So two nodes are alike if trusted nodes with words like theirs are
    close in the graph, which no MLP on the words can know. The scores are

    $$s_v = b + W a_v + \sum_l u_l \exp(\gamma (q_v \cdot z_l - 1)),$$

    fitted to the answers by least squares with a ridge: a linear kernel and a Gaussian one, the latter through
    landmarks $z_l$ by the method of Nyström (`Williams and Seeger 2000
    <https://papers.nips.cc/paper/1866-using-the-nystrom-method-to-speed-up-kernel-machines>`_). The ridge is chosen on
    nodes that are held out.

    Args:
        in_channels: F.
        out_channels: C.
        topics: k, the number of topics, at most F.
        landmarks: m, their number, at most that of the nodes that it learns from.
    """

    projection: Tensor
    word_weight: Tensor
    landmarks: Tensor
    votes: Tensor
    mean: Tensor

    def __init__(self, in_channels: int, out_channels: int, *, topics: int, landmarks: int) -> None:
        super().__init__()
        # Topics and the linear part, weighted, so that one product with x gives both.
        self.register_buffer("projection", torch.zeros(in_channels, topics + out_channels))
        self.register_buffer("word_weight", torch.ones(in_channels))
        self.register_buffer("landmarks", torch.zeros(landmarks, topics))
        self.register_buffer("votes", torch.zeros(landmarks, out_channels))
        self.register_buffer("mean", torch.zeros(out_channels))

    def forward(self, features: Features) -> Tensor:
        """Return scores (1, N, C): about probabilities, but not within [0, 1]."""
        with torch.no_grad():
            return self._scores(features.times(self.projection), features.row_norms(self.word_weight))

    def differentiable(self, x: Tensor) -> Tensor:
        """Return the same for dense x (N, F), with gradients with respect to it."""
        return self._scores(x @ self.projection, (x * self.word_weight).norm(dim=1))

    def _scores(self, projected: Tensor, norm: Tensor) -> Tensor:
        topics = self.landmarks.shape[1]
        linear = projected[:, topics:] / norm.clamp(min=torch.finfo(norm.dtype).tiny).unsqueeze(1)
        unit = torch.nn.functional.normalize(projected[:, :topics], dim=1)
        # gamma (q . z - 1) in one product: there are more landmarks than anything else, so passes over them cost most.
        scaled, offset = _SHARPNESS * self.landmarks.t(), unit.new_full((1,), -_SHARPNESS)
        near = torch.addmm(offset.expand(scaled.shape[1]), unit, scaled).exp_()
        # `linear` is twice as fast as `addmm` for a handful of columns.
        heard = torch.nn.functional.linear(near, self.votes.t().contiguous(), self.mean)
        return (heard + linear).unsqueeze(0)

    def learn(self, trusted: Data, taught: Tensor, seen: Tensor, *, seed: int) -> None:
        """Fit it to the answers (N, C) at the nodes that are seen, (N,) bool; nothing is read of the others."""
        graph = WordGraph.of(trusted, taught).part(seen.cpu().numpy())
        ridge, generator = _USUAL_RIDGE, np.random.default_rng(seed)
        landmarks, topics = self.landmarks.shape
        if len(graph.taught) >= _ENOUGH_NODES:
            held_out = generator.permutation(len(graph.taught)) % 4 == 0
            rest = graph.part(held_out)
            tried = _Regression.prepare(graph.part(~held_out), topics, landmarks, generator)
            errors = [
                float(np.square(tried.scores(rest.x, solution) - rest.taught).sum())
                for solution in tried.solutions(_RIDGES)
            ]
            ridge = _RIDGES[int(np.argmin(errors))]
        regression = _Regression.prepare(graph, topics, landmarks, generator)
        (solution,) = regression.solutions([ridge])
        found, words = regression.topics, graph.x.shape[1]
        for name, value in {
            "projection": found.word_weight[:, None] * np.hstack([found.basis, solution[:words]]),
            "word_weight": found.word_weight,
            "landmarks": found.landmarks,
            "votes": regression.whitening @ solution[words:],
            "mean": regression.mean,
        }.items():
            getattr(self, name).copy_(torch.from_numpy(value))


@dataclass
class _Regression:
    """A design matrix: words, and the kernel of topics and landmarks in coordinates of unit variance.

    Attributes:
        topics: What the words are mapped to.
        whitening: (m, r), from kernel values at the landmarks to coordinates, times the root of the kernel's share.
        words: (N, F).
        near: (N, r).
        mean: (C,) the mean answer.
        rest: (N, C) the answers without it.
    """

    topics: Topics
    whitening: Array
    words: Any
    near: Array
    mean: Array
    rest: Array

    @classmethod
    def prepare(cls, graph: WordGraph, topics: int, landmarks: int, generator: np.random.Generator) -> _Regression:
        learned = Topics.learn(graph, topics, landmarks, generator)
        values, vectors = np.linalg.eigh(_kernel(learned.landmarks, learned.landmarks))
        kept = values > _NOISE * values[-1]
        whitening = vectors[:, kept] * np.sqrt(_BALANCE / values[kept])
        words = learned.words(graph.x)
        near = _kernel(learned.of(words), learned.landmarks) @ whitening
        mean = graph.taught.mean(axis=0)
        return cls(learned, whitening, words, near, mean, graph.taught - mean)

    def solutions(self, ridges: Sequence[float]) -> Iterator[Array]:
        """Yield the least-squares solution (F + r, C) for each ridge; each starts from the one before."""
        from scipy.sparse.linalg import LinearOperator, cg

        size = self.words.shape[1]
        target = np.vstack([self.words.T @ self.rest, self.near.T @ self.rest])
        found = np.zeros_like(target)
        for ridge in ridges:

            def product(vector: Array, ridge: float = ridge) -> Array:
                residual = self.words @ vector[:size] + self.near @ vector[size:]
                back: Array = np.concatenate([self.words.T @ residual, self.near.T @ residual]) + ridge * vector
                return back

            operator = LinearOperator((len(target), len(target)), matvec=product, dtype=np.float64)
            columns = [
                cg(operator, wanted, x0=start, rtol=1e-4, maxiter=1000)[0]
                for wanted, start in zip(target.T, found.T, strict=True)
            ]
            found = np.stack(columns, axis=1)
            yield found

    def scores(self, x: Any, solution: Array) -> Array:
        """Return scores (M, C) of other nodes with features x (M, F)."""
        words = self.topics.words(x)
        near = _kernel(self.topics.of(words), self.topics.landmarks) @ self.whitening
        found: Array = self.mean + words @ solution[: words.shape[1]] + near @ solution[words.shape[1] :]
        return found


def _kernel(first: Array, second: Array) -> Array:
    """Return exp(gamma (u . v - 1)) for all rows: a Gaussian of the distance of unit vectors."""
    found: Array = np.exp(_SHARPNESS * (first @ second.T - 1))
    return found
