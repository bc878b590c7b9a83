"""A real torchrun and a real Ray on this machine: the same weights, clear errors, and a killed rank."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from cli.command_runs import invoke, refused
from helpers import communities
from purigraph import distributed
from purigraph.distributed import Ranks, read_curve, read_purified, write_parts
from purigraph.distributed.engines import _root_cause, run_torchrun
from purigraph.distributed.job import Job
from purigraph.errors import GraphError, InputError, RankLostError, UnknownNameError
from purigraph.graph import load_npz, save_npz
from purigraph.purifiers.gpr_gae import FitSettings

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: purigraph[ray]")
ENGINES = ["torchrun", pytest.param("ray", marks=needs_ray)]


@pytest.fixture
def graph() -> Data:
    return communities(300)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_weights_are_those_of_one_process(engine: str, graph: Data, trained: pg.GPRGAE, tmp_path: Path) -> None:
    write_parts(graph, tmp_path / "graph", parts=2)
    result = distributed.purify(tmp_path / "graph", trained, tmp_path / "out", engine=engine, workers=2, threads=1)
    trace = trained.trace(graph)
    pairs, weight = read_purified(tmp_path / "out")
    assert torch.equal(pairs, trace.graph.pairs)
    assert torch.allclose(weight, trace.graph.weight, atol=1e-5, rtol=0)
    assert result.num_edges == trace.graph.num_pairs
    assert result.relative_change == pytest.approx(trace.relative_change, rel=1e-3)
    assert len(result.ranks) == 2
    assert sum(one.nodes for one in result.ranks) == 300
    assert not list((tmp_path / "out").glob("*job*")), "nothing is left of the job"
    # The result is there: nothing is started again.
    again = distributed.purify(tmp_path / "graph", trained, tmp_path / "out", engine=engine, workers=2)
    assert again == result


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_rank_is_named_and_the_same_command_goes_on(
    engine: str, graph: Data, trained: pg.GPRGAE, tmp_path: Path
) -> None:
    write_parts(graph, tmp_path / "graph")
    trained.save_pretrained(tmp_path / "purifier")
    steps = ["--set", "tolerance=0", "--set", "max_steps=60"]
    places = [tmp_path / "graph", "-m", tmp_path / "purifier", "-o", tmp_path / "out"]
    command = ["purify", *map(str, places), "--engine", engine, "--workers", "2", *steps]
    before = _kill_one_rank(command, tmp_path / "out", engine)
    assert 3 <= len(before) < 60

    assert "60 steps" in invoke(*command)
    after = json.loads((tmp_path / "out" / "run.json").read_text())["steps"]
    assert after[: len(before)] == before, "finished steps were not done again"
    expected = trained.trace(graph, tolerance=0.0, max_steps=60).graph.weight
    assert torch.allclose(read_purified(tmp_path / "out")[1], expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_what_is_wrong_with_the_input_is_said(trained: pg.GPRGAE, tmp_path: Path) -> None:
    with distributed.PartsWriter(tmp_path / "graph", 24) as writer:
        writer.add_edges(torch.tensor([0, 1, 0]), torch.tensor([1, 2, 1]))
        writer.add_features(torch.zeros(5, 24))
    with pytest.raises(GraphError, match=r"edge \[0, 1\] is listed more than once"):
        distributed.purify(tmp_path / "graph", trained, tmp_path / "out", workers=2)


@pytest.mark.slow
def test_training_by_torchrun(graph: Data, tmp_path: Path) -> None:
    write_parts(graph, tmp_path / "graph")
    purifier = distributed.fit(
        tmp_path / "graph",
        pg.GPRGAE(hops=2, node_channels=8, edge_channels=8),
        tmp_path / "run",
        batches=distributed.BatchSettings(batches=2, roots=20),
        settings=FitSettings(epochs=6, validation_sets=2),
        workers=2,
        threads=1,
    )
    assert purifier.is_fitted
    assert len(read_curve(tmp_path / "run")) == 6


@pytest.mark.slow
def test_a_graph_file_is_purified_by_the_same_command(graph: Data, trained: pg.GPRGAE, tmp_path: Path) -> None:
    graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[5], [5]])], dim=1)  # self-loops stay as they are
    save_npz(graph, tmp_path / "graph.npz")
    trained.save_pretrained(tmp_path / "purifier")
    command = ["purify", str(tmp_path / "graph.npz"), "-m", str(tmp_path / "purifier"), "-o"]
    output = invoke(*command, tmp_path / "ranks.npz", "--engine", "torchrun", "--workers", "2", "--json")
    assert json.loads(output)["edges"] == (graph.num_edges - 1) // 2
    invoke(*command, tmp_path / "one.npz")
    one, many = load_npz(tmp_path / "one.npz"), load_npz(tmp_path / "ranks.npz")
    assert torch.equal(one.edge_index, many.edge_index)
    assert torch.allclose(one.edge_weight, many.edge_weight, atol=1e-5, rtol=0)
    assert not (tmp_path / "ranks.npz.ranks").exists()


def test_torchrun_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 workers can't be spread evenly over 2 machines"):
        run_torchrun(Job("purify", str(tmp_path)), Ranks(workers=3, machines=2), lambda: None)
    with pytest.raises(InputError, match="no task 'dance'"):
        run_torchrun(Job("dance", str(tmp_path)), Ranks(workers=1), lambda: None)


def test_wrong_arguments_are_found_before_anything_starts(graph: Data, trained: pg.GPRGAE, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="has no manifest.json"):
        distributed.purify(tmp_path, trained, tmp_path / "out")
    write_parts(graph, tmp_path / "graph")
    with pytest.raises(UnknownNameError, match="no engine named 'slurm'"):
        distributed.purify(tmp_path / "graph", trained, tmp_path / "out", engine="slurm")
    with pytest.raises(InputError, match="no setting 'worker'"):
        distributed.purify(tmp_path / "graph", trained, tmp_path / "out", worker=2)
    with pytest.raises(InputError, match="Only a GPRGAE"):
        distributed.purify(tmp_path / "graph", pg.Jaccard(), tmp_path / "out")
    with pytest.raises(InputError, match="chunk must be at least 1"):
        distributed.purify(tmp_path / "graph", trained, tmp_path / "out", chunk=0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty"):
        distributed.purify(tmp_path / "graph", trained, tmp_path / "full")
    with pytest.raises(InputError, match="Only a GPRGAE"):
        distributed.fit(tmp_path / "graph", pg.Jaccard(), tmp_path / "out")


def test_the_killed_rank_is_told_from_those_that_follow_it() -> None:
    log = """FAILED
    [0]: rank : 0 (local_rank: 0) exitcode : 3 (pid: 10)
    [1]: rank : 2 (local_rank: 2) exitcode : -15 (pid: 12)
    Root Cause (first observed failure):
    [0]: rank : 1 (local_rank: 1) exitcode : -9 (pid: 11)
    """
    assert _root_cause(log) == "Rank 1 was lost: its process was ended by SIGKILL."
    assert "exit code 3" in _root_cause(log.replace("-9", "3"))
    assert "no such port" in _root_cause("starting\nno such port\n")


def test_the_command_refuses_what_it_can_not_do(graph: Data, trained: pg.GPRGAE, tmp_path: Path) -> None:
    write_parts(graph, tmp_path / "graph")
    trained.save_pretrained(tmp_path / "purifier")
    command = ["purify", tmp_path / "graph", "-m", tmp_path / "purifier", "-o", tmp_path / "out"]
    refused("choose how its processes are started", *command)
    refused("use --set threshold", *command, "--engine", "torchrun", "--threshold", "0.5")
    refused("no engine named 'spark'", *command, "--engine", "spark")
    refused("--engine runs on CPUs, not on cuda", *command, "--engine", "torchrun", "--device", "cuda")
    refused("is also another argument", *command[:-1], tmp_path / "graph", "--engine", "ray")
    assert not (tmp_path / "out").exists()


def test_the_cause_comes_before_its_consequences(tmp_path: Path) -> None:
    job = Job("purify", str(tmp_path))
    job.save()
    assert Job.load(job.path) == job
    job.record_failure(0, RankLostError("connection lost"))
    assert "Rank 1 was lost" in str(job.failure("Rank 1 was lost."))
    job.record_failure(1, ZeroDivisionError("by zero"))
    assert "Rank 1 failed: ZeroDivisionError: by zero" in str(job.failure("?"))
    job.record_failure(0, GraphError("edge 3 is wrong"))
    found = job.failure("?")
    assert isinstance(found, GraphError)
    assert str(found) == "edge 3 is wrong"
    job.save()
    assert isinstance(job.failure("Rank 2 is gone."), RankLostError)


def _start(arguments: list[str]) -> subprocess.Popen[str]:
    program = "from purigraph.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _kill_one_rank(command: list[str], out: Path, engine: str) -> list[object]:
    """Kill a rank in the middle of a run; return the steps that were finished by then."""
    run = _start(command)
    try:
        deadline = time.monotonic() + 90
        while _num_steps(out) < 3:
            assert run.poll() is None, run.communicate()[1]
            assert time.monotonic() < deadline, "the ranks have not started"
            time.sleep(0.02)
        ranks = _ranks_of(run.pid, "ray::_Rank" if engine == "ray" else "purigraph.distributed.worker")
        assert len(ranks) == 2
        os.kill(ranks[1], signal.SIGKILL)
        errors = run.communicate(timeout=60)[1]
    finally:
        run.kill()
    assert run.returncode == 2
    assert "was lost" in errors
    assert "resumes after the last finished step" in " ".join(errors.split())
    assert "Traceback" not in errors
    steps: list[object] = json.loads((out / "run.json").read_text())["steps"]
    return steps


def _num_steps(out: Path) -> int:
    path = out / "run.json"
    return len(json.loads(path.read_text())["steps"]) if path.exists() else 0


def _ranks_of(root: int, mark: str) -> list[int]:
    """The processes below one whose command line has this mark, but not those that only started them."""
    parents, names = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                status = (path / "stat").read_text()
                names[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(path.name)] = int(status.rpartition(")")[2].split()[1])

    def is_below(pid: int) -> bool:
        while pid in parents:
            if pid == root:
                return True
            pid = parents[pid]
        return False

    found = [pid for pid in sorted(names) if mark in names[pid] and is_below(pid)]
    return [pid for pid in found if "torch.distributed.run" not in names[pid]]
