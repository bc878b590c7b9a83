"""The rival purifiers on the command line: no file but their own knows them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli.command_runs import QUICK, Workshop, invoke, refused

KINDS = {
    "jaccard": ["--set", "similarity=cosine", "--set", "cosine_threshold=0.1"],
    "svd": ["--set", "rank=10"],
    "dense svd": ["--set", "rank=10", "--set", "reconstruction=dense", "--set", "cutoff=0.1"],
    "chain": ["--set", 'parts=["jaccard", {"purifier": "svd", "settings": {"rank": 10}}]'],
}


@pytest.mark.parametrize("kind", KINDS)
def test_fit_purify_train_evaluate(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    folder, out, gcn = tmp_path / "m", tmp_path / "out.npz", tmp_path / "gcn"
    assert "nothing to learn" in invoke("fit", workshop.graph, "--kind", kind.split()[-1], "-o", folder, *KINDS[kind])
    summary = json.loads(invoke("purify", workshop.graph, "-m", folder, "-o", out, "--json"))
    assert (summary["added"] > 0) == (kind == "dense svd")
    with np.load(out) as arrays:
        weight = arrays["edge_weight"]
    assert weight.min() >= 0
    assert weight.max() <= 1
    assert weight.mean() < 1
    trained = ["train", workshop.graph, "-o", gcn, "--epochs", 5, "-m", folder]
    assert f"purified by {kind.split()[-1]}" in invoke(*trained).lower()
    recorded = json.loads((gcn / "config.json").read_text())["training"]["purifier"]
    assert recorded["purifier"] == kind.split()[-1]
    assert recorded == json.loads(invoke(*trained, "--json"))["purifier"]
    common = ["evaluate", workshop.graph, "-c", gcn, "-m", folder, "--epsilon", 0.2, *QUICK, "--json"]
    assert json.loads(invoke(*common))["records"][0]["mode"] == "adaptive"


def test_factors_in_place_of_edges(workshop: Workshop, tmp_path: Path) -> None:
    folder, gcn, out = tmp_path / "m", tmp_path / "gcn", tmp_path / "out.npz"
    kind = ["--kind", "svd", "--set", "rank=10", "--set", "reconstruction=factored"]
    assert "nothing to learn" in invoke("fit", workshop.graph, *kind, "-o", folder)
    assert "purified by svd" in invoke("train", workshop.graph, "-o", gcn, "--epochs", 5, "-m", folder).lower()
    common = ["-m", folder, "--epsilon", 0.2, *QUICK, "--json"]
    found = json.loads(invoke("evaluate", workshop.graph, "-c", gcn, *common))
    assert found["records"][0]["mode"] == "adaptive"
    refused("no edges to list", "purify", workshop.graph, "-m", folder, "-o", out)
    assert not out.exists()
    refused("gat.GAT can't be given", "train", workshop.graph, "-k", "gat", "-o", tmp_path / "gat", "-m", folder)
    assert not (tmp_path / "gat").exists()


def test_settings_of_a_saved_one_can_be_changed(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    invoke("fit", workshop.graph, "--kind", "jaccard", "-o", folder, "--set", "similarity=cosine")
    purify = ["purify", workshop.graph, "-m", folder, "-o", tmp_path / "out.npz", "--json"]
    means = [json.loads(invoke(*purify, "--set", f"cosine_threshold={t}"))["mean_weight"] for t in (-1.0, 0.2, 1.0)]
    assert means[0] == 1
    assert means[0] > means[1] > means[2]
    refused("no setting 'rank'", *purify, "--set", "rank=3")
