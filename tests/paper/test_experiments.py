"""The experiments: all of them are valid, and run in seconds on the embedded graph."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from purigraph import paper
from purigraph.errors import DatasetError, InputError, UnknownNameError
from purigraph.paper import planning
from purigraph.paper.experiments import Published, add_row, read_experiment
from purigraph.paper.profiles import PROFILES
from purigraph.paper.specs import DefenceSpec, merged
from purigraph.runs import Cell, Store, read_results, work

OF_THE_PAPER = {
    "datasets",
    "fig-ablation",
    "fig-adaptive",
    "fig-coefficients",
    "fig-losses",
    "fig-multistep",
    "fig-structure",
    "grid-attack",
    "table1",
    "table2",
    "table3",
}


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store for all experiments: they share their models."""
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan without datasets: only their splits' hashes would need them."""
    monkeypatch.setattr("purigraph.paper.models.split_hash", lambda dataset, seed: f"{dataset} {seed}")


def test_everything_of_the_paper_is_there() -> None:
    assert set(paper.names()) >= OF_THE_PAPER
    table1 = paper.load("table1")
    assert (len(table1.rows), len(table1.columns)) == (26, 7)
    assert len(paper.load("table2").rows) >= 7


@pytest.mark.parametrize("name", paper.names())
@pytest.mark.usefixtures("without_data")
def test_names_and_settings_are_valid(name: str) -> None:
    experiment = paper.load(name)
    for profile in ("paper", "quick", "smoke"):
        planned = paper.plan(experiment, profile=profile)
        keys = [one.cell.key for one in planned if one.cell is not None]
        assert keys
        assert len(set(keys)) == len(keys) or profile != "paper", "two cells of an experiment measure the same"
    for row, numbers in experiment.published.items():
        assert row in experiment.rows, f"{row} has published numbers but is no row"
        for column in numbers:
            assert any(column.startswith(known) for known in experiment.columns)
    for trial in (experiment.smoke.rows, experiment.smoke.columns):
        assert set(trial or ()) <= experiment.rows.keys() | experiment.columns.keys()


@pytest.mark.parametrize("name", paper.names())
def test_every_experiment_runs_on_the_embedded_graph(name: str, store: Store, tmp_path: Path) -> None:
    experiment = paper.load(name)
    planned = paper.plan(experiment, profile="smoke")
    cells = [one.cell for one in planned if one.cell is not None]
    records = work(store, cells)
    assert [store.failure(cell) for cell in cells] == [None] * len(cells)
    assert len(records) == len(planned)
    path = paper.export(experiment, planned, store, tmp_path)
    lines = read_results(path)
    assert len(lines) == len(planned)
    found = paper.compare(experiment, lines, profile="smoke")
    assert found
    assert all(one.published is None for one in found), "the embedded graph is not the paper's"
    assert paper.compare(experiment, lines) == [], "smoke results are not shown unless asked for"
    if experiment.scale == 100:
        assert all(0 <= value <= 100 for one in found for value in one.values)
    text = path.read_bytes()
    assert paper.export(experiment, planned, store, tmp_path).read_bytes() == text


def test_rows_share_models_and_perturbations(store: Store) -> None:
    planned = paper.plan(paper.load("table2"), profile="smoke", rows=["GCN", "EvenNet"])
    records = work(store, [one.cell for one in planned if one.cell is not None])
    flips = {record["result"].get("flips") for record in records} - {None}
    assert len(flips) == 1, "the attack on the GCN was made twice"


@pytest.mark.usefixtures("without_data")
def test_filters_seeds_and_forms() -> None:
    table1 = paper.load("table1")
    planned = paper.plan(table1, seeds=[4], rows=["gcn"], columns=["prbcd*"], forms=["exact"])
    assert [(one.row, one.column, one.form, one.seed) for one in planned] == [
        ("GCN", f"PRBCD {epsilon}", "exact", 4) for epsilon in (0.1, 0.25, 0.5)
    ]
    clean = paper.plan(table1, rows=["GCN"], columns=["clean"])
    assert [(one.form, one.seed) for one in clean] == [(None, 0), (None, 1), (None, 2)]
    assert len(paper.plan(table1, profile="quick", rows=["GCN"], columns=["clean"])) == 1
    with pytest.raises(InputError, match="Nothing of table1 matches. Its rows: EvenNet"):
        paper.plan(table1, rows=["GCNN"])


@pytest.mark.usefixtures("without_data")
def test_a_cell_is_named_by_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**options: object) -> str:
        chosen = {"rows": ["GPR-GAE + GCN"], "columns": ["PRBCD 0.5"], "seeds": [0], "forms": ["exact"], **options}
        (one,) = paper.plan(paper.load("table1"), **chosen)  # type: ignore[arg-type]
        assert one.cell is not None
        return one.cell.key

    first = key()
    assert key() == first
    others = [{"seeds": [1]}, {"forms": ["published"]}, {"profile": "quick"}, {"columns": ["LRBCD 0.5"]}]
    assert len({first, *(key(**other) for other in others)}) == 5
    monkeypatch.setattr("purigraph.runs.protocol_versions.VERSIONS", {"gpr-gae": 2})
    assert key() != first
    monkeypatch.setattr("purigraph.runs.protocol_versions.VERSIONS", {"rung": 2})
    assert key() == first
    monkeypatch.setattr("purigraph.paper.models.split_hash", lambda dataset, seed: "another split")
    assert key() != first


def test_cells_whose_dataset_is_missing_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def missing(dataset: str, seed: int) -> str:
        asked.append(dataset)
        raise DatasetError(f"{dataset} is incomplete")

    monkeypatch.setattr("purigraph.paper.models.split_hash", missing)
    (one,) = paper.plan(paper.load("datasets"), rows=["OGB-arXiv"])
    assert one.cell is None
    assert one.skipped == "ogbn-arxiv is incomplete"
    asked.clear()
    assert all(one.cell is None for one in paper.plan(paper.load("table2"), columns=["Pubmed*"]))
    assert asked == ["pubmed"], "a download that fails is not tried again for every cell"


@pytest.mark.usefixtures("without_data")
def test_a_row_narrows_the_seeds_of_its_columns() -> None:
    planned = paper.plan(paper.load("anchors-attacked"), columns=["Cora"])
    seeds = {row: [one.seed for one in planned if one.row == row] for row in {one.row for one in planned}}
    assert {row: len(found) for row, found in seeds.items()} == {
        row: 1 if row.endswith("thorough") else 5 for row in seeds
    }


@pytest.mark.usefixtures("without_data")
def test_a_teacher_is_part_of_what_a_cell_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell() -> Cell:
        (one,) = paper.plan(paper.load("table2-adaptive"), rows=["GCN, edge-loss, taught"], columns=["Cora clean"])
        assert one.cell is not None
        return one.cell

    first = cell()
    assert first.config["defence"]["classifier"]["teacher"]["name"] == "appnp"
    monkeypatch.setattr("purigraph.runs.protocol_versions.VERSIONS", {"appnp": 2})
    assert cell().key != first.key


@pytest.mark.parametrize(
    ("defence", "words"),
    [
        ({"classifier": {"name": "gcn", "all_labels": True}, "anchor": {}}, "all_labels would have taught"),
        ({"classifier": {"name": "a/b", "all_labels": True}}, "a/b is to learn all labels"),
        ({"classifier": "gcn", "anchor": {"teacher": {"name": "gcn", "purified": True}}}, "gcn is to learn all labels"),
        ({"classifier": "gcn", "anchor": {"teacher": "gcn", "labels": True}}, "give one of them"),
    ],
)
def test_teachers_who_would_be_misunderstood_are_refused(defence: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DefenceSpec(**defence).resolved(PROFILES["paper"], "cora")


@pytest.mark.usefixtures("without_data")
def test_quick_is_shorter_and_adversarial_training_has_its_cpu_profile() -> None:
    (one,) = paper.plan(
        paper.load("table1"), profile="quick", rows=["GCN, adv*LRBCD*"], columns=["PRBCD 0.1"], forms=["published"]
    )
    assert one.cell is not None
    training = one.cell.config["defence"]["classifier"]["training"]
    assert (training["epochs"], training["attack"]["block_size"], training["attack"]["name"]) == (300, 50_000, "lrbcd")
    settings = one.cell.config["attack"]["settings"]
    assert (settings["epochs"], settings["fine_tune_epochs"], settings["rounding"]) == (100, 25, False)
    (one,) = paper.plan(
        paper.load("table1"), profile="quick", rows=["GPR-GAE + GCN"], columns=["LRBCD 0.1"], forms=["published"]
    )
    assert one.cell is not None
    assert one.cell.config["defence"]["purifier"]["fit"] == {"epochs": 500}
    assert one.cell.config["attack"]["settings"]["fine_tune_epochs"] == 0, "the paper's LRBCD has no fine-tuning"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": "accurracy"}, "There is no kind of cell"),
        ({"rows": {"a": {"defence": {"classifier": "gnc"}}}}, "Did you mean 'gcn'"),
        ({"rows": {"a": {"defence": {"classifier": {"name": "gcn", "hyper": {"hops": 3}}}}}}, "hops"),
        (
            {"rows": {"a": {"defence": {"classifier": "gcn", "purifyer": "svd"}}}},
            "row 'a', column 'b': defence.purifyer",
        ),
        ({"rows": {"a": {"defence": {}}}}, "give one"),
        ({"rows": {"a": {"defence": {"classifier": {"name": "gcn", "teacher": "apnp"}}}}}, "Did you mean 'appnp'"),
        (
            {"rows": {"a": {"defence": {"classifier": "gcn", "purifier": {"name": "svd", "answers": {"members": 1}}}}}},
            "svd compares no answers",
        ),
        ({"forms": []}, "two forms"),
        ({"columns": {"b": {"attack": {"name": "prbcd"}}}}, "column 'b': attack.epsilon"),
    ],
)
@pytest.mark.usefixtures("without_data")
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    document = {
        "name": "mine",
        "title": "Mine",
        "cell": "accuracy",
        "config": {"dataset": "cora"},
        "forms": ["exact"],
        "rows": {"a": {"defence": {"classifier": "gcn"}}},
        "columns": {"b": {"attack": {"name": "prbcd", "epsilon": 0.1}}},
        **change,
    }
    with pytest.raises(InputError, match=message):
        paper.plan(read_experiment(document, "mine.yaml"))


def test_a_malformed_file_and_an_unknown_name_are_refused() -> None:
    with pytest.raises(InputError, match="mine.yaml: rows is not valid"):
        read_experiment({"name": "mine", "title": "Mine", "cell": "accuracy"}, "mine.yaml")
    with pytest.raises(UnknownNameError, match="table1"):
        paper.load("table9")
    with pytest.raises(ValidationError):
        paper.load("table1").model_validate({"name": "x"})


def test_published_numbers_have_their_spread_where_it_was_printed() -> None:
    assert paper.load("table1").published_number("GPR-GAE + GCN", "LRBCD 0.5") == Published(72.5, 1.7)
    assert paper.load("table2").published_number("GOOD-AT", "Pubmed 0.5") == Published(68.9)
    assert paper.load("table2").published_number("SVD-GCN", "OGB-arXiv clean") is None
    assert paper.load("table3").published_number("Citeseer", "") == Published(0.2788)


def test_a_defence_of_ones_own_is_one_file(tmp_path: Path, store: Store) -> None:
    (tmp_path / "mine.yaml").write_text('name: Mine\ndefence: {model: "paper.own_defence:make"}\n')
    experiment = add_row(paper.load("defences"), tmp_path / "mine.yaml")
    (one,) = paper.plan(experiment, profile="smoke", rows=["Mine"], columns=["Cora"])
    assert one.cell is not None
    (record,) = work(store, [one.cell])
    values = record["result"]["values"]
    assert values["eps 0.1"] <= values["clean"]
    assert values["distilled MLP"] is not None
    assert record["result"]["worst_case"]["members"]
    with pytest.raises(InputError, match="needs a name"):
        (tmp_path / "mine.yaml").write_text("defence: {classifier: gcn}\n")
        add_row(experiment, tmp_path / "mine.yaml")


def test_every_defence_is_a_row() -> None:
    number = sum(path.name.endswith(".yaml") for path in (files("purigraph.paper") / "defences").iterdir())
    assert len(paper.load("defences").rows) == number


def test_fragments_are_merged_into_names() -> None:
    assert merged({"purifier": "gpr-gae"}, {"purifier": {"fit": {"epochs": 3}}}) == {
        "purifier": {"name": "gpr-gae", "fit": {"epochs": 3}}
    }
    assert merged({"attack": {"name": "pgd"}}, {"attack": None}) == {"attack": None}


def test_the_command_of_a_line_runs_that_line() -> None:
    experiment = paper.load("table1")
    (one,) = [one for one in paper.plan(experiment, profile="smoke") if one.column == "clean" and one.row == "GCN"]
    assert planning.command(experiment, one) == (
        'purigraph paper run table1 --profile smoke --rows "GCN" --columns "clean" --seeds 0'
    )
