import json

import pytest
import torch
from typer.testing import CliRunner

from purigraph import bench
from purigraph.bench import measure, rows, scaling, workloads
from purigraph.cli import app

TINY = {"num_nodes": 60, "num_edges": 120, "num_features": 16}


@pytest.mark.parametrize("name", ["purify", "gradient", "diffusion_gradient"])
def test_both_sides_do_the_same_work(name: str) -> None:
    work = workloads.WORKLOADS[name](**TINY, block=40)
    ours, theirs = work.ours(), work.reference()
    assert isinstance(ours, torch.Tensor)
    assert isinstance(theirs, torch.Tensor)
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["train_epoch", "prbcd_vs_pyg", "anchored_prediction", "arxiv_attack_epoch", "purify_step"]
)
def test_every_workload_runs(name: str) -> None:
    work = workloads.WORKLOADS[name](**TINY, block=40, epochs=2)
    work.side("ours")()
    if name == "arxiv_attack_epoch":
        with pytest.raises(ValueError, match="does not fit"):
            work.reference()
    else:
        work.reference()


def test_rows_and_growth_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [rows._Plan("purify", "cora", TINY, rounds=1), rows._Plan("purify", "arxiv", TINY, rounds=1, large=True)]
    monkeypatch.setattr(rows, "_PLANS", plans)
    monkeypatch.setattr(scaling, "child_memory", lambda *_, **__: 1.0)
    monkeypatch.setattr(rows, "child_memory", lambda *_, **__: 2.0)
    monkeypatch.setattr(bench, "growth_with_edges", lambda edges: [scaling._one(50, 100, memory=True)])
    result = CliRunner().invoke(app, ["bench", "--quick", "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    (row,) = document["rows"]
    expected = {"name", "ours_s", "reference_s", "ratio", "floor_s", "floor_multiple", "ours_mb", "reference_mb"}
    assert expected <= row.keys()
    assert row["ratio"] == pytest.approx(row["reference_s"] / row["ours_s"])
    assert document["growth"][0]["num_edges"] == 100
    assert len(list(bench.run(memory=False))) == 2
    text = CliRunner().invoke(app, ["bench", "--quick"], catch_exceptions=False).stdout
    assert "purify" in text


def test_memory_is_measured_in_a_child() -> None:
    large = measure.child_memory("purify_step", "ours", num_nodes=4000, num_edges=8000, num_features=16)
    assert 30 < large < 400  # hops and codes are 4000 x 2048 floats: 33 MB
    with pytest.raises(RuntimeError, match="failed in its child process"):
        measure.child_memory("purify", "nobody")


def test_by_turns_gives_every_side_a_time() -> None:
    times = measure.by_turns({"a": lambda: None, "b": lambda: sum(range(1000))}, rounds=3)
    assert times.keys() == {"a", "b"}
    assert measure.once(lambda: None) >= 0
