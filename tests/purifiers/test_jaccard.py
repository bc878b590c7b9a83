import numpy as np
import pytest
import torch

import purigraph as pg
from helpers import communities
from purifiers.frozen_attack import Array, as_data, dense, words
from purigraph.errors import InputError
from purigraph.kernels.row_products import Rows


def jaccard() -> Array:
    found = (words() != 0).astype(float)
    common = found @ found.T
    union = found.sum(1)[:, None] + found.sum(1)[None, :] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def cosine() -> Array:
    norms = np.linalg.norm(words(), axis=1)
    norms[norms == 0] = 1
    unit = words() / norms[:, None]
    return unit @ unit.T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("settings", "similarity", "threshold"),
    [
        ({}, jaccard, 0.01),
        ({"threshold": 0.3}, jaccard, 0.3),
        ({"similarity": "cosine"}, cosine, 0.4),
        ({"similarity": "cosine", "cosine_threshold": 0.2}, cosine, 0.2),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_it_equals_a_dense_computation(settings, similarity, threshold, weighted) -> None:  # type: ignore[no-untyped-def]
    data, adjacency = as_data(weighted)
    expected = adjacency * (similarity() >= threshold)
    assert 0 < (expected > 0).sum() < (adjacency > 0).sum()
    np.testing.assert_allclose(dense(pg.Jaccard(**settings)(data)), expected, atol=1e-7)


@pytest.mark.parametrize("kind", [jaccard, cosine])
def test_scores_are_the_similarities_of_any_pairs(kind) -> None:  # type: ignore[no-untyped-def]
    data, _ = as_data()
    pairs = torch.tensor([[0, 8, 4, 3], [8, 10, 11, 3]])
    scores = pg.Jaccard(similarity=kind.__name__).score_edges(data.x, data, pairs)
    np.testing.assert_allclose(scores[:3], kind()[pairs[0], pairs[1]][:3], atol=1e-6)
    assert scores[3] == 1


def test_weights_above_1_are_kept() -> None:
    data, _ = as_data()
    weight = torch.full((data.edge_index.shape[1],), 7.0)
    assert set(pg.Jaccard()(data.x, data.edge_index, weight).tolist()) == {0.0, 7.0}


def test_the_similarity_is_cut_before_the_presence_comes_in() -> None:
    """An edge that is there to a hundredth is there to a hundredth afterwards, and has the gradient of the gate."""
    data, _ = as_data()
    presence = torch.full((data.edge_index.shape[1],), 0.005, dtype=torch.float64, requires_grad=True)
    ones = torch.ones_like(presence)
    weight = pg.Jaccard(threshold=0.3).relaxed(data.x, data.edge_index, ones, presence)
    gate = torch.from_numpy((jaccard() >= 0.3).astype(float))[data.edge_index[0], data.edge_index[1]]
    torch.testing.assert_close(weight, 0.005 * gate)
    (gradient,) = torch.autograd.grad(weight.sum(), presence)
    torch.testing.assert_close(gradient, gate)


def test_similarities_are_computed_once_per_edge_list(monkeypatch: pytest.MonkeyPatch) -> None:
    data, purifier = communities(), pg.Jaccard(similarity="cosine")
    calls: list[int] = []
    products = Rows.products
    monkeypatch.setattr(Rows, "products", lambda self, pairs: calls.append(1) or products(self, pairs))
    first = purifier(data.x, data.edge_index)
    assert torch.equal(purifier(data.x, data.edge_index, torch.ones(data.edge_index.shape[1])), first)
    assert len(calls) == 1
    data.x[0] = -data.x[0]  # written to: what was kept no longer holds
    assert not torch.equal(purifier(data.x, data.edge_index), first)


def test_features_that_are_no_numbers_are_refused() -> None:
    data = communities()
    data.x[3, 3] = torch.inf
    with pytest.raises(InputError, match="NaN or infinite"):
        pg.Jaccard()(data)
