"""No option is ignored without a word, and a wrong value is a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.command_runs import QUICK, Workshop, invoke, refused
from purigraph import checkpoints, classifiers, purifiers
from purigraph.cli import app
from purigraph.graph.perturbation import Perturbation
from purigraph.paper import attack_settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "dice", "--epochs", "2"], "dice has no epochs.*add_share"),
        (["--epochs", "3", "--set", "epochs=9"], "--set epochs=9 repeats the setting of --epochs"),
        (["--set", "loss=margin", "--set", "loss=margin"], "an earlier --set"),
        (["--worst", "-a", "nonsense"], "--attack does not apply"),
        (["--worst", "--transfer"], "--transfer does not apply"),
        (["--worst", "--restarts", "2"], "--restarts does not apply"),
        (["--worst", "--preset", "paper"], "--preset does not apply"),
        (["--worst", "--set", "loss=margin"], "--set does not apply"),
        (["--set", "epochs=abc"], "PRBCD: epochs='abc' is not valid: input should be a valid integer"),
        (["--set", "epochs=2.5"], r"epochs=2\.5 is not valid"),
        (["--set", "epochs=true"], "epochs=True is not valid"),
        (["--set", "loss=3"], "loss=3 is not valid"),
        (["--set", "learning_factor=abc"], "learning_factor='abc' is not valid"),
        (["--set", "learning_factor=Infinity"], "finite"),
        (["-a", "dice", "--set", "add_share=x"], "DICE: add_share='x' is not valid"),
        (["--set", "epochz=3"], "did you mean 'epochs'"),
        (["--set", "seeds=[1,2]"], "no setting 'seeds'"),
        (["--set", "attack=dice"], "no setting 'attack'"),
        (["--set", "budget=absolute"], "no setting 'budget'"),
        (["--device", "nonsense"], "Device 'nonsense' can't be used"),
        (["--budget-kind", "everything"], "--budget-kind must be one of incident"),
        (["--budget-kind", "absolute"], "pass it as --epsilon"),
        (["--budget-kind", "absolute", "--epsilon", "0.5"], "whole number of flips"),
        (["--preset", "paper"], "for datasets, not for the file"),
        (["--preset", "mine"], "no preset 'mine'"),
    ],
)
def test_evaluate_refuses_what_it_would_ignore(arguments: list[str], message: str, workshop: Workshop) -> None:
    refused(message, "evaluate", workshop.graph, "-c", workshop.gcn, *arguments)


@pytest.mark.parametrize("attack", ["PRBCD", "LRBCD"])
def test_epochs_bring_their_fine_tuning(attack: str, workshop: Workshop) -> None:
    short = ["--epsilon", "0.1", "--epochs", "4", "--set", "block_size=300", "--json"]
    record = json.loads(invoke("evaluate", workshop.graph, "-c", workshop.gcn, "-a", attack, *short))["records"][0]
    assert {"epochs=4", "fine_tune_epochs=1"} <= set(re.split(r"[(), ]+", record["attack"]))


def test_budgets_can_be_counted(workshop: Workshop, tmp_path: Path) -> None:
    flips = tmp_path / "f.safetensors"
    absolute = ["-a", "dice", "--budget-kind", "absolute", "--epsilon", "7"]
    invoke("attack", workshop.graph, "-c", workshop.gcn, "-o", flips, *absolute)
    assert len(Perturbation.load(flips)) == 7
    evaluate = ["evaluate", workshop.graph, "-c", workshop.gcn, "-a", "dice", "--epsilon", 1, "--json"]
    budgets = [
        json.loads(invoke(*evaluate, "--budget-kind", kind))["records"][0]["max_flips"]
        for kind in ("half-degree", "incident")
    ]
    assert budgets[0] < budgets[1]


def test_restarts_and_checkpoints_reach_the_attack(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    written: list[str] = []
    monkeypatch.setattr(checkpoints.Checkpointer, "save", lambda self, state: written.append(self.path.name))
    flips = tmp_path / "f.safetensors"
    attack = ["attack", workshop.graph, "-c", workshop.gcn, "-o", flips, *QUICK]
    invoke(*attack, "--checkpoint", tmp_path / "state", "--restarts", 2)
    assert set(written) == {"attack-0.safetensors", "attack-1.safetensors"}


@pytest.mark.parametrize("transfer", [False, True])
def test_the_presets_are_the_papers(transfer: bool, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    class Built(Exception):
        pass

    def built(*_: object, **settings: object) -> None:
        raise Built(settings)

    monkeypatch.setattr("purigraph.attacks.create", built)
    arguments = ["evaluate", "pubmed", "-c", "c", "-m", "m", "--preset", "paper", "--set", "block_size=3"]
    with pytest.raises(Built) as found:
        invoke(*arguments, *(["--transfer"] if transfer else []))
    assert found.value.args[0] == {**attack_settings("prbcd", "pubmed", on_gpr_gae=not transfer), "block_size": 3}
    refused("omit --epochs", *arguments, "--epochs", 4)
    refused("no settings for 'dice'", *arguments, "-a", "dice")


def test_train_and_fit_refuse_what_they_would_ignore(workshop: Workshop, tmp_path: Path) -> None:
    train = ["train", workshop.graph, "-o", tmp_path / "m"]
    refused("--profile only applies to adversarial training", *train, "--profile", "paper")
    refused("no regime named 'nonsense'", *train, "--regime", "nonsense")
    refused(
        "gcn, vanilla, has no setting 'epoch': did you mean 'epochs'.*hidden_channels.*patience",
        *train,
        "--set",
        "epoch=3",
    )
    refused("omit it", "fit", workshop.graph, "-o", tmp_path / "m", "--set", "in_channels=99")
    refused("repeats the setting", "fit", workshop.graph, "-o", tmp_path / "m", "--epochs", 2, "--set", "epochs=3")
    short = ["--set", "epochs=11", "--set", "clean_epochs=10"]
    report = json.loads(invoke(*train, "--regime", "Adversarial", *short, "--json"))
    assert report["settings"]["attack"]["block_size"] == 50_000  # the profile for a CPU


def test_seeds_beyond_all_numbers_are_a_sentence(workshop: Workshop, tmp_path: Path) -> None:
    for arguments in (["train", workshop.graph, "-o", tmp_path / "m"], ["evaluate", "cora", "-c", workshop.gcn]):
        result = CliRunner().invoke(app, [*map(str, arguments), "--seed", "9" * 20])
        assert result.exit_code == 2
        assert "--seed" in result.stderr


def test_models_are_explained_and_may_come_from_the_hub(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused("A model is a folder with", "evaluate", workshop.graph, "-c", "nope")
    refused("A model is a folder with", "evaluate", workshop.graph, "-c", workshop.graph)
    refused("A model is a folder with", "evaluate", workshop.graph, "-c", workshop.gcn, "-m", "nope")
    asked: list[str] = []
    load_classifier, load_purifier = classifiers.load, purifiers.load
    monkeypatch.setattr(classifiers, "load", lambda name: asked.append(name) or load_classifier(workshop.gcn))
    monkeypatch.setattr(purifiers, "load", lambda name: asked.append(name) or load_purifier(workshop.purifier))
    hub = ["-c", "hf://owner/gcn", "-m", "hf://owner/purifier"]
    invoke("evaluate", workshop.graph, *hub, "-a", "dice", "--epsilon", 0.1, "--json")
    assert asked == ["hf://owner/gcn", "hf://owner/purifier"]
    invoke("purify", workshop.graph, "-m", "hf://owner/purifier", "-o", tmp_path / "pure.npz")
    assert asked[-1] == "hf://owner/purifier"


def test_devices_are_checked_before_the_models_move(workshop: Workshop, tmp_path: Path) -> None:
    device = ["--device", "nonsense"]
    message = "Device 'nonsense' can't be used"
    refused(message, "purify", workshop.graph, "-m", workshop.purifier, "-o", tmp_path / "o.npz", *device)
    refused(message, "attack", workshop.graph, "-c", workshop.gcn, "-o", tmp_path / "f.safetensors", *device)
