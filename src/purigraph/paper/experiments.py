"""Experiments as YAML files: what they look like, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from purigraph.errors import InputError, UnknownNameError
from purigraph.registry import canonical

Form = Literal["published", "exact"]

#: A published number: a mean, a mean and its standard deviation, or null where nothing was published.
Number = float | tuple[float, float] | None


class Published(NamedTuple):
    """A published mean, and its standard deviation where one was printed."""

    mean: float
    std: float | None = None


class Part(BaseModel):
    """A row or a column: a fragment of its cells' configuration.

    Attributes:
        config: The fragment; see the configuration of the experiment's `cell`.
        seeds: The seeds of the `paper` profile, if they are not the experiment's.
        note: What to say about it below the table.
        only: For a row, the columns that it has; None for all. For a column, the rows.
        cell: For a row, the kind of its cells, if it is not the experiment's.
        forms: For a row, the forms of its attacks, if they are not the experiment's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: dict[str, Any] = Field(default_factory=dict)
    seeds: list[int] | None = None
    note: str = ""
    only: list[str] | None = None
    cell: str | None = None
    forms: list[Form] | None = None


class Trial(BaseModel):
    """What the `smoke` profile runs of an experiment; None for everything."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: list[str] | None = None
    columns: list[str] | None = None


class Figure(BaseModel):
    """How an experiment is drawn.

    Attributes:
        kind: A function of `purigraph.paper.figures`.
        options: Its arguments.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    options: dict[str, Any] = Field(default_factory=dict)


class Experiment(BaseModel):
    """An experiment: a grid of cells and the published numbers.

    Attributes:
        name: Its name, that of the file.
        title: What it shows, in one line.
        source: Where it is in the paper; empty for one of our own.
        cell: The kind of its cells, one of `purigraph.paper.cells.KINDS`.
        unit: What the numbers are.
        scale: What measured values are multiplied by to get that unit.
        digits: Decimals to print.
        config: The fragment of configuration that all cells have.
        rows: The rows by name.
        columns: The columns by name.
        forms: The forms of its attacks, `published`, `exact` or both (`purigraph.paper.forms`); none if it has no
            attacks.
        seeds: The seeds of the `paper` profile; the others run the first.
        smoke: What the `smoke` profile runs.
        published: The published numbers by row and column.
        notes: What to say below the table.
        figure: How it is drawn, if it is.
        table: Whether the page of results has its table; a figure alone says more where there are many numbers.
        costs: Whether the page has the time and the memory of each row.
        beside: The experiment whose worst cases the page shows beside its attacks, if any.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    source: str = ""
    cell: str
    unit: str = "accuracy (%)"
    scale: float = 100.0
    digits: int = 1
    config: dict[str, Any] = Field(default_factory=dict)
    rows: dict[str, Part]
    columns: dict[str, Part] = Field(default_factory=lambda: {"": Part()})
    forms: list[Form] = Field(default_factory=list)
    seeds: list[int] = Field(default_factory=lambda: [0])
    smoke: Trial = Trial()
    published: dict[str, dict[str, Number]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    figure: Figure | None = None
    table: bool = True
    costs: bool = False
    beside: str | None = None

    @field_validator("rows", "columns", mode="before")
    @classmethod
    def _fragments(cls, value: Any) -> Any:
        """Read `name: {dataset: cora}` as a part with that configuration."""
        if not isinstance(value, Mapping):
            return value
        return {str(name): _as_part(fragment) for name, fragment in value.items()}

    def published_number(self, row: str, column: str) -> Published | None:
        """Return the published number of a cell, or None."""
        value = self.published.get(row, {}).get(column)
        if value is None:
            return None
        return Published(*value) if isinstance(value, tuple) else Published(value)


def _as_part(fragment: Any) -> Any:
    about = ("seeds", "note", "only", "cell", "forms")
    if fragment is None:
        return {}
    if not isinstance(fragment, Mapping) or "config" in fragment:
        return fragment
    own = {key: fragment[key] for key in about if key in fragment}
    return {"config": {key: value for key, value in fragment.items() if key not in about}, **own}


def names() -> list[str]:
    """Return the names of all experiments, sorted."""
    return sorted(path.name.removesuffix(".yaml") for path in _folder().iterdir() if path.name.endswith(".yaml"))


@cache
def load(name: str) -> Experiment:
    """Read an experiment.

    Raises:
        UnknownNameError: If there is none of this name; the message lists the names.
        InputError: If its file is malformed.
    """
    key = canonical(name)
    if key not in names():
        raise UnknownNameError(f"There is no experiment named {name!r}. Choose one of: {', '.join(names())}.")
    document = {"name": key, **read_yaml(_folder() / f"{key}.yaml")}
    rows_from = document.pop("rows_from", None)
    if rows_from is not None:
        document["rows"] = {**rows_of(_folder() / rows_from), **document.get("rows", {})}
    return read_experiment(document, f"{key}.yaml")


def read_experiment(document: Mapping[str, Any], where: str) -> Experiment:
    """Check a document; the error names where it is and what is wrong with it."""
    try:
        return Experiment(**document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise InputError(f"{where}: {place} is not valid: {first['msg']}.") from None


def rows_of(folder: Any) -> dict[str, Any]:
    """Return the rows that the files of a folder describe, one each, in the order of the files' names."""
    rows = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            name, part = read_row(path)
            rows[name] = part
    return rows


def read_row(path: Any) -> tuple[str, dict[str, Any]]:
    """Read a row from a file of its own: its `name`, and its configuration."""
    document = read_yaml(path)
    if not isinstance(document.get("name"), str):
        raise InputError(f"{path}: a row needs a name.")
    return document["name"], {key: value for key, value in document.items() if key != "name"}


def read_yaml(path: Any) -> dict[str, Any]:
    """Read a YAML file that holds a mapping."""
    try:
        import yaml
    except ImportError:
        raise InputError("Experiments are YAML files: pip install 'purigraph[paper]'.") from None
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read as YAML: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path} does not hold a mapping.")
    return document


def _folder() -> Any:
    return files("purigraph.paper")


def add_row(experiment: Experiment, path: Path) -> Experiment:
    """Return the experiment with one more row, from a file of the caller's."""
    name, fragment = read_row(path)
    document = experiment.model_dump()
    return read_experiment({**document, "rows": {**document["rows"], name: _as_part(fragment)}}, str(path))
