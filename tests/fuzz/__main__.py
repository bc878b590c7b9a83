"""`python -m fuzz`: run many cases, or one again by its seed.

python -m fuzz                      2,000 cases
python -m fuzz --cases 100000 -j 2  on two processes
python -m fuzz --first 60000 ...    go on there
python -m fuzz 12345                one case, with its traceback
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch is imported: a process is forked only without threads

import torch

from fuzz import workshop
from fuzz.harness import BYTES, SECONDS, Judge
from fuzz.kinds import run_seed

#: Cases of one process: what a case leaves behind in memory is then gone.
CHUNK = 500
#: How many failures for one reason are printed.
SHOWN = 3


class Report:
    """The figures of a run."""

    def __init__(self) -> None:
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.slowest: dict[str, Any] = {"seconds": 0.0}
        self.largest: dict[str, Any] = {"bytes": 0}
        self.failures: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, verdict: dict[str, Any]) -> None:
        self.outcomes[verdict["kind"]][verdict["outcome"]] += 1
        self.seconds[verdict["kind"]] += verdict["seconds"]
        self.slowest = max(self.slowest, verdict, key=lambda one: one["seconds"])
        self.largest = max(self.largest, verdict, key=lambda one: one["bytes"])
        if verdict["outcome"] == "failed":
            self._show(verdict)

    def _show(self, verdict: dict[str, Any]) -> None:
        """Print a failure, unless `SHOWN` others were like it: one mistake fails many cases."""
        alike = self.failures[f"{verdict['kind']}: {verdict['reason'][:40]}"]
        alike.append(verdict)
        if len(alike) <= SHOWN:
            print(
                f"seed {verdict['seed']}  {verdict['kind']}: {verdict['reason']}\n    {verdict['description'][:300]!r}"
            )

    @property
    def failed(self) -> int:
        return sum(map(len, self.failures.values()))

    @property
    def cases(self) -> int:
        return sum(sum(counts.values()) for counts in self.outcomes.values())

    def print(self, seconds: float) -> None:
        print(f"\n{'kind':<16}{'cases':>8}{'results':>9}{'refused':>9}{'failed':>8}{'ms each':>9}")
        for kind, counts in sorted(self.outcomes.items()):
            cases = sum(counts.values())
            figures = (counts["result"], counts["refused"], counts["failed"])
            each = 1000 * self.seconds[kind] / cases
            print(f"{kind:<16}{cases:>8,}" + "{:>9,}{:>9,}{:>8,}".format(*figures) + f"{each:>9.0f}")
        print(
            f"{self.cases:,} cases in {seconds:.0f} s; longest {self.slowest['seconds']:.1f} s (seed "
            f"{self.slowest.get('seed')}); largest growth {self.largest['bytes'] / 2**20:.0f} MB (seed "
            f"{self.largest.get('seed')}); {self.failed} failed."
        )
        if self.failures:
            print("\nFailures by reason, each with its first seed:")
        for reason, alike in sorted(self.failures.items(), key=lambda item: -len(item[1])):
            print(f"{len(alike):>6,}  {reason}  (seed {alike[0]['seed']})")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Try purigraph with broken input.")
    parser.add_argument("seed", nargs="?", type=int, help="Run this case alone.")
    parser.add_argument("--cases", type=int, default=2000, help="How many. Default: 2000.")
    parser.add_argument("--first", type=int, default=0, help="The first seed. Default: 0.")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="Processes at a time. Default: 1.")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="fuzz-run-") as folder:
        good = Path(folder) / "good"
        good.mkdir()
        _in_child(lambda: workshop.build(good))
        if chosen.seed is not None:
            return _replay(chosen.seed, good)
        report, begun = Report(), time.monotonic()
        chunks = [
            range(at, min(at + CHUNK, chosen.first + chosen.cases))
            for at in range(chosen.first, chosen.first + chosen.cases, CHUNK)
        ]
        for group in [chunks[at : at + chosen.jobs] for at in range(0, len(chunks), chosen.jobs)]:
            files = [(Path(folder) / f"{chunk.start}.jsonl", chunk) for chunk in group]
            children = [_fork(lambda file=file, chunk=chunk: _work(good, file, chunk)) for file, chunk in files]
            for child, (file, chunk) in zip(children, files, strict=True):
                _collect(report, child, file, chunk, good)
            spent = time.monotonic() - begun
            print(f"{report.cases:,} of {chosen.cases:,} cases, {report.failed} failed, {spent:.0f} s", flush=True)
        report.print(time.monotonic() - begun)
        return 1 if report.failures else 0


def _work(good: Path, file: Path, seeds: range) -> None:
    judge = Judge(good)
    with open(file, "a") as out:
        for seed in seeds:
            print(json.dumps({"begun": seed}), file=out, flush=True)
            print(json.dumps(vars(run_seed(judge, seed))), file=out, flush=True)


def _collect(report: Report, child: int, file: Path, seeds: range, good: Path) -> None:
    """Read what a process found; one that died is a failure of the case it was at, and another goes on after it."""
    _, status = os.waitpid(child, 0)
    begun = seeds.start
    for line in file.read_text().splitlines():
        entry = json.loads(line)
        begun = entry.get("begun", begun)
        if "outcome" in entry:
            report.add(entry)
    file.unlink()
    if status:
        dead = {"seed": begun, "kind": "?", "description": "", "outcome": "failed", "seconds": 0.0, "bytes": 0}
        report.add({**dead, "reason": f"the process died (status {status})"})
        rest = range(begun + 1, seeds.stop)
        if rest:
            _collect(report, _fork(lambda: _work(good, file, rest)), file, rest, good)


def _fork(work: Any) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _in_child(work: Any) -> None:
    _, status = os.waitpid(_fork(work), 0)
    if status:
        raise SystemExit("The good files could not be made: see above.")


def _replay(seed: int, good: Path) -> int:
    verdict = run_seed(Judge(good, trace=True), seed)
    print(f"seed {seed}  {verdict.kind}: {verdict.description}")
    print(f"{verdict.outcome} {verdict.reason}".rstrip(), f"({verdict.seconds:.2f} s, {verdict.bytes / 2**20:.0f} MB)")
    print(f"Limits: {SECONDS:g} s, {BYTES / 2**30:g} GB.")
    return 1 if verdict.outcome == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
