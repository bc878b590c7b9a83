"""One checkpointer: due by the clock, of one run only, whole or refused."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import purigraph as pg
from helpers import communities
from purigraph import checkpoints
from purigraph.checkpoint_layout import Entry, Layout, is_count
from purigraph.checkpoints import Checkpointer, State
from purigraph.errors import CheckpointWarning, ModelFileError
from purigraph.graph.splits import inductive_split
from purigraph.training import TrainingSettings, train

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


LAYOUT = Layout(
    {"a": Entry(torch.float32, "n"), "b": Entry(torch.bool, 1)},
    {"step": is_count, "best": lambda value: value is None},
    [{"more": Entry(torch.int64, "n"), "most": Entry(torch.float32)}],
)
GROUP = {"more": torch.arange(3), "most": torch.tensor(1.0)}


@pytest.mark.parametrize("more", [{}, GROUP])
def test_a_state_of_the_layout_is_accepted(tmp_path: Path, more: dict[str, torch.Tensor]) -> None:
    again(tmp_path).save(State({**STATE.tensors, **more}, STATE.values))
    found = again(tmp_path).resume(LAYOUT)
    assert found is not None
    assert found.tensors.keys() == STATE.tensors.keys() | more.keys()


@pytest.mark.parametrize(
    ("tensors", "values", "message"),
    [
        ({"a": None}, {}, "the tensor 'a' is missing"),
        ({"c": torch.zeros(1)}, {}, "the tensor 'c' is not expected"),
        ({"a": torch.zeros(3, 1)}, {}, r"the tensor 'a' can't be torch.float32 of shape \(3, 1\)"),
        ({"a": torch.zeros(3).double()}, {}, "the tensor 'a' can't be torch.float64"),
        ({"b": torch.ones(2).bool()}, {}, "the tensor 'b' can't be"),
        ({"more": torch.arange(3)}, {}, "the tensor 'most' is missing"),
        ({**GROUP, "more": torch.arange(4)}, {}, "the tensor 'more' can't be"),
        ({}, {"step": None}, "the value 'step' is missing"),
        ({}, {"step": -1}, "the value 'step' can't be -1"),
        ({}, {"step": True}, "the value 'step' can't be True"),
        ({}, {"step": "4"}, "the value 'step' can't be 4"),
        ({}, {"other": 1}, "the value 'other' is not expected"),
    ],
)
def test_another_layout_is_refused(
    tmp_path: Path, tensors: dict[str, torch.Tensor | None], values: dict[str, object], message: str
) -> None:
    contents = {name: tensor for name, tensor in {**STATE.tensors, **tensors}.items() if tensor is not None}
    numbers = {name: value for name, value in {**STATE.values, **values}.items() if (name, value) != ("step", None)}
    again(tmp_path).save(State(contents, numbers))
    with pytest.raises(ModelFileError, match=rf"run\.safetensors does not hold a state of this run \({message}"):
        again(tmp_path).resume(LAYOUT)


@pytest.mark.parametrize("text", ["[]", "{}", "nothing", '{"seconds": "x"}', '{"seconds": -1}', '{"seconds": NaN}'])
def test_values_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    path = saved(tmp_path).path
    assert path is not None
    about = {**header(path), "values": text, "sha256": checkpoints._digest(STATE.tensors, text)}
    save_file(dict(STATE.tensors), path, about)
    with pytest.raises(ModelFileError, match="does not hold a state of this run"):
        again(tmp_path).resume()


def test_a_failing_write_warns_once_and_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = saved(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", unwritable)
        with pytest.warns(CheckpointWarning, match=r"run\.safetensors can't be written: No space left.*goes on"):
            keeper.save(State(STATE.tensors, {"step": 5, "best": None}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            keeper.save(State(STATE.tensors, {"step": 6, "best": None}))
    assert os.listdir(tmp_path) == ["run.safetensors"]
    found = again(tmp_path).resume()
    assert found is not None
    assert found.values["step"] == 4


def unwritable(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted_run(kind: str, folder: Path) -> Callable[[], object]:
    """Leave a checkpoint in the folder and return what resumes from it."""
    data = communities()
    role = torch.arange(data.num_nodes) % 3
    data.train_mask, data.val_mask, data.test_mask = role == 0, role == 1, role == 2
    if kind == "fit":
        purifier = pg.GPRGAE(hops=2, node_channels=4, edge_channels=4)
        purifier.fit(data, epochs=3, validate_every=1, checkpoint=folder)
        return lambda: purifier.fit(data, epochs=3, validate_every=1, checkpoint=folder)
    if kind == "vanilla":
        graphs = inductive_split(data)
        train("gcn", "vanilla", graphs, checkpoint=folder, settings=TrainingSettings(epochs=3))
        return lambda: train("gcn", "vanilla", graphs, checkpoint=folder, settings=TrainingSettings(epochs=3))
    model = pg.classifiers.create("gcn", data.num_features, 3)
    attack = pg.attacks.create(kind, **pg.attacks.registry[kind].trial_settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
        patch.setattr(Checkpointer, "clear", lambda self: None)
        attack(model, data, 5, checkpoint=folder)
    return lambda: attack(model, data, 5, checkpoint=folder)


@pytest.mark.parametrize("kind", ["fit", "vanilla", "prbcd", "evolutionary"])
def test_runs_refuse_states_that_are_not_theirs(kind: str, tmp_path: Path) -> None:
    """With a valid hash: each tensor lost, reshaped, of another dtype; each value lost or of another type."""
    resume = interrupted_run(kind, tmp_path)
    [path] = tmp_path.iterdir()
    tensors, about = load_file(path), header(path)
    resume()  # the state as it was is accepted
    values = json.loads(about["values"])
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "reshaped": lambda tensor: tensor.reshape(1, *tensor.shape),
        "longer": lambda tensor: torch.cat([tensor.flatten(), tensor.flatten()[:1]]),
        "other dtype": lambda tensor: tensor.to(torch.int16),
        "garbled": lambda tensor: torch.full_like(tensor, 255),
        "backwards": lambda tensor: tensor.flip(0),
        "shifted": lambda tensor: tensor - 10**6,
    }
    everywhere = ("reshaped", "longer", "other dtype")
    cases = {}
    for name in tensors:
        special = (
            ["backwards", "shifted"] if "codes" in name else ["garbled"] if name in ("generator", "random/0") else []
        )
        for way in (*everywhere, *special):
            cases[f"{name} {way}"] = ({**tensors, name: ways[way](tensors[name])}, values)
        cases[f"{name} lost"] = ({key: one for key, one in tensors.items() if key != name}, values)
    for name in values:
        for wrong in ("text", -1, [[]], {}):
            cases[f"{name} = {wrong}"] = (tensors, {**values, name: wrong})
        cases[f"{name} lost"] = (tensors, {key: value for key, value in values.items() if key != name})
    accepted = set()
    for case, (contents, numbers) in cases.items():
        text = json.dumps(numbers)
        kept = {name: one.clone().contiguous() for name, one in contents.items()}
        save_file(kept, path, {**about, "values": text, "sha256": checkpoints._digest(kept, text)})
        with contextlib.suppress(ModelFileError):
            resume()
            accepted.add(case)
    scores = {f"{name} = -1" for name in ("auc", "ap", "best_auc", "best_ap")}  # any number may be a score
    assert accepted == (scores if kind == "fit" else set())
