"""The page of the public API, and the settings that `--help` lists, are those of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import purigraph as pg
from purigraph.cli import setting_lists

SCRIPT = Path(__file__).parent.parent / "docs" / "make_api_page.py"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_api_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.page()
    assert module.PAGE.read_text() == text, "The public API has changed: run `make api` and look at the difference."
    for name in pg.__all__:
        if not name.startswith("_") and name not in ("attacks", "classifiers", "datasets", "evaluation", "graph"):
            assert name in text


def test_the_settings_in_the_help_are_up_to_date() -> None:
    found = setting_lists.read()
    assert found == setting_lists.collect(), "Settings have changed: run `make api`."
    text = setting_lists.settings_help(["attack"])
    assert "prbcd: loss='tanh-margin', epochs=400" in text
