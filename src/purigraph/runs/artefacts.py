"""What cells share: trained models and the perturbations found on them, made once by whoever needs them first."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from purigraph.files import read_json, write_json


@dataclass(frozen=True)
class Artefact:
    """A folder named by the hash of the configuration that its contents follow from.

    Attributes:
        folder: Where it is.
        config: Its configuration, for people who look into the folder.
    """

    folder: Path
    config: Mapping[str, Any]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the artefact; wait for the process that holds it, as that one is making what this one needs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder.with_name(f"{self.folder.name}.lock"), poll_interval=0.5):
            yield

    def made(self, make: Callable[[Path, Path], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the record of the artefact, after making it if it is not there.

        Args:
            make: Called with the folder to write to and with one for checkpoints, from which a second call resumes
                after an interruption. Returns facts for the record.
        """
        path = self.folder / "record.json"
        with self.locked():
            if not path.exists():
                checkpoint = self.folder / "checkpoint"
                facts = make(self.folder, checkpoint)
                # Written last: a folder without it was interrupted.
                write_json(path, {"config": dict(self.config), **facts})
                shutil.rmtree(checkpoint, ignore_errors=True)
        record: dict[str, Any] = read_json(path)
        return record
