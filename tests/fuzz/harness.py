"""Judges one case: a result or an error that purigraph raises on purpose, in bounded time and memory, and nothing else.

A case is made from a seed alone, in a folder of its own that holds copies of good files (see `workshop`). It fails if

- it ends in any exception but a `PurigraphError` (a command: in any exit code but 0 and 2, or in a traceback);
- it takes more than `SECONDS`, or the process grows by more than `BYTES`;
- it changes files that are not its outputs, or leaves any file behind after an error, or a `.part` file ever;
- it gives a result that is none (see `WrongResult`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal

from purigraph import cli
from purigraph.errors import PurigraphError

SECONDS = 10.0
BYTES = 2 << 30

# Where there is a file system in memory, a case's own folder is there.
FAST = "/dev/shm"

Outcome = Literal["result", "refused", "failed"]


class WrongResult(AssertionError):
    """A case was accepted, but what came of it can't be right."""


class OutOfTime(BaseException):
    """Not an `Exception`: nobody may catch it in passing."""


@dataclass
class Case:
    """What is tried.

    Attributes:
        description: In one line, for the report of a failure.
        act: Does it; raises what it raises.
        outputs: What it may write if it succeeds.
        keeps: What it may change even if it fails: the folder of its checkpoints.
    """

    description: str
    act: Callable[[], object]
    outputs: list[Path] = field(default_factory=list)
    keeps: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """How a case ended; `reason` is empty unless it failed."""

    seed: int | str
    kind: str
    description: str
    outcome: Outcome
    reason: str
    seconds: float
    bytes: int


#: Makes a case from random draws, in a folder that holds the good files.
Kind = Callable[[random.Random, Path], Case]


class Judge:
    """Runs cases in one process.

    Args:
        good: The folder of good files that every case gets a copy of.
        seconds: The limit of a case.
        bytes: What the process may grow by, from now on.
        trace: Print the traceback of what fails.
    """

    def __init__(self, good: Path, *, seconds: float = SECONDS, bytes: int = BYTES, trace: bool = False) -> None:
        self.good = good
        self.seconds = seconds
        self.bytes = bytes
        self.trace = trace
        self._resting = _memory("VmRSS")

    def run(self, seed: int | str, name: str, kind: Kind, rng: random.Random) -> Verdict:
        """Make the case that `kind` draws from `rng`, run it, judge it, and clean up."""
        place = Path(tempfile.mkdtemp(prefix="fuzz-", dir=FAST if os.access(FAST, os.W_OK) else None))
        before = Path.cwd()
        try:
            shutil.copytree(self.good, place, dirs_exist_ok=True)
            os.chdir(place)
            case = kind(rng, place)
            return self._judge(seed, name, case, place)
        finally:
            os.chdir(before)
            _remove(place)

    def _judge(self, seed: int | str, name: str, case: Case, place: Path) -> Verdict:
        files = snapshot(place)
        begun = time.monotonic()
        _forget_peak()
        outcome, reason = self._try(case)
        seconds, grown = time.monotonic() - begun, max(_memory("VmHWM") - self._resting, 0)
        if outcome != "failed":
            allowed = case.keeps + (case.outputs if outcome == "result" else [])
            reason = _traces(files, snapshot(place), allowed, place)
            if seconds > self.seconds:
                reason = f"took {seconds:.1f} s"
            elif grown > self.bytes:
                reason = f"took {grown / 2**30:.1f} GB"
            outcome = "failed" if reason else outcome
        return Verdict(seed, name, case.description, outcome, reason, seconds, grown)

    def _try(self, case: Case) -> tuple[Outcome, str]:
        try:
            with _limited(self.seconds, self.bytes), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.act()
        except PurigraphError as error:
            return ("refused", "") if str(error).strip() else ("failed", "an error without a message")
        except OutOfTime:
            return "failed", f"not done after {self.seconds:g} s"
        except WrongResult as error:
            return "failed", f"wrong result: {error}"
        except Exception as error:
            if self.trace:
                traceback.print_exc()
            return "failed", f"{type(error).__name__} {_where(error)}: {str(error)[:200]!r}"
        return "result", ""


def command(*arguments: object) -> Callable[[], object]:
    """Return what runs a command in this process, as the installed program would, and raises what the user is told."""

    def act() -> str:
        printed, told = io.StringIO(), io.StringIO()
        argv = sys.argv
        sys.argv = ["purigraph", *map(str, arguments)]
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
                cli.main()
            code: object = 0
        except SystemExit as end:
            code = 0 if end.code is None else end.code
        finally:
            sys.argv = argv
        if "Traceback" in told.getvalue():
            raise WrongResult(f"a traceback: {told.getvalue()[-300:]}")
        if code == 2:
            raise PurigraphError(told.getvalue())
        if code != 0:
            raise WrongResult(f"exit code {code}: {told.getvalue()[-300:]}")
        return printed.getvalue()

    return act


def snapshot(place: Path) -> dict[str, tuple[object, ...]]:
    """Return what is in a folder: of every entry, what it is and what it holds. Nothing is opened but plain files."""
    found: dict[str, tuple[object, ...]] = {}
    for root, folders, files in os.walk(place):
        for name in folders + files:
            path = os.path.join(root, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                found[path] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[path] = ("folder",)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    found[path] = ("file", hashlib.blake2b(file.read(1 << 20), digest_size=8).digest(), status.st_size)
            else:
                found[path] = ("other", stat.S_IFMT(status.st_mode))
    return found


def _traces(
    before: Mapping[str, tuple[object, ...]], after: Mapping[str, tuple[object, ...]], allowed: list[Path], place: Path
) -> str:
    """Say which file should not have come, gone or changed; empty if there is none."""
    roots = [os.path.realpath(path) for path in allowed] + [os.path.abspath(path) for path in allowed]
    for path in sorted(before.keys() | after.keys()):
        what = "changed" if path in before and path in after else "left" if path in after else "removed"
        if before.get(path) == after.get(path):
            continue
        inside = any(path == root or path.startswith(root + os.sep) for root in roots)
        above = after.get(path) == ("folder",) and any(root.startswith(path + os.sep) for root in roots)
        if path.endswith(".part") or not (inside or above):
            return f"{what} {os.path.relpath(path, place)}"
    return ""


def _where(error: BaseException) -> str:
    """Return the deepest line of purigraph that an error passed through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "purigraph" in frame.filename]
    return f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside purigraph"


@contextlib.contextmanager
def _limited(seconds: float, size: int) -> Iterator[None]:
    """Raise `OutOfTime` after so long; let allocations fail that make the process grow by more than `size`."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    old = signal.signal(signal.SIGALRM, ring)
    limit = resource.getrlimit(resource.RLIMIT_AS)
    mapped = _memory("VmSize")
    if mapped:
        resource.setrlimit(resource.RLIMIT_AS, (mapped + size, limit[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, limit)


def _memory(name: str) -> int:
    """Return a figure of this process in bytes, 0 where there is no /proc."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    return 0


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _remove(place: Path) -> None:
    """Remove a folder, whatever rights a case has left it with."""
    for root, folders, _ in os.walk(place):
        for name in folders:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(place, ignore_errors=True)
