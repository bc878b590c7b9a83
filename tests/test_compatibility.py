"""What version 0.1.0 saved still loads and gives the same answers, and the same seeds still give the same flips.

The files in `files_of_0_1_0` were written by that version, on `communities()` with the split of seed 0.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph import attacks, classifiers, purifiers
from purigraph.graph import Perturbation, attach_split

FILES = Path(__file__).parent / "files_of_0_1_0"
EXPECTED = json.loads((FILES / "expected.json").read_text())
SHORT = {"final_samples": 3}
BLOCK = {**SHORT, "epochs": 6, "fine_tune_epochs": 3, "block_size": 300}
ATTACKS = {
    "prbcd": BLOCK,
    "lrbcd": BLOCK,
    "pgd": {**SHORT, "epochs": 6},
    "evolutionary": {"population": 6, "generations": 3},
    "dice": {},
    "random-flip": {},
}


@pytest.fixture(scope="module")
def graph() -> Data:
    return attach_split(communities(), seed=0, train_per_class=5, val_per_class=8)


def test_its_purifier_purifies_as_it_did(graph: Data) -> None:
    purifier = purifiers.load(FILES / "gpr-gae")
    assert isinstance(purifier, pg.GPRGAE)
    assert purifier.is_fitted
    assert purifier.report is not None
    assert (purifier.report.epochs_run, purifier.report.settings.epochs) == (3, 3)
    torch.testing.assert_close(purifier(graph).edge_weight[:20], torch.tensor(EXPECTED["gpr-gae"]))


@pytest.mark.parametrize("name", ["appnp", "evennet", "gat", "gcn", "gprgnn", "mlp", "soft-median"])
def test_its_classifiers_classify_as_they_did(name: str, graph: Data) -> None:
    model = classifiers.load(FILES / name)
    with torch.no_grad():
        logits = model(graph.x, graph.edge_index)[:10].flatten()
    torch.testing.assert_close(logits, torch.tensor(EXPECTED[name]))


def test_its_flips_are_read() -> None:
    assert Perturbation.load(FILES / "flips.safetensors").digest == EXPECTED["flips"]


@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_find_the_same_flips(name: str, protected: bool, graph: Data) -> None:
    model = classifiers.load(FILES / "gcn")
    if protected:
        model = pg.protect(model, purifiers.load(FILES / "gpr-gae"))
    found = attacks.create(name, **ATTACKS[name])(model, graph, 12, seed=1)
    assert found.digest == EXPECTED["attacks"][f"{name} on {'protected' if protected else 'gcn'}"]
