"""Signals, full disks, lack of memory and devices: one sentence, nothing damaged, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from cli.command_runs import QUICK, SMALL, Workshop, invoke, refused
from purigraph import cli
from purigraph.errors import OutOfMemoryError, OutputError
from purigraph.graph.perturbation import Perturbation
from purigraph.purifiers import GPRGAE


def started(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from purigraph.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, **environment}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


# A command that stops inside a write, when the temporary file exists, and waits for the signal.
SLOW_WRITE = """
import sys, time
from types import SimpleNamespace

from purigraph import cli
from purigraph.files import atomic_path

def run(path: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        print("writing", flush=True)
        time.sleep(60)

cli.add_command(cli.app, SimpleNamespace(NAME="write-slowly", HELP="", run=run))
sys.argv = ["purigraph", "write-slowly", sys.argv[1]]
cli.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_temporary_file(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITE, str(tmp_path / "file")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Under nohup the tests ignore SIGHUP, and the command would with them.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert len(os.listdir(tmp_path)) == 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert errors in ("purigraph: terminated.\n", "purigraph: interrupted.\n")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_terminated_command_says_so(workshop: Workshop, tmp_path: Path) -> None:
    process = started("fit", workshop.graph, "-o", tmp_path / "m", "--epochs", 10**6, *SMALL)
    assert process.stderr is not None
    assert "Loading" in process.stderr.readline()
    time.sleep(4)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors.splitlines()[-1:] in ([], ["purigraph: terminated."])  # nothing if it came during an import
    assert "Traceback" not in errors
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried"),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ],
)
def test_lack_of_memory_is_one_sentence(
    error: Exception,
    workshop: Workshop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fit(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(GPRGAE, "fit", fit)
    monkeypatch.setattr(sys, "argv", ["purigraph", "fit", str(workshop.graph), "-o", str(tmp_path / "m"), "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "memory of the device cpu is not enough" in line
    assert "What helps: smaller settings" in line


def test_real_lack_of_memory_is_recognised(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GPRGAE, "fit", lambda *_, **__: torch.empty(1 << 58))
    with pytest.raises(OutOfMemoryError):
        invoke("fit", workshop.graph, "-o", tmp_path / "m")


def test_other_errors_stay_what_they_are(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(GPRGAE, "fit", fit)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        invoke("fit", workshop.graph, "-o", tmp_path / "m")


@pytest.mark.parametrize("device", ["meta", "hip", "vulkan", "nonsense", "cpu:x", ""])
def test_devices_that_do_not_work_are_refused(device: str, workshop: Workshop, tmp_path: Path) -> None:
    refused("can't be used here: .", "fit", workshop.graph, "-o", tmp_path / "m", "--device", device)
    refused("can't be used here: .", "purify", workshop.graph, "-m", "m", "-o", tmp_path / "m.npz", "--device", device)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has the device")
def test_mps_is_refused_in_one_sentence(workshop: Workshop, tmp_path: Path) -> None:
    refused(
        r"'mps' can't be used here: .*cpu always works\.$",
        "fit",
        workshop.graph,
        "-o",
        tmp_path / "m",
        "--device",
        "mps",
    )


def unwritable_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def full(source: Path, target: Path) -> None:
        if folder in Path(target).parents:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)


def place_in(message: str) -> Path:
    return Path(message.partition("The result was saved as ")[2].partition(" instead.")[0])


@pytest.mark.parametrize("command", ["fit", "train", "attack", "evaluate"])
def test_a_full_disk_does_not_lose_the_work(
    command: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, free = tmp_path / "full", tmp_path / "free"
    full.mkdir()
    free.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(free))
    unwritable_in(full, monkeypatch)
    arguments = {
        "fit": ["-o", full / "out", "--epochs", 1, *SMALL, "--checkpoint", tmp_path / "state"],
        "train": ["-o", full / "out", "--epochs", 1, "--checkpoint", tmp_path / "state"],
        "attack": ["-c", workshop.gcn, "-o", full / "out.safetensors", *QUICK],
        "evaluate": ["-c", workshop.gcn, "-o", full / "out.json", "--epsilon", 0.1, *QUICK],
    }[command]
    with pytest.raises(OutputError, match=r"out\S* can't be written: No space left on device.*The result was") as told:
        invoke(command, workshop.graph, *arguments)
    place = place_in(str(told.value))
    assert place.exists()
    if "--checkpoint" in arguments:
        assert str(told.value).endswith(f" The same command resumes from {tmp_path / 'state'}.")
        assert (place / "config.json").exists()
    if command == "attack":
        assert len(Perturbation.load(place)) > 0
    assert [path for path in full.rglob("*") if path.is_file()] == []


def test_a_full_disk_does_not_end_a_run_that_keeps_checkpoints(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwritable_in(tmp_path / "state", monkeypatch)
    with pytest.warns(UserWarning, match="No checkpoint was saved"):
        invoke("fit", workshop.graph, "-o", tmp_path / "m", "--epochs", 1, *SMALL, "--checkpoint", tmp_path / "state")
    with pytest.warns(UserWarning, match="The flips were not kept"):
        invoke(
            "evaluate", workshop.graph, "-c", workshop.gcn, "--epsilon", 0.1, *QUICK, "--checkpoint", tmp_path / "state"
        )
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["config.json", "model.safetensors"]


def test_a_small_disk_for_real(workshop: Workshop, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", full], capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        invoke("fit", workshop.graph, "-o", full / "m", "--epochs", 1, *SMALL)
        before = {path: path.read_bytes() for path in (full / "m").iterdir()}
        (full / "filler").write_bytes(bytes(os.statvfs(full).f_bavail * os.statvfs(full).f_frsize))
        process = started(
            "fit", workshop.graph, "-o", full / "m", "--epochs", 1, "--json", *SMALL, TMPDIR=str(tmp_path)
        )
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 2
        [line] = errors.splitlines()
        assert line.startswith("purigraph: ")
        assert "can't be written: No space left on device" in line
        assert place_in(line).exists()
        assert {path: path.read_bytes() for path in (full / "m").iterdir()} == before
    finally:
        subprocess.run(["umount", full], check=True)


def test_the_same_command_gives_the_same_bytes(workshop: Workshop, tmp_path: Path) -> None:
    contents = []
    for number in range(2):
        place = tmp_path / str(number)
        invoke("fit", workshop.graph, "-o", place / "purifier", "--epochs", 2, *SMALL)
        invoke("train", workshop.graph, "-o", place / "classifier", "--epochs", 2)
        outputs = ["-o", place / "flips.safetensors", "--graph-output", place / "attacked.npz"]
        invoke("attack", workshop.graph, "-c", workshop.gcn, *outputs, *QUICK)
        invoke("purify", workshop.graph, "-m", workshop.purifier, "-o", place / "purified.npz")
        written = [path for path in place.rglob("*.*") if not path.name.endswith(".receipt.json")]  # it tells the time
        contents.append({path.relative_to(place): path.read_bytes() for path in written})
    assert len(contents[0]) == 7
    assert contents[0] == contents[1]


def test_a_layer_larger_than_any_memory_is_one_sentence(workshop: Workshop, tmp_path: Path) -> None:
    wide = ["--set", f"hidden_channels={2**63 - 1}"]
    refused("memory", "train", workshop.graph, "-o", tmp_path / "m", "--kind", "mlp", *wide)
