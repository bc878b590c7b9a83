"""A run that is killed at any moment and started again ends with the same results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from purigraph.runs import read_results

# Kills come this long after the first line of output or the last finished cell, in seconds.
MOMENTS = (0.05, 0.3, 0.9)


def start(folder: Path, jobs: int = 1) -> subprocess.Popen[bytes]:
    command = ["paper", "run", "table1", "--profile", "smoke", "--rows", "GPR-GAE + GCN", "--rows", "GCN"]
    command += ["--columns", "PRBCD 0.5", "--columns", "clean", "--results", str(folder / "results"), "-j", str(jobs)]
    program = f"import sys; sys.argv = ['purigraph', *{command!r}]; from purigraph.cli import main; main()"
    environment = {**os.environ, "PURIGRAPH_RUNS": str(folder / "runs"), "OMP_NUM_THREADS": "1"}
    # A session of its own, so that the kill also reaches its workers.
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finished(folder: Path) -> int:
    return len(list((folder / "runs" / "cells").rglob("*.json")))


def begun(folder: Path) -> bool:
    return (folder / "runs" / "models").is_dir()


def values(folder: Path) -> list[str]:
    lines = read_results(folder / "results" / "table1.jsonl")
    kept = [(line["row"], line["column"], line["form"], line["key"]) for line in lines]
    results = [(line["result"]["values"], line["result"].get("flips")) for line in lines]
    return [json.dumps(pair) for pair in zip(kept, results, strict=True)]


def test_killed_runs_end_with_the_same_results(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert start(undisturbed).wait(120) == 0
    kills = 0
    for moment in MOMENTS:
        before, process = finished(killed), start(killed, jobs=2 if moment == MOMENTS[-1] else 1)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if finished(killed) > before or (before == 0 and begun(killed)):
                break
            time.sleep(0.02)
        time.sleep(moment)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(30)
    assert kills > 0, "every run was finished before it could be killed"
    assert start(killed).wait(120) == 0
    assert values(killed) == values(undisturbed)
    assert len(values(killed)) == 6
    assert not list((killed / "runs").rglob("*.part")), "a temporary file was left"
