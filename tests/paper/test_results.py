"""The committed results: one file for each experiment, complete lines, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import requires_data
from purigraph import paper
from purigraph.paper.planning import PLACE
from purigraph.runs.result_files import read_results, write_results

RESULTS = Path(__file__).parent.parent.parent / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="results are not part of a package")
FILES = sorted(RESULTS.glob("*.jsonl"))
MOST_BYTES = 5_000_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lines_say_where_they_come_from(path: Path, tmp_path: Path) -> None:
    experiment = paper.load(path.stem)
    lines = read_results(path)
    assert lines
    for line in lines:
        assert line.keys() >= {*PLACE, "command", "key", "kind", "config", "result", "stamp"}
        assert line["profile"] in ("paper", "quick"), "smoke results say nothing"
        assert line["stamp"].keys() >= {"purigraph_version", "torch_version", "threads", "seconds"}
        assert line["config"]["seed"] == line["seed"]
        assert line["result"]["values"]
        assert line["row"] in experiment.rows or "0.1.0" in line["row"], f"{line['row']} is no row any more"
    write_results(tmp_path / path.name, lines, place=PLACE)
    assert (tmp_path / path.name).read_bytes() == path.read_bytes(), "written by hand, or twice the same cell"


def test_results_stay_small() -> None:
    assert FILES
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < MOST_BYTES


@requires_data
@pytest.mark.parametrize("name", ["anchors", "table1", "table3"])
def test_results_are_those_of_today_s_cells(name: str) -> None:
    """A setting that is added must not give other names to cells that it does not change: they would be run again."""
    lines = read_results(RESULTS / f"{name}.jsonl")
    seeds = sorted({line["seed"] for line in lines})
    for profile in sorted({line["profile"] for line in lines}):
        planned = {one.cell.key for one in paper.plan(paper.load(name), profile=profile, seeds=seeds) if one.cell}
        assert {line["key"] for line in lines if line["profile"] == profile} <= planned
