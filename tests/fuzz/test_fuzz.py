"""The fuzzer, and that it would notice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import workshop
from fuzz.harness import Case, Judge, Kind, Verdict, WrongResult, command
from fuzz.kinds import KINDS, run_seed
from purigraph.errors import GraphError

TESTS = Path(__file__).parents[1]


def run_module(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the tests in a process of its own: it is forked from, limits its memory, and may die."""
    paths = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", name, *arguments]
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_two_thousand_cases_give_results_or_errors_on_purpose() -> None:
    run = run_module("fuzz", "--cases", "2000")
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]


@pytest.mark.slow
def test_ten_kills_do_no_damage() -> None:
    run = run_module("fuzz.kills", "--kills", "10")
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    workshop.build(folder)
    return folder


def judged(good: Path, kind: Kind, *, seconds: float = 10.0, bytes: int = 2 << 30) -> Verdict:
    return Judge(good, seconds=seconds, bytes=bytes).run(0, "trial", kind, random.Random(0))


def case(act: Callable[[Path], object], **places: list[Path]) -> Kind:
    return lambda _rng, place: Case("a trial", lambda: act(place), **places)


def refuse(_place: Path) -> None:
    raise GraphError("row 3 is no edge")


def crash(_place: Path) -> None:
    raise ValueError("not on purpose")


def test_results_and_errors_on_purpose_pass(good: Path) -> None:
    assert judged(good, case(lambda _: 3)).outcome == "result"
    assert judged(good, case(refuse)).outcome == "refused"


def test_any_other_exception_fails(good: Path) -> None:
    verdict = judged(good, case(crash))
    assert verdict.outcome == "failed"
    assert "ValueError" in verdict.reason
    assert "not on purpose" in verdict.reason


def test_a_wrong_result_fails(good: Path) -> None:
    def act(_place: Path) -> None:
        raise WrongResult("NaN")

    assert judged(good, case(act)).reason == "wrong result: NaN"


def test_time_is_limited(good: Path) -> None:
    begun = time.monotonic()
    assert judged(good, case(lambda _: time.sleep(5)), seconds=0.1).reason == "not done after 0.1 s"
    assert time.monotonic() - begun < 3
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_fifo_that_nobody_writes_to_does_not_hang_the_fuzzer(good: Path) -> None:
    def act(place: Path) -> None:
        os.mkfifo(place / "fifo")
        (place / "fifo").read_bytes()

    assert "not done" in judged(good, case(act), seconds=0.1).reason


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured through /proc")
def test_memory_is_limited(good: Path) -> None:
    def ask(_place: Path) -> None:
        bytearray(1 << 30)

    assert judged(good, case(ask)).outcome == "result"
    assert "MemoryError" in judged(good, case(ask), bytes=1 << 28).reason
    assert judged(good, case(ask)).bytes > 1 << 29


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda place: (place / "new").write_text("a"), "left new"),
        (lambda place: (place / "new").mkdir(), "left new"),
        (lambda place: (place / "out" / ".model.part").write_text("a"), "left out/.model.part"),
        (lambda place: (place / "foreign.txt").write_text("a"), "changed foreign.txt"),
        (lambda place: (place / "foreign.txt").unlink(), "removed foreign.txt"),
        (lambda place: (place / "out" / "model").write_text("a"), ""),
    ],
)
def test_files_that_are_no_outputs_fail(act: Callable[[Path], object], reason: str, good: Path) -> None:
    def kind(_rng: random.Random, place: Path) -> Case:
        (place / "out").mkdir()
        return Case("a trial", lambda: act(place), outputs=[place / "out"])

    assert judged(good, kind).reason == reason


def test_an_output_after_an_error_fails_but_a_checkpoint_may_stay(good: Path) -> None:
    def act(place: Path) -> None:
        (place / "out").write_text("half")
        refuse(place)

    for role, reason in (("outputs", "left out"), ("keeps", "")):
        verdict = judged(good, lambda _rng, place, role=role: Case("", lambda: act(place), **{role: [place / "out"]}))
        assert verdict.reason == reason


def test_a_command_that_dies_fails(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(good, case(lambda _: command("purify", "--odd")())).outcome == "refused"
    assert judged(good, case(lambda _: command("settings", "gcn")())).outcome == "result"
    monkeypatch.setattr("purigraph.cli.app", lambda: sys.exit(1))
    assert "exit code 1" in judged(good, case(lambda _: command("settings", "gcn")())).reason


def test_a_seed_is_a_case(good: Path) -> None:
    judge = Judge(good)
    first, again = ([run_seed(judge, seed) for seed in range(40)] for _ in range(2))
    assert [(one.kind, one.description, one.outcome) for one in first] == [
        (one.kind, one.description, one.outcome) for one in again
    ]
    assert len({one.kind for one in first}) > 8


@pytest.mark.parametrize("name", ["graphs", "values", "saved-graphs"])
@settings(max_examples=100)
@given(rng=st.randoms(use_true_random=False))
def test_odd_arrays_by_hypothesis(name: str, rng: random.Random, good: Path) -> None:
    """The same draws, made by Hypothesis, which looks for a failure's smallest example."""
    verdict = Judge(good).run("hypothesis", name, KINDS[name][0], rng)
    assert verdict.outcome != "failed", f"{verdict.reason}: {verdict.description}"
