"""Fixtures for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities, community_models
from purigraph.graph import InductiveSplit

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("default")


@pytest.fixture
def data() -> Data:
    return communities()


@pytest.fixture(scope="session")
def trained() -> pg.GPRGAE:
    """A small purifier that was trained for a moment."""
    return pg.GPRGAE(hops=3, node_channels=8, edge_channels=16).fit(communities(), epochs=30, seed=0)


@pytest.fixture(scope="session")
def models() -> tuple[InductiveSplit, pg.classifiers.Classifier]:
    """A small split and a GCN that was trained on it."""
    return community_models()


@pytest.fixture(scope="session")
def split(models: tuple[InductiveSplit, pg.classifiers.Classifier]) -> InductiveSplit:
    return models[0]


@pytest.fixture(scope="session")
def gcn(models: tuple[InductiveSplit, pg.classifiers.Classifier]) -> pg.classifiers.Classifier:
    return models[1]
