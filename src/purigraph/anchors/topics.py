"""Topics: what the words of neighbours have in common, learned from a trusted graph's edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from purigraph.graph.sparse_features import csr_to_scipy

Array = NDArray[np.float64]

_CLUSTERING_STEPS = 5


@dataclass
class WordGraph:
    """Nodes with words, who their neighbours are, and what a classifier says about them.

    Attributes:
        x: (N, F) features, a SciPy CSR array.
        adjacency: (N, N) weights, a SciPy CSR array.
        taught: (N, C) answers.
    """

    x: Any
    adjacency: Any
    taught: Array

    @classmethod
    def of(cls, data: Data, taught: Tensor) -> WordGraph:
        """Return that of a PyG graph with x, edge_index and edge_weight if any."""
        from scipy import sparse

        x = data.x.detach().cpu()
        rows = csr_to_scipy(x.to_sparse_csr() if x.layout != torch.sparse_csr else x).astype(np.float64)
        source, target = data.edge_index.cpu().numpy()
        weight = data.edge_weight.detach().cpu().numpy() if "edge_weight" in data else np.ones(len(source))
        adjacency = sparse.csr_array((weight.astype(np.float64), (target, source)), shape=(len(x), len(x)))
        return cls(rows, adjacency, taught.detach().cpu().double().numpy())

    def part(self, nodes: NDArray[np.bool_]) -> WordGraph:
        """Return that of some nodes (N,) and the edges between them."""
        return WordGraph(self.x[nodes], self.adjacency[nodes][:, nodes], self.taught[nodes])


@dataclass
class Topics:
    r"""How words weigh, which combinations of them neighbours share, and where the nodes are among these.

    Attributes:
        word_weight: (F,) $\log \frac{1 + N}{1 + n_f} + 1$ for a feature that $n_f$ of N nodes have.
        basis: (F, k), by which words are mapped to topics.
        landmarks: (m, k) unit vectors, the centres of spherical k-means over the nodes.
    """

    word_weight: Array
    basis: Array
    landmarks: Array

    @classmethod
    def learn(cls, graph: WordGraph, count: int, landmarks: int, generator: np.random.Generator) -> Topics:
        """Learn them from a graph."""
        num_nodes, num_words = graph.x.shape
        having = np.bincount(graph.x.indices[graph.x.data != 0], minlength=num_words)
        topics = cls(np.log((1 + num_nodes) / (1 + having)) + 1, np.zeros((num_words, count)), np.zeros((0, count)))
        words = topics.words(graph.x)
        topics.basis = _shared(words, _neighbour_mean(graph.adjacency), count)
        topics.landmarks = _centres(topics.of(words), landmarks, generator)
        return topics

    def words(self, x: Any) -> Any:
        """Return weighted words of norm 1, or 0 without any, for features (N, F): a SciPy CSR array."""
        from scipy import sparse

        weighted = x * sparse.csr_array(self.word_weight[None, :])
        norm = np.sqrt(weighted.multiply(weighted).sum(axis=1))
        return sparse.csr_array(sparse.diags_array(1 / np.where(norm > 0, norm, 1)) @ weighted)

    def of(self, words: Any) -> Array:
        """Return the topics (N, k) of words (N, F), with norm 1, or 0 without any."""
        return _unit(words @ self.basis)


def _neighbour_mean(adjacency: Any) -> Any:
    """Return P (N, N) that takes the weighted mean over neighbours."""
    from scipy import sparse

    degree = np.asarray(adjacency.sum(axis=1))
    return sparse.diags_array(1 / np.where(degree > 0, degree, 1)) @ adjacency


def _shared(words: Any, mean: Any, count: int) -> Array:
    """Return (F, k) leading eigenvectors of A^T (P + P^2) A / 2, made symmetric, times roots of their eigenvalues.

    Where no neighbours have words, as in a graph without edges, those of A^T A.
    """
    from scipy import sparse
    from scipy.sparse.linalg import LinearOperator, eigsh

    how_many = abs(words).sum(axis=1)
    if not (how_many @ (mean @ how_many)).any():
        mean = sparse.eye_array(len(how_many), format="csr")

    def product(vector: Array) -> Array:
        own = words @ vector
        around, towards = mean @ own, mean.T @ own
        near = (around + mean @ around + towards + mean.T @ towards) / 4
        found: Array = words.T @ near
        return found

    size = words.shape[1]
    if words.count_nonzero() == 0:
        return np.zeros((size, count))
    if 2 * count >= size:  # too few words for an iterative method
        whole = product(np.eye(size))
        values, vectors = np.linalg.eigh((whole + whole.T) / 2)
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        values, vectors = eigsh(operator, k=count, which="LA", v0=np.ones(size), tol=1e-3)
    scaled: Array = vectors * np.sqrt(np.maximum(values, 0))
    return scaled


def _centres(rows: Array, count: int, generator: np.random.Generator) -> Array:
    """Return (m, k) centres of spherical k-means, from random rows; a centre that loses its rows stays."""
    from scipy import sparse

    centres = rows[generator.permutation(len(rows))[:count]]
    for _ in range(_CLUSTERING_STEPS):
        nearest = (rows @ centres.T).argmax(axis=1)
        member = sparse.csr_array((np.ones(len(rows)), (nearest, np.arange(len(rows)))), shape=(count, len(rows)))
        total = member @ rows
        centres = np.where(np.abs(total).sum(axis=1, keepdims=True) > 0, _unit(total), centres)
    return centres


def _unit(rows: Array) -> Array:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Array = rows / np.where(norm > 0, norm, 1)
    return found
