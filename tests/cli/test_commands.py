import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import purigraph as pg
from cli.command_runs import SMALL, invoke
from helpers import communities
from purigraph.cli import app
from purigraph.errors import InputError, PurigraphError
from purigraph.graph.npz import load_npz, save_npz


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.npz"
    save_npz(communities(), path)
    return path


def test_fit_then_purify_a_file(graph_file: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "clean.npz"
    text = invoke("fit", graph_file, "-o", model, "--epochs", 5, *SMALL)
    assert "AUC" in text
    assert "Saved to" in text
    assert "Written to" in invoke("purify", graph_file, "-m", model, "-o", out)
    clean, data = load_npz(out), communities()
    expected = pg.GPRGAE.from_pretrained(model)(data)
    ours = torch.zeros(data.num_nodes, data.num_nodes)
    ours[clean.edge_index[0], clean.edge_index[1]] = clean.edge_weight
    ours = torch.maximum(ours, ours.t())
    assert torch.allclose(ours[expected.edge_index[0], expected.edge_index[1]], expected.edge_weight)


def test_json_is_the_only_output(graph_file: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "clean.npz"
    report = json.loads(invoke("fit", graph_file, "-o", model, "--epochs", 3, *SMALL, "--json", "--seed", 4))
    assert report["seed"] == 4
    assert report["epochs_run"] == 3
    summary = json.loads(invoke("purify", graph_file, "-m", model, "-o", out, "--threshold", 0.5, "--json"))
    assert summary["edges"] - summary["removed"] == load_npz(out).edge_index.shape[1] // 2


def test_the_same_seed_gives_the_same_file(graph_file: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        invoke("fit", graph_file, "-o", tmp_path / name, "--epochs", 3, *SMALL)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_fit_on_an_inductive_split_by_name(tmp_path: Path) -> None:
    small = [*SMALL, "--epochs", 2, "--set", "validation_sets=2"]
    report = json.loads(invoke("fit", "synthetic_citation", "-o", tmp_path / "m", "--inductive", *small, "--json"))
    assert report["settings"]["validation_sets"] == 2


def test_datasets_lists_all(tmp_path: Path) -> None:
    listed = json.loads(invoke("datasets", "--json"))
    assert {"name", "nodes", "edges", "features", "classes", "homophily", "available"} <= listed[0].keys()
    assert {"cora", "citeseer", "cora-ml", "pubmed", "chameleon", "ogbn-arxiv", "coauthor-physics"} <= {
        one["name"] for one in listed
    }
    assert next(one for one in listed if one["name"] == "synthetic-citation")["available"] is True
    assert "synthetic-citation" in invoke("datasets")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "corra", "-o", "m"], "Did you mean 'cora'.*npz"),
        (["fit", "missing.npz", "-o", "m"], "missing.npz"),
        (["fit", "GRAPH", "-o", "m", "--set", "epochz=3"], "no setting 'epochz'"),
        (["fit", "GRAPH", "-o", "m", "--set", "epochs"], "NAME=VALUE"),
        (["fit", "GRAPH", "-o", "GRAPH"], "is a file"),
        (["fit", "GRAPH", "-o", "m", "--device", "nonsense"], "nonsense"),
        (["purify", "GRAPH", "-m", "nowhere", "-o", "out.npz"], "nowhere"),
        (["purify", "GRAPH", "-m", "nowhere", "-o", "out.txt"], r"\.npz"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], message: str, graph_file: Path, tmp_path: Path) -> None:
    given = [str(graph_file) if a == "GRAPH" else str(tmp_path / a) if a in {"m", "nowhere"} else a for a in arguments]
    with pytest.raises(PurigraphError, match=message):
        CliRunner().invoke(app, given, catch_exceptions=False)
    assert not (tmp_path / "m").exists()


def test_errors_exit_with_2_and_no_traceback() -> None:
    run = [sys.executable, "-c", "from purigraph.cli import main; main()"]
    failed = subprocess.run([*run, "fit", "corra", "-o", "m"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    said, error = failed.stderr.splitlines()
    assert said == "Loading PyTorch ..."
    assert error.startswith("purigraph: There is no dataset named 'corra'")
    assert "Traceback" not in failed.stderr
    version = subprocess.run([*run, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"purigraph {pg.__version__}"


def test_help_does_not_import_torch() -> None:
    code = "import sys; from purigraph.cli import app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_purifiers_of_another_width_are_refused(graph_file: Path, tmp_path: Path) -> None:
    invoke("fit", graph_file, "-o", tmp_path / "m", "--epochs", 1, *SMALL)
    other = tmp_path / "other.npz"
    save_npz(communities(num_features=7), other)
    with pytest.raises(InputError, match="trained on 24 features"):
        CliRunner().invoke(
            app,
            ["purify", str(other), "-m", str(tmp_path / "m"), "-o", str(tmp_path / "o.npz")],
            catch_exceptions=False,
        )
    assert not (tmp_path / "o.npz").exists()


def test_train_attack_evaluate(tmp_path: Path) -> None:
    data = communities(num_nodes=150)
    node = torch.arange(150)
    data.train_mask, data.val_mask, data.test_mask = node % 5 == 0, node % 5 == 1, node % 5 == 2
    graph = tmp_path / "graph.npz"
    save_npz(data, graph)
    gcn, purifier, flips = tmp_path / "gcn", tmp_path / "purifier", tmp_path / "flips.safetensors"
    trained = json.loads(invoke("train", graph, "-o", gcn, "--set", "epochs=30", "--json"))
    assert trained["test_accuracy"] > 0.6
    assert "accuracy" in invoke("train", graph, "-o", gcn, "--set", "epochs=5", "--set", "hidden_channels=8")
    invoke("fit", graph, "-o", purifier, "--epochs", 3, *SMALL)
    quick = ["--set", "epochs=4", "--set", "fine_tune_epochs=1", "--set", "block_size=300"]
    found = json.loads(invoke("attack", graph, "-c", gcn, "-o", flips, "--epsilon", 0.2, *quick, "--json"))
    assert found["attacked"] <= found["clean"]
    assert "flips" in invoke("attack", graph, "-c", gcn, "-m", purifier, "-o", flips, "--epsilon", 0.2, *quick)
    common = ["evaluate", graph, "-c", gcn, "-m", purifier, "--epsilon", 0.2]
    out = tmp_path / "result.json"
    result = json.loads(invoke(*common, *quick, "--transfer", "--checkpoint", tmp_path / "kept", "-o", out, "--json"))
    assert result == json.loads(out.read_text())
    assert result["records"][0]["mode"] == "transferred"
    assert "adaptive" in invoke(*common, "--epochs", 3, "--set", "block_size=300")
    with pytest.raises(InputError, match="--purifier too"):
        CliRunner().invoke(app, ["evaluate", str(graph), "-c", str(gcn), "--transfer"], catch_exceptions=False)
    with pytest.raises(InputError, match="no profile 'gpu'"):
        CliRunner().invoke(app, ["train", str(graph), "-o", str(gcn), "--profile", "gpu"], catch_exceptions=False)


def test_demo_tells_one_story(monkeypatch: pytest.MonkeyPatch) -> None:
    from purigraph import demo

    budgets = [demo.Budgeted(0.1, 5, 0.6, 0.75, 0.74, 0.76), demo.Budgeted(0.25, 12, 0.45, 0.7, 0.68, 0.7)]
    canned = demo.DemoResult(0.8, 0.79, 0.78, 0.65, budgets, 100, 0, 1.0)
    monkeypatch.setattr(demo, "run_demo", lambda **_: canned)
    document = json.loads(invoke("demo", "--json"))
    keys = {"epsilon", "clean", "attacked", "purified", "protected_clean", "protected_attacked", "proven"}
    assert keys <= document.keys()
    assert document["epsilon"] == 0.25
    assert canned.won_back() == pytest.approx(0.25 / 0.35)
    text = invoke("demo")
    assert "falls from 80.0 % to 45.0 %" in text
    assert "65.0 % are proven" in " ".join(text.split())
