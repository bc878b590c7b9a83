from __future__ import annotations

import pytest
import torch

from cli.command_runs import SMALL, Workshop, invoke
from helpers import communities
from purigraph.graph.npz import save_npz


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    folder = tmp_path_factory.mktemp("workshop")
    names = {name: folder / f"{name}.npz" for name in ("graph", "bare", "untested", "splits")}
    models = {name: folder / name for name in ("gcn", "seeded", "purifier")}
    data, role = communities(num_nodes=150), torch.arange(150) % 5
    save_npz(data, names["bare"])
    data.train_mask, data.val_mask, data.test_mask = role == 0, role == 1, role == 2
    save_npz(data, names["graph"])
    data.test_mask = torch.zeros(150, dtype=torch.bool)
    save_npz(data, names["untested"])
    data.train_mask, data.val_mask = (torch.stack([role == k, role == k + 1], dim=1) for k in (0, 1))
    data.test_mask = torch.stack([torch.zeros_like(role, dtype=torch.bool), role == 4], dim=1)
    save_npz(data, names["splits"])
    invoke("train", names["graph"], "-o", models["gcn"], "--set", "epochs=10", "--json")
    invoke("train", "synthetic-citation", "-o", models["seeded"], "--seed", 3, "--set", "epochs=2", "--json")
    invoke("fit", names["graph"], "-o", models["purifier"], "--epochs", 2, *SMALL, "--json")
    return Workshop(**names, **models)
