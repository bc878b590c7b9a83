from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from helpers import pair_graphs
from purigraph.errors import GraphError, ModelFileError
from purigraph.graph import PairGraph, read_data
from purigraph.graph.perturbation import Perturbation
from purigraph.tensor_files import read_tensors, write_tensors


@st.composite
def graphs_and_flips(draw: st.DrawFn) -> tuple[PairGraph, Perturbation]:
    graph = draw(pair_graphs())
    num_nodes = graph.num_nodes
    every = [(i, j) for i in range(num_nodes) for j in range(i + 1, num_nodes)]
    chosen = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    pairs = torch.tensor(chosen, dtype=torch.int64).reshape(-1, 2).t()
    return graph, Perturbation.of_flips(graph, pairs)


@given(graphs_and_flips())
def test_apply_between_and_invert(case: tuple[PairGraph, Perturbation]) -> None:
    graph, flips = case
    before = PairGraph(graph.num_nodes, graph.pairs.clone(), graph.weight.clone())

    changed = flips.apply(graph)

    assert graph == before
    assert changed.num_pairs == graph.num_pairs + flips.added.shape[1] - flips.removed.shape[1]
    assert (changed.codes.diff() > 0).all()
    assert (changed.weight[changed.find(_codes(flips.added, graph))] == 1).all()
    kept = changed.find(graph.codes)
    assert torch.equal(changed.weight[kept[kept >= 0]], graph.weight[kept >= 0])
    assert Perturbation.between(graph, changed) == flips
    assert Perturbation.between(changed, graph) == flips.invert()
    assert torch.equal(flips.invert().apply(changed).pairs, graph.pairs)
    assert flips.invert().invert() == flips
    assert len(flips) == flips.flips().shape[1] == int(flips.degree().sum()) // 2


@given(graphs_and_flips(), st.booleans(), st.randoms(use_true_random=False))
def test_data_keeps_its_own_order(case: tuple[PairGraph, Perturbation], both: bool, random) -> None:  # type: ignore[no-untyped-def]
    graph, flips = case
    edge_index = graph.edge_index()[0] if both else graph.pairs
    order = list(range(edge_index.shape[1]))
    random.shuffle(order)
    edge_index = edge_index[:, order]
    data = Data(edge_index=edge_index.int(), x=torch.ones(graph.num_nodes, 1), num_nodes=graph.num_nodes)

    changed = flips.apply(data)

    assert torch.equal(data.edge_index, edge_index.int())
    assert changed.edge_index.dtype == torch.int32
    assert changed.x is data.x
    unweighted = PairGraph(graph.num_nodes, graph.pairs)
    assert torch.equal(read_data(changed)[0].pairs, flips.apply(unweighted).pairs)
    # What was there and stays comes first, in the same order.
    stays = [column for column in edge_index.t().tolist() if sorted(column) not in flips.removed.t().tolist()]
    assert changed.edge_index.t().tolist()[: len(stays)] == stays


def test_data_keeps_weights_loops_and_attributes() -> None:
    data = Data(
        x=torch.ones(4, 1),
        edge_index=torch.tensor([[2, 1, 0, 3, 1], [1, 2, 0, 1, 3]]),
        edge_weight=torch.tensor([0.5, 0.5, 9.0, 2.0, 2.0]),
        y=torch.arange(4),
    )
    changed = Perturbation(4, added=torch.tensor([[0], [3]]), removed=torch.tensor([[2], [1]])).apply(data)
    assert changed.edge_index.tolist() == [[0, 3, 1, 0, 3], [0, 1, 3, 3, 0]]
    assert changed.edge_weight.tolist() == [9.0, 2.0, 2.0, 1.0, 1.0]
    assert changed.y is data.y
    assert data.num_edges == 5


def test_other_edge_attributes() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.ones(2, 3), num_nodes=3)
    assert Perturbation(3, removed=torch.tensor([[0], [1]])).apply(data).edge_attr.shape == (0, 3)
    with pytest.raises(GraphError, match="edge_attr"):
        Perturbation(3, added=torch.tensor([[0], [2]])).apply(data)


def test_normalised() -> None:
    flips = Perturbation(5, added=torch.tensor([[4, 1, 0, 1], [0, 3, 4, 3]], dtype=torch.int32))
    assert flips.added.tolist() == [[0, 1], [4, 3]]
    assert flips.added.dtype == torch.int64
    assert flips == Perturbation(5, added=torch.tensor([[0, 1], [4, 3]]))
    assert hash(flips) == hash(Perturbation(5, added=torch.tensor([[0, 1], [4, 3]])))
    assert flips.digest != flips.invert().digest
    assert flips != Perturbation(6, added=flips.added)
    assert flips.degree().tolist() == [1, 1, 0, 1, 1]
    assert repr(flips) == "Perturbation(num_nodes=5, added=2, removed=0)"


def test_the_hash_is_the_same_on_every_machine() -> None:
    flips = Perturbation(4, added=torch.tensor([[0], [1]]), removed=torch.tensor([[2], [3]]))
    assert flips.digest == "29e2a336a16331582a77e863e6e6a645f4524e5ae3066826b217654680cc59db"


def test_is_immutable() -> None:
    pairs = torch.tensor([[0], [1]])
    flips = Perturbation(3, added=pairs)
    pairs[0, 0] = 2
    assert flips.added.tolist() == [[0], [1]]
    with pytest.raises(AttributeError):
        flips.num_nodes = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("added", "removed", "message"),
    [
        ([[0], [0]], [[], []], r"self-loop \[0, 0\]"),
        ([[0], [3]], [[], []], r"added holds \[0, 3\], but nodes run from 0 to 2"),
        ([[], []], [[-1], [1]], "removed holds"),
        ([[0], [1]], [[1], [0]], r"\[0, 1\] is both added and removed"),
        ([[0, 1, 2]], [[], []], "shape"),
    ],
)
def test_bad_pairs(added: list[list[int]], removed: list[list[int]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Perturbation(3, torch.tensor(added, dtype=torch.int64), torch.tensor(removed, dtype=torch.int64))


def test_bad_types() -> None:
    with pytest.raises(GraphError, match="integers"):
        Perturbation(3, torch.ones(2, 1))
    with pytest.raises(GraphError, match="list"):
        Perturbation(3, [[0], [1]])  # type: ignore[arg-type]


def test_graphs_that_do_not_fit() -> None:
    graph = PairGraph(3, torch.tensor([[0], [1]]))
    with pytest.raises(GraphError, match=r"\[0, 1\] can't be added: it is an edge already"):
        Perturbation(3, added=torch.tensor([[0], [1]])).apply(graph)
    with pytest.raises(GraphError, match=r"\[1, 2\] can't be removed: it is not an edge"):
        Perturbation(3, removed=torch.tensor([[1], [2]])).apply(graph)
    with pytest.raises(GraphError, match="4 nodes, but the graph has 3"):
        Perturbation(4).apply(graph)
    with pytest.raises(GraphError, match="3 and 4 nodes"):
        Perturbation.between(graph, PairGraph(4, graph.pairs))


def test_files(tmp_path: Path) -> None:
    flips = Perturbation(9, added=torch.tensor([[0, 3], [1, 7]]), removed=torch.tensor([[2], [8]]))
    path = tmp_path / "flips.safetensors"
    flips.save(path, {"attack": "prbcd"})
    assert Perturbation.load(path) == flips
    tensors, header = read_tensors(path)
    assert header["attack"] == "prbcd"
    assert header["sha256"] == flips.digest

    write_tensors(path, {**tensors, "added": tensors["added"][:, :1]}, header)
    with pytest.raises(ModelFileError, match="damaged"):
        Perturbation.load(path)
    write_tensors(path, tensors, {"format": "other"})
    with pytest.raises(ModelFileError, match="not a perturbation"):
        Perturbation.load(path)
    write_tensors(path, tensors, {"format": header["format"], "sha256": header["sha256"]})
    with pytest.raises(ModelFileError, match="not a perturbation"):
        Perturbation.load(path)
    with pytest.raises(ModelFileError, match="does not exist"):
        Perturbation.load(tmp_path / "nowhere")


def test_the_format_is_that_of_0_1_0(tmp_path: Path) -> None:
    """What that version wrote, spelled out: a change of names, types or the hash would make its files unreadable."""
    tensors = {"added": torch.tensor([[0], [1]]), "removed": torch.tensor([[2], [3]])}
    header = {
        "format": "purigraph.perturbation/1",
        "num_nodes": "4",
        "sha256": "29e2a336a16331582a77e863e6e6a645f4524e5ae3066826b217654680cc59db",
    }
    write_tensors(tmp_path / "old", tensors, header)
    flips = Perturbation.load(tmp_path / "old")
    assert flips == Perturbation(4, **tensors)
    flips.save(tmp_path / "new")
    found, written = read_tensors(tmp_path / "new")
    assert written == header
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def _codes(pairs: torch.Tensor, graph: PairGraph) -> torch.Tensor:
    return pairs[0] * graph.num_nodes + pairs[1]


def damaged(path: Path, tensors: dict[str, torch.Tensor] | None = None, **header: str | None) -> None:
    flips = Perturbation(5, torch.tensor([[0], [3]]))
    about = {"format": "purigraph.perturbation/1", "num_nodes": "5", "sha256": flips.digest} | header
    contents = {"added": flips.added, "removed": flips.removed} | (tensors or {})
    write_tensors(path, contents, {key: value for key, value in about.items() if value is not None})


@pytest.mark.parametrize(
    "num_nodes", [None, "", "-5", "5.0", "five", "²", "9" * 5_000, "9" * 20, "0", "3", "10000000000"]
)
def test_files_with_absurd_numbers_of_nodes_are_refused(tmp_path: Path, num_nodes: str | None) -> None:
    damaged(tmp_path / "good")
    assert len(Perturbation.load(tmp_path / "good")) == 1
    damaged(tmp_path / "bad", num_nodes=num_nodes)
    with pytest.raises(ModelFileError, match=r"bad is (not a perturbation|damaged)"):
        Perturbation.load(tmp_path / "bad")


@pytest.mark.parametrize(
    "added",
    [
        torch.zeros(2),
        torch.zeros(3, 1, dtype=torch.int64),
        torch.zeros(2, 11, dtype=torch.int64),
        torch.zeros(2, 1, dtype=torch.int64),
        torch.tensor([[0.0], [3.0]]),
        torch.tensor([[0], [7]]),
    ],
)
def test_files_with_absurd_pairs_are_refused(tmp_path: Path, added: torch.Tensor) -> None:
    damaged(tmp_path / "bad", {"added": added})
    with pytest.raises(ModelFileError, match=r"bad is damaged"):
        Perturbation.load(tmp_path / "bad")
