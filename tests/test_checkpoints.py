"""One checkpointer: due by the clock, of one run only, whole or refused."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from purigraph import checkpoints
from purigraph.checkpoints import Checkpointer, State
from purigraph.errors import ModelFileError

STATE = State({"a": torch.arange(3.0), "b": torch.tensor([True])}, {"step": 4, "best": None})


def saved(folder: Path) -> Checkpointer:
    keeper = Checkpointer(folder, "run", "baking with seed 0")
    keeper.save(STATE)
    return keeper


def again(folder: Path, purpose: str = "baking with seed 0") -> Checkpointer:
    return Checkpointer(folder, "run", purpose)


def test_a_state_comes_back(tmp_path: Path) -> None:
    assert again(tmp_path).resume() is None
    saved(tmp_path / "new")
    found = again(tmp_path / "new").resume()
    assert found is not None
    assert found.values == STATE.values
    assert found.tensors.keys() == STATE.tensors.keys()
    assert all(torch.equal(found.tensors[name], STATE.tensors[name]) for name in STATE.tensors)


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keeper = Checkpointer(None, "run", "baking")
    keeper.save(STATE)
    keeper.clear()
    assert keeper.resume() is None
    assert list(tmp_path.iterdir()) == []


def test_it_is_due_by_the_clock_and_asked_for_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def state() -> State:
        asked.append(1)
        return STATE

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    keeper = again(tmp_path)
    keeper.offer(state)
    assert not asked
    now[0] += checkpoints.SECONDS_BETWEEN
    keeper.offer(state)
    keeper.offer(state)
    assert len(asked) == 1
    assert keeper.path is not None
    assert keeper.path.exists()
    keeper.clear()
    assert not keeper.path.exists()


def test_the_time_told_is_the_whole_run_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    first = again(tmp_path)
    now[0] = 30.0
    first.save(STATE)
    now[0] = 1000.0
    second = again(tmp_path)
    second.resume()
    now[0] = 1012.0
    assert second.seconds == 42.0


def test_another_run_s_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(ModelFileError, match="checkpoint of another run"):
        again(tmp_path, "baking with seed 1").resume()


def header(path: Path) -> dict[str, str]:
    with safe_open(str(path), framework="pt") as file:
        return dict(file.metadata())


@pytest.mark.parametrize("damage", ["values", "tensor", "lost", "renamed", "old", "cut"])
def test_what_is_damaged_is_refused(tmp_path: Path, damage: str) -> None:
    path = saved(tmp_path).path
    assert path is not None
    tensors, about = load_file(path), header(path)
    if damage == "values":
        about["values"] = json.dumps({**json.loads(about["values"]), "step": 5})
    elif damage == "tensor":
        tensors["a"][1] += 1e-6
    elif damage == "lost":
        del tensors["b"]
    elif damage == "renamed":
        tensors["c"] = tensors.pop("b")
    elif damage == "old":
        about = {"purpose": "baking", "values": "{}"}
    save_file(tensors, path, about)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelFileError, match=str(path)):
        again(tmp_path).resume()
