"""What every rank of a run is told: a JSON file that all of them read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from purigraph import errors
from purigraph.errors import InputError, PurigraphError, RankLostError
from purigraph.files import read_json, write_json


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        task: What to do, "purify" or "fit".
        folder: The folder of the run; on a cluster, all machines see it.
        arguments: The arguments of the task, as JSON values.
        threads: The number of threads of every rank.
        timeout: The number of seconds after which a rank is given up.
    """

    task: str
    folder: str
    arguments: dict[str, Any] = field(default_factory=dict)
    threads: int = 1
    timeout: float = 600.0

    @property
    def path(self) -> Path:
        """Return the file of the job."""
        return Path(self.folder) / "job.json"

    def save(self) -> Path:
        """Write the job for its ranks, without the failures of earlier ones."""
        for path in self._failures():
            path.unlink(missing_ok=True)
        write_json(self.path, asdict(self))
        return self.path

    @classmethod
    def load(cls, path: str | Path) -> Job:
        """Read a job that `save` has written."""
        document = read_json(path)
        try:
            return cls(**document)
        except TypeError as error:
            raise InputError(f"{path} is not the job of a distributed run: {error}.") from None

    def record_failure(self, rank: int, error: BaseException) -> None:
        """Keep what went wrong on a rank, for the process that has started it."""
        message = str(error) if isinstance(error, PurigraphError) else f"{type(error).__name__}: {error}"
        record = {"rank": rank, "kind": type(error).__name__, "message": message}
        write_json(Path(self.folder) / f"failure-{rank:05}.json", record)

    def failure(self, lost: str) -> PurigraphError:
        """Return the error to raise after a run has failed.

        Args:
            lost: What the engine knows, if no rank has said what was wrong: that one was killed, for example.
        """
        found = [read_json(path) for path in self._failures()]
        # A rank that lost its connection is a consequence of what happened to another one.
        causes = [one for one in found if one["kind"] != RankLostError.__name__]
        if not causes:
            return RankLostError(
                f"{lost} The other ranks were stopped. Start the same command again; it resumes after the last "
                "finished step."
            )
        kind = getattr(errors, causes[0]["kind"], None)
        if isinstance(kind, type) and issubclass(kind, PurigraphError):
            return kind(causes[0]["message"])
        return RankLostError(f"Rank {causes[0]['rank']} failed: {causes[0]['message']}")

    def clear(self) -> None:
        """Remove the files of the job, when it has succeeded."""
        for path in (self.path, *self._failures()):
            path.unlink(missing_ok=True)

    def _failures(self) -> list[Path]:
        return sorted(Path(self.folder).glob("failure-*.json"))
