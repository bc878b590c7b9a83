"""The store: finished and failed cells, locks on those that are being run, and cached models, in one folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from purigraph.errors import ModelFileError
from purigraph.files import read_json, write_json
from purigraph.runs.artefacts import Artefact
from purigraph.runs.cell import Cell, digest

#: The environment variable that names the store's folder.
ENVIRONMENT = "PURIGRAPH_RUNS"

State = Literal["open", "claimed", "finished", "failed"]


class Store:
    """A folder of results, named by their configurations' hashes.

    Several processes may use one store at a time, also on several machines if the file system that they share has
    locks. Files are written atomically, so that a process that is killed leaves nothing half-written, and locks end
    with the process that holds them.

    Args:
        root: The folder; made when something is written.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser().absolute()

    def state(self, cell: Cell) -> State:
        """Return whether a cell is finished, has failed, is being run by some process ("claimed"), or is open."""
        if self._path("cells", cell.key).exists():
            return "finished"
        with self.claim(cell) as mine:
            if not mine:
                return "claimed"
        return "failed" if self._path("failed", cell.key).exists() else "open"

    def record(self, cell: Cell) -> dict[str, Any] | None:
        """Return what was kept of a finished cell: key, kind, config, result and stamp; None if it is not finished."""
        return _read(self._path("cells", cell.key))

    def failure(self, cell: Cell, attempt: str | None = None) -> str | None:
        """Return why a cell failed when it was last tried, or in a certain attempt; None if it did not."""
        found = _read(self._path("failed", cell.key))
        if found is None or (attempt is not None and found.get("attempt") != attempt):
            return None
        return str(found["error"])

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Try to claim a cell for this process, without waiting; yield whether that worked."""
        path = self.root / "claims" / f"{cell.key}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def finish(self, cell: Cell, result: Mapping[str, Any], stamp: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the result of a cell, and remove what it had kept to resume from."""
        record = {
            "key": cell.key,
            "kind": cell.kind,
            "config": dict(cell.config),
            "result": dict(result),
            "stamp": dict(stamp),
        }
        self.keep(record)
        self._path("failed", cell.key).unlink(missing_ok=True)
        shutil.rmtree(self.folder(cell), ignore_errors=True)
        return record

    def keep(self, record: Mapping[str, Any]) -> None:
        """Write the record of a finished cell, for example one that another machine has sent."""
        write_json(self._path("cells", record["key"]), record)

    def fail(self, cell: Cell, error: str, attempt: str = "") -> None:
        """Keep why a cell failed. It can be tried again, by another attempt."""
        write_json(self._path("failed", cell.key), {"key": cell.key, "error": error, "attempt": attempt})

    def folder(self, cell: Cell) -> Path:
        """Return the folder in which a cell may keep its state while it runs."""
        return self.root / "work" / cell.key

    def artefact(self, kind: str, config: Mapping[str, Any]) -> Artefact:
        """Return the place of something that cells share, such as a trained model, by its configuration."""
        return Artefact(self.root / kind / digest({"kind": kind, "config": config}), config)

    def _path(self, state: str, key: str) -> Path:
        return self.root / state / key[:2] / f"{key}.json"


@dataclass(frozen=True)
class Context:
    """What a cell's function gets beside its configuration.

    Attributes:
        store: For artefacts that are shared with other cells.
        folder: For the cell's own checkpoints; removed when it is finished.
        progress: As everywhere: see `purigraph.progress`.
    """

    store: Store
    folder: Path
    progress: bool | None = None


def default_store() -> Store:
    """Return the store in the folder that `PURIGRAPH_RUNS` names, by default in the user's cache."""
    named = os.environ.get(ENVIRONMENT)
    return Store(named if named else user_cache_path("purigraph") / "runs")


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: Any = read_json(path)
    if not isinstance(found, dict) or "key" not in found:
        raise ModelFileError(f"{path} is not a record of a run: delete it to run the cell again.")
    return found
