"""Scores of new pairs against a graph, and the purification of a neighbourhood."""

import copy
import time

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities, requires_data
from purigraph import purifiers
from purigraph.errors import GraphError, InputError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.graph.sampling import sample_non_edges
from purigraph.purifiers import Purifier
from purigraph.purifiers.edge_scorer import EdgeScorer, weights_as_scores

_made: dict[str, Purifier] = {}


def ready(name: str) -> Purifier:
    if name not in _made:
        kind = purifiers.registry[name]
        _made[name] = kind(**kind.trial_settings).fit(communities(), **kind.trial_fit)
    return _made[name]


def non_edges(data: Data, count: int = 40) -> torch.Tensor:
    graph = as_pair_graph(data)
    return PairGraph.from_codes(graph.num_nodes, sample_non_edges(graph, count, torch.Generator().manual_seed(1))).pairs


every_purifier = pytest.mark.parametrize("name", purifiers.names())


@every_purifier
def test_a_higher_score_is_never_a_lower_weight(name: str) -> None:
    data, purifier = communities(seed=2), ready(name)
    if purifier.adds_edges:
        pytest.skip("its weights are not those of the given edges")
    scores, weights = purifier.score_edges(data, data.edge_index), purifier(data).edge_weight
    order = scores.argsort()
    assert (weights[order].diff() >= -1e-5).all()
    assert scores.std() > 0


@every_purifier
def test_a_pair_has_the_score_of_a_graph_in_which_it_is_not(name: str) -> None:
    """The pairs that are scored together don't influence each other, nor does their order, direction or repetition."""
    data, purifier = communities(seed=2), ready(name)
    pairs = non_edges(data)
    together = purifier.score_edges(data, pairs)
    alone = torch.cat([purifier.score_edges(data, pairs[:, k : k + 1]) for k in range(0, 40, 9)])
    torch.testing.assert_close(alone, together[::9], atol=1e-6, rtol=0)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    mixed = torch.cat([pairs[:, order].flip(0), pairs], dim=1)
    torch.testing.assert_close(purifier.score_edges(data, mixed), torch.cat([together[order], together]))
    torch.testing.assert_close(purifier.score_edges(data.x, data, pairs), together)
    assert (purifier.scorer(data).score(pairs) == together).all()


@pytest.mark.parametrize("name", ["gpr-gae", "svd"])
def test_the_fast_ways_equal_the_general_one(name: str) -> None:
    data, purifier = communities(seed=2), ready(name)
    graph, pairs = as_pair_graph(data), torch.cat([non_edges(data), as_pair_graph(data).pairs[:, :9]], dim=1)
    general = EdgeScorer(graph.num_nodes, weights_as_scores(purifier, data.x, graph)).score(pairs)
    torch.testing.assert_close(purifier.score_edges(data, pairs), general, atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [{"alpha": 0.5}, {"max_steps": 2, "tolerance": 0.0}])
def test_steps_of_any_size_equal_the_general_way(trained: pg.GPRGAE, settings: dict[str, float]) -> None:
    data, purifier = communities(seed=2), trained.with_settings(**settings)
    graph, pairs = as_pair_graph(data), non_edges(data)
    general = EdgeScorer(graph.num_nodes, weights_as_scores(purifier, data.x, graph)).score(pairs)
    torch.testing.assert_close(purifier.score_edges(data, pairs), general, atol=1e-5, rtol=0)


def test_a_graph_without_edges_and_no_pairs_at_all(trained: pg.GPRGAE) -> None:
    data = communities()
    bare = Data(x=data.x, edge_index=torch.empty(2, 0, dtype=torch.int64))
    scores = trained.score_edges(bare, data.edge_index)
    assert ((scores > 0) & (scores < 1)).all()
    assert trained.score_edges(data, torch.empty(2, 0, dtype=torch.int64)).shape == (0,)
    assert trained.score_edges(data, torch.tensor([[3], [3]])).tolist() == [1.0]


def test_the_kept_scorer_notices_every_change(trained: pg.GPRGAE, monkeypatch: pytest.MonkeyPatch) -> None:
    purifier, data, made = copy.deepcopy(trained), communities(), []
    original = pg.GPRGAE.scorer
    monkeypatch.setattr(pg.GPRGAE, "scorer", lambda self, data: made.append(1) or original(self, data))
    pairs = non_edges(data)
    first = purifier.score_edges(data, pairs)
    assert torch.equal(purifier.score_edges(data, pairs), first)
    assert len(made) == 1
    data.x[0] += 5
    assert not torch.equal(purifier.score_edges(data, pairs), first)
    data.edge_weight = torch.rand(data.edge_index.shape[1]).mul(0).add(0.5)
    data.edge_weight[::2] = 0.5
    purifier.score_edges(data, pairs)
    data.edge_weight *= 0.5
    purifier.score_edges(data, pairs)
    data.edge_index = data.edge_index.clone()
    purifier.score_edges(data, pairs)
    assert len(made) == 5
    before = purifier.score_edges(data, pairs)
    assert purifier.links is not None
    with torch.no_grad():
        purifier.links.score_bias.add_(1.0)
    assert (purifier.score_edges(data, pairs) > before).all()


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        (torch.tensor([[0], [120]]), GraphError, "there are 120 nodes"),
        (torch.tensor([[-1], [2]]), GraphError, "there are 120 nodes"),
        (torch.tensor([0, 1]), GraphError, "shape"),
        (torch.tensor([[0.0], [1.0]]), GraphError, "integers"),
        ([[0], [1]], GraphError, "tensor"),
    ],
)
def test_wrong_pairs_say_so(trained: pg.GPRGAE, pairs: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        trained.score_edges(communities(), pairs)  # type: ignore[arg-type]


def test_wrong_calls_say_so(trained: pg.GPRGAE) -> None:
    data = communities()
    with pytest.raises(InputError, match=r"score_edges\(data, pairs\)"):
        trained.score_edges(data.x, data.edge_index)  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"score_edges\(data, pairs\)"):
        trained.score_edges(data, data.edge_index, data.edge_index)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="a PyG Data"):
        trained.scorer(data.x)  # type: ignore[arg-type]


def ring(num_nodes: int) -> Data:
    """A graph in which everything has a distance."""
    step = torch.arange(num_nodes)
    edge_index = torch.stack([step, (step + 1) % num_nodes])
    x = torch.randn(num_nodes, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Data(x=x, edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1))


@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_a_neighbourhood_as_large_as_the_receptive_field_gives_the_same_weights(
    trained: pg.GPRGAE, max_steps: int
) -> None:
    # What comes from far away is little: it takes double precision to see it.
    purifier = copy.deepcopy(trained).double().with_settings(max_steps=max_steps, tolerance=0.0)
    data, nodes = ring(80), torch.tensor([7, 40])
    field = purifier.receptive_field
    assert field == max_steps * 4 + 1
    data.edge_weight = torch.ones(160, dtype=torch.float64)
    whole = purifier(data).edge_weight
    part = purifier.purify_subgraph(data, nodes, field)
    assert part.num_nodes < data.num_nodes
    assert part.edge_mask.sum() == 8
    exact = part.e_id[part.edge_mask]
    torch.testing.assert_close(part.edge_weight[part.edge_mask], whole[exact], atol=1e-13, rtol=0)
    assert torch.equal(part.n_id[part.edge_index], data.edge_index[:, part.e_id])
    if max_steps == 3:
        return  # what the last hop adds is below rounding
    near = purifier.purify_subgraph(data, nodes, field - 1)
    difference = (near.edge_weight[near.edge_mask] - whole[near.e_id[near.edge_mask]]).abs().max()
    assert difference > 1e-12, "one hop less must not be exact, or the receptive field is said to be too large"


def test_fewer_hops_come_closer_as_they_grow(trained: pg.GPRGAE) -> None:
    purifier = trained.with_settings(tolerance=0.0)
    data = communities(num_nodes=600)
    whole = purifier(data).edge_weight
    errors = []
    for hops in (1, 2, 3):
        part = purifier.purify_subgraph(data, [5], hops)
        errors.append(float((part.edge_weight - whole[part.e_id])[part.edge_mask].abs().mean()))
    assert errors[2] < errors[0]
    assert errors[2] < 0.05


def test_neighbourhoods_of_the_others() -> None:
    data = communities(num_nodes=300)
    jaccard = pg.Jaccard(similarity="cosine", cosine_threshold=0.1)
    chain = pg.Chain([jaccard, pg.Jaccard(similarity="cosine", cosine_threshold=0.2)])
    for purifier in (jaccard, chain):
        assert purifier.receptive_field == 1
        part = purifier.purify_subgraph(data, [5, 9], 1)
        expected = purifier(data).edge_weight[part.e_id]
        assert torch.equal(part.edge_weight[part.edge_mask], expected[part.edge_mask])
    assert pg.Chain([jaccard, pg.SVD()]).receptive_field is None
    with pytest.raises(InputError, match="purify the whole"):
        pg.SVD(reconstruction="dense").purify_subgraph(data, [5], 2)
    with pytest.raises(InputError, match="hops must be"):
        jaccard.purify_subgraph(data, [5], 0)
    with pytest.raises(InputError, match="from 0 to 299"):
        jaccard.purify_subgraph(data, [300], 1)


@requires_data
def test_100_pairs_on_cora_take_less_than_10_milliseconds() -> None:
    data = pg.datasets.load("cora")
    purifier = pg.GPRGAE(in_channels=data.x.shape[1])
    generator = torch.Generator().manual_seed(0)
    purifier.score_edges(data, torch.randint(0, 2708, (2, 100), generator=generator))
    times = []
    for _ in range(20):
        pairs = torch.randint(0, 2708, (2, 100), generator=generator)
        started = time.perf_counter()
        purifier.score_edges(data, pairs)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.010
