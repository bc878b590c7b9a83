"""The Ray engine, on a real local Ray."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from purigraph import paper
from purigraph.errors import InputError
from purigraph.runs import Event, Store, run_cells, work
from trial_cells import cell

ray = pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def workers_find_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's workers import the tests' cells: they inherit the environment, not the path of this process."""
    paths = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def test_the_same_cells_give_the_same_results_and_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    store, events = Store(tmp_path / "store"), list[Event]()
    planned = paper.plan(paper.load("table1"), profile="smoke", rows=["GCN"], columns=["PRBCD 0.5"])
    cells = [one.cell for one in planned if one.cell is not None]
    bad = cell("refuse", unless=str(tmp_path / "missing"))
    done = cell("square", number=7)
    work(store, [done])
    run_cells(store, [*cells, cell("die"), bad, done], engine="ray", jobs=2, on_event=events.append)
    assert not ray.is_initialized(), "the cluster that was started here must end here"
    assert store.state(cell("die")) == "finished", "the task of a killed worker was not run again"
    assert store.failure(bad) == "the file is missing"
    assert sorted(event.kind for event in events) == ["failed", *["finished"] * (len(cells) + 2)]
    other = Store(tmp_path / "other")
    run_cells(other, cells)
    for one in cells:
        here, there = store.record(one), other.record(one)
        assert here is not None
        assert there is not None
        for key in ("values", "flips"):
            assert here["result"][key] == there["result"][key]


def test_a_worker_that_is_always_killed_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purigraph.runs.on_ray._RETRIES", 1)
    store, one = Store(tmp_path), cell("die", always=True)
    run_cells(store, [one], engine="ray")
    assert "after 1 retries" in (store.failure(one) or "")


def test_ray_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"purigraph\[ray\]"):
        run_cells(Store(tmp_path), [cell("square", number=1)], engine="ray")
