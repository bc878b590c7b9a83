"""Statistics of the training graph: kept with the model, and compared with those of other graphs."""

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import purigraph as pg
from cli.command_runs import invoke, refused
from helpers import communities
from purigraph import purifiers
from purigraph.cli import app
from purigraph.errors import ModelFileError, NotFittedError
from purigraph.graph import as_pair_graph
from purigraph.graph.injection import inject
from purigraph.graph.npz import save_npz
from purigraph.purifiers.check import compare
from purigraph.purifiers.statistics import QUANTILE_STEPS, GraphStatistics

FILES = Path(__file__).parent.parent / "files_of_0_1_0"


@pytest.fixture(scope="module")
def purifier() -> pg.GPRGAE:
    settings = {"hops": 3, "node_channels": 16, "edge_channels": 16}
    return pg.GPRGAE(**settings).fit(communities(400), epochs=120, learning_rate=0.02)


def injected(data: Data, share: float) -> Data:
    graph = as_pair_graph(data)
    more = inject(graph, round(share * graph.num_pairs), torch.Generator().manual_seed(0)).graph
    return Data(x=data.x, edge_index=more.edge_index()[0])


def strangers(data: Data) -> Data:
    """The same edges between nodes with the features of others."""
    order = torch.randperm(len(data.x), generator=torch.Generator().manual_seed(0))
    return Data(x=data.x[order], edge_index=data.edge_index)


def test_statistics_are_those_of_the_graph() -> None:
    #  0 - 1 - 2, 3 alone; features of 0 and 1 are the same, those of 2 are orthogonal
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    data = Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]))
    found = pg.Jaccard(similarity="cosine", cosine_threshold=0.5).statistics(data)
    assert (found.nodes, found.edges, found.features, found.mean_degree) == (4, 2, 2, 1.0)
    assert found.degree_shares == (0.25, 0.5, 0.25)
    assert found.feature_density == pytest.approx(3 / 8)
    assert found.edge_similarity == 0.5
    assert found.suspicious == 0.5
    assert len(found.score_quantiles) == QUANTILE_STEPS + 1
    assert (found.score_quantiles[0], found.score_quantiles[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("name", purifiers.names())
def test_every_purifier_keeps_them_with_the_model(name: str, tmp_path: Path) -> None:
    kind = purifiers.registry[name]
    data = communities()
    made = kind(**kind.trial_settings).fit(data, **kind.trial_fit)
    made.save_pretrained(tmp_path)
    loaded = purifiers.load(tmp_path)
    assert loaded.training_statistics == made.training_statistics == made.statistics(data)
    assert loaded.check(data).alike


def test_graphs_of_the_same_kind_are_alike(purifier: pg.GPRGAE) -> None:
    data = communities(400)
    for other in (data, data.subgraph(torch.arange(400) % 20 != 0), injected(data, 0.01)):
        assert purifier.check(other).warnings == []


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        (lambda data: injected(data, 1.0), "suspicious edges"),
        (lambda data: injected(data, 3.0), "mean degree"),
        (lambda data: strangers(data), "feature homophily"),
        (lambda data: strangers(data), "distance of scores"),
        (lambda data: Data(x=data.x * (data.x > 1), edge_index=data.edge_index), "share of non-zero features"),
        (lambda data: data.subgraph(torch.arange(400) % 5 == 0), "distance of degrees"),
    ],
)
def test_unlike_graphs_are_said_to_be_unlike(purifier: pg.GPRGAE, change, figure: str) -> None:  # type: ignore[no-untyped-def]
    result = purifier.check(change(communities(400)))
    assert not result.alike
    assert figure in [one.figure for one in result.findings if one.warning is not None]
    assert "UNLIKE" in result.table().markdown()


def test_a_graph_without_edges_has_statistics_too(purifier: pg.GPRGAE) -> None:
    data = communities(400)
    empty = purifier.statistics(Data(x=data.x, edge_index=torch.empty(2, 0, dtype=torch.int64)))
    assert empty.score_quantiles == ()
    assert not compare(purifier.statistics(data), empty).alike
    assert compare(empty, empty).alike


def test_older_models_say_that_they_have_none(tmp_path: Path) -> None:
    old = purifiers.load(FILES / "gpr-gae")
    assert old.training_statistics is None
    with pytest.raises(NotFittedError, match="older models"):
        old.check(communities())
    graph = tmp_path / "graph.npz"
    save_npz(communities(), graph)
    refused("saved without the statistics", "check", graph, "-m", FILES / "gpr-gae")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: {**record, "nodes": "many"},
        lambda record: {**record, "degree_shares": 3},
        lambda record: {**record, "mean_degree": [1]},
        lambda record: {name: record[name] for name in record if name != "suspicious"},
        lambda record: [record],
    ],
)
def test_damaged_statistics_are_refused(purifier: pg.GPRGAE, change) -> None:  # type: ignore[no-untyped-def]
    record = purifier.statistics(communities()).record()
    assert GraphStatistics.of_record(json.loads(json.dumps(record))).record() == record
    with pytest.raises(ModelFileError, match="damaged or foreign"):
        GraphStatistics.of_record(change(record))


def test_the_command(purifier: pg.GPRGAE, tmp_path: Path) -> None:
    model, same, other = tmp_path / "model", tmp_path / "same.npz", tmp_path / "other.npz"
    purifier.save_pretrained(model)
    save_npz(injected(communities(400), 0.01), same)
    save_npz(injected(communities(400), 1.0), other)
    assert "is like the one" in invoke("check", same, "-m", model, "--strict")
    assert "Warning" in invoke("check", other, "-m", model)
    found = json.loads(invoke("check", other, "-m", model, "--json"))
    assert found["alike"] is False
    assert found["warnings"]
    strict = CliRunner().invoke(app, ["check", str(other), "-m", str(model), "--strict"])
    assert strict.exit_code == 1
