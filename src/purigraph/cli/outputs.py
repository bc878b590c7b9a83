"""Outputs of commands: paths are checked before the work, and JSON is always printed in the same format."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import typer

from purigraph.cli.inputs import GRAPH_SUFFIXES, is_file
from purigraph.errors import InputError, ModelFileError, OutputError
from purigraph.files import check_writable, json_text, read_json

_MODEL_FILES = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class Kind:
    """What a command writes to a file; an existing file is only overwritten if it is of the same kind.

    Attributes:
        name: What to call it, for the message.
        holds: Whether an existing file is of this kind, by its contents.
    """

    name: str
    holds: Callable[[Path], bool]


def _holds_flips(path: Path) -> bool:
    from purigraph.tensor_files import read_header  # imports PyTorch: only for those who attack

    return read_header(path).metadata.get("format", "").startswith("purigraph.perturbation/")


def _holds_graph(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "edges.npy" in archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return False


def _holds_receipt(path: Path) -> bool:
    document = read_json(path)
    return isinstance(document, dict) and str(document.get("format")).startswith("purigraph.receipt/")


def _holds_page(path: Path) -> bool:
    with open(path, "rb") as file:
        return b'<meta name="generator" content="purigraph' in file.read(1 << 12)


def _has_receipt(path: Path) -> bool:
    """Whether a file was written by `purify`: its receipt is beside it."""
    return _holds_receipt(path.with_name(path.name + ".receipt.json"))


FLIPS = Kind("a file of flips", _holds_flips)
GRAPH_FILE = Kind("a graph file", _holds_graph)
PURIFIED = Kind("a file of `purigraph purify` with its receipt", _has_receipt)
RECEIPT = Kind("a receipt of `purigraph purify`", _holds_receipt)
PAGE = Kind("a page of purigraph", _holds_page)


def output_kind(graph: str) -> tuple[str, Kind]:
    """Return how the name of a purified graph must end, and what it may overwrite: its format is that of the graph."""
    suffix = Path(graph).suffix.lower()
    if not is_file(graph) or suffix not in GRAPH_SUFFIXES:
        return ".npz", GRAPH_FILE
    return suffix, GRAPH_FILE if suffix == ".npz" else PURIFIED


def report(command: str, *keys: str) -> Kind:
    """Return the kind of the JSON that a command writes: an object with these keys, among others."""

    def holds(path: Path) -> bool:
        document = read_json(path)
        return isinstance(document, dict) and document.keys() >= set(keys)

    return Kind(f"the JSON of `purigraph {command}`", holds)


def check_output(
    path: Path | None,
    option: str,
    *,
    folder: bool = False,
    suffix: str | None = None,
    apart_from: Iterable[str | Path | None] = (),
    kind: Kind | None = None,
    model: str | None = None,
) -> None:
    """Raise `InputError` for a path that can't be written or should not be overwritten.

    Commands call this first: their work may take hours and should not be lost because of a path.

    Args:
        path: The path as given; None if the option was not given.
        option: The name of the option, for the message.
        folder: Whether a folder is written, not a file.
        suffix: The required ending of a file name.
        apart_from: Other paths that the command reads or writes; of a model's folder also its files.
        kind: What is written to a file. Default: any regular file may be overwritten.
        model: The kind of model that is written to a folder. Default: none.
    """
    if path is None:
        return
    if suffix is not None and path.suffix.lower() != suffix:
        raise InputError(f"{option} {path}: the name must end in {suffix}, the format that is written.")
    if folder and path.exists() and not path.is_dir():
        raise InputError(f"{option} {path} is a file: pass a folder.")
    if not folder and path.is_dir():
        raise InputError(f"{option} {path} is a folder: pass the name of a file.")
    _check_apart(path, option, apart_from, writes_model=model is not None)
    place = path if folder else Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{option} {path} can't be written: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK | os.X_OK) and (folder or not path.exists() or path.is_file()):
        raise InputError(f"{option} {path} can't be written: there is no permission to write in {place}.")
    try:
        if model is not None:
            _check_model_folder(path, model)
        elif not folder:
            check_writable(path)
            _check_kind(path, option, kind)
    except (OutputError, ModelFileError) as error:
        raise InputError(f"{option}: {error}") from None


def keep_result(save: Callable[[Path], None], path: Path) -> None:
    """Save the result of long work; if that fails, save it in the folder for temporary files and say so.

    Raises:
        OutputError: If `path` can't be written; the message also says where the result is now.
    """
    try:
        save(path)
    except OutputError as error:
        try:
            place = Path(tempfile.mkdtemp(prefix="purigraph-")) / path.name
            save(place)
        except OSError:
            raise error from None
        raise OutputError(f"{error} The result was saved as {place} instead.") from None


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json_text(value))


def _check_apart(path: Path, option: str, others: Iterable[str | Path | None], *, writes_model: bool) -> None:
    written = {os.path.realpath(one) for one in (path, *_model_files(path, writes_model))}
    for other in others:
        if other is None or str(other).startswith("hf://"):
            continue
        used = {os.path.realpath(one) for one in (other, *_model_files(Path(other), Path(other).is_dir()))}
        if written & used:
            raise InputError(f"{option} {path} is also another argument of this command: pass another name.")


def _model_files(folder: Path, is_model: bool) -> list[Path]:
    return [folder / name for name in _MODEL_FILES] if is_model else []


def _check_model_folder(folder: Path, model: str) -> None:
    from purigraph.model_folders import check_folder

    check_folder(folder, model)
    for path in _model_files(folder, True):
        check_writable(path)


def _check_kind(path: Path, option: str, kind: Kind | None) -> None:
    """Raise `InputError` if a file with contents would be overwritten that is not of the kind."""
    if kind is None or not path.is_file() or path.stat().st_size == 0:
        return
    try:
        fits = kind.holds(path)
    except (ModelFileError, OSError):
        fits = False
    if not fits:
        raise InputError(
            f"{option} {path} exists and is not {kind.name}, so it is not overwritten: pass another name, or delete it."
        )
