"""Numbers beside the published ones, figures and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command_runs import invoke, refused
from purigraph import paper
from purigraph.paper.comparison import Comparison, comparison_table
from purigraph.paper.experiments import Published
from purigraph.paper.figures import draw
from purigraph.paper.known_attacks import lowered, worst_below
from purigraph.paper.leaderboard import leaderboards
from purigraph.paper.side_by_side import side_by_side
from purigraph.runs.result_files import write_results

PNG, SVG = b"\x89PNG", b"<?xml"


def line(row: str, column: str, value: Any, **more: Any) -> dict[str, Any]:
    values = value if isinstance(value, dict) else {"": value}
    place = {"row": row, "column": column, "form": "published", "seed": 0, "profile": "paper", **more}
    result = {"values": values, "num_targets": 273, **place.pop("result", {})}
    config = {"dataset": "cora", **place.pop("config", {})}
    return {"kind": "accuracy", **place, "config": config, "result": result, "stamp": {"purigraph_version": "0.2.0"}}


def attacked(row: str, column: str, value: float, epsilon: float = 0.5, **more: Any) -> dict[str, Any]:
    """A line of an attack on the model of a row; the row's name is that of the model too."""
    config = {"defence": {"classifier": {"name": row}}, "attack": {"name": "prbcd", "epsilon": epsilon}}
    return line(row, column, value, config={**config, "seed": more.get("seed", 0), **more.pop("config", {})}, **more)


def judged(row: str, worst: dict[str, float], members: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """A line of the worst case of the model of a row."""
    document: dict[str, Any] = {"worst": worst, "strongest": dict.fromkeys(worst, "isolation")}
    if members is not None:
        document["members"] = {name: {} for name in members}
    config = {"defence": {"classifier": {"name": row}}, "seed": more.get("seed", 0), **more.pop("config", {})}
    result = {
        "worst_case": {**document, "certified": more.pop("certified", None)},
        "flips": dict.fromkeys(worst, "a" * 64),
    }
    values = {f"eps {budget}": value for budget, value in worst.items()}
    return line(row, "Cora", values, kind="worst-case", form=None, config=config, result=result, **more)


def number(ours: list[float], published: Published | None, targets: int | None = 273) -> Comparison:
    return Comparison("r", "c", None, "paper", tuple(ours), tuple(range(len(ours))), published, True, targets)


@pytest.mark.parametrize(
    ("ours", "published", "differs"),
    [
        ([70.0, 70.2, 70.1], Published(71.9, 0.3), False),  # less than two points
        ([70.0, 70.2, 70.1], Published(72.4, 0.3), True),
        ([66.0, 74.0, 70.0], Published(73.0, 4.0), False),  # within two standard errors
        ([70.0], Published(73.0), False),  # one seed and no spread: 273 nodes have one of 2.8 points
        ([70.0], Published(77.0), True),
        ([70.0, 71.0], None, False),
    ],
)
def test_a_difference_counts_beyond_two_points_and_two_standard_errors(
    ours: list[float], published: Published | None, differs: bool
) -> None:
    assert number(ours, published).differs is differs


def test_numbers_are_grouped_over_seeds_and_the_longest_profile_counts() -> None:
    lines = [line("GCN", "PRBCD 0.5", 0.30, seed=0), line("GCN", "PRBCD 0.5", 0.34, seed=1)]
    lines += [line("GCN", "PRBCD 0.5", 0.50, profile="quick"), line("GCN", "PRBCD 0.1", 0.60, profile="quick")]
    lines += [line("EvenNet", "clean", 0.8, form=None), line("GCN", "PRBCD 0.5", 0.25, form="exact")]
    found = paper.compare(paper.load("table1"), lines)
    assert [(one.row, one.column, one.form, one.profile, round(one.ours, 6), one.seeds) for one in found] == [
        ("EvenNet", "clean", None, "paper", 80.0, (0,)),
        ("GCN", "PRBCD 0.1", "published", "quick", 60.0, (0,)),
        ("GCN", "PRBCD 0.5", "exact", "paper", 25.0, (0,)),
        ("GCN", "PRBCD 0.5", "published", "paper", 32.0, (0, 1)),
    ]
    assert found[3].published == Published(29.3, 2.3)
    text = str(comparison_table(paper.load("table1"), found))
    assert "32.0 ± 2.8" in text
    assert "+2.7" in text


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    place = ("profile", "row", "column", "form", "seed")
    gae = "GPR-GAE + GCN"
    table1 = [attacked(gae, "PRBCD 0.5", 0.6), attacked(gae, "PRBCD 0.5", 0.4, form="exact")]
    table1 += [line("GCN", "PRBCD 0.5", 0.5)]
    write_results(folder / "table1.jsonl", table1, place=place)
    steps = {f"step {number}": 0.5 + number / 50 for number in range(11)}
    write_results(
        folder / "fig-multistep.jsonl",
        [line(row, column, steps) for row in ("alpha 0.3", "alpha 1") for column in ("eps 0.1", "eps 0.5")],
        place=place,
    )
    worst = {
        "worst_case": {"worst": {"0.1": 0.6, "0.5": 0.39}, "strongest": {"0.1": "isolation", "0.5": "prbcd from best"}},
        "flips": {"0.1": "a" * 64, "0.5": "b" * 64},
        "costs": {"classifier": {"seconds": 3.0, "megabytes": 5}, "prediction": {"seconds": 0.02, "megabytes": 1}},
    }
    better = {**worst, "worst_case": {"worst": {"0.1": 0.7, "0.5": 0.7}, "strongest": {}}}
    write_results(
        folder / "defences.jsonl",
        [
            line(
                gae,
                "Cora",
                {"clean": 0.8, "certified": None, "eps 0.1": 0.6, "eps 0.5": 0.39},
                result=worst,
                config={"defence": {"classifier": {"name": gae}}, "seed": 0},
            ),
            line("Anchor + APPNP", "Cora", {"clean": 0.79, "certified": 0.7, "eps 0.5": 0.7}, result=better),
        ],
        place=place,
    )
    return folder


def test_the_report_is_a_page_with_figures(results: Path, tmp_path: Path) -> None:
    page, images = tmp_path / "docs" / "results.md", tmp_path / "docs" / "images"
    printed = invoke("paper", "report", "--results", results, "-o", page, "--images", images)
    assert str(images / "fig-multistep.svg") in printed
    text = page.read_text()
    assert "| GPR-GAE + GCN | 60.0 / 40.0 (61.3) |" in text
    assert "| GCN | 50.0! (29.3) |" in text
    assert "PRBCD 0.5 (exact) 40.0, worst 39.0; PRBCD 0.5 (published) 60.0, worst 39.0." in text
    assert "![Accuracy on attacked Cora after every purification step](images/fig-multistep.png)" in text
    assert text.index("Anchor + APPNP") < text.index("prbcd from best"), "the best defence comes first"
    assert "`bbbbbbbbbbbb`" in text
    assert "- 1 seed, profile paper, measured with purigraph 0.2.0." in text
    assert "table2" not in text, "nothing of it was measured"
    assert (images / "fig-multistep.png").read_bytes().startswith(PNG)
    first = (images / "fig-multistep.svg").read_bytes()
    assert first.startswith(SVG)
    invoke("paper", "report", "--results", results, "-o", page, "--images", images)
    assert (images / "fig-multistep.svg").read_bytes() == first, "the same numbers give the same figure"
    assert page.read_text() == text


def test_show_prints_numbers_and_json(results: Path) -> None:
    printed = invoke("paper", "show", "table1", "--results", results)
    assert "! 1 of 2 published numbers differ" in printed
    assert "worst 39.0" in printed
    found = json.loads(invoke("paper", "show", "table1", "--results", results, "--json"))
    assert {"row", "column", "ours", "std", "seeds", "profile", "published"} <= found[0].keys()
    assert [one["differs"] for one in found if one["row"] == "GCN"] == [True]
    assert "Nothing of table2 was measured yet" in invoke("paper", "show", "table2", "--results", results)
    adaptive = [attacked("GPR-GAE + GCN", "Cora 0.5", 0.6)]
    write_results(results / "table2-adaptive.jsonl", adaptive, place=("row", "column"))
    assert "Cora: one attack in two forms, and the worst case" in invoke(
        "paper", "show", "table2-adaptive", "--results", results
    )


@pytest.mark.parametrize("kind", ["bars", "budgets", "coefficients", "losses", "steps"])
def test_every_kind_of_figure_is_drawn_for_what_is_there(kind: str, tmp_path: Path) -> None:
    (name,) = [name for name in paper.names() if (e := paper.load(name)).figure is not None and e.figure.kind == kind][
        :1
    ]
    experiment = paper.load(name)
    row, column = next(iter(experiment.rows)), next(iter(experiment.columns))
    values: Any = {"steps": {"step 0": 0.5, "step 1": 0.6}, "coefficients": {"1,0": -0.5, "1,1": 0.5}}.get(kind, 0.5)
    found = paper.compare(experiment, [line(row, column, values)])
    png, svg = draw(experiment, found, tmp_path)
    assert png.read_bytes().startswith(PNG)
    assert svg.read_bytes().startswith(SVG)
    assert draw(experiment, [], tmp_path) == []


def test_the_leaderboard_leaves_smoke_out_and_marks_quick_runs() -> None:
    worst = {"worst_case": {"worst": {"0.5": 0.4}}}
    lines = [
        line("A", "Cora", {"clean": 0.8, "eps 0.5": 0.4}, profile=name, result=worst) for name in ("smoke", "quick")
    ]
    (board,) = leaderboards(lines).values()
    assert [row[0] for row in board.rows] == ["A (q)"]
    assert leaderboards(lines[:1]) == {}


@pytest.mark.parametrize(
    ("members", "certified", "purified", "mark"),
    [
        (["prbcd margin"], None, False, " *"),
        (["prbcd margin", "prbcd elu-margin, 2 flips a target"], None, False, ""),
        (["prbcd margin", "prbcd elu-margin, 2 flips a target"], None, True, " *"),
        (["prbcd elu-margin, 2 flips a target", "prbcd, small weights"], None, True, ""),
        (["prbcd margin"], 0.4, True, ""),  # nothing was left to win
        (["prbcd margin"], 0.3, False, " *"),
    ],
)
def test_rows_that_newer_attacks_might_lower_are_marked(
    members: list[str], certified: float | None, purified: bool, mark: str
) -> None:
    config = {"defence": {"classifier": {"name": "gcn"}, **({"purifier": {"name": "svd"}} if purified else {})}}
    (board,) = leaderboards([judged("A", {"0.5": 0.4}, members, certified=certified, config=config)]).values()
    assert board.rows[0][0] == f"A{mark}"


def test_attacks_of_other_experiments_on_the_same_model_count() -> None:
    elsewhere = {"attack": {"name": "prbcd", "epsilon": 0.5}, "dataset": "citeseer"}
    everything = {
        "defences": [judged("gcn", {"0.1": 0.6, "0.5": 0.4}, ["prbcd, 2 flips a target"]), judged("gat", {"0.5": 0.4})],
        "table1": [
            attacked("gcn", "PRBCD 0.5", 0.3, result={"flips": "b" * 64}),
            attacked("gcn", "PRBCD 0.1", 0.7, 0.1),
            # Other models and other nodes: another seed, another graph, seconds of training.
            attacked("gcn", "PRBCD 0.5", 0.1, seed=1),
            attacked("gcn", "PRBCD 0.5", 0.1, config=elsewhere),
            attacked("gcn", "PRBCD 0.5", 0.1, profile="smoke"),
        ],
    }
    # So does a worst case of another ensemble, unless it left more.
    everything["anchors-attacked"] = [judged("gat", {"0.5": 0.35}), judged("gcn", {"0.5": 0.45})]
    found, notes = lowered(everything["defences"], everything)
    assert [one["result"]["worst_case"]["worst"] for one in found] == [{"0.1": 0.6, "0.5": 0.3}, {"0.5": 0.35}]
    assert [one["result"]["values"]["eps 0.5"] for one in found] == [0.3, 0.35]
    assert everything["defences"][0]["result"]["values"]["eps 0.5"] == 0.4, "the results themselves stay"
    assert [note.partition(":")[0] for note in notes] == ["gcn, Cora", "gat, Cora"]
    assert "eps 0.5: 30.0 by prbcd, published form (table1), the ensemble 40.0" in notes[0]
    assert "eps 0.5: 35.0 by isolation (anchors-attacked), the ensemble 40.0" in notes[1]
    (board,) = leaderboards(found).values()
    row = next(row for row in board.rows if row[0] == "gcn")
    assert "prbcd, published form (table1)" in row
    assert f"`{'b' * 12}`" in row


def test_worst_cases_are_compared_on_the_seeds_that_both_have() -> None:
    everything = {
        "defences": [judged("gcn", {"0.5": 0.2}, seed=0), judged("gcn", {"0.5": 0.4}, seed=1)],
        "table1": [attacked("gcn", "PRBCD 0.5", value, seed=seed) for seed, value in enumerate((0.5, 0.5, 0.1))],
    }
    (note,) = worst_below(everything["table1"], everything)
    assert note.endswith("PRBCD 0.5 (published) 50.0, worst 30.0.")
    transferred = {"attack": {"name": "prbcd", "epsilon": 0.5}, "transfer_from": {"classifier": {"name": "gcn"}}}
    assert worst_below([attacked("gcn", "PRBCD 0.5", 0.5, config=transferred)], everything) == []


def test_the_forms_of_an_attack_stand_beside_the_worst_case() -> None:
    experiment = paper.load("table2-adaptive")
    lines = [
        line("RUNG", "Cora clean", 0.8, form=None),
        attacked("RUNG", "Cora 0.25", 0.6, 0.25),
        attacked("RUNG", "Cora 0.25", 0.5, 0.25, form="exact"),
        attacked("RUNG", "Cora 0.25", 0.1, 0.25, form="exact", seed=1),  # of another seed than the worst case
        attacked("GCN", "Cora 0.5", 0.3, form="exact", profile="quick"),
        attacked("GCN", "Cora 0.5", 0.1, form="exact", profile="smoke"),
    ]
    worst = [judged("Rung", {"0.25": 0.4, "0.5": 0.2}, profile=profile) for profile in ("paper", "quick")]
    worst[1]["result"]["values"]["eps 0.25"] = 0.1
    (table,) = side_by_side(experiment, lines, worst).values()
    assert table.columns[2:5] == [f"{name}, 0.25 / 0.5" for name in ("published", "exact", "worst case")]
    assert table.rows == [
        ["GCN", "-", "-", "- / 30.0q", "-", "-", "-"],
        ["RUNG", "80.0", "60.0 / -", "50.0 / -", "40.0 / 20.0", "-", "-"],
    ]


def test_members_of_an_ensemble_have_a_table_of_their_own(tmp_path: Path) -> None:
    values = {"clean": 0.8, "eps 0.1": 0.5, "eps 0.1, prbcd margin": 0.6, "eps 0.1, isolation": 0.5}
    row = "GPR-GAE + GCN, worst of the ensemble"
    write_results(tmp_path / "robustness.jsonl", [line(row, "", values, form=None)], place=("row",))
    paper.write_report(tmp_path, tmp_path / "page.md", tmp_path)
    text = (tmp_path / "page.md").read_text()
    assert f"| {row} | 80.0 | 50.0 |" in text
    assert f"### {row}, member by member" in text
    assert "| isolation | 50.0 |" in text


def test_the_list_names_every_experiment() -> None:
    listed = json.loads(invoke("paper", "list", "--json"))
    assert [one["name"] for one in listed] == paper.names()
    assert "table1" in invoke("paper", "list")


def test_run_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURIGRAPH_RUNS", str(tmp_path / "runs"))
    options = ("--profile", "smoke", "--results", tmp_path / "results", "--rows", "gcn", "--columns", "clean")
    assert "open" in invoke("paper", "run", "table1", *options, "--dry-run")
    assert "1 of 1 cells are finished" in invoke("paper", "run", "table1", *options)
    assert "finished" in invoke("paper", "run", "table1", *options, "--dry-run")
    assert len(invoke("paper", "run", "table1", *options, "--seeds", "0-2", "--dry-run").splitlines()) == 3
    # What another machine has done, as the results in the repository tell, is not done again.
    monkeypatch.setenv("PURIGRAPH_RUNS", str(tmp_path / "another machine"))
    assert "finished" in invoke("paper", "run", "table1", *options, "--dry-run")
    assert "0 of 0 cells are finished" in invoke("paper", "run", "table1", *options)
    assert "open" in invoke("paper", "run", "table1", *options, "--again", "--dry-run")
    found = json.loads(
        invoke("paper", "show", "table1", "--profile", "smoke", "--results", tmp_path / "results", "--json")
    )
    assert [one["row"] for one in found] == ["GCN"]
    refused("not a list of seeds", "paper", "run", "table1", "--seeds", "a")
    refused("no profile 'fast'", "paper", "run", "table1", "--profile", "fast")
    refused("no experiment named", "paper", "show", "table9")
