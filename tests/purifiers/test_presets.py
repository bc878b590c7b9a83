"""Presets: which there are, what they change, and which one suits a graph."""

import json
from pathlib import Path

import pytest
import torch

import purigraph as pg
from cli.command_runs import invoke, refused
from helpers import communities
from purigraph.errors import UnknownNameError
from purigraph.graph import PairGraph
from purigraph.graph.npz import save_npz
from purigraph.purifiers.gpr_gae import FitSettings, presets


def test_the_preset_of_the_paper_is_the_default() -> None:
    assert pg.GPRGAE.preset("paper").settings == pg.GPRGAE().settings
    assert FitSettings(**pg.GPRGAE.presets["paper"].training) == FitSettings()


def test_every_preset_is_valid() -> None:
    for name, preset in pg.GPRGAE.presets.items():
        assert pg.GPRGAE.preset(name).settings == pg.GPRGAE(**preset.shape).settings
        FitSettings(**preset.training)
        assert preset.meaning.endswith(".")


def test_fit_starts_from_the_preset_and_takes_changes() -> None:
    purifier = pg.GPRGAE.preset("fast", hops=2, node_channels=8, edge_channels=8)
    assert (purifier.hops, purifier.node_channels) == (2, 8)
    report = purifier.fit(communities(), epochs=4, validate_every=2).report
    assert report is not None
    training = pg.GPRGAE.presets["fast"].training
    assert report.settings.learning_rate == training["learning_rate"] != FitSettings().learning_rate
    assert (report.settings.epochs, report.settings.validate_every) == (4, 2)


def test_an_unknown_preset_names_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match="paper, fast"):
        pg.GPRGAE.preset("quick")
    with pytest.raises(UnknownNameError, match="it has none"):
        pg.Jaccard.preset("fast")


def test_the_size_of_a_graph_chooses() -> None:
    few = torch.tensor([[0], [1]])
    many = torch.randint(4_900, (2, 60_000))
    assert pg.GPRGAE.preset_for(PairGraph(3_000, few)) == "paper"
    assert pg.GPRGAE.preset_for(PairGraph(20_000, few)) == "fast"
    assert pg.GPRGAE.preset_for(PairGraph(4_900, many)) == "fast"  # few nodes, many edges
    assert pg.GPRGAE.preset_for(PairGraph(30_000, few)) == "large"
    assert pg.Jaccard.preset_for(PairGraph(30_000, few)) is None


def test_the_command_says_which_preset_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tmp_path / "graph.npz"
    save_npz(communities(), graph)
    small = ["--epochs", 2, "--set", "node_channels=8", "--set", "edge_channels=8"]
    monkeypatch.setattr(presets, "PAPER_UP_TO_NODES", 100)
    chosen = json.loads(invoke("fit", graph, "-o", tmp_path / "chosen", *small, "--json"))
    assert chosen["settings"]["patience"] == pg.GPRGAE.presets["fast"].training["patience"]
    assert pg.GPRGAE.from_pretrained(tmp_path / "chosen").hops == pg.GPRGAE.presets["fast"].shape["hops"]
    told = json.loads(invoke("fit", graph, "-o", tmp_path / "told", "--preset", "paper", *small, "--json"))
    assert told["settings"]["patience"] is None
    assert pg.GPRGAE.from_pretrained(tmp_path / "told").hops == 7
    refused("no preset named 'quick'", "fit", graph, "-o", tmp_path / "m", "--preset", "quick")
    refused("it has none", "fit", graph, "-k", "jaccard", "-o", tmp_path / "m", "--preset", "fast")
    refused("omit it with --anchor", "fit", graph, "-o", tmp_path / "m", "--preset", "fast", "--anchor")
