"""The small modules at the bottom: registry, settings, files, checkpoints, metrics, progress."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from purigraph.checkpoints import Checkpoint, optimizer_tensors, restore_optimizer
from purigraph.errors import InputError, ModelFileError, PurigraphError, UnknownNameError
from purigraph.files import atomic_path, read_json, sha256, write_json
from purigraph.metrics import accuracy, ranking_scores
from purigraph.progress import progress
from purigraph.registry import Registry
from purigraph.settings import Settings
from purigraph.tensor_files import read_tensors


def test_registry_finds_lists_and_explains() -> None:
    table: Registry[int] = Registry("thing")
    table.register("Big_One")(1)
    assert table["big-one"] == table["BIG_ONE"] == 1
    assert list(table) == ["big-one"]
    assert "big_one" in table
    assert 3 not in table
    with pytest.raises(UnknownNameError, match=r"no thing named 'big-on'\. Did you mean 'big-one'"):
        table["big-on"]
    with pytest.raises(ValueError, match="registered already"):
        table.register("big-one")(2)


def test_registry_loads_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "from_elsewhere"

        def load(self) -> int:
            return 42

    monkeypatch.setattr("purigraph.registry.entry_points", lambda group: [Entry()])
    table: Registry[int] = Registry("thing")
    assert table.names() == ["from-elsewhere"]
    assert table["from-elsewhere"] == table["from-elsewhere"] == 42


class Size(Settings):
    width: int = 3
    name: str = "a"


def test_settings_are_checked_and_immutable() -> None:
    assert Size.read({"width": 4}).replace(name="b") == Size(width=4, name="b")
    with pytest.raises(InputError, match="Size has no setting 'widht': did you mean 'width'"):
        Size.read({"widht": 4})
    with pytest.raises(InputError, match="box: width='x' is not valid"):
        Size.read({"width": "x"}, "box")


def test_atomic_writes_leave_the_old_file_when_they_fail(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert read_json(path) == {"a": 1}
    assert os.listdir(path.parent) == ["file.json"]
    assert sha256(path) == sha256(path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff{")
    with pytest.raises(ModelFileError, match="bad is not valid JSON"):
        read_json(bad)
    with pytest.raises(ModelFileError, match="not a valid safetensors"):
        read_tensors(bad)
    for reader in (read_json, read_tensors):
        with pytest.raises(ModelFileError, match="does not exist"):
            reader(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="below can't be read: Not a directory"):
        read_json(bad / "below")
    with pytest.raises(OSError, match=r"'.*bad/below'") as failed:  # not the temporary name
        write_json(bad / "below", {})
    assert failed.value.errno is not None


def test_checkpoints_bring_an_optimizer_back(tmp_path: Path) -> None:
    def run(steps: int, weight: torch.nn.Parameter, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()

    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    run(3, weight, optimizer)
    Checkpoint("mine", {"w": weight, **optimizer_tensors(optimizer)}, {"epoch": 3}).save(tmp_path / "c")
    run(2, weight, optimizer)
    found = Checkpoint.load(tmp_path / "c", "mine")
    assert found is not None
    assert found.values == {"epoch": 3}
    again = torch.nn.Parameter(found.tensors["w"])
    optimizer = torch.optim.Adam([again], lr=0.1)
    restore_optimizer(optimizer, found.tensors)
    run(2, again, optimizer)
    assert torch.equal(again, weight)
    assert Checkpoint.load(tmp_path / "other", "mine") is None
    with pytest.raises(ModelFileError, match="another run"):
        Checkpoint.load(tmp_path / "c", "yours")


scores = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9]) | st.floats(0, 1, width=32), min_size=1, max_size=30)


@given(scores, scores)
def test_auc_and_ap_are_scikit_learn_s(positive: list[float], negative: list[float]) -> None:
    auc, ap = ranking_scores(torch.tensor(positive), torch.tensor(negative))
    labels, values = [1] * len(positive) + [0] * len(negative), torch.tensor(positive + negative).tolist()
    assert auc == pytest.approx(roc_auc_score(labels, values))
    assert ap == pytest.approx(average_precision_score(labels, values))


def test_metrics_of_nothing_are_nan() -> None:
    nothing = torch.empty(0)
    assert all(value != value for value in ranking_scores(nothing, torch.ones(2)))
    assert accuracy(torch.empty(0, 3), torch.empty(0)) != accuracy(torch.empty(0, 3), torch.empty(0))
    assert accuracy(torch.eye(3), torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)


def test_progress_speaks_in_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("work", 3) as report:
        for step in range(3):
            report.update(step + 1, loss=0.25)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "work 3/3 loss 0.25 0 s left" in captured.err
    with progress("work", 1, enabled=False) as report:
        report.update(1)
    assert capsys.readouterr().err == ""


def test_progress_draws_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("work", 2) as report:
        report.update(1, loss=0.5)
        report.update(2, loss=0.5)
    assert "2/2" in capsys.readouterr().err


def test_all_errors_share_one_base() -> None:
    assert issubclass(InputError, PurigraphError)
    assert issubclass(InputError, ValueError)
