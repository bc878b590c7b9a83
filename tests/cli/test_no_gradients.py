"""An attack that finds no gradient says which options work, and does not speak Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cli.command_runs import QUICK, Workshop, invoke, refused
from purigraph import purifiers
from purigraph.errors import NoGradientError
from purigraph.graph import PairGraph
from purigraph.graph.npz import load_npz, save_npz
from purigraph.purifiers import Purifier


class Rounding(Purifier):
    """A purifier without a gradient."""

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        return graph.with_weight(torch.ones_like(graph.weight))

    def purify_parts(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        return graph.with_weight((presence > 0.5).to(presence.dtype))


@pytest.mark.parametrize("command", ["attack", "evaluate"])
def test_the_advice_is_for_the_command_line(
    command: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purifiers, "load", lambda folder: Rounding())
    options = [workshop.graph, "-c", workshop.gcn, "--purifier", "rounding", *QUICK, "-o", tmp_path / "out.safetensors"]
    with pytest.raises(NoGradientError) as error:
        invoke(command, *options)
    message = str(error.value)
    assert 0 < message.index("--transfer") < message.index("--attack evolutionary")
    assert "transfer_from" not in message
    assert list(tmp_path.iterdir()) == []
    if command == "evaluate":
        invoke(command, *options, "--transfer")


def test_a_classifier_that_looks_at_no_edge_can_not_be_attacked_but_is_proven(
    workshop: Workshop, tmp_path: Path
) -> None:
    invoke("train", workshop.graph, "--kind", "mlp", "-o", tmp_path / "mlp", "--epochs", 2, "--json")
    with pytest.raises(NoGradientError, match="--attack evolutionary") as error:
        invoke("attack", workshop.graph, "-c", tmp_path / "mlp", *QUICK, "-o", tmp_path / "out.safetensors")
    assert "transfer" not in str(error.value)
    result = json.loads(invoke("evaluate", workshop.graph, "-c", tmp_path / "mlp", *QUICK, "--json"))
    assert result["certified"] == result["clean"]
    assert {record["mode"] for record in result["records"]} == {"proven"}


def test_a_missing_label_is_found_before_training(workshop: Workshop, tmp_path: Path) -> None:
    data = load_npz(workshop.graph)
    data.y[int(data.test_mask.nonzero()[0])] = -1
    save_npz(data, tmp_path / "graph.npz")
    refused("1 nodes of data.test_mask have a negative label", "train", tmp_path / "graph.npz", "-o", tmp_path / "gcn")
    assert not (tmp_path / "gcn").exists()
