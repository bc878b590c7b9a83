"""Files by checksum: a server that cuts, swaps or vanishes leaves a clear error and a sound cache."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from purigraph.datasets import sources
from purigraph.datasets.sources import RemoteFile, fetch
from purigraph.errors import DatasetError

CONTENT = b"papers that cite papers\n" * 1000
HASH = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT the way that its `mode` says, and counts the requests."""

    mode = "good"
    requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests += 1
        mode = self.server.mode
        if mode == "missing":
            self.send_error(404)
            return
        self.send_response(200)
        body = {"wrong": b"<html>Sign in</html>", "truncated": CONTENT[:700], "silent": CONTENT[:700]}.get(
            mode, CONTENT
        )
        if mode != "silent":  # without a length, the client can't know that something is missing
            self.send_header("Content-Length", str(len(body if mode == "wrong" else CONTENT)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("PURIGRAPH_DATA", raising=False)
    # No proxy of the machine's may stand between the test and its own server.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def cached(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("truncated", "failed or was cut short"),
        (
            "silent",
            rf"what came \(700 bytes\) is another file, its SHA-256 is {hashlib.sha256(CONTENT[:700]).hexdigest()}",
        ),
        ("wrong", "is another file, its SHA-256 is"),
        ("missing", "404"),
    ],
)
def test_a_bad_download_is_explained_and_never_cached(server: Server, tmp_path: Path, mode: str, reason: str) -> None:
    file = RemoteFile("toy/file.bin", HASH, (server.url,))
    server.mode = mode
    with pytest.raises(DatasetError, match=reason) as error:
        fetch(file, tmp_path)
    for part in ("toy/file.bin", server.url, HASH, "PURIGRAPH_DATA", "nothing was stored"):
        assert part in str(error.value)
    assert cached(tmp_path) == []
    assert file.find(tmp_path) is None

    server.mode = "good"
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    asked = server.requests
    assert fetch(file, tmp_path) == file.find(tmp_path) == tmp_path / "toy" / "file.bin"
    assert server.requests == asked
    assert cached(tmp_path) == ["file.bin"]


def test_a_lost_network_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURIGRAPH_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/file.bin"
    with pytest.raises(DatasetError, match="the download failed") as error:
        fetch(RemoteFile("toy/file.bin", HASH, (url,)), tmp_path)
    assert url in str(error.value)
    assert "Check the network" in str(error.value)
    assert cached(tmp_path) == []


def test_the_next_url_is_tried(server: Server, tmp_path: Path) -> None:
    urls = ("http://127.0.0.1:1/file.bin", server.url)
    assert fetch(RemoteFile("toy/file.bin", HASH, urls), tmp_path).read_bytes() == CONTENT


def test_a_damaged_cache_is_mended(server: Server, tmp_path: Path) -> None:
    file = RemoteFile("toy/file.bin", HASH, (server.url,))
    path = fetch(file, tmp_path)
    path.write_bytes(CONTENT[:-1])
    assert file.find(tmp_path) is None
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert server.requests == 2


def test_callers_that_need_a_file_at_once_download_it_once(server: Server, tmp_path: Path) -> None:
    file = RemoteFile("toy/file.bin", HASH, (server.url,))
    threads = [threading.Thread(target=fetch, args=(file, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.requests == 1


def test_own_folder_comes_first_and_is_checked(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RemoteFile("toy/file.bin", HASH, (server.url,))
    own = tmp_path / "own" / "toy" / "file.bin"
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT)
    monkeypatch.setenv("PURIGRAPH_DATA", str(tmp_path / "own"))
    assert fetch(file, tmp_path / "cache") == own
    own.write_bytes(b"something else")
    with pytest.raises(DatasetError, match="is not the file that it should be") as error:
        fetch(file, tmp_path / "cache")
    assert HASH in str(error.value)
    assert hashlib.sha256(b"something else").hexdigest() in str(error.value)
    assert server.requests == 0

    own.unlink()
    fetch(file, tmp_path / "cache")
    assert cached(tmp_path) == ["file.bin"]


def test_a_file_without_url_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURIGRAPH_DATA", str(tmp_path / "own"))
    with pytest.raises(DatasetError, match=r"there is no .*own.toy.file\.bin.*Convert it\.") as error:
        fetch(RemoteFile("toy/file.bin", HASH, hint="Convert it."), tmp_path / "cache")
    assert "PURIGRAPH_DATA" in str(error.value)


def test_a_cache_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the folder's place")
    with pytest.raises(DatasetError, match="can't be stored in the cache folder"):
        fetch(RemoteFile("toy/file.bin", HASH, (server.url,)), tmp_path / "cache")


def test_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "caches" / name))
    assert sources.cache_folder() == tmp_path / "caches" / "purigraph"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sources.cache_folder("~/mine") == tmp_path / "mine"
