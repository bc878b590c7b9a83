"""The small modules at the bottom: registry, files, fingerprints, metrics, memo, tables, progress, errors.

Settings and checkpoints have files of their own.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from purigraph import errors, progress, registry
from purigraph.errors import ModelFileError, UnknownNameError
from purigraph.files import atomic_path, json_text, read_json, sha256, write_json
from purigraph.fingerprint import fingerprint
from purigraph.memo import Memo
from purigraph.metrics import accuracy, ranking_scores
from purigraph.registry import Registry
from purigraph.tables import Table
from purigraph.tensor_files import read_tensors, write_tensors

GROUP = "purigraph.things"


def test_registry_finds_lists_and_explains() -> None:
    table: Registry[int] = Registry("thing", GROUP)
    table.register("Big_One")(1)
    assert table["big-one"] == table["BIG_ONE"] == 1
    assert list(table) == ["big-one"]
    assert "big_one" in table
    assert "big" not in table
    assert 3 not in table
    assert table.name_of(1) == "big-one"
    assert table.name_of(2) is None
    with pytest.raises(UnknownNameError, match=r"no thing named 'big-on'\. Did you mean 'big-one'.*one of: big-one"):
        table["big-on"]
    with pytest.raises(ValueError, match="already registered"):
        table.register("big-one")(2)


class Entry:
    """An entry point that counts how often it is imported."""

    def __init__(self, name: str) -> None:
        self.name, self.loads = name, 0

    def load(self) -> int:
        self.loads += 1
        return 42


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Entry]:
    entry = Entry("from_elsewhere")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == GROUP else [])
    registry._foreign.cache_clear()
    yield entry
    registry._foreign.cache_clear()


def test_registry_imports_an_entry_point_once_and_when_asked_for(entry: Entry) -> None:
    table: Registry[int] = Registry("thing", GROUP)
    assert table.names() == ["from-elsewhere"]
    assert "from-elsewhere" in table
    assert entry.loads == 0
    assert table["from-elsewhere"] == table["From_Elsewhere"] == 42
    assert entry.loads == 1
    assert Registry("thing", "purigraph.others").names() == []


def test_atomic_writes_leave_the_old_file_when_they_fail(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert read_json(path) == {"a": 1}
    assert os.listdir(path.parent) == ["file.json"]


def test_hash_of_a_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000  # more than one of the blocks in which it is read
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_json_can_be_read_by_every_program(tmp_path: Path) -> None:
    value = {"ä": [1, 0.5, float("inf")], "b": {"c": (float("nan"), None)}}
    assert json.loads(json_text(value)) == {"ä": [1, 0.5, None], "b": {"c": [None, None]}}
    write_json(tmp_path / "file", value)
    assert (tmp_path / "file").read_text(encoding="utf-8").endswith("}\n")
    assert read_json(tmp_path / "file") == json.loads(json_text(value))


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
    with pytest.raises(
        OSError, match=r"bad/below can't be written: Not a directory"
    ) as failed:  # not the temporary name
        write_json(bad / "below", {})
    assert failed.value.errno is not None


def test_tensors_come_back(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"transposed": base.t(), "integers": torch.tensor([1, 2], dtype=torch.int16), "none": torch.empty(0, 3)}
    write_tensors(tmp_path / "file", tensors, {"made by": "hand"})
    found, metadata = read_tensors(tmp_path / "file")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype
    assert metadata == {"made by": "hand"}


def test_fingerprints_tell_contents_apart() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    different = [
        (x,),
        (x.double(),),
        (x.reshape(1, 4),),
        (x.t() + torch.tensor([[0.0, 1.0], [0.0, 0.0]]),),
        (x.to_sparse_csr(),),
        (x.to_sparse_coo(),),
        (x[0], x[1]),
        (x[1], x[0]),
        ("x",),
        ("x", "y"),
        ("xy",),
        (),
    ]
    assert len({fingerprint(*parts) for parts in different}) == len(different)
    assert fingerprint(x.t().contiguous().t()) == fingerprint(x)  # the memory's order is no content


scores = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9]) | st.floats(0, 1, width=32), min_size=1, max_size=30)


@given(scores, scores)
def test_auc_and_ap_are_scikit_learn_s(positive: list[float], negative: list[float]) -> None:
    auc, ap = ranking_scores(torch.tensor(positive), torch.tensor(negative))
    labels, values = [1] * len(positive) + [0] * len(negative), torch.tensor(positive + negative).tolist()
    assert auc == pytest.approx(roc_auc_score(labels, values))
    assert ap == pytest.approx(average_precision_score(labels, values))


def test_accuracy_and_metrics_of_nothing() -> None:
    nothing = torch.empty(0)
    for one, other in ((nothing, torch.ones(2)), (torch.ones(2), nothing)):
        assert all(math.isnan(value) for value in ranking_scores(one, other))
    assert math.isnan(accuracy(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)))
    assert accuracy(torch.eye(3), torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)


def test_memo_keeps_what_it_should_and_nothing_else() -> None:
    memo: Memo[str] = Memo(size=2)
    first, second, third = (torch.ones(2) for _ in range(3))
    for tensor, value in ((first, "first"), (second, "second"), (third, "third")):
        memo.put(tensor, value, "context")
    assert [memo.get(tensor, "context") for tensor in (first, second, third)] == [None, "second", "third"]
    assert memo.get(third) is None
    assert memo.get(third, "other context") is None
    third.add_(1)
    assert memo.get(third, "context") is None
    assert copy.deepcopy(memo).get(second, "context") is None
    assert pickle.loads(pickle.dumps(memo)).get(second, "context") is None


def test_tables_are_rendered_in_one_way() -> None:
    table = Table("A title [x]", ["name", "value"], [["one", 1], ["[two]", 22.5]], notes=["A note."])
    lines = [line.strip() for line in str(table).splitlines()]
    assert lines[0] == "A title [x]"
    assert lines[-1] == "A note."
    assert any(line.split() == ["[two]", "22.5"] for line in lines)
    assert table.markdown().splitlines() == ["| name | value |", "| --- | ---: |", "| one | 1 |", "| [two] | 22.5 |"]


def count_to_three(show: bool | None) -> None:
    with progress.progress("work", 3, show) as report:
        for step in range(3):
            report.update(step + 1, loss=0.25)


def test_progress_speaks_in_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    count_to_three(show=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "work 3/3 loss 0.25 0 s left" in captured.err


def test_progress_is_silent_unless_work_is_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count_to_three(show=None)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    count_to_three(show=False)
    assert capsys.readouterr().err == ""
    count_to_three(show=None)
    assert "work 3/3" in capsys.readouterr().err


def test_progress_draws_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    count_to_three(show=True)
    captured = capsys.readouterr()
    assert "3/3" in captured.err
    assert "s left" not in captured.err  # that would be a line
    assert captured.out == ""


def test_all_errors_share_one_base() -> None:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if not issubclass(kind, Warning)]
    assert len(found) > 5
    for kind in found:
        assert issubclass(kind, errors.PurigraphError)
        assert kind is errors.PurigraphError or issubclass(kind, ValueError | TypeError | RuntimeError | OSError)
