"""Cells for the tests of the store and of the engines; other processes import them from here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from purigraph.errors import InputError
from purigraph.runs import Cell, Context


def cell(function: str, **config: Any) -> Cell:
    return Cell(function, f"trial_cells:{function}", config, label=function)


def square(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Squares a number, and leaves a mark for every time that it was run."""
    if "marks" in config:
        with open(Path(config["marks"]) / str(config["number"]), "a") as file:
            file.write("x")
    time.sleep(config.get("seconds", 0))
    return {"value": config["number"] ** 2}


def refuse(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Fails unless a file exists."""
    if not Path(config["unless"]).exists():
        raise InputError("the file is missing")
    return {"value": 1}


def die(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Kills its own process the first time, or every time."""
    context.folder.mkdir(parents=True, exist_ok=True)
    mark = context.folder / "was-here"
    if config.get("always") or not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": "survived"}


def shared(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """Uses an artefact that all cells of this kind share, and says who made it."""

    def make(folder: Path, checkpoint: Path) -> Mapping[str, Any]:
        time.sleep(0.5)
        (folder / f"made-by-{config['number']}").touch()
        return {"maker": config["number"]}

    place = context.store.artefact("models", {"trained": "once"})
    return {"maker": place.made(make)["maker"], "files": len(list(place.folder.glob("made-by-*")))}
