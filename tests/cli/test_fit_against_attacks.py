"""`purigraph fit` for purifiers that learn from attacks on a classifier."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command_runs import Workshop, invoke, refused
from purigraph import purifiers
from purigraph.classifiers import GCN

SHORT = ["--set", "num_detectors=2", "--epochs", 2, "--set", "attack_epochs=2"]


def test_good_at_is_fitted_against_a_classifier(workshop: Workshop, tmp_path: Path) -> None:
    model, clean = tmp_path / "m", tmp_path / "clean.npz"
    arguments = ["fit", workshop.graph, "--kind", "good_at", "-c", workshop.gcn, "-o", model, *SHORT]
    assert "2 detectors" in invoke(*arguments, "--inductive")
    loaded = purifiers.load(model)
    assert isinstance(loaded, purifiers.GOODAT)
    assert isinstance(loaded.classifier, GCN)
    assert "Written to" in invoke("purify", workshop.graph, "-m", model, "-o", clean)
    evaluate = ["evaluate", workshop.graph, "-c", workshop.gcn, "-m", model, "-a", "dice", "--epsilon", 0.1, "--json"]
    assert 0 <= json.loads(invoke(*evaluate))["clean"] <= 1


def test_a_classifier_is_neither_missed_nor_ignored(workshop: Workshop, tmp_path: Path) -> None:
    fit = ["fit", workshop.graph, "-o", tmp_path / "m"]
    refused("learns from attacks on a classifier", *fit, "--kind", "good-at")
    refused("leave --classifier out", *fit, "--kind", "gpr-gae", "-c", workshop.gcn)
    seeded = ["fit", "synthetic-citation", "-o", tmp_path / "m", "--kind", "good-at", "-c", workshop.seeded, *SHORT]
    refused("trained with --seed 3", *seeded, "--inductive")
