from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from attacks.attack_scenes import TinyGCN, train, two_communities


@pytest.fixture(scope="session")
def toy_data() -> Data:
    return two_communities(60, seed=1)


@pytest.fixture(scope="session")
def toy_model(toy_data: Data) -> TinyGCN:
    return train(toy_data)


@pytest.fixture(scope="session")
def tiny_data() -> Data:
    return two_communities(8, seed=3, dtype=torch.float64)


@pytest.fixture(scope="session")
def tiny_model(tiny_data: Data) -> TinyGCN:
    return train(tiny_data)
