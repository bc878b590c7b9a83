"""The settings of the paper."""

from __future__ import annotations

import pytest

from purigraph import classifiers
from purigraph.attacks import LRBCD, create
from purigraph.errors import InputError
from purigraph.paper import attack_settings, classifier_settings


def test_the_attacks_have_the_papers_settings() -> None:
    assert create("prbcd", **attack_settings("prbcd", "Cora", on_gpr_gae=False)).settings.to_json() == {
        "loss": "tanh-margin",
        "epochs": 400,
        "fine_tune_epochs": 100,
        "rounding": False,
        "block_size": 10_000,
        "learning_factor": 100.0,
        "final_samples": 20,
        "edits": "both",
        "focus": None,
    }
    assert attack_settings("prbcd", "pubmed", on_gpr_gae=True)["block_size"] == 50_000
    assert attack_settings("prbcd", "ogbn_arxiv", on_gpr_gae=True)["block_size"] == 3_000_000
    on, off = (LRBCD(**attack_settings("lrbcd", "cora", on_gpr_gae=on)) for on in (True, False))
    assert (on.block_size, on.loss) == (10_000, "margin")
    assert (off.block_size, off.loss) == (250_000, "tanh-margin")
    with pytest.raises(InputError, match="prbcd and lrbcd"):
        attack_settings("pgd", "cora", on_gpr_gae=True)


@pytest.mark.parametrize("name", classifiers.names())
def test_the_classifiers_can_be_made_as_the_paper_has_them(name: str) -> None:
    classifiers.create(name, 3, 2, **classifier_settings(name, "ogbn_arxiv"))
    assert classifier_settings(name, "cora") == {}


def test_the_paper_widens_some_classifiers_for_arxiv() -> None:
    assert {name: hyper for name in classifiers.names() if (hyper := classifier_settings(name, "ogbn-arxiv"))} == {
        "gcn": {"hidden_channels": 256, "num_layers": 3},
        "evennet": {"hidden_channels": 256},
        "soft-median": {"hidden_channels": 256, "num_layers": 3, "temperature": 5.0, "alpha": 0.1},
    }
