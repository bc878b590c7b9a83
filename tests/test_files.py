"""The one place that writes: through links, to streams, whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers import communities
from purigraph import files
from purigraph.classifiers import GCN
from purigraph.errors import ModelFileError, OutputError
from purigraph.files import atomic_path, read_json, write_json, write_text
from purigraph.graph.npz import save_npz
from purigraph.graph.perturbation import Perturbation
from purigraph.tensor_files import read_header, read_tensors, write_tensors


def test_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "there" / "real", tmp_path / "link"
    real.parent.mkdir()
    link.symlink_to(real)
    for text in ("new", "newer"):  # first where there is nothing yet
        write_text(link, text)
        assert link.is_symlink()
        assert real.read_text() == text
    assert os.listdir(real.parent) == ["real"]


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OutputError, match=r"/a can't be written: Too many levels.*remove the loop"):
        write_text(tmp_path / "a", "")
    with pytest.raises(ModelFileError, match=r"/a can't be read: Too many levels"):
        read_json(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_a_pipe_gets_what_was_written_and_stays_one(tmp_path: Path) -> None:
    pipe, flips = tmp_path / "pipe", Perturbation(5, torch.tensor([[0], [3]]))
    os.mkfifo(pipe)
    for write, file in ((flips.save, "a"), (lambda path: save_npz(communities(), path), "b")):
        write(tmp_path / file)
        read: list[bytes] = []
        reader = threading.Thread(target=lambda read=read: read.append(pipe.read_bytes()))
        reader.start()
        write(pipe)
        reader.join(timeout=20)
        assert read[0] == (tmp_path / file).read_bytes()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_devices_are_written_to_not_replaced() -> None:
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OutputError, match=r"/dev/full can't be written: No space left"):
        write_text("/dev/full", "text")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="it is a folder, not a regular file"):
        write_text(tmp_path, "text")


def test_the_standard_output_stays_the_shell_s(tmp_path: Path) -> None:
    check = "from purigraph.files import write_text; write_text('/dev/stdout', 'written\\n'); print('printed')"
    with open(tmp_path / "out", "w") as file:
        subprocess.run([sys.executable, "-c", check], stdout=file, check=True)
    assert (tmp_path / "out").read_text().splitlines() == ["written", "printed"]


def test_permissions_are_kept_and_read_only_files_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o440)
    with pytest.raises(OutputError, match=r"file is read-only, so it is not replaced"):
        write_text(path, "newer")
    assert path.read_text() == "new"


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f".file.{files._host()}-{dead.pid}-00000000.part"
    running = tmp_path / f".file.{files._host()}-{os.getppid()}-00000000.part"
    elsewhere = tmp_path / f".file.ffffffff-{dead.pid}-00000000.part"
    old = tmp_path / ".file.xyz.part"
    other = tmp_path / f".other.{files._host()}-{dead.pid}-00000000.part"
    for path in (left, running, elsewhere, old, other):
        path.touch()
    os.utime(old, (time.time() - 1e6, time.time() - 1e6))
    write_text(tmp_path / "file", "text")
    assert {path.name for path in tmp_path.iterdir()} == {"file", running.name, elsewhere.name, other.name}


def test_long_names_can_be_written(tmp_path: Path) -> None:
    write_text(tmp_path / ("ä" * 120), "text")
    assert (tmp_path / ("ä" * 120)).read_text() == "text"
    with pytest.raises(OutputError, match="choose a shorter name"):
        write_text(tmp_path / ("a" * 300), "text")


def test_only_errors_of_writing_are_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), atomic_path(tmp_path / "file"):
        raise ConnectionError(errno.ECONNRESET, "Connection reset by peer")

    def wrapped() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise ValueError("a library's own error") from error

    with (
        pytest.raises(OutputError, match="file can't be written: No space left") as told,
        atomic_path(tmp_path / "file"),
    ):
        wrapped()
    assert told.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, of which some is taken by a checkpoint, flips, a model and a graph file."""
    place = tmp_path / "full"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_one_clear_error_and_old_files_stay(full: Path) -> None:
    nodes, data = torch.arange(4_000), communities(num_nodes=20)
    old = {
        "flips": lambda path: Perturbation(9).save(path),
        "tensors": lambda path: write_tensors(path, {"a": torch.zeros(2)}),
        "json": lambda path: write_json(path, [1]),
        "graph.npz": lambda path: save_npz(data, path),
        "model": lambda path: GCN(2, 2, hidden_channels=2).save_pretrained(path),
    }
    new = {
        "flips": lambda path: Perturbation(5_000, torch.stack([nodes, nodes + 1])).save(path),
        "tensors": lambda path: write_tensors(path, {"a": torch.zeros(20_000)}),
        "json": lambda path: write_json(path, list(range(20_000))),
        "graph.npz": lambda path: save_npz(communities(num_nodes=400), path),
        "model": lambda path: GCN(500, 2).save_pretrained(path),
    }
    for name, write in old.items():
        write(full / name)
    before = {path: path.read_bytes() for path in full.rglob("*") if path.is_file()}
    free = os.statvfs(full)
    (full / "filler").write_bytes(bytes(max(free.f_bavail * free.f_frsize - 4096, 0)))
    for name, write in new.items():
        with pytest.raises(OutputError, match=rf"{name}\S* can't be written: No space left on device.*free some space"):
            write(full / name)
    after = {path: path.read_bytes() for path in full.rglob("*") if path.is_file() and path.name != "filler"}
    assert after == before


def test_hostile_json_is_refused(tmp_path: Path) -> None:
    deep, long, large, pipe = (tmp_path / name for name in ("deep", "long", "large", "pipe"))
    deep.write_text("[" * 100_000)
    long.write_text('{"a": ' + "9" * 5_000 + "}")
    with open(large, "wb") as file:
        file.truncate(20 << 30)
    os.mkfifo(pipe)
    endless = tmp_path / "endless"
    endless.symlink_to("/dev/zero")
    cases = {
        deep: "nested too deeply|not valid JSON",
        long: "not valid JSON .*digits",
        large: "has 21,474,836,480 bytes",
        pipe: "it is a pipe, not a regular file",
        endless: "it is a device, not a regular file",
    }
    for path, message in cases.items():
        with pytest.raises(ModelFileError, match=f"{path.name} .*({message})"):
            read_json(path)


@pytest.mark.parametrize("size", [0, 5, 20 << 30])
def test_hostile_tensor_files_are_refused_unread(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    write_tensors(path, {"a": torch.arange(9)})
    os.truncate(path, size)
    for reader in (read_header, read_tensors):
        with pytest.raises(ModelFileError, match="file is not a valid safetensors file"):
            reader(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a": 3}', "'a' is not a JSON object"),
        (b'{"__metadata__": {"a": 1}}', "metadata is not text"),
        (b'{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}', "take 4,000,000,000,000 bytes"),
        (b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', "not a list of sizes"),
        (b'{"a": {"dtype": "X", "shape": [1], "data_offsets": [0, 4]}}', "dtype 'X'"),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}}', "valid safetensors"),
    ],
)
def test_hostile_headers_are_refused(tmp_path: Path, header: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ModelFileError, match=message):
        read_tensors(path)


def test_the_same_contents_give_the_same_bytes(tmp_path: Path) -> None:
    metadata = {f"key {index}": "ä" for index in range(20)}
    contents = set()
    for number in range(3):
        write_tensors(tmp_path / str(number), {"b": torch.ones(3), "a": torch.zeros(2).double()}, metadata)
        contents.add((tmp_path / str(number)).read_bytes())
    assert len(contents) == 1
    assert read_tensors(tmp_path / "0")[1] == metadata
