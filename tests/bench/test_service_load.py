"""The load test of the service, cut short: what it counts must add up, whatever the machine."""

from __future__ import annotations

import pytest

from purigraph.bench.service_load import CLIENTS, measure


def test_every_request_is_answered_once_and_right() -> None:
    pytest.importorskip("uvicorn")
    result = measure("synthetic-citation", seconds=0.3)
    for name in ("one_client", "held", "ten_times", "ten_times_and_rubbish", "after"):
        figures = result[name]
        assert (figures["wrong"], figures["lost"]) == (0, 0), name
        assert sum(figures["answers"].values()) == figures["asked"] > 0
        assert set(figures["answers"]) <= {"200", "429"}
    assert result["stop"]["asked"] == result["stop"]["answered"] == CLIENTS
    assert result["stopped"]
    assert result["exit_code"] == 0
