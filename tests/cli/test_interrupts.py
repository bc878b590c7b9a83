from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.command_runs import Workshop
from purigraph.attacks import Attack
from purigraph.cli import app
from purigraph.purifiers import GPRGAE


def interrupted(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 130
    assert result.stdout == ""
    return result


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        (None, "purigraph: interrupted.\n"),
        (False, "purigraph: interrupted. Nothing was saved in {} yet: the same command starts again.\n"),
        (True, "purigraph: interrupted. The same command resumes from {}.\n"),
    ],
)
def test_an_interrupt_is_one_line(
    kept: bool | None, line: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"

    def fit(*_: object, **__: object) -> None:
        if kept:
            state.mkdir()
            (state / "fit.safetensors").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(GPRGAE, "fit", fit)
    checkpoint = [] if kept is None else ["--checkpoint", state]
    result = interrupted("fit", workshop.graph, "-o", tmp_path / "m", "--preset", "paper", *checkpoint)
    assert result.stderr == line.format(state)


def test_what_an_evaluation_kept_is_named(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attack(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Attack, "__call__", attack)
    arguments = ["evaluate", workshop.graph, "-c", workshop.gcn, "--checkpoint", tmp_path]
    assert "starts again" in interrupted(*arguments).stderr
    (tmp_path / "prbcd.checkpoint").touch()
    assert f"resumes from {tmp_path}" in interrupted(*arguments).stderr
