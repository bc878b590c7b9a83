"""Purifications with their evidence, and what changed since a snapshot."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph.audit import Trusted, audit
from purigraph.errors import InputError, NotFittedError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.file_formats import NodeIds
from purigraph.graph.injection import inject


@pytest.fixture(scope="module")
def today() -> tuple[Data, PairGraph]:
    """A graph to which 20 edges were added and from which 5 were removed, and the graph before."""
    data = communities()
    before = as_pair_graph(data)
    perturbed = inject(before, 20, torch.Generator().manual_seed(1))
    keep = torch.ones(perturbed.graph.num_pairs, dtype=torch.bool)
    keep[perturbed.is_original.nonzero().squeeze(1)[:5]] = False
    data.edge_index = perturbed.graph.pairs[:, keep]
    return data, before


def test_weights_are_those_of_the_purifier(trained: pg.GPRGAE, data: Data) -> None:
    found = audit(trained, data)
    assert torch.equal(found.weight, as_pair_graph(trained(data)).weight)
    assert found.decision is None
    assert found.suspicious_below == trained.suggest_threshold(0.01)
    assert "held-out" in found.chosen_by
    assert torch.equal(found.suspicious, found.weight < found.suspicious_below)
    counts = found.counts()
    assert counts["edges"] == len(found.weight)
    assert counts["cut"] == 0


def test_a_rate_chooses_the_threshold(trained: pg.GPRGAE, data: Data) -> None:
    found = audit(trained, data, false_positive_rate=0.2, min_degree=1, max_cut=0.1)
    assert found.decision is not None
    assert found.decision.rules.threshold == trained.suggest_threshold(0.2)
    assert 0 < found.decision.cut <= 0.1 * found.graph.num_pairs
    assert (found.purified().weight[~found.decision.keep] == 0).all()


def test_what_is_never_cut_stays(trained: pg.GPRGAE, data: Data) -> None:
    names = [f"n{k}" for k in range(data.num_nodes)]
    graph = as_pair_graph(data)
    edges = graph.pairs[:, :4]
    pairs = [(names[b], names[a]) for a, b in edges.t().tolist()]
    for given in (edges, [*pairs, ("nobody", "n1")]):
        found = audit(trained, data, ids=names, threshold=1.0, never_cut=given)
        assert found.decision is not None
        assert found.decision.keep[:4].all()
        assert found.decision.never_cut == 4
        assert not found.decision.keep[4:].any()


def test_only_changes_are_judged(trained: pg.GPRGAE, today: tuple[Data, PairGraph]) -> None:
    data, before = today
    graph = as_pair_graph(data)
    found = audit(trained, data, trusted=Data(edge_index=before.pairs, num_nodes=120), threshold=1.0)
    changes = found.changes
    assert changes is not None
    known = set(map(tuple, before.pairs.t().tolist()))
    expected = [tuple(pair) not in known for pair in graph.pairs.t().tolist()]
    assert found.judged.tolist() == expected
    assert sum(expected) == 20
    assert found.weight[~found.judged].eq(1).all()
    assert torch.equal(found.weight[found.judged], found.evidence.score[found.judged])
    assert found.decision is not None
    assert torch.equal(~found.decision.keep, found.judged)
    gone = {tuple(pair) for pair in before.pairs.t().tolist()} - {tuple(pair) for pair in graph.pairs.t().tolist()}
    assert {tuple(pair) for pair in changes.removed.t().tolist()} == gone
    assert changes.removed.shape[1] == 5
    assert changes.added_score[changes.added_rank == 1] == changes.added_score.min()
    assert changes.removed_score[changes.removed_rank == 1] == changes.removed_score.max()
    assert "20 edges were added and 5 removed" in changes.sentence()


def test_removed_edges_get_the_score_they_would_have(trained: pg.GPRGAE, today: tuple[Data, PairGraph]) -> None:
    """One that is there with a presence of 0 in every step, as attacks see it."""
    data, before = today
    changes = audit(trained, data, trusted=Data(edge_index=before.pairs, num_nodes=120)).changes
    assert changes is not None
    edges = torch.cat([data.edge_index, changes.removed], dim=1)
    presence = torch.ones(edges.shape[1])
    presence[-5:] = 1e-6
    weight = trained.relaxed(data.x, edges, torch.ones(edges.shape[1]), presence)
    assert torch.allclose(weight[-5:] / 1e-6, changes.removed_score, atol=1e-3)


def test_nodes_are_found_by_their_names(trained: pg.GPRGAE, today: tuple[Data, PairGraph]) -> None:
    data, before = today
    names = [f"n{k}" for k in range(120)]
    expected = audit(trained, data, ids=names, trusted=Trusted(before, NodeIds(names)))
    # The same snapshot with its nodes in another order, one more that is gone, and without node 3.
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    place = torch.empty_like(order)
    place[order] = torch.arange(120)
    others = [names[k] for k in order.tolist()]
    others[int(place[3])] = "gone"
    pairs = place[before.pairs].sort(0).values
    codes, at = (pairs[0] * 120 + pairs[1]).sort()
    turned = Trusted(PairGraph.from_codes(120, codes), NodeIds(others))
    found = audit(trained, data, ids=names, trusted=turned).changes
    assert found is not None
    assert expected.changes is not None
    degree = int(before.degree()[3])
    assert (found.gone_nodes, found.removed_with_nodes) == (["gone"], degree)
    assert found.new_nodes.tolist() == [3]
    assert int(found.is_added.sum()) >= int(expected.changes.is_added.sum())
    assert len(at) == before.num_pairs


def test_answers_and_certificates(trained: pg.GPRGAE, data: Data) -> None:
    class Degree(torch.nn.Module):
        """Says whether the weights at a node sum up to more than 3."""

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
            total = torch.zeros(len(x)).index_add(0, edge_index[1], edge_weight)
            return torch.stack([3 - total, total - 3], dim=1)

    found = audit(trained, data, classifier=Degree())
    assert found.answers is not None
    graph = as_pair_graph(data)
    before = graph.weighted_degree() > 3
    after = found.purified().weighted_degree() > 3
    assert found.answers.changed.tolist() == (before != after).nonzero().squeeze(1).tolist()
    assert found.answers.accuracy is not None
    assert found.answers.accuracy[0] == pytest.approx(float((before.long() == data.y).double().mean()))
    with pytest.raises(InputError, match="pass that too"):
        audit(trained, data, anchor=pg.Anchor())


def test_purifiers_that_add_edges_are_told_of_too(data: Data) -> None:
    found = audit(pg.SVD(rank=5, reconstruction="dense"), data)
    assert found.rewired is not None
    assert found.counts()["added"] > 0


def test_options_that_make_no_sense_are_refused(trained: pg.GPRGAE, data: Data) -> None:
    for words, options in (
        ("pass one of them", {"threshold": 0.5, "false_positive_rate": 0.1}),
        ("pass a threshold", {"min_degree": 1}),
        ("pass a threshold", {"max_cut": 0.5}),
        ("from 0 to 1", {"false_positive_rate": 2.0}),
        ("3 entries", {"ids": ["a", "b", "c"]}),
        ("never_cut must be", {"threshold": 0.5, "never_cut": torch.zeros(3)}),
    ):
        with pytest.raises(InputError, match=words):
            audit(trained, data, **options)
    with pytest.raises(NotFittedError):
        audit(pg.GPRGAE(), data)
    with pytest.raises(InputError, match="no calibration"):
        audit(pg.Jaccard(), data, false_positive_rate=0.1)
    assert audit(pg.Jaccard(), data).suspicious_below == 0.5
    assert audit(pg.Jaccard(), data, trusted=data, false_positive_rate=0.1).decision is not None
