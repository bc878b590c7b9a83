"""Graphs in users' own files: what is read, what is written back, and what is said about odd contents."""

from __future__ import annotations

import csv
import io
import os
import random
from pathlib import Path

import networkx
import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from scipy import sparse
from torch_geometric.data import Data

from purigraph.cli.inputs import GRAPH_SUFFIXES
from purigraph.errors import GraphError, InputError
from purigraph.files import atomic_path
from purigraph.graph import file_formats
from purigraph.graph.file_formats import FeatureLayout, RowVerdict, libraries, read_feature_file, read_graph_file
from purigraph.graph.file_formats.text_tables import TextTable

EDGES = "source,target,weight,note\nalice,bob,0.5,x\nbob,alice,1,y\ncarol,carol,1,z\nalice,bob,0.5,\nbob,carol,2,w\n"
FEATURES = "node,age,height\nalice,3,1.5\nbob,4,0\ncarol,5,2\ndave,1,1\n"


def write(place: Path, text: str | bytes) -> Path:
    place.write_bytes(text if isinstance(text, bytes) else text.encode())
    return place


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    return write(tmp_path / "edges.csv", EDGES)


def cells(path: Path, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text()), delimiter=delimiter))


def verdict(document: file_formats.GraphDocument, **options: bool) -> RowVerdict:
    """A weight of its own for every pair; the first pair is cut."""
    pairs = document.graph.num_pairs
    weight = (torch.arange(pairs) + 1) / 16
    return RowVerdict(document.row_weights(weight), document.row_mask(torch.arange(pairs) > 0), **options)


def test_the_commands_know_the_endings() -> None:
    assert sorted(GRAPH_SUFFIXES) == sorted(file_formats.SUFFIXES)


def test_rows_become_pairs(edges: Path) -> None:
    found = read_graph_file(edges, write(edges.with_name("f.csv"), FEATURES))
    assert found.ids.names() == ["alice", "bob", "carol", "dave"]
    assert found.graph.pairs.tolist() == [[0, 1], [1, 2]]
    assert found.graph.weight.tolist() == pytest.approx([(0.5 + 1 + 0.5) / 3, 2])
    assert found.row_pair.tolist() == [0, 0, -1, 0, 1]
    assert found.x.tolist() == [[3, 1.5], [4, 0], [5, 2], [1, 1]]
    told = " ".join(found.notes)
    for words in ("1 self-loop", "1 row repeats", "both directions", "different weights", "1 node has features but no"):
        assert words in told


def test_the_same_table_is_written_with_weights(edges: Path) -> None:
    found = read_graph_file(edges)
    found.save(edges.with_name("out.csv"), verdict(found))
    header, *rows = cells(edges.with_name("out.csv"))
    assert header == ["source", "target", "weight_before", "note", "weight", "keep"]
    assert [row[:4] for row in rows] == cells(edges)[1:]
    assert [row[4:] for row in rows] == [["0.0625", "0"]] * 2 + [["1", "1"], ["0.0625", "0"], ["0.125", "1"]]


def test_shadow_mode_leaves_all_columns(edges: Path) -> None:
    found = read_graph_file(edges)
    found.save(edges.with_name("out.csv"), verdict(found, shadow=True))
    header, *rows = cells(edges.with_name("out.csv"))
    assert header == ["source", "target", "weight", "note", "score", "would_keep"]
    assert [row[:4] for row in rows] == cells(edges)[1:]


def test_cut_rows_can_be_dropped(edges: Path) -> None:
    found = read_graph_file(edges)
    found.save(edges.with_name("out.csv"), verdict(found, drop=True))
    assert [row[:2] for row in cells(edges.with_name("out.csv"))[1:]] == [["carol", "carol"], ["bob", "carol"]]


@pytest.mark.parametrize(
    ("name", "text", "header", "pairs"),
    [
        ("a.csv", "1,2\n2,3\n", None, 2),
        ("a.csv", "x,y\ny,z\n", None, 2),
        ("a.csv", "from,to\nx,y\n", ["from", "to", "weight", "keep"], 1),
        ("a.csv", "friend,other,since\nx,y,2001\ny,z,2002\n", ["friend", "other", "since", "weight", "keep"], 2),
        ("a.csv", "u;v;n\nx;y;1,5\n", ["u", "v", "n", "weight", "keep"], 1),
        ("a.tsv", "src\tdst\nx\ty\n", ["src", "dst", "weight", "keep"], 1),
        ("a.csv", "# made by hand\n# twice\nx,y\ny,z\n", None, 2),
        ("a.csv", "\ufeffsource,target\nx,y\n", ["\ufeffsource", "target", "weight", "keep"], 1),
        ("a.csv", 'source,target,text\nx,y,"a, ""b""\nc"\n', ["source", "target", "text", "weight", "keep"], 1),
        ("a.csv", "source,target\r\nx,y\r\ny,z\r\n", ["source", "target", "weight", "keep"], 2),
        ("a.csv", "note,target,source\nhi,x,y\n", ["note", "target", "source", "weight", "keep"], 1),
        ("a.csv", "source,target,,\nx,y,1,2\n", ["source", "target", "", "", "weight", "keep"], 1),
    ],
)
def test_texts_of_all_sorts(name: str, text: str, header: list[str] | None, pairs: int, tmp_path: Path) -> None:
    path, out = write(tmp_path / name, text), tmp_path / f"out{Path(name).suffix}"
    found = read_graph_file(path)
    assert found.graph.num_pairs == pairs
    found.save(out, verdict(found))
    delimiter = ";" if ";" in text else "\t" if name.endswith("tsv") else ","
    before = [row for row in cells(path, delimiter) if not row[0].startswith("#")]
    after = [row for row in cells(out, delimiter) if not row[0].startswith("#")]
    assert [row[:-2] for row in after][int(header is not None) :] == before[int(header is not None) :]
    assert header is None or after[0] == header
    assert out.read_text().startswith(text[: text.index("x") if text.startswith("#") else 0])
    assert ("\r\n" in out.read_bytes().decode()) == ("\r\n" in text)
    again = read_graph_file(out)
    assert again.graph.num_pairs == pairs


def test_odd_cells_come_back(tmp_path: Path) -> None:
    """Whatever texts ids and columns hold."""
    rng = random.Random(0)
    odd = ["a", "b c", 'q"q', "x,y", "é", "図", " lead", "tail ", "<b>", "=1+1", "007", "1e5", "-", "NA", "null", "'"]
    rows = [
        [f"{rng.choice(odd)}{k}", f"{rng.choice(odd)}{-k}", rng.choice([*odd, "", "two\nlines"])] for k in range(50)
    ]
    path = tmp_path / "odd.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["source", "target", "text"], *rows])
    found = read_graph_file(path)
    found.save(tmp_path / "out.csv", verdict(found))
    with open(tmp_path / "out.csv", newline="") as file:
        assert [row[:3] for row in csv.reader(file)][1:] == rows


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purigraph.graph.file_formats.text_tables.BLOCK", 1 << 12)
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 500, (3000, 2))
    path = tmp_path / "many.csv"
    path.write_text("source,target,k\n" + "".join(f"n{a},n{b},{k}\n" for k, (a, b) in enumerate(ends)))
    found = read_graph_file(path)
    source = found.source
    assert len(list(source.table.batches())) > 5
    expected = {frozenset(pair) for pair in ends.tolist() if pair[0] != pair[1]}
    names = found.ids.names()
    pairs = {frozenset((int(names[a][1:]), int(names[b][1:]))) for a, b in found.graph.pairs.t().tolist()}
    assert pairs == expected
    found.save(tmp_path / "out.csv", verdict(found, shadow=True))
    assert [row[:3] for row in cells(tmp_path / "out.csv")] == cells(path)


def test_parquet_keeps_types(tmp_path: Path) -> None:
    table = pyarrow.table({"u": [1, 2, 3], "v": [2, 3, 1], "when": pyarrow.array([1, 2, 3], pyarrow.timestamp("ms"))})
    parquet.write_table(table, tmp_path / "e.parquet", compression="zstd")
    found = read_graph_file(tmp_path / "e.parquet")
    assert found.ids.names() == ["1", "2", "3"]
    found.save(tmp_path / "out.parquet", verdict(found))
    after = parquet.read_table(tmp_path / "out.parquet")
    assert after.select(["u", "v", "when"]).equals(table)
    assert after["keep"].to_pylist() == [False, True, True]
    assert after["weight"].type == pyarrow.float32()
    assert parquet.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("ending", ["graphml", "gexf"])
@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph])
def test_xml_graphs(ending: str, kind: type, tmp_path: Path) -> None:
    if ending == "gexf" and kind is networkx.MultiGraph:
        pytest.skip("networkx reads parallel edges of GEXF by ids that it does not write itself")
    network = kind()
    for node, age in (("a", 1.0), ("b", 2.0), ("c & <d>", 3.0)):
        network.add_node(node, age=age, title=f"title of {node}")
    network.add_edge("a", "b", since=3)
    network.add_edge("b", "c & <d>", since=4)
    if kind is not networkx.Graph:
        network.add_edge("b", "a", since=5)
    path, out = tmp_path / f"g.{ending}", tmp_path / f"out.{ending}"
    getattr(networkx, f"write_{ending}")(network, path)
    found = read_graph_file(path)
    assert found.ids.names() == ["a", "b", "c & <d>"]
    assert found.layout == FeatureLayout("attributes", ["age"])
    assert found.graph.pairs.tolist() == [[0, 1], [1, 2]]
    found.save(out, verdict(found))
    after = getattr(networkx, f"read_{ending}")(out)
    given = {(u, v, own["since"]): (own["weight"], own["keep"]) for u, v, own in after.edges(data=True)}
    assert len(given) == network.number_of_edges()
    assert all(value == ((0.125, True) if "c & <d>" in key else (0.0625, False)) for key, value in given.items())
    assert b"lastmodifieddate" not in out.read_bytes()
    again = read_graph_file(out)
    assert torch.equal(again.x, found.x)


def test_pyg_files(tmp_path: Path) -> None:
    data = Data(
        x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]]), y=torch.tensor([0, 1, 0]), name="n"
    )
    data.edge_time = torch.arange(4)
    torch.save(data, tmp_path / "g.pt")
    found = read_graph_file(tmp_path / "g.pt")
    assert found.graph.pairs.tolist() == [[0, 1], [1, 2]]
    assert found.extra["y"].tolist() == [0, 1, 0]
    found.save(tmp_path / "out.pt", verdict(found))
    after = torch.load(tmp_path / "out.pt", weights_only=False)
    assert (after.name, after.edge_index.tolist()) == ("n", data.edge_index.tolist())
    assert after.edge_weight.tolist() == [0.0625, 0.0625, 0.125, 1]
    assert after.edge_keep.tolist() == [False, False, True, True]
    found.save(tmp_path / "out.pt", verdict(found, drop=True))
    after = torch.load(tmp_path / "out.pt", weights_only=False)
    assert after.edge_index.tolist() == [[1, 2], [2, 2]]
    assert after.edge_time.tolist() == [2, 3]
    torch.save({"x": torch.eye(3), "edge_index": data.edge_index}, tmp_path / "plain.pt")
    assert isinstance(read_graph_file(tmp_path / "plain.pt").contents, dict)


def test_a_pickle_in_a_pt_file_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path / 'done'}",)

    torch.save({"edge_index": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(GraphError, match="never opened"):
        read_graph_file(tmp_path / "evil.pt")
    assert not (tmp_path / "done").exists()


def test_a_view_of_one_number_is_no_large_tensor(tmp_path: Path) -> None:
    torch.save({"edge_index": torch.zeros(1, 1, dtype=torch.long).expand(2, 10**9)}, tmp_path / "big.pt")
    with pytest.raises(GraphError, match="more than the file holds"):
        read_graph_file(tmp_path / "big.pt")


def test_long_features_are_those_of_the_wide_table(tmp_path: Path) -> None:
    long = write(tmp_path / "long.csv", "node,feature,value\nbob,h,2\nalice,a,1\nbob,a,3\ncarol,h,0\n")
    wide = write(tmp_path / "wide.csv", "id,h,a\nbob,2,3\nalice,0,1\ncarol,0,0\n")
    for path in (long, wide):
        found = read_feature_file(path, FeatureLayout("wide", ["a", "h"]))
        assert dict(zip(found.ids.names(), found.x.tolist(), strict=True)) == {
            "bob": [3, 2],
            "alice": [1, 0],
            "carol": [0, 0],
        }


def test_matrices_number_the_nodes(tmp_path: Path) -> None:
    edges = write(tmp_path / "e.csv", "0,2\n2,1\n")
    matrix = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    np.save(tmp_path / "x.npy", matrix)
    for kind in ("csr", "csc", "coo"):
        sparse.save_npz(tmp_path / f"{kind}.npz", sparse.coo_array(matrix).asformat(kind))
    for name in ("x.npy", "csr.npz", "csc.npz", "coo.npz"):
        found = read_graph_file(edges, tmp_path / name)
        assert found.x.tolist() == matrix.tolist()
        assert found.graph.pairs.tolist() == [[0, 1], [2, 2]]


def test_large_sparse_features_stay_sparse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purigraph.graph.file_formats.feature_files.LARGE", 100)
    matrix = sparse.random_array((40, 50), density=0.03, rng=0)
    sparse.save_npz(tmp_path / "x.npz", matrix.tocsr())
    path = tmp_path / "x.csv"
    with open(path, "w") as file:
        print("node", *(f"f{k}" for k in range(50)), sep=",", file=file)
        for k, row in enumerate(matrix.toarray().tolist()):
            print(k, *row, sep=",", file=file)
    for name in ("x.npz", "x.csv"):
        x = read_feature_file(tmp_path / name).x
        assert x.layout == torch.sparse_csr
        assert np.allclose(x.to_dense().numpy(), matrix.toarray())


def test_structural_features_go_with_the_node(edges: Path) -> None:
    first = read_graph_file(edges)
    turned = read_graph_file(write(edges.with_name("turned.csv"), "source,target\ncarol,bob\nbob,alice\n"))
    assert "no node features" in first.notes[-1]
    by_name = [dict(zip(one.ids.names(), one.x.tolist(), strict=True)) for one in (first, turned)]
    assert by_name[0] == by_name[1]


BAD_EDGES = [
    ("", "is empty"),
    ("\n \n", "is empty"),
    ("# a\n", "only comments"),
    ("source,target\n", "has no rows"),
    ("a,b\nc\n", "row 2 has 1 cells where 2"),
    ("source,target\na,b\nc,d,e\n", "row 2 has 3 cells where 2"),
    ("1 2\n2 3\n", "has one column"),
    ("source,target,weight\na,b,nan\n", "row 1: the weight is nan"),
    ("source,target,weight\na,b,1\nc,d,inf\n", "row 2: the weight is inf"),
    ("source,target,weight\na,b,1\nc,d,-1\n", "row 2: the weight is -1"),
    ("source,target,weight\na,b,1\nc,d,1e16\n", r"row 2: the weight is 1e\+16"),
    ("source,target,weight\na,b,1\nc,d,abc\n", "row 2: the weight 'abc' is not a number"),
    ("source,target,weight\na,b,\n", "row 1: the weight is missing"),
    ("source,target\na,b\n,c\n", "row 2: the first end is missing"),
    ("source,target\na,b\nc,  \n", "row 2: the second end is missing"),
    ('source,target\na,"b\nc,d\n', "quote never closed"),
    (b"\xff\xfea\0,\0b\0", "UTF-16"),
    (b"a,b\n\xff,c\n", "not UTF-8"),
    (b"a\0b,c\n", "zero bytes"),
]


@pytest.mark.parametrize(("text", "message"), BAD_EDGES)
def test_bad_edge_lists_are_named(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(GraphError, match=message) as caught:
        read_graph_file(path)
    assert "bad.csv" in str(caught.value)


BAD_FEATURES = [
    ("f.csv", "node,a\nalice,1\nbob,x\ncarol,2\n", "row 2, column 'a': 'x' is not a number"),
    ("f.csv", "node,a\nalice,1\nbob,\ncarol,2\n", "row 2: feature 'a' is missing"),
    ("f.csv", "node,a\nalice,1\nbob,inf\ncarol,2\n", "row 2, feature 'a' is inf"),
    ("f.csv", "node,a\nalice,1\nbob,1e30\ncarol,2\n", r"row 2, feature 'a' is 1e\+30"),
    ("f.csv", "node,a\nalice,1\nbob,1\nalice,2\ncarol,2\n", "'alice' has two rows .1 and 3"),
    ("f.csv", "node,a\nalice,1\nbob,2\n", "no features for node 'carol'.*1 nodes in 2 rows"),
    ("f.csv", "node\nalice\n", "one column"),
    ("f.csv", "node,a,a\nalice,1,2\n", "two columns 'a'"),
    ("f.csv", "node,a\n", "no rows"),
    ("f.csv", "node,feature,value\nalice,a,1\nalice,a,2\n", "'alice' has two values of feature 'a'"),
    ("f.csv", "node,feature,value\nalice,a,one\n", "row 1: the value 'one'"),
    ("f.csv", "node,feature,value\nalice,a,nan\n", "row 1: the value is nan"),
    ("f.txt", "node,a\nalice,1\n", "features are read from"),
    ("f.npy", b"\x93NUMPY", "not a .npy array"),
    ("f.npz", b"PK", "not a graph file|is no matrix|not an? "),
    ("f.parquet", b"PAR1", "can't be read"),
    ("f.parquet", b"", "not a Parquet file"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD_FEATURES)
def test_bad_features_are_named(name: str, text: str | bytes, message: str, edges: Path) -> None:
    path = write(edges.with_name(name), text)
    with pytest.raises(GraphError, match=message):
        read_graph_file(edges, path)


def test_ids_out_of_range_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(GraphError, match=r"row 2: there are no features for node '3' .*numbers 0 to 2"):
        read_graph_file(write(tmp_path / "e.csv", "0,1\n2,3\n"), tmp_path / "x.npy")
    for shape in ((3,), (0, 2), (3, 0), (3, 2, 1)):
        np.save(tmp_path / "x.npy", np.ones(shape))
        with pytest.raises(GraphError, match="x.npy"):
            read_graph_file(tmp_path / "e.csv", tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.graphml", "", "is empty"),
        ("g.graphml", "<a", "well-formed"),
        ("g.graphml", "<a/>", "GraphML"),
        ("g.gexf", "<gexf/>", "GEXF"),
        ("g.graphml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declares entities"),
        ("g.pt", "", "is empty"),
        ("g.pt", "text", "damaged or foreign"),
        ("g.xyz", "text", "unknown format"),
        ("g.parquet", "PAR1 and no more", "can't be read"),
    ],
)
def test_foreign_files_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=message):
        read_graph_file(write(tmp_path / name, text))


@pytest.mark.parametrize("suffix", file_formats.SUFFIXES)
def test_what_is_no_file_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"g{suffix}"
    with pytest.raises(GraphError, match="no file"):
        read_graph_file(path)
    os.mkfifo(path)
    with pytest.raises(GraphError, match="FIFO"):
        read_graph_file(path)


def test_columns_are_put_into_the_models_order(edges: Path) -> None:
    layout = FeatureLayout("wide", ["height", "age"])
    found = read_graph_file(edges, write(edges.with_name("f.csv"), FEATURES), layout)
    assert found.x[0].tolist() == [1.5, 3]
    with pytest.raises(GraphError, match="lacks 1 of the 2 features.*'weight'"):
        read_graph_file(edges, edges.with_name("f.csv"), FeatureLayout("wide", ["age", "weight"]))
    more = read_graph_file(edges, edges.with_name("f.csv"), FeatureLayout("wide", ["age"]))
    assert "1 columns" in " ".join(more.notes)
    with pytest.raises(GraphError, match="fitted to some: give them with --features"):
        read_graph_file(edges, None, layout)
    with pytest.raises(GraphError, match="leave the features out"):
        read_graph_file(edges, edges.with_name("f.csv"), FeatureLayout("structural"))
    assert FeatureLayout.of_record(layout.record()) == layout
    assert FeatureLayout.of_record({"kind": 3}) is None


def test_a_missing_library_is_named(edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(libraries, "import_module", fail)
    with pytest.raises(InputError, match=r"without pyarrow: pip install 'purigraph\[files\]'"):
        read_graph_file(edges)


def test_a_file_that_changes_meanwhile_is_not_half_written(edges: Path) -> None:
    found = read_graph_file(edges)
    with open(edges, "a") as file:
        file.write("dave,bob,1,\n")
    out = edges.with_name("out.csv")
    with pytest.raises(GraphError, match="was changed while"), atomic_path(out) as temporary:
        found.save(temporary, verdict(found))
    assert not out.exists()


def test_text_tables_are_read_again_and_again(edges: Path) -> None:
    found = read_graph_file(edges)
    table: TextTable = found.source.table
    assert [batch.num_rows for batch in table.batches()] == [batch.num_rows for batch in table.batches([0])]
