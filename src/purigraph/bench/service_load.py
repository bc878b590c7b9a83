"""How much the service holds, and what it does with more: `python -m purigraph.bench.service_load [DATASET]`.

Starts `purigraph serve` on a free port of this machine and asks it from this process, over kept connections, for the
scores of 100 random pairs a time. Rounds of some seconds each: the load that it holds (connections that each wait for
an answer before they ask again), ten times as many, and the same with clients beside them that send rubbish. Every
answer is compared with the scores that the library gives, every request must get exactly one answer, and at the end a
SIGTERM must leave nothing unanswered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import purigraph as pg
from purigraph.errors import PurigraphError

SECONDS = 8.0
CLIENTS = 32
PAIRS = 100
BODIES = 50
RUBBISH_CLIENTS = 20
EPSILON = 1e-5

Body = tuple[bytes, list[float]]


class Tally:
    """What came of the requests of one round."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []
        self.wrong = self.lost = self.asked = 0

    def figures(self, took: float) -> dict[str, Any]:
        """Return throughput and latencies of what was answered with scores."""
        ordered = sorted(self.seconds) or [float("nan")]
        return {
            "asked": self.asked,
            "answers": {str(status): number for status, number in sorted(self.statuses.items())},
            "wrong": self.wrong,
            "lost": self.lost,
            "scored_requests_per_second": round(self.statuses[200] / took, 1),
            "answers_per_second": round(sum(self.statuses.values()) / took, 1),
            "p50_ms": round(1000 * statistics.median(ordered), 1),
            "p99_ms": round(1000 * ordered[int(0.99 * (len(ordered) - 1))], 1),
        }


def requests(purifier: pg.GPRGAE, data: Any) -> list[Body]:
    """Return bodies, and the scores that the library gives for them."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(BODIES):
        pairs = torch.randint(0, data.num_nodes, (2, PAIRS), generator=generator)
        body = json.dumps({"pairs": pairs.t().tolist()}).encode()
        made.append((body, purifier.score_edges(data, pairs).tolist()))
    return made


async def ask(port: int, bodies: list[Body], until: float, tally: Tally, rng: random.Random) -> None:
    """Ask over one connection until the round is over; a round has at least one request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while tally.asked == 0 or time.monotonic() < until:
            body, expected = rng.choice(bodies)
            begun = time.monotonic()
            tally.asked += 1
            writer.write(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            try:
                await writer.drain()
                status, answer = await asyncio.wait_for(_answer(reader), 60)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                tally.lost += 1
                return
            tally.statuses[status] += 1
            if status == 200:
                tally.seconds.append(time.monotonic() - begun)
                scores = json.loads(answer)["scores"]
                apart = [abs(a - b) for a, b in zip(scores, expected, strict=True)]
                tally.wrong += max(apart) > EPSILON
            elif status == 429:
                await asyncio.sleep(0.1 + 0.2 * rng.random())  # as Retry-After asks, but sooner
            else:
                tally.wrong += 1
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    return int(head.split()[1]), await reader.readexactly(int(length[1]))


async def rubbish(port: int, until: float, rng: random.Random) -> None:
    """Send what is no request, half of one, too much, or nothing, and go away."""
    while time.monotonic() < until:
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sent = rng.choice(
                [
                    rng.randbytes(500),
                    b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
                    b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n",
                    b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n[[[[[[[[[",
                    b"GET /" + b"a" * 100_000,
                    b"",
                ]
            )
            writer.write(sent)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(1000), 0.2)
            writer.close()


async def load_round(
    port: int, bodies: list[Body], clients: int, rubbish_clients: int = 0, *, seconds: float = SECONDS
) -> dict[str, Any]:
    """Run one round and return its figures."""
    tally, begun = Tally(), time.monotonic()
    until = begun + seconds
    tasks = [ask(port, bodies, until, tally, random.Random(seed)) for seed in range(clients)]
    tasks += [rubbish(port, until, random.Random(10_000 + seed)) for seed in range(rubbish_clients)]
    await asyncio.gather(*tasks)
    return {"clients": clients, "rubbish_clients": rubbish_clients, **tally.figures(time.monotonic() - begun)}


async def stop(process: subprocess.Popen[bytes], port: int, bodies: list[Body]) -> dict[str, Any]:
    """Send a SIGTERM while requests are under way; all of them must be answered."""
    body, _ = bodies[0]
    open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CLIENTS)]
    for _, writer in open_ones:
        writer.write(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    under_way = 0.0
    for _ in range(200):
        under_way = await asyncio.to_thread(_in_flight, port)
        if under_way > 0:
            break
    process.send_signal(signal.SIGTERM)
    answers = await asyncio.gather(*(asyncio.wait_for(_answer(reader), 60) for reader, _ in open_ones))
    answered = sum(status == 200 for status, _ in answers)
    return {"asked": CLIENTS, "under_way": int(under_way), "answered": answered}


def _in_flight(port: int) -> float:
    """Return how many requests the service says are under way."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        found = re.search(r"^purigraph_in_flight (\S+)", answer.read().decode(), re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def measure(dataset: str, model: Path | None = None, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Start the service, load it, stop it, and return what it did.

    Args:
        dataset: The graph that it serves.
        model: The folder of a purifier. Default: a small one that is hardly trained, which takes as long to ask.
        seconds: How long a round takes.
    """
    data = pg.datasets.load(dataset)
    with tempfile.TemporaryDirectory() as folder:
        if model is None:
            model = Path(folder) / "model"
            pg.GPRGAE.preset("fast").fit(data, epochs=20).save_pretrained(model)
        bodies = requests(pg.GPRGAE.from_pretrained(model), data)
        words = [sys.executable, "-c", "from purigraph.cli import main; main()", "serve", "-m", str(model)]
        # A file, as a pipe that nobody reads would fill and stop the service.
        told = Path(folder) / "told"
        with told.open("w") as written:
            process = subprocess.Popen([*words, "--graph", dataset, "--port", "0"], stderr=written)
        try:
            result = _rounds(process, _port(process, told), bodies, seconds)
            process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
        stopped = "Stopped." in told.read_text()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "dataset": dataset,
        "purigraph_version": pg.__version__,
        **result,
        "exit_code": process.returncode,
        "stopped": stopped,
        "peak_megabytes": used.ru_maxrss // 1024,
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
    }


def _port(process: subprocess.Popen[bytes], told: Path) -> int:
    """Return the port that a service says it listens on, once it does."""
    while process.poll() is None:
        found = re.search(r"http://[\d.]+:(\d+)", told.read_text())
        if found is not None:
            return int(found[1])
        time.sleep(0.1)
    raise PurigraphError(f"The service ended before it listened (exit code {process.returncode}): {told.read_text()}")


def _rounds(process: subprocess.Popen[bytes], port: int, bodies: list[Body], seconds: float) -> dict[str, Any]:
    """Run all rounds on a service that has just been started, and stop it."""

    def run(clients: int, rubbish_clients: int = 0) -> dict[str, Any]:
        return asyncio.run(load_round(port, bodies, clients, rubbish_clients, seconds=seconds))

    run(1)  # until the node states are there, and the caches warm
    return {
        "pairs_per_request": PAIRS,
        "seconds_per_round": seconds,
        "load_average": round(os.getloadavg()[0], 1),
        "one_client": run(1),
        "held": run(CLIENTS),
        "ten_times": run(10 * CLIENTS),
        "ten_times_and_rubbish": run(10 * CLIENTS, RUBBISH_CLIENTS),
        "after": run(CLIENTS),
        "stop": asyncio.run(stop(process, port, bodies)),
    }


def main() -> None:
    """Measure on a dataset and print the result as JSON."""
    result = measure(sys.argv[1] if len(sys.argv) > 1 else "cora")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
