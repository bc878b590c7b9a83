"""Pairs of trusted nodes are what the trusted graph says, whatever was done to them since."""

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks
from purigraph.errors import GraphError
from purigraph.graph import as_pair_graph, attach_split, inductive_split
from purigraph.graph.perturbation import Perturbation
from purigraph.training import train
from purigraph.trusted_pairs import TrustedPairs


@pytest.fixture(scope="module")
def split():
    return inductive_split(attach_split(communities(120), seed=0, train_per_class=8, val_per_class=8, test_share=0.2))


@pytest.fixture(scope="module")
def gcn(split):
    return train("gcn", "vanilla", split, settings={"epochs": 30}, hyper={"hidden_channels": 8}).model


def old_pairs(split, edge: bool) -> torch.Tensor:
    """Pairs of two trusted nodes, by the numbers of the whole graph: three edges, or three that are none."""
    graph, ids = as_pair_graph(split.test), split.train.n_id
    inside = torch.zeros(graph.num_nodes, dtype=torch.bool)
    inside[ids] = True
    if edge:
        return graph.pairs[:, inside[graph.pairs].all(0)][:, :3]
    pairs = torch.combinations(ids).t()
    codes = pairs[0] * graph.num_nodes + pairs[1]
    return pairs[:, graph.find(codes) < 0][:, :3]


@pytest.mark.parametrize("anchored", [False, True])
def test_edits_between_trusted_nodes_change_nothing(split, gcn, trained, anchored):
    data = split.test
    options = {"anchor": pg.Anchor(members=1).fit(gcn, split.train, epochs=5, folds=2, exposed=1.0)} if anchored else {}
    model = pg.protect(gcn, trained, trusted=split.train, **options).eval()
    edits = Perturbation(data.num_nodes, added=old_pairs(split, edge=False), removed=old_pairs(split, edge=True))
    edited = edits.apply(data)
    with torch.no_grad():
        before, after = model(data.x, data.edge_index), model(edited.x, edited.edge_index)
        without = pg.protect(gcn, trained)(edited.x, edited.edge_index)
    torch.testing.assert_close(before, after)
    assert not torch.allclose(without, after)
    assert TrustedPairs(split.train).changes(edited) == edits
    assert len(TrustedPairs(split.train).changes(data)) == 0


def test_the_clean_graph_is_answered_as_without_a_memory(split, gcn, trained):
    data = split.test
    with torch.no_grad():
        plain = pg.protect(gcn, trained)(data.x, data.edge_index)
        remembering = pg.protect(gcn, trained, trusted=split.train)(data.x, data.edge_index)
    torch.testing.assert_close(plain, remembering)


def test_attacks_through_a_memory_gain_nothing_from_trusted_pairs(split, gcn, trained):
    model = pg.protect(gcn, trained, trusted=split.train)
    quick = {"epochs": 10, "fine_tune_epochs": 4, "block_size": 500, "final_samples": 3}
    found = attacks.create("prbcd", **quick)(model, split.test, 20)
    assert len(found) > 0
    trusted = torch.zeros(split.test.num_nodes, dtype=torch.bool)
    trusted[split.train.n_id] = True
    flips = found.flips()
    useful = flips[:, ~trusted[flips].all(0)]
    same = Perturbation.of_flips(as_pair_graph(split.test), useful).apply(split.test)
    attacked = found.apply(split.test)
    with torch.no_grad():
        one, other = model(attacked.x, attacked.edge_index), model(same.x, same.edge_index)
    torch.testing.assert_close(one, other)


def test_partial_presence_agrees_with_the_graph_at_0_and_1(split, gcn, trained):
    model, data = pg.protect(gcn, trained, trusted=split.train).eval(), split.test
    extra = old_pairs(split, edge=False)
    edges = torch.cat([data.edge_index, extra, extra.flip(0)], dim=1)
    presence = torch.cat([torch.ones(data.edge_index.shape[1]), torch.zeros(6)])
    with torch.no_grad():
        relaxed = model.relaxed(data.x, edges, torch.ones_like(presence), presence)
        torch.testing.assert_close(relaxed, model(data.x, data.edge_index))


def test_memories_that_can_not_be_are_refused(split, gcn, trained):
    twice = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, n_id=torch.tensor([3, 3]))
    with pytest.raises(GraphError, match="a different number"):
        pg.protect(gcn, trained, trusted=twice)
    far = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, n_id=torch.tensor([3, 1000]))
    model = pg.protect(gcn, trained, trusted=far)
    with pytest.raises(GraphError, match="must hold all trusted nodes"):
        model(split.test.x, split.test.edge_index)
