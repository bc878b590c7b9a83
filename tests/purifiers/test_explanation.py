"""Why an edge got its weight, and at which weight to cut."""

from __future__ import annotations

import networkx
import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities, random_pair_graph
from purigraph.errors import InputError
from purigraph.graph import as_pair_graph
from purigraph.graph.injection import inject
from purigraph.kernels import compiled
from purigraph.kernels.common_neighbours import common_neighbours
from purigraph.purifiers.calibration import RATES, Calibration, calibrate, measure


@pytest.mark.parametrize("available", [True, False])
def test_common_neighbours_are_those_of_networkx(available: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "AVAILABLE", available)
    graph = random_pair_graph(40, 150)
    network = networkx.Graph(graph.pairs.t().tolist())
    expected = [len(list(networkx.common_neighbors(network, a, b))) for a, b in graph.pairs.t().tolist()]
    assert common_neighbours(graph.csr, graph.pairs).tolist() == expected


def test_every_edge_is_explained(trained: pg.GPRGAE, data: Data) -> None:
    graph = as_pair_graph(data)
    found = trained.explain(data)
    assert len(found) == graph.num_pairs
    trace = trained.trace(data, history=True)
    for step, weights in enumerate(trace.weights):
        assert torch.equal(found[f"step_{step}"], weights)
    assert torch.equal(found["weight"], trace.graph.weight)
    # With a step size of 1, a weight is the mean of both directions' scores.
    assert torch.allclose((found["forward"] + found["backward"]) / 2, found["weight"], atol=1e-6)
    assert sorted(found["rank"].tolist()) == list(range(1, graph.num_pairs + 1))
    assert found["weight"][torch.argsort(found["rank"])].diff().ge(0).all()
    i, j = graph.pairs[:, 7]
    cosine = torch.cosine_similarity(data.x[i], data.x[j], dim=0)
    assert float(found["similarity"][7]) == pytest.approx(float(cosine), abs=1e-5)
    assert int(found["degree_source"][7]) == int(graph.degree()[i])
    assert (found["source"][7], found["target"][7]) == (int(i), int(j))


def test_explanations_are_tables(trained: pg.GPRGAE, data: Data) -> None:
    names = [f"node {k}" for k in range(data.num_nodes)]
    found = trained.explain(data, names)
    worst = found.worst(3)
    assert worst["rank"].tolist() == [1, 2, 3]
    assert all(name.startswith("node ") for name in worst["source"])
    frame = found.to_pandas()
    assert list(frame.columns) == list(found.to_dict())
    assert frame.sort_values("rank").iloc[0]["source"] == worst["source"][0]
    assert worst["source"][0] in str(found)
    with pytest.raises(InputError, match="no column 'odd'"):
        found["odd"]
    with pytest.raises(InputError, match="3 entries"):
        trained.explain(data, ["a", "b", "c"])


def test_any_purifier_explains_itself(data: Data) -> None:
    for purifier in (pg.Jaccard(similarity="cosine", cosine_threshold=0.1), pg.SVD(rank=5)):
        found = purifier.explain(data)
        assert torch.equal(found["step_1"], purifier.purify(data.x, as_pair_graph(data)).weight)
        assert "forward" not in found.columns
    dense = pg.SVD(rank=5, reconstruction="dense").explain(data)
    assert len(dense) == as_pair_graph(data).num_pairs


def test_a_rate_is_kept_on_held_out_edges(trained: pg.GPRGAE) -> None:
    kept = trained.calibration
    assert kept is not None
    assert kept.held_out
    assert list(kept.thresholds) == sorted(kept.thresholds)
    assert trained.suggest_threshold(0.05) == kept.threshold(0.05)
    assert kept.threshold(0.02) <= kept.threshold(0.03) <= kept.threshold(0.05)
    assert Calibration.of_record(kept.record()) == kept
    for broken in (None, {}, {**kept.record(), "rates": [1]}, {**kept.record(), "caught": [2.0] * len(RATES)}):
        assert Calibration.of_record(broken) is None


def test_thresholds_cost_what_they_say() -> None:
    true, injected = torch.linspace(0, 1, 1001), torch.linspace(0, 0.5, 501)
    found = measure(true, injected)
    for rate in RATES[:-1]:
        assert float((true < found.threshold(rate)).double().mean()) <= rate + 1e-9
    assert found.caught_at(0.1) == pytest.approx(0.2, abs=0.01)
    assert found.threshold(0.0) == 0
    with pytest.raises(InputError, match="from 0 to 1"):
        found.threshold(1.5)


def test_a_trusted_graph_calibrates_any_purifier(data: Data) -> None:
    purifier = pg.Jaccard(similarity="cosine", cosine_threshold=0.3)
    with pytest.raises(InputError, match="no calibration of its own"):
        purifier.suggest_threshold()
    assert 0 <= purifier.suggest_threshold(0.05, data) <= 1


def test_the_rate_holds_on_edges_of_another_draw() -> None:
    """A threshold from a fit costs about as many true edges of the same graph as it says."""
    data = communities(400, seed=1)
    purifier = pg.GPRGAE(hops=3, node_channels=8, edge_channels=16).fit(data, epochs=60)
    graph = as_pair_graph(data)
    perturbed = inject(graph, round(0.3 * graph.num_pairs), torch.Generator().manual_seed(5))
    score = purifier.evidence(data.x, perturbed.graph).score
    threshold = purifier.suggest_threshold(0.1)
    lost = float((score[perturbed.is_original] < threshold).double().mean())
    caught = float((score[~perturbed.is_original] < threshold).double().mean())
    assert 0.02 < lost < 0.25
    assert caught > lost
    assert calibrate(purifier, data, seed=1).threshold(0.1) == pytest.approx(threshold, abs=0.3)
