"""What can't be written is refused before the work; nothing that is read is overwritten."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from cli.command_runs import QUICK, Workshop, invoke, refused
from purigraph import cli
from purigraph.cli.outputs import check_output
from purigraph.errors import InputError
from purigraph.graph.npz import load_npz


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a graph is where the work begins."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the output should have been checked before")

    for command in (cli.fit, cli.train):
        monkeypatch.setattr(command, "load_document", fail)
    monkeypatch.setattr("purigraph.audit.audit_file", fail)
    for command in (cli.attack, cli.evaluate):
        monkeypatch.setattr(command, "load_victim", fail)
    monkeypatch.setattr("purigraph.bench.run", fail)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "FILE", "-o", "FILE"], "--output .* is a file: pass a folder"),
        (["train", "FILE", "-o", "FILE/below"], "is a file, not a folder"),
        (["train", "FILE", "-o", "new", "--checkpoint", "FILE"], "--checkpoint .* is a file"),
        (["fit", "FILE", "-o", "FILE/below/deeper"], "is a file, not a folder"),
        (["fit", "FILE", "-o", "new", "--checkpoint", "FILE"], "--checkpoint .* is a file"),
        (["fit", "FILE", "-o", "new", "--checkpoint", "new"], "also another argument"),
        (["purify", "FILE", "-m", "m", "-o", "FOLDER.npz"], "is a folder: pass the name of a file"),
        (["purify", "FILE", "-m", "m", "-o", "FILE"], "also another argument"),
        (["attack", "FILE", "-c", "c", "-o", "FOLDER.safetensors"], "is a folder"),
        (["attack", "FILE", "-c", "c", "-o", "FILE"], r"must end in \.safetensors"),
        (["attack", "FILE", "-c", "c", "-o", "f.safetensors", "--start", "f.safetensors"], "also another argument"),
        (["attack", "FILE", "-c", "c", "-o", "f.safetensors", "--graph-output", "FILE"], "also another argument"),
        (["attack", "FILE", "-c", "c", "-o", "f.safetensors", "--graph-output", "a.txt"], r"must end in \.npz"),
        (["attack", "FILE", "-c", "c", "-o", "f.safetensors", "--checkpoint", "FILE"], "is a file"),
        (["evaluate", "FILE", "-c", "c", "-o", "FOLDER"], "is a folder"),
        (["evaluate", "FILE", "-c", "c", "-o", "FILE"], "also another argument"),
        (["evaluate", "FILE", "-c", "c", "--checkpoint", "FILE"], "--checkpoint .* is a file"),
        (["bench", "-o", "FOLDER"], "is a folder"),
    ],
)
def test_outputs_are_checked_before_the_work(
    arguments: list[str], message: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"FILE": str(workshop.graph), "FOLDER": str(tmp_path / "folder")}
    for suffix in ("", ".npz", ".safetensors"):
        Path(f"{places['FOLDER']}{suffix}").mkdir()
    given = []
    for argument in arguments:
        for name, place in places.items():
            argument = argument.replace(name, place)
        given.append(argument)
    before = workshop.graph.read_bytes()
    refused(message, *given)
    assert workshop.graph.read_bytes() == before


def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_output(tmp_path / "new" / "deep" / "file", "--output")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=f"no permission to write in {tmp_path}"):
        check_output(tmp_path / "new" / "deep" / "file", "--output")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device", "out/model"), "purigraph: out/model: No space left on device.\n"),
        (OSError("the disk is gone"), "purigraph: the disk is gone\n"),
    ],
)
def test_failures_of_the_disk_are_one_sentence(
    error: OSError, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli.fit, "load_document", fail)
    monkeypatch.setattr(sys, "argv", ["purigraph", "fit", "cora", "-o", str(tmp_path / "m")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == sentence


def test_the_attacked_graph_can_be_purified(workshop: Workshop, tmp_path: Path) -> None:
    flips, attacked, clean = tmp_path / "f.safetensors", tmp_path / "attacked.npz", tmp_path / "clean.npz"
    text = invoke("attack", workshop.graph, "-c", workshop.gcn, "-o", flips, "--graph-output", attacked, *QUICK)
    assert f"{flips} and {attacked}" in text
    before, after = load_npz(workshop.graph), load_npz(attacked)
    assert after.edge_index.shape[1] > before.edge_index.shape[1]
    assert after.test_mask.equal(before.test_mask)
    invoke("purify", attacked, "-m", workshop.purifier, "-o", clean)
    assert load_npz(clean).edge_index.equal(after.edge_index)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "GRAPH", "-o", "GCN"], "holds a classifier/gcn, which a purifier would overwrite"),
        (["train", "GRAPH", "-o", "PURIFIER"], "holds a purifier/gpr-gae, which a classifier would overwrite"),
        (["fit", "GRAPH", "-o", "FOREIGN"], r"config\.json lacks .* It would be overwritten"),
        (["fit", "GRAPH", "-o", "LOCKED"], r"config\.json is read-only"),
        (["attack", "GRAPH", "-c", "GCN", "-o", "GCN/model.safetensors"], "is also another argument"),
        (["attack", "GRAPH", "-c", "c", "-m", "PURIFIER", "-o", "PURIFIER/model.safetensors"], "is also another"),
        (["attack", "GRAPH", "-c", "c", "-o", "GCN/model.safetensors"], "exists and is not a file of flips"),
        (["attack", "GRAPH", "-c", "c", "-o", "text.safetensors"], "exists and is not a file of flips"),
        (["attack", "GRAPH", "-c", "c", "-o", "f.safetensors", "--graph-output", "text.npz"], "not a graph file"),
        (["purify", "GRAPH", "-m", "m", "-o", "text.npz"], "exists and is not a graph file"),
        (["purify", "GRAPH", "-m", "m", "-o", "locked.npz"], "locked.npz is read-only"),
        (["purify", "GRAPH", "-m", "m", "-o", "link.npz"], "is also another argument"),
        (["purify", "GRAPH", "-m", "m", "-o", "loop.npz"], "Too many levels of symbolic links"),
        (["evaluate", "GRAPH", "-c", "GCN", "-o", "GCN/config.json"], "is also another argument"),
        (["evaluate", "GRAPH", "-c", "c", "-o", "GCN/config.json"], "is not the JSON of `purigraph evaluate`"),
        (["evaluate", "GRAPH", "-c", "c", "-o", "text.npz"], "is not the JSON of `purigraph evaluate`"),
        (["bench", "-o", "GCN/config.json"], "is not the JSON of `purigraph bench`"),
    ],
)
def test_what_is_of_another_kind_is_not_overwritten(
    arguments: list[str], message: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text.safetensors", "text.npz"):
        Path(name).write_text("a text")
    for name in ("foreign", "locked"):
        Path(name).mkdir()
        Path(name, "config.json").write_text('{"model_type": "bert"}')
    shutil.copy(workshop.gcn / "config.json", "locked")
    config = json.loads(Path("locked/config.json").read_text())
    Path("locked/config.json").write_text(json.dumps({**config, "class": "purifier/gpr-gae"}))
    shutil.copy(workshop.graph, "locked.npz")
    for locked in ("locked/config.json", "locked.npz"):
        Path(locked).chmod(0o444)
    Path("link.npz").symlink_to(workshop.graph)
    Path("loop.npz").symlink_to("loop.npz")
    places = {"GRAPH": workshop.graph, "GCN": workshop.gcn, "PURIFIER": workshop.purifier}
    places |= {"FOREIGN": tmp_path / "foreign", "LOCKED": tmp_path / "locked"}
    files = [path for folder in (tmp_path, workshop.graph.parent) for path in folder.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    given = []
    for argument in arguments:
        for name, place in places.items():
            argument = argument.replace(name, str(place))
        given.append(argument)
    refused(message, *given)
    assert {path: path.read_bytes() for path in files} == before


def test_what_is_of_the_same_kind_is_overwritten(workshop: Workshop, tmp_path: Path) -> None:
    flips, graph, report = tmp_path / "f.safetensors", tmp_path / "g.npz", tmp_path / "r.json"
    for path in (flips, graph, report):
        path.touch()  # an empty file may be written to, whatever its kind
    for _ in range(2):
        invoke("attack", workshop.graph, "-c", workshop.gcn, "-o", flips, "--graph-output", graph, *QUICK)
        invoke("evaluate", workshop.graph, "-c", workshop.gcn, "-o", report, "--epsilon", 0.1, *QUICK)
    assert flips.stat().st_size * graph.stat().st_size * report.stat().st_size > 0
