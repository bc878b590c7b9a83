from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from cli.command_runs import Workshop, invoke
from purigraph.cli.outputs import print_json
from purigraph.evaluation import Evaluation, Record
from purigraph.files import write_json
from purigraph.graph.perturbation import Perturbation
from purigraph.tables import Table


def test_json_knows_no_infinity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": [1.5, math.inf], "b": {"c": -math.inf}, "d": (math.nan, "nan")}
    expected = {"a": [1.5, None], "b": {"c": None}, "d": [None, "nan"]}
    print_json(value)
    assert json.loads(capsys.readouterr().out) == expected
    write_json(tmp_path / "value.json", value)
    assert json.loads((tmp_path / "value.json").read_text()) == expected


@pytest.mark.parametrize("columns", [30, 60, 100])
def test_narrow_tables_keep_their_figures(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    row = ["coauthor-physics", "34,493", "247,962", "8,415", "5", "0.93"]
    Table("Datasets", ["name", "nodes", "edges", "features", "classes", "homophily of edges"], [row]).print()
    lines = capsys.readouterr().out.splitlines()
    assert row in [line.split() for line in lines]
    if columns >= 60:
        assert max(map(len, lines)) <= columns


def test_an_attacks_settings_stand_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    budgets = ["--epsilon", "0.1", "--epsilon", "0.2", "-a", "dice"]
    lines = invoke("evaluate", workshop.graph, "-c", workshop.gcn, *budgets).splitlines()
    assert [line.split()[0] for line in lines if "adaptive" in line] == ["DICE", "DICE"]
    assert sum("add_share=0.5" in line for line in lines) == 1
    assert max(map(len, lines)) <= 60


def test_attacks_that_differ_only_in_settings_are_numbered() -> None:
    nothing = Perturbation(3)
    attacks = ["PGD(epochs=1)", "PGD(epochs=2)", "PGD(epochs=1)"]
    records = [Record(0.1, seed, attack, "adaptive", 0.5, 1, nothing, 0.0) for seed, attack in enumerate(attacks)]
    text = str(Evaluation(0.9, 10, records))
    assert [line.split()[:2] for line in text.splitlines() if "adaptive" in line] == [["PGD", "adaptive"], ["PGD", "2"]]
    assert "PGD(epochs=1)" in text
    assert "PGD 2: PGD(epochs=2)" in text
