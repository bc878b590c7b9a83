from __future__ import annotations

import json
from mmap import mmap
from pathlib import Path

import pytest

from purigraph.errors import InputError, ModelFileError
from purigraph.runs import Cell, Event, Store, default_store, digest, footprint, protocols, work
from purigraph.runs.result_files import read_results, write_results
from trial_cells import cell


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_a_cell_is_named_by_its_configuration_alone() -> None:
    one = Cell("kind", "module:function", {"a": 1, "b": [0.5]}, label="x")
    assert one.key == Cell("kind", "elsewhere:function", {"b": [0.5], "a": 1}, label="y").key
    assert one.key != Cell("kind", "module:function", {"a": 2, "b": [0.5]}).key
    assert one.key != Cell("other", "module:function", {"a": 1, "b": [0.5]}).key


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_a_configuration_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="finite JSON values"):
        digest({"value": value})


def test_finished_cells_are_not_run_again(store: Store, tmp_path: Path) -> None:
    one = cell("square", number=3, marks=str(tmp_path))
    assert store.state(one) == "open"
    for _ in range(2):
        (record,) = work(store, [one])
        assert record["result"] == {"value": 9}
    assert (tmp_path / "3").read_text() == "x"
    assert store.state(one) == "finished"
    assert record["stamp"].keys() == {"purigraph_version", "torch_version", "threads", "seconds"}


def test_a_failed_cell_says_why_and_is_tried_again_by_the_next_call(store: Store, tmp_path: Path) -> None:
    one, events = cell("refuse", unless=str(tmp_path / "there")), list[Event]()
    assert work(store, [one, cell("square", number=2)], on_event=events.append)[0]["result"] == {"value": 4}
    assert store.state(one) == "failed"
    assert store.failure(one) == "the file is missing"
    assert [event.kind for event in events] == ["started", "failed", "started", "finished"]
    (tmp_path / "there").touch()
    assert work(store, [one])[0]["result"] == {"value": 1}
    assert store.failure(one) is None


def test_a_claim_excludes_all_others_and_ends_with_its_block(store: Store) -> None:
    one = cell("square", number=1)
    with store.claim(one) as mine:
        assert mine
        with store.claim(one) as yours:
            assert not yours
        assert store.state(one) == "claimed"
    assert store.state(one) == "open"


def test_a_damaged_record_is_named(store: Store) -> None:
    one = cell("square", number=1)
    work(store, [one])
    path = next((store.root / "cells").rglob("*.json"))
    path.write_text("[]")
    with pytest.raises(ModelFileError, match=path.name):
        store.record(one)


def test_an_interrupted_artefact_is_made_again_with_the_same_checkpoint(store: Store) -> None:
    place = store.artefact("models", {"name": "x"})

    def interrupted(folder: Path, checkpoint: Path) -> dict[str, int]:
        checkpoint.mkdir(parents=True)
        (checkpoint / "half").touch()
        raise KeyboardInterrupt

    def resumed(folder: Path, checkpoint: Path) -> dict[str, int]:
        return {"found": int((checkpoint / "half").exists())}

    with pytest.raises(KeyboardInterrupt):
        place.made(interrupted)
    assert place.made(resumed)["found"] == 1
    assert not (place.folder / "checkpoint").exists()
    assert place.made(interrupted)["found"] == 1


def test_the_store_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PURIGRAPH_RUNS", str(tmp_path))
    assert default_store().root == tmp_path
    monkeypatch.delenv("PURIGRAPH_RUNS")
    assert default_store().root.name == "runs"


def test_raising_a_protocol_opens_the_cells_that_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Cell("kind", "f:g", {"protocols": protocols(["gcn", "Soft_Median"])})
    assert before.config["protocols"] == {"gcn": 1, "soft-median": 1}
    monkeypatch.setattr("purigraph.runs.protocol_versions.VERSIONS", {"gcn": 2})
    assert Cell("kind", "f:g", {"protocols": protocols(["gcn", "soft-median"])}).key != before.key
    assert protocols(["mlp"]) == {"mlp": 1}


def test_results_are_merged_by_place_sorted_and_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    lines = [{"row": row, "seed": seed, "value": seed} for row in "ba" for seed in (10, 2)]
    write_results(path, lines[:3], place=("row", "seed"))
    write_results(path, [*lines[2:], {"row": "b", "seed": 2, "value": 7}], place=("row", "seed"))
    found = read_results(path)
    assert [(line["row"], line["seed"], line["value"]) for line in found] == [
        ("a", 2, 2),
        ("a", 10, 10),
        ("b", 2, 7),
        ("b", 10, 10),
    ]
    text = path.read_bytes()
    write_results(path, list(reversed(found)), place=("row", "seed"))
    assert path.read_bytes() == text
    assert [json.loads(line) for line in text.splitlines()] == found


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.jsonl").write_text('{"row": 1}\n{"row"\n')
    with pytest.raises(ModelFileError, match="line 2"):
        read_results(tmp_path / "table.jsonl")


def test_a_footprint_knows_time_and_the_peak_of_memory() -> None:
    with footprint() as small:
        pass
    # Not from malloc, which may have that much at hand from before.
    with footprint() as large, mmap(-1, 64_000_000) as block:
        for page in range(0, len(block), 4096):
            block[page] = 1
    assert large.seconds >= 0
    assert small.megabytes is not None
    assert large.megabytes is not None
    assert large.megabytes > 50 > small.megabytes
