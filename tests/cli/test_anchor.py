from __future__ import annotations

import json
from pathlib import Path

from cli.command_runs import SMALL, Workshop, invoke, refused
from purigraph import anchors

SHORT = ["--set", "folds=2", "--set", "landmarks=16"]


def test_an_anchor_is_fitted_and_used(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "anchor"
    fit = ["fit", workshop.graph, "--anchor", "-c", workshop.gcn, "-o", folder, *SHORT]
    assert "Distilled from 90 nodes" in invoke(*fit)
    again = json.loads(invoke(*fit, "--json"))
    assert again["margin"] == anchors.load(folder).margin
    assert again["settings"]["folds"] == 2
    everything = ["fit", workshop.graph, "--anchor", "-c", workshop.gcn, "-o", folder, *SHORT, "--set", "exposed=0.0"]
    invoke(*everything)
    quick = ["--epsilon", 0.2, "-a", "dice"]
    evaluate = ["evaluate", workshop.graph, "-c", workshop.gcn, "-m", workshop.purifier, "--anchor", folder, *quick]
    result = json.loads(invoke(*evaluate, "--json"))
    assert result["records"][0]["accuracy"] >= result["certified"] - 1e-12
    assert "No edit of the edges can change the answers" in invoke(*evaluate)
    flips = tmp_path / "f.safetensors"
    assert "Written to" in invoke("attack", workshop.graph, "-c", workshop.gcn, "--anchor", folder, "-o", flips, *quick)


def test_a_teacher_who_learns_all_labels_teaches_it(workshop: Workshop, tmp_path: Path) -> None:
    fit = ["fit", workshop.graph, "-c", workshop.gcn, "-o", tmp_path / "anchor", *SHORT]
    result = json.loads(invoke(*fit, "--anchor", "--teacher", "mlp", "--json"))
    assert result["teacher"] == "mlp, consistency, all labels"
    assert result["trusted_nodes"] > 90  # with the validation nodes
    refused("--teacher teaches an anchor", *fit[:2], "-o", tmp_path / "purifier", "--teacher", "mlp")
    refused("'nlp'", *fit, "--anchor", "--teacher", "nlp")


def test_what_an_anchor_needs_is_said(workshop: Workshop, tmp_path: Path) -> None:
    fit = ["fit", workshop.graph, "--anchor", "-o", tmp_path / "anchor"]
    refused("give its folder as --classifier", *fit)
    refused("Anchor has no setting 'hops'", *fit, "-c", workshop.gcn, *SMALL[:2])
    refused("holds a classifier/gcn", "evaluate", workshop.graph, "-c", workshop.gcn, "--anchor", workshop.gcn)
