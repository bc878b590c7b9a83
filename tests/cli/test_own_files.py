"""The way of somebody with files of their own: fit, purify, look, verify."""

from __future__ import annotations

import csv
import errno
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from cli.command_runs import SMALL, Workshop, invoke, refused
from helpers import communities
from purigraph import files, purifiers
from purigraph.errors import OutputError
from purigraph.graph import as_pair_graph, load_npz

FIT = ["--epochs", 2, *SMALL]


def write_csv(path: Path, rows: list[list[Any]]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Own:
    """Files of somebody's own, and a purifier for them."""

    def __init__(self, place: Path) -> None:
        self.place, self.data = place, communities(80)
        pairs = as_pair_graph(self.data).pairs.t().tolist()
        names = [f"user {k}" for k in range(80)]
        rows = [[names[b], names[a], f"note, {k}"] for k, (a, b) in enumerate(pairs)]
        self.yesterday = write_csv(place / "yesterday.csv", [["from", "to", "note"], *rows])
        added = [[names[k], names[79 - k], "new"] for k in range(10)]
        self.today = write_csv(place / "today.csv", [["from", "to", "note"], *rows[5:], *added])
        features = [[name, *row] for name, row in zip(names, self.data.x.tolist(), strict=True)]
        self.features = write_csv(place / "features.csv", [["node", *(f"f{k}" for k in range(24))], *features])
        self.model = place / "model"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Own:
    own = Own(tmp_path_factory.mktemp("own"))
    invoke("fit", own.yesterday, "--features", own.features, "-o", own.model, *FIT)
    return own


def purify(own: Own, out: Path, *options: object, graph: Path | None = None) -> dict[str, Any]:
    words = ["purify", graph or own.today, "--features", own.features, "-m", own.model, "-o", out, *options, "--json"]
    found: dict[str, Any] = json.loads(invoke(*words))
    return found


def test_two_commands_from_csv_to_csv_and_a_page(own: Own, tmp_path: Path) -> None:
    out, page = tmp_path / "out.csv", tmp_path / "report.html"
    summary = purify(own, out, "--report", page)
    before, after = read_csv(own.today), read_csv(out)
    assert [{**row, "weight": None} for row in after] == [{**row, "weight": None} for row in before]
    assert list(after[0]) == ["from", "to", "note", "weight"]
    names = [f"user {k}" for k in range(80)]
    ends = torch.tensor([[names.index(row[k]) for row in before] for k in ("from", "to")])
    expected = purifiers.load(own.model)(Data(x=own.data.x, edge_index=ends)).edge_weight
    assert np.allclose([float(row["weight"]) for row in after], expected.numpy(), atol=1e-6)
    assert summary["report"] == str(page)
    assert summary["receipt"] == f"{out}.receipt.json"
    worst = min(after, key=lambda row: float(row["weight"]))
    assert f">{worst['from']}<" in page.read_text()


def test_features_in_another_order_are_the_same_features(own: Own, tmp_path: Path) -> None:
    with open(own.features, newline="") as file:
        header, *rows = list(csv.reader(file))
    turned = write_csv(tmp_path / "turned.csv", [[row[0], *row[:0:-1]] for row in [header, *rows[::-1]]])
    longer = [["node", "feature", "value"]]
    longer += [[row[0], name, value] for row in rows for name, value in zip(header[1:], row[1:], strict=True)]
    long = write_csv(tmp_path / "long.csv", longer)
    purify(own, tmp_path / "out.csv")
    expected = [float(row["weight"]) for row in read_csv(tmp_path / "out.csv")]
    for other in (turned, long):
        words = ["purify", own.today, "--features", other, "-m", own.model, "-o", tmp_path / "other.csv"]
        invoke(*words)
        assert np.allclose([float(row["weight"]) for row in read_csv(tmp_path / "other.csv")], expected, atol=1e-5)
    refused("give them with --features", "purify", own.today, "-m", own.model, "-o", tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()


def test_cuts_are_marked_or_dropped(own: Own, tmp_path: Path) -> None:
    marked = purify(own, tmp_path / "marked.csv", "--false-positives", 0.3, "--min-degree", 1, "--max-cut", 0.1)
    rows = read_csv(tmp_path / "marked.csv")
    assert sum(row["keep"] == "0" for row in rows) == marked["cut"] == marked["removed"]
    assert 0 < marked["cut"] <= 0.1 * marked["edges"]
    assert marked["threshold"] == purifiers.load(own.model).suggest_threshold(0.3)
    purify(own, tmp_path / "dropped.csv", "--false-positives", 0.3, "--min-degree", 1, "--max-cut", 0.1, "--drop")
    assert read_csv(tmp_path / "dropped.csv") == [row for row in rows if row["keep"] == "1"]
    listed = write_csv(tmp_path / "never.csv", [["from", "to"], *([row["to"], row["from"]] for row in rows)])
    none = purify(own, tmp_path / "none.csv", "--threshold", 1, "--never-cut", listed)
    assert (none["cut"], none["spared"]["never_cut"]) == (0, none["edges"])


def test_shadow_mode_changes_nothing(own: Own, tmp_path: Path) -> None:
    purify(own, tmp_path / "shadow.csv", "--shadow", "--threshold", 0.9)
    purify(own, tmp_path / "out.csv", "--threshold", 0.9)
    shadow, real = read_csv(tmp_path / "shadow.csv"), read_csv(tmp_path / "out.csv")
    assert [(row["score"], row["would_keep"]) for row in shadow] == [(row["weight"], row["keep"]) for row in real]
    assert list(shadow[0]) == ["from", "to", "note", "score", "would_keep"]
    refused("choose one", "purify", own.today, "--features", own.features, "-m", own.model, "-o", tmp_path / "x.csv",
            "--shadow", "--drop", "--threshold", 0.5)  # fmt: skip


def test_today_against_yesterday(own: Own, tmp_path: Path) -> None:
    found = purify(own, tmp_path / "out.csv", "--trusted", own.yesterday, "--changes", tmp_path / "changes.csv",
                   "--threshold", 1, "--report", tmp_path / "r.html")  # fmt: skip
    rows = read_csv(tmp_path / "out.csv")
    new = [row["note"] == "new" for row in rows]
    changes = read_csv(tmp_path / "changes.csv")
    added = [row for row in changes if row["change"] == "added"]
    removed = [row for row in changes if row["change"] == "removed"]
    assert found["changes"]["added_edges"] == len(added) == found["judged"] == found["cut"]
    assert found["changes"]["removed_edges"] == len(removed) == 5
    # Some of the new edges may have been there before.
    assert {row["weight"] for row, is_new in zip(rows, new, strict=True) if not is_new} == {"1"}
    by_ends = {frozenset((row["from"], row["to"])): float(row["weight"]) for row in rows}
    for row in added:
        assert by_ends[frozenset((row["source"], row["target"]))] == pytest.approx(float(row["score"]))
    assert [int(row["rank"]) for row in added] == list(range(1, len(added) + 1))
    assert [float(row["score"]) for row in added] == sorted(float(row["score"]) for row in added)
    assert [float(row["score"]) for row in removed] == sorted((float(row["score"]) for row in removed), reverse=True)
    assert "Removed, those that surely belong" in (tmp_path / "r.html").read_text()
    refused("give that too", "purify", own.today, "-m", own.model, "-o", tmp_path / "x.csv", "--changes", "c.csv")


def test_a_receipt_is_verified(own: Own, tmp_path: Path) -> None:
    purify(own, tmp_path / "out.csv", "--threshold", 0.5)
    receipt = tmp_path / "out.csv.receipt.json"
    assert "The receipt matches" in invoke("verify", receipt)
    document = json.loads(receipt.read_text())
    assert document["output"]["sha256"] == files.sha256(tmp_path / "out.csv")
    assert document["inputs"]["graph"]["sha256"] == files.sha256(own.today)
    assert document["counts"]["edges"] == document["graph"]["edges"]
    (tmp_path / "out.csv").write_text("other\n")
    refused("output differ", "verify", receipt)
    (tmp_path / "out.csv").unlink()
    assert json.loads(invoke("verify", receipt, "--json"))["matches"]
    document["output"]["sha256"] = "0" * 64
    receipt.write_text(json.dumps(document))
    refused("replay differ", "verify", receipt)
    document["models"]["purifier"]["weights_sha256"] = "0" * 64
    receipt.write_text(json.dumps(document))
    refused("purifier differ", "verify", receipt)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "purigraph.receipt/1"}', "no json"])
def test_what_is_no_receipt_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    refused("r.json", "verify", tmp_path / "r.json")
    refused("does not exist", "verify", tmp_path / "nothing.json")


def test_a_full_disk_leaves_nothing(own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the files it is that does not fit."""
    words = ["purify", own.today, "--features", own.features, "-m", own.model, "-o", tmp_path / "out.csv"]
    words += ["--report", tmp_path / "r.html", "--trusted", own.yesterday, "--changes", tmp_path / "c.csv"]
    renamed: list[str] = []
    real = files.os.replace

    def note(source: Path, target: Path) -> None:
        renamed.append(Path(target).name)
        real(source, target)

    monkeypatch.setattr(files.os, "replace", note)
    invoke(*words)
    assert renamed == ["out.csv.receipt.json", "r.html", "c.csv", "out.csv"]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_text = Path.write_text
    for part in (".out.csv.receipt", ".r.html", ".c.csv"):

        def full(self: Path, *rest: Any, part: str = part, **more: Any) -> int:
            if self.name.startswith(part):
                raise OSError(errno.ENOSPC, "No space left on device", str(self))
            return write_text(self, *rest, **more)

        def full_open(path: Any, *rest: Any, part: str = part, **more: Any) -> Any:
            if Path(str(path)).name.startswith(part):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return open(path, *rest, **more)

        monkeypatch.setattr(Path, "write_text", full)
        monkeypatch.setattr("purigraph.cli.purified_files.open", full_open, raising=False)
        with pytest.raises(OutputError, match="free some space"):
            invoke(*words)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_under_the_graph_itself(own: Own, tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    from purigraph.audit import Request, audit_file

    found = audit_file(Request(graph=str(own.today), purifier=str(own.model), features=str(own.features)))
    with pytest.raises(OSError, match="No space left"):
        found.write(full)


def test_only_its_own_files_are_overwritten(own: Own, tmp_path: Path) -> None:
    foreign = tmp_path / "mine.csv"
    foreign.write_text("a,b\n")
    refused("exists and is not", "purify", own.today, "-m", own.model, "-o", foreign)
    assert foreign.read_text() == "a,b\n"
    refused("must end in .csv", "purify", own.today, "-m", own.model, "-o", tmp_path / "out.npz")
    (tmp_path / "r.html").write_text("<p>mine</p>")
    refused(
        "not a page", "purify", own.today, "-m", own.model, "-o", tmp_path / "o.csv", "--report", tmp_path / "r.html"
    )
    for _ in range(2):
        purify(own, tmp_path / "again.csv")
    refused("also another argument", "purify", own.today, "-m", own.model, "-o", tmp_path / "o.csv", "--trusted",
            own.yesterday, "--changes", tmp_path / "o.csv")  # fmt: skip


def test_other_formats_go_through_the_commands(own: Own, tmp_path: Path) -> None:
    import networkx

    data = communities(60)
    torch.save(data, tmp_path / "g.pt")
    network = networkx.Graph(as_pair_graph(data).pairs.t().tolist())
    for node in network:
        network.nodes[node].update({f"f{k}": value for k, value in enumerate(data.x[node].tolist())})
    networkx.write_graphml_xml(network, tmp_path / "g.graphml")
    networkx.write_gexf(network, tmp_path / "g.gexf")
    for name in ("g.pt", "g.graphml", "g.gexf"):
        invoke("fit", tmp_path / name, "-o", tmp_path / f"model-{name}", *FIT)
        out = tmp_path / f"out.{name.rpartition('.')[2]}"
        invoke("purify", tmp_path / name, "-m", tmp_path / f"model-{name}", "-o", out)
        assert "matches" in invoke("verify", f"{out}.receipt.json")


def test_without_features_there_is_structure(own: Own, tmp_path: Path) -> None:
    invoke("fit", own.yesterday, "-o", tmp_path / "model", *FIT)
    invoke("purify", own.today, "-m", tmp_path / "model", "-o", tmp_path / "out.csv")
    assert purifiers.load(tmp_path / "model").provenance["features"]["kind"] == "structural"
    refused("leave the features", "purify", own.today, "--features", own.features, "-m", tmp_path / "model", "-o",
            tmp_path / "out.csv")  # fmt: skip
    refused("has its own node features", "fit", _npz(own, tmp_path), "--features", own.features, "-o", tmp_path / "m2")
    refused("dataset with its own", "fit", "synthetic-citation", "--features", own.features, "-o", tmp_path / "m2")


def _npz(own: Own, place: Path) -> Path:
    from purigraph.graph import save_npz

    save_npz(own.data, place / "own.npz")
    return place / "own.npz"


def test_a_graph_file_in_shadow_mode_gets_scores(workshop: Workshop, tmp_path: Path) -> None:
    invoke("purify", workshop.graph, "-m", workshop.purifier, "-o", tmp_path / "o.npz", "--shadow", "--threshold", 0.5)
    with np.load(workshop.graph) as before, np.load(tmp_path / "o.npz") as after:
        assert set(after.files) == {*before.files, "edge_score", "edge_would_keep"}
        assert all(np.array_equal(before[name], after[name]) for name in before.files)
        assert after["edge_would_keep"].tolist() == (after["edge_score"] >= 0.5).tolist()
    load_npz(tmp_path / "o.npz")


def test_the_page_shows_answers_and_anchors(workshop: Workshop, tmp_path: Path) -> None:
    invoke("fit", workshop.graph, "--anchor", "-c", workshop.gcn, "-o", tmp_path / "anchor", "--epochs", 2)
    page = tmp_path / "r.html"
    options = ["-c", workshop.gcn, "--anchor", tmp_path / "anchor", "--report", page, "--json"]
    found = json.loads(invoke("purify", workshop.graph, "-m", workshop.purifier, "-o", tmp_path / "o.npz", *options))
    text = page.read_text()
    assert f"{found['answers']['changed']:,} of 150 answers" in text
    assert f"{found['fixed_answers']:,} of 150 nodes" in text
    assert "matches" in invoke("verify", tmp_path / "o.npz.receipt.json")


def test_the_demo_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from purigraph import demo
    from purigraph.audit import audit

    data = communities()
    purifier = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(data, epochs=1)
    budgets = [demo.Budgeted(0.25, 12, 0.45, 0.7, 0.68, 0.7)]
    canned = demo.DemoResult(0.8, 0.79, 0.78, 0.65, budgets, 100, 0, 1.0, audit(purifier, data))
    monkeypatch.setattr(demo, "run_demo", lambda **_: canned)
    monkeypatch.chdir(tmp_path)
    assert "demo-report.html" in invoke("demo")
    assert re.search("falls from 80.0 %", Path("demo-report.html").read_text())
    assert json.loads(invoke("demo", "--json", "--report", "other.html"))["report"] == "other.html"


def test_classifiers_take_features_from_a_file_too(own: Own, tmp_path: Path) -> None:
    """Of a file that has labels and a split, but no features."""
    data, role = communities(80), torch.arange(80) % 4
    features = tmp_path / "x.npy"
    np.save(features, data.x.numpy())
    bare = Data(edge_index=data.edge_index, y=data.y, num_nodes=80)
    bare.train_mask, bare.val_mask, bare.test_mask = role == 0, role == 1, role == 2
    torch.save(bare, tmp_path / "bare.pt")
    gcn = tmp_path / "gcn"
    invoke("train", tmp_path / "bare.pt", "--features", features, "-o", gcn, "--epochs", 2)
    words = ["evaluate", tmp_path / "bare.pt", "-c", gcn, "-a", "dice", "--epsilon", 0.1]
    assert "accuracy" in invoke(*words, "--features", features).lower()
    refused("fitted to some", *words)
    refused("has no y", "train", own.today, "--features", own.features, "-o", tmp_path / "no")


@pytest.mark.parametrize("kind", ["jaccard", "chain"])
def test_every_purifier_remembers_its_features(kind: str, own: Own, tmp_path: Path) -> None:
    more = ["--set", 'parts=["jaccard", {"purifier": "svd", "settings": {"rank": 5}}]'] if kind == "chain" else []
    invoke("fit", own.yesterday, "--features", own.features, "-o", tmp_path / "m", "-k", kind, *more)
    assert purifiers.load(tmp_path / "m").feature_record["names"] == [f"f{k}" for k in range(24)]
    invoke("purify", own.today, "--features", own.features, "-m", tmp_path / "m", "-o", tmp_path / "out.csv")
    refused("give them with --features", "purify", own.today, "-m", tmp_path / "m", "-o", tmp_path / "out.csv")
