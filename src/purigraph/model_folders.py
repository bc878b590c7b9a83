"""The folder of a saved model: its two files, and the one rename that switches from an old model to a new one.

A folder holds `config.json` and `model.safetensors`, and the former has the SHA-256 of the latter. Two files can't be
replaced at once, so a save has three steps, of which only the second changes what the folder loads as:

1. the weights are written as `.model.safetensors.<SHA-256>`, which the old `config.json` does not refer to;
2. `config.json` is replaced: the folder now is the new model, with its weights in that waiting file;
3. the waiting file is renamed to `model.safetensors`.

A reader takes the waiting file of its `config.json` if there is one, and `model.safetensors` otherwise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from purigraph.errors import ModelFileError
from purigraph.files import check_writable, locked, move, naming, read_json, remove_stale, write_bytes, write_json
from purigraph.tensor_files import tensor_bytes

T = TypeVar("T")

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"

_KEYS = {"purigraph_version", "class", "config", "dtype", "sha256"}
_WAITING = f".{WEIGHTS_FILE}."
_DIGEST = re.compile("[0-9a-f]{64}")
_ATTEMPTS = 5


def save_model(
    folder: Path, document: Mapping[str, Any], state: Mapping[str, Tensor], training: Mapping[str, Any] | None
) -> None:
    """Write a model, switching from the old one by one rename; see this module's description.

    Args:
        folder: The folder; created if needed.
        document: The contents of `config.json` without the hash.
        state: The weights by name.
        training: What `config.json` says about the origin of the weights, if anything.
    """
    parts = tensor_bytes(state)
    digest = hashlib.sha256(b"".join(parts)).hexdigest()
    whole = {**document, "sha256": digest, **({} if training is None else {"training": training})}
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    weights, config, waiting = folder / WEIGHTS_FILE, folder / CONFIG_FILE, folder / f"{_WAITING}{digest}"
    with locked(folder):
        for path in (weights, config):
            check_writable(path)
        _settle(folder)
        try:
            write_bytes(waiting, *parts)
            write_json(config, whole)
        except BaseException:  # also a signal, which may come just after the switch
            _settle(folder)
            raise
        if waiting.exists():  # without a working lock, another process may have saved the same weights
            move(waiting, weights)


def check_folder(folder: Path, identity: str) -> None:
    """Raise `ModelFileError` if saving a model to a folder would overwrite what is not a model of the same kind.

    Args:
        folder: The folder, which need not exist.
        identity: What `class` would be in `config.json`, such as `classifier/gcn`; or only the kind, `classifier`.
    """
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file: a model is saved to a folder.")
    config = folder / CONFIG_FILE
    if not config.is_symlink() and not config.exists():
        if (folder / WEIGHTS_FILE).exists():
            raise ModelFileError(
                f"{folder / WEIGHTS_FILE} would be overwritten, and without a {CONFIG_FILE} it is not a model of "
                "purigraph: save to another folder, or delete it."
            )
        return
    try:
        found = str(read_document(folder)["class"])
    except ModelFileError as error:
        raise ModelFileError(f"{error} It would be overwritten: save to another folder, or delete it.") from None
    if found.partition("/")[0] != identity.partition("/")[0]:
        raise ModelFileError(
            f"{folder} holds a {found}, which a {identity} would overwrite: save to another folder, or delete it."
        )


def read_document(folder: str | Path) -> dict[str, Any]:
    """Read and check the `config.json` of a saved model (see `Pretrained` for its contents)."""
    path = Path(folder) / CONFIG_FILE
    document = read_json(path)
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} is not a JSON object: it was not written by purigraph.")
    missing = sorted(_KEYS - document.keys())
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(missing)}: it was not written by purigraph.")
    if not isinstance(document["class"], str) or not isinstance(document["config"], dict):
        raise ModelFileError(
            f"{path} is damaged or foreign: 'class' must be a string and 'config' an object, not "
            f"{type(document['class']).__name__} and {type(document['config']).__name__}."
        )
    training = document.get("training")
    if training is not None and not isinstance(training, dict):
        raise ModelFileError(
            f"{path} is damaged or foreign: 'training' must be an object, not {type(training).__name__}."
        )
    return document


def weights_path(folder: Path, document: Mapping[str, Any]) -> Path:
    """Return the file with the weights that belong to a `config.json`."""
    digest = document["sha256"]
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        waiting = folder / f"{_WAITING}{digest}"
        if waiting.is_file():
            return waiting
    return folder / WEIGHTS_FILE


def consistent(folder: Path, load: Callable[[], T]) -> T:
    """Load from a folder, and again if it failed because another process saved a model there at the same time.

    Reading needs no lock, but processes that save without a pause could overtake it for ever: after a few attempts it
    makes them wait.
    """
    for _ in range(_ATTEMPTS):
        before = _signature(folder)
        try:
            return load()
        except ModelFileError:
            if _signature(folder) == before:
                raise
    with locked(folder):
        return load()


def _settle(folder: Path) -> None:
    """Complete the save of a killed process, or remove what it left."""
    remove_stale(folder, f".{_WAITING}")
    current = None
    with suppress(ModelFileError):
        current = weights_path(folder, read_document(folder))
    for left in list(folder.glob(f"{_WAITING}*")):
        if not _DIGEST.fullmatch(left.name[len(_WAITING) :]):
            continue  # the temporary file of a running process, or not ours
        if left == current:
            move(left, folder / WEIGHTS_FILE)
        else:
            left.unlink(missing_ok=True)


def _signature(folder: Path) -> list[tuple[int, int] | None]:
    """Return what changes whenever a file of the model is replaced."""
    return [_file_signature(folder / name) for name in (CONFIG_FILE, WEIGHTS_FILE)]


def _file_signature(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
