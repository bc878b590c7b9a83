"""Measuring time in turns and memory in child processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import torch


def by_turns(sides: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Return the median seconds of every side; they run in turns, under equal conditions, after a warm-up round."""
    for work in sides.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


def once(work: Callable[[], object]) -> float:
    """Return the seconds of one call, for work that takes long enough to be measured once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def floor_seconds(num_nodes: int, rounds: int = 3) -> float:
    """Return F, the time of one (N x 1024) . (1024 x 1024) product in single precision, into allocated memory."""
    left, right = torch.randn(num_nodes, 1024), torch.randn(1024, 1024)
    out = torch.empty(num_nodes, 1024)
    return by_turns({"F": lambda: torch.mm(left, right, out=out)}, rounds=rounds)["F"]


def child_memory(workload: str, side: str, **size: int) -> float:
    """Return the peak memory in MB that a workload, with its inputs, adds to a process; measured in a child process."""
    command = [sys.executable, "-m", "purigraph.bench.child", workload, side, json.dumps(size)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"the {side} side of {workload} failed in its child process:\n{result.stderr[-2000:]}")
    return float(json.loads(result.stdout.splitlines()[-1])["mb"])
