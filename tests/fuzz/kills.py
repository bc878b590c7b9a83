"""`python -m fuzz.kills`: kill commands at random moments, run them again, and hold them to the undisturbed result.

Every round starts a command over the result of an earlier one (of another seed), kills it one to three times by one
of three signals, and runs it to its end. After a kill, the output must still be the old one or already the new one
when it is loaded; after SIGTERM and SIGINT no `.part` file may be left, and nobody may be shown a
traceback. In the end, every output must have the bytes of an undisturbed run.

Commands run in processes forked from this one, which has imported everything: that is where a start's time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch is imported: a process is forked only without threads

import torch
from scipy import sparse
from torch_geometric.data import Data

from fuzz.harness import command
from fuzz.workshop import SMALL_PURIFIER, timeless
from helpers import communities
from purigraph import checkpoints, classifiers, cli, purifiers
from purigraph.datasets import citation_network
from purigraph.errors import PurigraphError
from purigraph.graph import Perturbation, as_pair_graph, load_npz, save_npz
from purigraph.graph.file_formats import read_graph_file

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CHECKPOINT = "state"


@dataclass(frozen=True)
class Job:
    """A command that takes a while.

    Attributes:
        words: The command, without output, seed and checkpoint.
        output: What it writes.
        seed: The option that makes another result; none for a command that draws nothing.
        load: Reads the output.
        beside: What else it writes; each of them must always be whole.
    """

    words: list[str]
    output: str
    seed: str | None
    load: Callable[[Path], object]
    beside: tuple[str, ...] = ()

    def arguments(self, *, seed: int) -> list[str]:
        """The whole command."""
        own = [] if self.seed is None else [self.seed, str(seed)]
        kept = [] if self.seed is None else ["--checkpoint", CHECKPOINT]
        return [*self.words, "-o", self.output, *own, *kept]


def _load_json(path: Path) -> object:
    return timeless(json.loads(path.read_text()))


def _read_table(path: Path) -> object:
    read_graph_file(path, bare=True)
    return path.read_bytes()


def _is_whole(path: Path) -> bool:
    """Whether a file that is written beside an output ends as it should."""
    text = path.read_text()
    if path.suffix == ".json":
        return isinstance(json.loads(text), dict)
    return text.endswith("</html>") if path.suffix == ".html" else text.endswith("\n")


PRBCD = ["--set", "epochs=120", "--set", "fine_tune_epochs=40", "--set", "block_size=1000"]
#: Whatever `purify` can write at once.
EVERYTHING = ["--report", "page.html", "--trusted", "half.csv", "--changes", "changes.csv"]
EVERYTHING += ["--threshold", "0.5", "--drop"]
JOBS = {
    "fit": Job(["fit", "graph.npz", "--epochs", "300", *SMALL_PURIFIER], "model", "--seed", purifiers.load),
    "train": Job(["train", "graph.npz", "--epochs", "600"], "model", "--seed", classifiers.load),
    "attack": Job(
        ["attack", "graph.npz", "-c", "gcn", "-m", "purifier", "--epsilon", "0.2", *PRBCD],
        "flips.safetensors",
        "--attack-seed",
        Perturbation.load,
    ),
    "evaluate": Job(
        ["evaluate", "graph.npz", "-c", "gcn", "--epsilon", "0.1", "--epsilon", "0.2", *PRBCD],
        "evaluation.json",
        "--attack-seed",
        _load_json,
    ),
    "purify": Job(
        ["purify", "large.npz", "-m", "large-purifier"], "clean.npz", None, load_npz, ("clean.npz.receipt.json",)
    ),
    "purify-csv": Job(
        ["purify", "large.csv", "--features", "x.npz", "-m", "large-purifier", *EVERYTHING],
        "clean.csv",
        None,
        _read_table,
        ("clean.csv.receipt.json", "page.html", "changes.csv"),
    ),
}


class Damage(AssertionError):
    """A kill did what it must not."""


@dataclass
class Undisturbed:
    """What a job writes when nobody interrupts it, with seed 1 (the old result) and 0 (the new one).

    `seconds` are of the processor: those of the clock depend on what else the machine does.
    """

    old: Path
    new: Path
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.kills", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="How many. Default: 100.")
    parser.add_argument("--seed", type=int, default=0, help="Of the moments. Default: 0.")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    checkpoints.SECONDS_BETWEEN = 0.0
    counts: Counter[tuple[str, str]] = Counter()
    resumed, failures = 0, []
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        good = Path(folder) / "good"
        _prepare(good)
        undisturbed = {name: _run_undisturbed(job, good, Path(folder) / name) for name, job in JOBS.items()}
        print(
            "undisturbed: " + ", ".join(f"{name} {one.seconds:.1f} s" for name, one in undisturbed.items()), flush=True
        )
        rng = random.Random(chosen.seed)
        begun, round_number = time.monotonic(), 0
        while sum(counts.values()) < chosen.kills:
            name = list(JOBS)[round_number % len(JOBS)]
            place = Path(folder) / f"round-{round_number}"
            round_number += 1
            shutil.copytree(good, place)
            kills: list[tuple[signal.Signals, bool]] = []
            try:
                _round(JOBS[name], undisturbed[name], place, rng, kills)
            except Damage as damage:
                failures.append(f"{name}, round {round_number - 1}: {damage}")
                print(failures[-1], flush=True)
            counts.update((name, by.name) for by, _ in kills)
            resumed += sum(had_checkpoint for _, had_checkpoint in kills)
            shutil.rmtree(place, ignore_errors=True)
        seconds = time.monotonic() - begun
    print(f"\n{'command':<10}" + "".join(f"{by.name:>9}" for by in SIGNALS))
    for name in JOBS:
        print(f"{name:<10}" + "".join(f"{counts[name, by.name]:>9}" for by in SIGNALS))
    kills = sum(counts.values())
    print(f"{kills} kills in {seconds:.0f} s, {resumed} with a checkpoint to resume from; {len(failures)} did damage.")
    return 1 if failures else 0


def _prepare(good: Path) -> None:
    """Make the inputs; in this process, so that the commands' processes find everything imported and compiled."""
    good.mkdir()
    data, role = communities(120, 16), torch.arange(120) % 4
    data.train_mask, data.val_mask, data.test_mask = role == 0, role == 1, role == 2
    save_npz(data, good / "graph.npz")
    large = citation_network(6000, 60_000, 300)
    save_npz(large, good / "large.npz")
    pairs = as_pair_graph(large).pairs.t().tolist()
    for name, rows in (("large.csv", pairs), ("half.csv", pairs[::2])):
        (good / name).write_text("source,target,note\n" + "".join(f"{a},{b},of {a}\n" for a, b in rows))
    sparse.save_npz(good / "x.npz", sparse.csr_array(large.x.to_dense().numpy()))
    before = Path.cwd()
    os.chdir(good)
    try:
        command("train", "graph.npz", "-o", "gcn", "--epochs", 2)()
        command("fit", "graph.npz", "-o", "purifier", "--epochs", 2, *SMALL_PURIFIER)()
        command("fit", "large.npz", "-o", "large-purifier", "--epochs", 1, "--set", "validation_sets=1")()
    finally:
        os.chdir(before)


def _run_undisturbed(job: Job, good: Path, place: Path) -> Undisturbed:
    shutil.copytree(good, place)
    kept, seconds = [], 0.0
    for seed in (1, 0):
        code, told, seconds = _finish(_start(job.arguments(seed=seed), place))
        if code:
            raise SystemExit(f"{job.words} does not run: {told}")
        kept.append(place / f"seed-{seed}-{job.output}")
        os.rename(place / job.output, kept[-1])
        for name in job.beside:
            os.rename(place / name, place / f"seed-{seed}-{name}")
        shutil.rmtree(place / CHECKPOINT, ignore_errors=True)  # of the other seed's run
    return Undisturbed(kept[0], kept[1], seconds)


def _round(
    job: Job, undisturbed: Undisturbed, place: Path, rng: random.Random, kills: list[tuple[signal.Signals, bool]]
) -> None:
    """Kill a job one to three times, then let it end; note by what it was killed, and whether it could resume."""
    output = place / job.output
    (shutil.copytree if undisturbed.old.is_dir() else shutil.copy)(undisturbed.old, output)
    for name in job.beside:
        shutil.copy(undisturbed.old.with_name(f"seed-1-{name}"), place / name)
    old, new = (_loaded(job, path) for path in (undisturbed.old, undisturbed.new))
    left_to_do = undisturbed.seconds
    for _ in range(rng.choice((1, 2, 3))):
        by = rng.choice(SIGNALS)
        process = _start(job.arguments(seed=0), place)
        _wait_for(process, rng.random() * left_to_do)
        os.kill(process.pid, by)  # it may be over, but it is still there to be waited for
        code, told, spent = _finish(process)
        if code == 0:
            break  # it was over before the signal came: no kill
        resumes = any((place / CHECKPOINT).rglob("*.safetensors"))
        kills.append((by, resumes))
        left_to_do -= spent if resumes else 0
        try:
            found = _loaded(job, output)
        except PurigraphError as error:
            raise Damage(f"{by.name} left an output that can't be read: {error}") from error
        if found not in (old, new):
            raise Damage(f"{by.name} left neither the old output nor the new one")
        for name in job.beside:
            if not _is_whole(place / name):
                raise Damage(f"{by.name} left half of {name}")
        if by != signal.SIGKILL:
            left = [path.name for path in place.rglob("*.part")]
            if left:
                raise Damage(f"{by.name} left {left[0]}")
            if _shows_traceback(told):
                raise Damage(f"{by.name} showed a traceback: {told[-500:]}")
    code, told, _ = _finish(_start(job.arguments(seed=0), place))
    if code:
        raise Damage(f"after {[by.name for by, _ in kills]} the same command ends in {code}: {told[-500:]}")
    for name, expected in contents(undisturbed.new).items():
        if contents(output).get(name) != expected:
            raise Damage(f"after {[by.name for by, _ in kills]} the same command gives another {name or job.output}")


def _shows_traceback(told: str) -> bool:
    """Whether a traceback was shown, other than of a destructor of another package that an interrupt came upon."""
    lines = told.splitlines()
    begins = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    return any(at == 0 or not lines[at - 1].startswith("Exception ignored in") for at in begins)


def _loaded(job: Job, path: Path) -> object:
    """What an output holds, as its readers see it; a model's folder may hold more than its two files meanwhile."""
    found = job.load(path)
    if isinstance(found, torch.nn.Module):
        return {name: tensor.numpy().tobytes() for name, tensor in found.state_dict().items()}
    return contents(path) if isinstance(found, Data) else found


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of a model's files; of a JSON document without the times that it tells."""
    if path.suffix == ".json":
        return {"": json.dumps(_load_json(path), sort_keys=True).encode()}
    if path.is_dir():
        return {name: (path / name).read_bytes() for name in ("config.json", "model.safetensors")}
    return {"": path.read_bytes()}


@dataclass(frozen=True)
class Process:
    """A command under way, and the file of what it says."""

    pid: int
    told: Path


def _start(arguments: list[str], place: Path) -> Process:
    """Fork a process that runs a command in a folder as the installed program would."""
    told = place / "told.txt"
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Process(pid, told)
    code: object = 1
    try:
        os.chdir(place)
        with open(told, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.argv = ["purigraph", *arguments]
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        code = 130  # before the command began, or after it was done
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _wait_for(process: Process, seconds: float) -> None:
    """Wait until a process has had the processor for so long, or has ended."""
    while True:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "Z" or (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.003)


def _finish(process: Process) -> tuple[int, str, float]:
    """Wait for the end of a process: its exit status, what it said, and its time on the processor."""
    _, status, used = os.wait4(process.pid, 0)
    told = process.told.read_text(errors="replace") if process.told.exists() else ""
    return status, told, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
