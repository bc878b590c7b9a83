"""From an experiment to its cells, and from finished cells to the lines of its file of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from purigraph.errors import DatasetError, InputError
from purigraph.paper.cells import cell_module
from purigraph.paper.experiments import Experiment, Part
from purigraph.paper.profiles import Profile, profile_named
from purigraph.paper.specs import merged
from purigraph.runs import Cell, Store, protocols, read_results, write_results

#: The keys that say where in an experiment a line of results belongs.
PLACE = ("profile", "row", "column", "form", "seed")


@dataclass(frozen=True)
class Planned:
    """A cell and its place in an experiment.

    Attributes:
        row: The name of its row.
        column: The name of its column.
        form: The form of its attack, if it has one.
        seed: Its seed.
        profile: The name of its profile.
        cell: The cell; None if it can't be run here.
        skipped: Why not.
    """

    row: str
    column: str
    form: str | None
    seed: int
    profile: str
    cell: Cell | None
    skipped: str = ""

    @property
    def label(self) -> str:
        """Return how to call it in reports."""
        parts = [self.row, self.column, self.form or "", f"seed {self.seed}"]
        return ", ".join(part for part in parts if part)


def plan(
    experiment: Experiment,
    *,
    profile: str = "paper",
    seeds: Sequence[int] | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    forms: Sequence[str] = (),
) -> list[Planned]:
    """Return the cells of an experiment; those of one row that differ in their seeds come one after the other.

    Args:
        experiment: The experiment.
        profile: "paper", "quick" or "smoke".
        seeds: The seeds. Default: those of the experiment, the first of them for other profiles than `paper`.
        rows: Patterns of row names, such as "GCN*"; case does not matter. Default: all.
        columns: Patterns of column names. Default: all.
        forms: The forms. Default: all.

    Raises:
        InputError: If nothing matches, or if a cell's configuration is not valid; the message says where.
    """
    chosen = profile_named(profile)
    planned: list[Planned] = []
    missing: dict[str, str] = {}
    for row, column, form in _grid(experiment, chosen, rows, columns, forms):
        own = _seeds(experiment, row, column)
        used = seeds if seeds is not None else own if chosen.name == "paper" else own[:1]
        planned += [_planned(experiment, row, column, form, seed, chosen, missing) for seed in used]
    if not planned:
        raise InputError(
            f"Nothing of {experiment.name} matches. Its rows: {', '.join(experiment.rows)}; its columns: "
            f"{', '.join(filter(None, experiment.columns)) or 'one'}."
        )
    return _once(planned)


def export(experiment: Experiment, planned: Sequence[Planned], store: Store, folder: str | Path) -> Path:
    """Write the finished cells into the experiment's file of results in a folder, and return its path.

    Every line has the place of its cell, its key, configuration and result, the versions that it was made with, and the
    command that makes it again.
    """
    path = Path(folder) / f"{experiment.name}.jsonl"
    lines = []
    for one in planned:
        record = None if one.cell is None else store.record(one.cell)
        if record is not None:
            place = {key: getattr(one, key) for key in PLACE}
            lines.append({**place, "command": command(experiment, one), **record})
    write_results(path, lines, place=PLACE)
    return path


def exported(experiment: Experiment, planned: Sequence[Planned], folder: str | Path) -> list[Planned]:
    """Return the cells whose results are in a folder, made by this or another machine in the same configuration."""
    lines = read_results(Path(folder) / f"{experiment.name}.jsonl")
    there = {(line.get("key"), *(line.get(key) for key in PLACE)) for line in lines}
    return [
        one
        for one in planned
        if one.cell is not None and (one.cell.key, *(getattr(one, key) for key in PLACE)) in there
    ]


def command(experiment: Experiment, one: Planned) -> str:
    """Return the command that runs one cell."""
    parts = [f"purigraph paper run {experiment.name}", f"--profile {one.profile}", f'--rows "{one.row}"']
    parts += [f'--columns "{one.column}"'] if one.column else []
    parts += [f"--form {one.form}"] if one.form else []
    return " ".join([*parts, f"--seeds {one.seed}"])


def _grid(
    experiment: Experiment,
    profile: Profile,
    rows: Sequence[str],
    columns: Sequence[str],
    forms: Sequence[str],
) -> Iterator[tuple[str, str, str | None]]:
    trial = experiment.smoke if profile.trial else None
    for row, row_part in experiment.rows.items():
        if not _matches(row, rows) or (not rows and trial is not None and not _among(row, trial.rows)):
            continue
        for column, column_part in experiment.columns.items():
            if not _matches(column, columns) or not _among(column, row_part.only) or not _among(row, column_part.only):
                continue
            if not columns and trial is not None and not _among(column, trial.columns):
                continue
            own = experiment.forms if row_part.forms is None else row_part.forms
            for form in own or (None,):
                if form is None or not forms or form in forms:
                    yield row, column, form


def _seeds(experiment: Experiment, row: str, column: str) -> Sequence[int]:
    """Return the seeds of a row in a column: those that both have, where both name some."""
    of_row, of_column = experiment.rows[row].seeds, experiment.columns[column].seeds
    if of_row and of_column:
        return [seed for seed in of_column if seed in of_row]
    return of_column or of_row or experiment.seeds


def _among(name: str, chosen: Sequence[str] | None) -> bool:
    return chosen is None or name in chosen


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def _planned(
    experiment: Experiment,
    row: str,
    column: str,
    form: str | None,
    seed: int,
    profile: Profile,
    missing: dict[str, str],
) -> Planned:
    """Return a planned cell; why a dataset is not there is noted in `missing`, so that it is asked for only once."""
    from purigraph.paper.models import split_hash

    where = f"{experiment.name}, row {row!r}" + (f", column {column!r}" if column else "")
    parts: list[Part] = [experiment.rows[row], experiment.columns[column]]
    values = merged(experiment.config, *(part.config for part in parts))
    values = {**values, "seed": seed, "form": form, "profile": profile.name}
    kind = experiment.rows[row].cell or experiment.cell
    module = cell_module(kind)
    if "dataset" in values:
        values["dataset"] = profile.dataset(values["dataset"])
    config = module.Config.read(values, where).resolved(profile)
    try:
        split = "" if config.dataset in missing else split_hash(config.dataset, seed)
    except DatasetError as error:
        missing[config.dataset] = str(error)
    if config.dataset in missing:
        return Planned(row, column, config.form, seed, profile.name, None, missing[config.dataset])
    config = config.model_copy(update={"split": split, "protocols": protocols(config.components())})
    place = Planned(row, column, config.form, seed, profile.name, None)
    # The dataset's own seed and profile stand in the configuration also where they are the defaults.
    document: Mapping[str, Any] = {**config.to_config(), "seed": seed, "profile": profile.name}
    cell = Cell(kind, f"{module.__name__}:measure", document, place.label)
    return Planned(row, column, config.form, seed, profile.name, cell)


def _once(planned: Sequence[Planned]) -> list[Planned]:
    """Leave out repetitions: a clean accuracy is the same in both forms."""
    return list({tuple(getattr(one, key) for key in PLACE): one for one in planned}.values())
