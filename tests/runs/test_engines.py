"""Cells in several processes, some of which are killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from purigraph.errors import InputError, UnknownNameError
from purigraph.runs import Event, Store, run_cells, work
from purigraph.runs.local import threads_each
from trial_cells import cell


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_processes_share_the_cells_and_the_artefacts(store: Store, tmp_path: Path) -> None:
    cells = [cell("square", number=number, marks=str(tmp_path), seconds=0.1) for number in range(6)]
    cells += [cell("shared", number=number) for number in range(2)]
    events: list[Event] = []
    run_cells(store, cells, jobs=2, on_event=events.append)
    assert [store.record(one)["result"]["value"] for one in cells[:6]] == [0, 1, 4, 9, 16, 25]  # type: ignore[index]
    assert all((tmp_path / str(number)).read_text() == "x" for number in range(6)), "a cell was run twice"
    assert all(store.record(one)["result"]["files"] == 1 for one in cells[6:])  # type: ignore[index]
    assert sorted(event.cell.key for event in events if event.kind == "finished") == sorted(c.key for c in cells)


def test_a_cell_whose_process_is_killed_is_run_again_and_given_up_if_it_always_is(store: Store) -> None:
    once, always, plain = cell("die"), cell("die", always=True), cell("square", number=5)
    events: list[Event] = []
    run_cells(store, [always, once, plain], jobs=2, on_event=events.append)
    assert [store.state(one) for one in (once, always, plain)] == ["finished", "failed", "finished"]
    assert "memory" in (store.failure(always) or "")
    assert [event.cell.key for event in events if event.kind == "failed"] == [always.key]


def test_a_cell_that_fails_is_tried_by_one_process_only(store: Store, tmp_path: Path) -> None:
    bad, events = cell("refuse", unless=str(tmp_path / "missing")), list[Event]()
    run_cells(store, [bad, cell("square", number=1, seconds=1)], jobs=2, on_event=events.append)
    assert [event.kind for event in events if event.cell == bad] == ["started", "failed"]


def test_cells_of_another_process_are_waited_for_and_taken_over(store: Store) -> None:
    one = cell("square", number=4)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with store.claim(one) as mine:
            assert mine
            held.set()
            release.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(10)
    threading.Timer(1.0, release.set).start()
    (record,) = work(store, [one])
    assert release.is_set(), "the claim was ignored"
    assert record["result"] == {"value": 16}
    other.join()


def test_threads_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_each(jobs) for jobs in (1, 3, 16)] == [8, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert threads_each(2) == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"engine": "slurm"}, UnknownNameError, "local, ray"),
        ({"jobs": 0}, InputError, "at least 1"),
        ({"address": "auto"}, InputError, "--engine ray"),
    ],
)
def test_wrong_options_are_refused(
    store: Store, options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_cells(store, [cell("square", number=1)], **options)  # type: ignore[arg-type]
