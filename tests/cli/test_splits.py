"""A model is attacked on the split that it was trained on, and the command line says what a graph file lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_runs import Workshop, invoke, refused

DICE = ["-a", "dice", "--epsilon", "0.1"]


def test_the_split_is_the_one_of_the_training(workshop: Workshop, tmp_path: Path) -> None:
    trained = json.loads((workshop.seeded / "config.json").read_text())["training"]
    assert trained["seed"] == 3
    evaluate = ["evaluate", "synthetic-citation", "-c", workshop.seeded, *DICE]
    by_itself = json.loads(invoke(*evaluate, "--json"))
    assert (by_itself["seed"], by_itself["attack_seeds"]) == (3, [0])
    named = json.loads(invoke(*evaluate, "--seed", 3, "--json"))
    assert named["clean"] == by_itself["clean"]
    refused("trained with --seed 3.*Omit --seed", *evaluate, "--seed", 0)
    refused("trained with --seed 3", "attack", *evaluate[1:], "-o", tmp_path / "f.safetensors", "--seed", 4)


def test_the_attack_has_a_seed_of_its_own(workshop: Workshop, tmp_path: Path) -> None:
    evaluate = ["evaluate", workshop.graph, "-c", workshop.gcn, *DICE, "--json"]
    seeds = [
        record["seed"] for record in json.loads(invoke(*evaluate, "--attack-seed", 1, "--attack-seed", 2))["records"]
    ]
    assert seeds == [1, 2]
    files = [tmp_path / f"{seed}.safetensors" for seed in (0, 1)]
    for seed, file in enumerate(files):
        invoke("attack", workshop.graph, "-c", workshop.gcn, "-o", file, *DICE, "--attack-seed", seed)
    assert files[0].read_bytes() != files[1].read_bytes()
    refused("is a file with its own.*--attack-seed", *evaluate, "--seed", 1)


def test_files_with_several_splits(workshop: Workshop, tmp_path: Path) -> None:
    gcn, flips = tmp_path / "gcn", tmp_path / "f.safetensors"
    invoke("train", workshop.splits, "-o", gcn, "--split", 1, "--set", "epochs=2")
    result = json.loads(invoke("evaluate", workshop.splits, "-c", gcn, *DICE, "--json"))
    assert (result["split"], result["num_targets"]) == (1, 30)
    found = json.loads(invoke("attack", workshop.splits, "-c", gcn, "-o", flips, *DICE, "--json"))
    assert found["split"] == 1
    refused("trained with --split 1", "attack", workshop.splits, "-c", gcn, "-o", flips, "--split", 0)
    refused("holds 2 splits, numbers 0 to 1", "train", workshop.splits, "-o", gcn, "--split", 2)
    refused("holds one split", "train", workshop.graph, "-o", gcn, "--split", 1)
    refused("selected by --seed", "train", "cora", "-o", gcn, "--split", 1)
    refused("--inductive too", "fit", workshop.splits, "-o", tmp_path / "purifier", "--split", 1)


def test_a_folder_is_not_taken_for_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "synthetic-citation").mkdir()
    short = ["--set", "epochs=1", "--json"]
    assert json.loads(invoke("train", "synthetic-citation", "-o", "synthetic-citation", *short))["epochs_run"] == 1


def test_what_a_file_lacks_is_named(workshop: Workshop, tmp_path: Path) -> None:
    missing = "has no .*test_mask.*docs/graph-files.md"
    refused(missing, "attack", workshop.bare, "-c", workshop.gcn, "-o", tmp_path / "f.safetensors")
    refused(missing, "evaluate", workshop.bare, "-c", workshop.gcn)
    refused(missing, "train", workshop.bare, "-o", tmp_path / "m")
    refused(missing, "fit", workshop.bare, "-o", tmp_path / "m", "--inductive")
    refused("has no test nodes", "evaluate", workshop.untested, "-c", workshop.gcn)


def test_training_without_test_nodes_ends_well(workshop: Workshop, tmp_path: Path) -> None:
    train = ["train", workshop.untested, "-o", tmp_path / "m", "--set", "epochs=2"]
    text = invoke(*train)
    assert "on validation nodes, there are no test nodes" in text
    assert "Saved to" in text
    assert json.loads(invoke(*train, "--json"))["test_accuracy"] is None
