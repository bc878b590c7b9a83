"""The folder of a model: switched by one rename, never over something else, and never trusted before it is checked."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from helpers import communities
from purigraph import classifiers
from purigraph.classifiers import GAT, GCN
from purigraph.errors import ModelFileError, OutputError
from purigraph.model_folders import consistent
from purigraph.pretrained import CONFIG_FILE, WEIGHTS_FILE, Pretrained
from purigraph.purifiers import GPRGAE
from purigraph.settings import setting
from purigraph.training import train


class Values(Pretrained):
    """A module of another package, which needs the values of its tensors when it is built."""

    size: int = setting("Inputs.", default=2, ge=1)

    def _build(self) -> None:
        self.linear = nn.Linear(self.size, 1)
        self.norm = float(self.linear.weight.detach().norm())


def filled(value: float, width: int = 3) -> GCN:
    model = GCN(4, 2, hidden_channels=width)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def value_in(folder: Path) -> float:
    return float(next(classifiers.load(folder).parameters()).detach().flatten()[0])


def dies_at(step: int, save: Callable[[], None]) -> bool:
    """Whether a process that is killed at some step of the file system dies before it is done."""
    child = os.fork()
    if child == 0:
        count = 0

        def fatal(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                for moment in ("before", "after"):
                    count += 1
                    if count == step:
                        os._exit(9)
                    if moment == "before":
                        result = function(*arguments, **options)
                return result

            return call

        for name in ("open", "replace", "unlink", "mkdir", "chmod"):
            setattr(os, name, fatal(getattr(os, name)))
        try:
            save()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("had_old", [True, False])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_model(tmp_path: Path, had_old: bool) -> None:
    seen, step = [], 0
    while True:
        step += 1
        folder = tmp_path / str(step)
        if had_old:
            filled(1.0).save_pretrained(folder)
        # Another width: the shapes of the two models do not fit together.
        died = dies_at(step, lambda folder=folder: filled(2.0, width=5).save_pretrained(folder))
        if had_old or (folder / CONFIG_FILE).exists():
            seen.append(value_in(folder))
        filled(3.0).save_pretrained(folder)
        assert value_in(folder) == 3.0
        assert sorted(os.listdir(folder)) == [CONFIG_FILE, WEIGHTS_FILE]
        if not died:
            break
    assert step > 5
    assert seen == sorted(seen)
    assert set(seen) == ({1.0, 2.0} if had_old else {2.0})


def test_several_may_save_and_load_at_once(tmp_path: Path) -> None:
    filled(1.0).save_pretrained(tmp_path)
    writers = [os.fork() for _ in range(2)]
    if 0 in writers:
        for round_ in range(15):
            filled(float(os.getpid() % 7), width=1 + round_ % 3).save_pretrained(tmp_path)
        os._exit(0)
    end = time.monotonic() + 20
    running = list(writers)
    while running and time.monotonic() < end:
        value_in(tmp_path)
        running = [pid for pid in running if os.waitpid(pid, os.WNOHANG) == (0, 0)]
    assert not running
    value_in(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [CONFIG_FILE, WEIGHTS_FILE]


def test_a_reader_that_is_overtaken_again_and_again_makes_the_writers_wait(tmp_path: Path) -> None:
    filled(1.0).save_pretrained(tmp_path)
    attempts = 0

    def overtaken() -> float:
        nonlocal attempts
        attempts += 1
        writer = os.fork()
        if writer == 0:
            filled(float(attempts), width=1 + attempts % 3).save_pretrained(tmp_path)
            os._exit(0)
        end = time.monotonic() + (60 if attempts <= 5 else 0.5)
        while time.monotonic() < end:
            if os.waitpid(writer, os.WNOHANG) != (0, 0):
                raise ModelFileError("The file changed while it was read.")
            time.sleep(0.01)
        waiting.append(writer)
        return value_in(tmp_path)

    waiting: list[int] = []
    assert consistent(tmp_path, overtaken) == 5.0  # the sixth save had to wait
    os.waitpid(waiting[0], 0)
    assert value_in(tmp_path) == 6.0


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(1.0).save_pretrained(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    replace = os.replace
    for fatal in (1, 2):
        calls = 0

        def fails(*arguments: Any, fatal: int = fatal) -> None:
            nonlocal calls
            calls += 1
            if calls == fatal:
                raise OSError(28, "No space left on device")
            replace(*arguments)

        monkeypatch.setattr(os, "replace", fails)
        with pytest.raises(OutputError, match="No space left on device"):
            filled(2.0).save_pretrained(tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_links_in_the_folder_stay(tmp_path: Path) -> None:
    folder, real = tmp_path / "model", tmp_path / "real"
    filled(1.0).save_pretrained(real)
    folder.mkdir()
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        (folder / name).symlink_to(real / name)
    filled(2.0).save_pretrained(folder)
    assert value_in(folder) == value_in(real) == 2.0
    assert all(path.is_symlink() for path in folder.iterdir())


@pytest.mark.parametrize("content", ["{}", "[]", "not JSON", '{"model_type": "bert"}'])
def test_a_foreign_configuration_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / CONFIG_FILE).write_text(content)
    with pytest.raises(ModelFileError, match=r"config\.json .*would be overwritten: save to another folder"):
        filled(1.0).save_pretrained(tmp_path)
    assert (tmp_path / CONFIG_FILE).read_text() == content
    assert os.listdir(tmp_path) == [CONFIG_FILE]


def test_another_kind_of_model_is_not_overwritten(tmp_path: Path) -> None:
    GPRGAE(in_channels=4, hops=2, node_channels=4, edge_channels=4).save_pretrained(tmp_path)
    with pytest.raises(ModelFileError, match="holds a purifier/gpr-gae, which a classifier/gcn would overwrite"):
        filled(1.0).save_pretrained(tmp_path)
    filled(1.0).save_pretrained(tmp_path / "classifier")
    GAT(4, 2).save_pretrained(tmp_path / "classifier")
    (tmp_path / "classifier" / CONFIG_FILE).unlink()
    with pytest.raises(ModelFileError, match=r"model\.safetensors would be overwritten"):
        filled(1.0).save_pretrained(tmp_path / "classifier")


def test_read_only_models_stay(tmp_path: Path) -> None:
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        folder = tmp_path / name
        filled(1.0).save_pretrained(folder)
        (folder / name).chmod(0o444)
        with pytest.raises(OutputError, match=f"{name} is read-only"):
            filled(2.0).save_pretrained(folder)
        assert value_in(folder) == 1.0


def edit(folder: Path, **changes: Any) -> None:
    document = json.loads((folder / CONFIG_FILE).read_text())
    document["config"].update(changes)
    document["sha256"] = hashlib.sha256((folder / WEIGHTS_FILE).read_bytes()).hexdigest()
    (folder / CONFIG_FILE).write_text(json.dumps(document))


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_channels": 10**7},
        {"in_channels": 10**12},
        {"in_channels": 2**62, "hidden_channels": 2**62},
        {"hidden_channels": 10**30},
        {"num_layers": 10**8},
        {"num_layers": 900},
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_built(tmp_path: Path, changes: dict[str, int]) -> None:
    filled(1.0).save_pretrained(tmp_path)
    edit(tmp_path, **changes)
    begun = time.monotonic()
    with pytest.raises(ModelFileError, match=r"should have the shape|does not describe a GCN|lacks the tensor"):
        classifiers.load(tmp_path)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("changes", [{"node_channels": 10**7}, {"edge_channels": 10**8}, {"hops": 10**9}])
def test_so_are_those_of_a_purifier(tmp_path: Path, changes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    GPRGAE(in_channels=4, hops=2, node_channels=4, edge_channels=4).save_pretrained(tmp_path)
    edit(tmp_path, **changes)
    begun = time.monotonic()
    with pytest.raises(ModelFileError, match=r"should have the shape|does not describe a GPRGAE"):
        GPRGAE.from_pretrained(tmp_path)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("name", classifiers.names())
def test_shapes_are_known_before_a_classifier_is_built(name: str, tmp_path: Path) -> None:
    """Otherwise it would be built for real before its shapes are compared."""
    kind = classifiers.registry[name]
    kind(4, 2).save_pretrained(tmp_path)
    with torch.device("meta"):
        assert all(parameter.is_meta for parameter in kind(4, 2).parameters())


def test_a_huge_sparse_file_is_refused_unread(tmp_path: Path) -> None:
    filled(1.0).save_pretrained(tmp_path)
    header = b'{"huge":{"dtype":"F32","shape":[5000000000],"data_offsets":[0,20000000000]}}    '
    with open(tmp_path / WEIGHTS_FILE, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 20_000_000_000)
    begun = time.monotonic()
    with pytest.raises(ModelFileError, match="lacks the tensor"):
        classifiers.load(tmp_path)
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    filled(1.0).save_pretrained(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ModelFileError, match=r"can't be saved .*: tensor '\S+' is not finite"):
        filled(value).save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    name = min(tensors)
    tensors[name].flatten()[1] = value
    save_file(tensors, tmp_path / WEIGHTS_FILE)
    edit(tmp_path)
    with pytest.raises(ModelFileError, match=rf"tensor '{name}' is not finite \(1 of"):
        classifiers.load(tmp_path)


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_a_pipe_does_not_hang(tmp_path: Path, name: str) -> None:
    filled(1.0).save_pretrained(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    outcome: list[str] = []

    def load() -> None:
        try:
            classifiers.load(tmp_path)
        except ModelFileError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert "is a pipe, not a regular file" in outcome[0]


def test_modules_that_need_values_are_built_too(tmp_path: Path) -> None:
    Values(size=3).save_pretrained(tmp_path)
    assert Values.from_pretrained(tmp_path).size == 3
    edit(tmp_path, size=4)
    with pytest.raises(ModelFileError, match=r"should have the shape \(1, 4\)"):
        Values.from_pretrained(tmp_path)


def test_training_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    from purigraph.graph.splits import inductive_split

    data = communities()
    role = torch.arange(data.num_nodes) % 3
    data.train_mask, data.val_mask, data.test_mask = role == 0, role == 1, role == 2
    contents = []
    for number in range(2):
        folder = tmp_path / str(number)
        GPRGAE(hops=2, node_channels=4, edge_channels=4).fit(data, epochs=2).save_pretrained(folder / "purifier")
        model = train("gcn", "vanilla", inductive_split(data), seed=1).model
        assert isinstance(model, Pretrained)
        model.save_pretrained(folder / "classifier")
        contents.append({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")})
    assert len(contents[0]) == 4
    assert contents[0] == contents[1]
