"""The service as a process: its command, its signals, and clients that misbehave on the wire."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import purigraph as pg
from cli.command_runs import refused
from helpers import communities
from purigraph.graph.npz import save_npz

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, trained: pg.GPRGAE) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    trained.save_pretrained(folder / "model")
    save_npz(communities(), folder / "graph.npz")
    (folder / "token").write_text(TOKEN)
    return folder


class Process:
    """`purigraph serve` in a process of its own, on a free port."""

    def __init__(self, place: Path, *options: str) -> None:
        words = ["-c", "from purigraph.cli import main; main()", "serve", "-m", str(place / "model")]
        words += ["--graph", str(place / "graph.npz"), "--port", "0", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"http://[\d.]+:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        else:
            pytest.fail("it did not start")

    def ask(self, path: str, body: object = None, timeout: float = 60) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        request.add_header("authorization", f"Bearer {TOKEN}")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def in_flight(self) -> int:
        found = re.search(rb"purigraph_in_flight (\d+)", self.ask("/metrics")[1])
        assert found is not None
        return int(found[1])

    def end(self) -> tuple[int, str]:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Process]:
    process = Process(place, "--token-file", str(place / "token"), "--set", "read_seconds=1.0")
    yield process
    code, told = process.end()
    assert code == 0
    assert "Stopped." in told
    assert "Traceback" not in told


def test_it_answers(server: Process) -> None:
    status, body = server.ask("/score", {"pairs": [[0, 1], [2, 3]]})
    assert status == 200
    assert len(json.loads(body)["scores"]) == 2


def raw(server: Process, sent: bytes, *, wait: float = 5.0) -> bytes:
    """Send bytes and return all that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


HEAD = f"POST /score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"400"),
        (b"GET / HTTP/nine\r\n\r\n", b"400"),
        (b"GET " + b"a" * 100_000, b"400"),
        (b"POST /score HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 99999999\r\n\r\n", b"413"),
        (HEAD + b"Content-Length: 100\r\n\r\n{", b"408"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"40"),
        (b"", b""),
        (b"POST /score HTTP/1.1\r\nHo", b""),
    ],
)
def test_rubbish_on_the_wire_ends_the_connection_in_time(server: Process, sent: bytes, expected: bytes) -> None:
    received = raw(server, sent)
    assert received.startswith(b"HTTP/1.1 " + expected if expected else b"")
    assert b"Traceback" not in received
    assert server.ask("/health")[0] == 200


def test_clients_that_go_away_do_no_harm(server: Process) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            body = json.dumps({"pairs": [[0, 1]] * 1000}).encode()
            connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2])
    status, body = server.ask("/score", {"pairs": [[0, 1]]})
    assert status == 200
    for _ in range(100):
        if b"purigraph_in_flight 0.0" in server.ask("/metrics")[1]:
            return
        time.sleep(0.05)
    pytest.fail("requests of clients that are gone still count")


def test_a_signal_lets_requests_finish(place: Path) -> None:
    process = Process(place)
    answers: list[tuple[int, bytes]] = []
    body = {"pairs": [[k % 120, (7 * k + 1) % 120] for k in range(50_000)]}
    assert process.ask("/score", {"pairs": [[0, 1]]})[0] == 200
    threads = [threading.Thread(target=lambda: answers.append(process.ask("/score", body))) for _ in range(4)]
    for thread in threads:
        thread.start()
    # The signal comes when all of them have begun: one that is still on its way may be turned away.
    while len(answers) + process.in_flight() < 4:
        pass
    code, told = process.end()
    for thread in threads:
        thread.join(60)
    assert (code, "Stopped." in told) == (0, True)
    assert [status for status, _ in answers] == [200] * 4
    assert all(len(json.loads(body)["scores"]) == 50_000 for _, body in answers)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", process.port), timeout=1)


def test_wrong_options_are_refused(place: Path, server: Process, tmp_path: Path) -> None:
    common = ["serve", "-m", place / "model", "--graph", place / "graph.npz"]
    refused(f"can't listen on 127.0.0.1, port {server.port}", *common, "--port", server.port)
    refused("less than or equal to 65535", *common, "--port", 70000)
    refused("no setting 'quue'", *common, "--set", "quue=3")
    refused("token-file", *common, "--token-file", tmp_path / "none")
    (tmp_path / "short").write_text("short")
    refused("at least 16", *common, "--token-file", tmp_path / "short")
    refused("nowhere", "serve", "-m", "nowhere", "--graph", place / "graph.npz")
