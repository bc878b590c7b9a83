"""Cases of odd requests to the service, and of odd arguments to what it calls."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import torch

from fuzz import workshop
from fuzz.harness import Case, WrongResult, command
from fuzz.mutations import FLOATS, INTEGERS, TEXTS, damage_bytes, damage_json, value
from purigraph import purifiers
from purigraph.errors import PurigraphError
from purigraph.serve import ServeSettings, Service, create_app

PATHS = ("/score", "/neighbourhood", "/purify")
OTHER_PATHS = ("/health", "/ready", "/metrics", "/openapi.json", "/", "//", "/score/", "/../score", "/%00", "/é")
METHODS = ("GET", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "", "post", "PRI")
TOKEN = "token-of-the-fuzzer"
SMALL = ServeSettings(max_body_bytes=100_000, max_pairs=1000, max_nodes=100, max_hops=5)


def service(rng: random.Random, place: Path) -> Case:
    """A request that is odd in its path, its headers, its body or the way it arrives."""
    path = rng.choice((*PATHS, *PATHS, *PATHS, rng.choice(OTHER_PATHS)))
    method = rng.choice(("POST", "POST", "POST", "POST", "GET", rng.choice(METHODS)))
    body = _body(rng, path)
    headers = _headers(rng, body)
    parts = _parts(rng, body)
    model = Service(purifiers.load(place / workshop.PURIFIER), workshop.good_data(), SMALL)
    token = TOKEN if rng.random() < 0.2 else None

    def act() -> None:
        status, answer = asyncio.run(_ask(model, token, method, path, headers, parts))
        if status >= 500 and path != "/ready":  # which is not ready yet
            raise WrongResult(f"status {status}: {answer[:200]!r}")
        if status >= 400:
            if path in PATHS and method == "POST" and not json.loads(answer)["error"].strip():
                raise WrongResult("an error without a message")
            raise PurigraphError(f"status {status}: {answer[:200]!r}")
        _check(path, method, body, answer)

    return Case(f"{method} {path} {headers} {body[:200]!r} in {len(parts)} parts", act)


def online(rng: random.Random, place: Path) -> Case:
    """Odd arguments to the scorer, the neighbourhood and the comparison, and a damaged record of statistics."""
    purifier, data = purifiers.load(place / workshop.PURIFIER), workshop.good_data()
    way = rng.randrange(4)
    if way == 0:
        pairs = rng.choice((_odd_pairs(rng), _odd_pairs(rng), value(rng)))
        return Case(f"score_edges(data, {pairs})", lambda: _in_range(purifier.score_edges(data, pairs)))
    if way == 1:
        nodes = rng.choice((_odd_pairs(rng)[0], [rng.choice(INTEGERS)], value(rng), torch.rand(24) < 0.3))
        hops = rng.choice((0, 1, 2, 5, rng.choice(INTEGERS), rng.choice(FLOATS), rng.choice(TEXTS)))
        return Case(
            f"purify_subgraph(data, {nodes}, {hops!r})",
            lambda: _in_range(purifier.purify_subgraph(data, nodes, hops).edge_weight),
        )
    config = place / workshop.PURIFIER / "config.json"
    document = json.loads(config.read_text())
    statistics = document["training"]["statistics"]
    statistics[rng.choice((*statistics, rng.choice(TEXTS)))] = value(rng)
    document["training"]["statistics"] = rng.choice((statistics, statistics, statistics, value(rng)))
    config.write_text(json.dumps(document))
    words = ["check", workshop.GRAPH, "-m", workshop.PURIFIER, *rng.choice(([], ["--json"]))]
    return Case(f"{words} with {document['training']['statistics']}", command(*words))


async def _ask(
    model: Service, token: str | None, method: str, path: str, headers: list[tuple[bytes, bytes]], parts: list[bytes]
) -> tuple[int, bytes]:
    """Send a request through ASGI, and return the status and the body of the answer."""
    app = create_app(model, token=token)
    waiting = [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    async with app.router.lifespan_context(app):
        await app(scope, receive, send)
    starts = [message for message in answers if message["type"] == "http.response.start"]
    if len(starts) != 1:
        raise WrongResult(f"{len(starts)} answers")
    return starts[0]["status"], b"".join(message.get("body", b"") for message in answers)


def _body(rng: random.Random, path: str) -> bytes:
    good: dict[str, Any]
    if path == "/neighbourhood":
        good = {"nodes": [rng.randrange(workshop.NODES) for _ in range(3)], "hops": rng.choice((1, 2, 5))}
    elif path == "/purify":
        good = {"edges": [[0, 1], [1, 2]], "weights": [1.0, 0.5]}
        good |= {"nodes": [3, 4, 5]} if rng.random() < 0.5 else {"x": [[0.5] * workshop.FEATURES_OF_DATA] * 3}
    else:
        good = {"pairs": [[rng.randrange(workshop.NODES), rng.randrange(workshop.NODES)] for _ in range(4)]}
    text = json.dumps(good)
    way = rng.randrange(8)
    if way < 4:
        return damage_json(rng, text).encode("utf-8", "surrogatepass")
    if way == 4:
        return damage_bytes(rng, text.encode())
    if way == 5:
        return json.dumps(value(rng)).encode()
    if way == 6:
        return text.replace("[", "[" * rng.choice((1, 3, 60_000)), 1).encode()
    return text.encode()


def _headers(rng: random.Random, body: bytes) -> list[tuple[bytes, bytes]]:
    headers = [(b"host", b"x"), (b"content-length", str(len(body)).encode())]
    if rng.random() < 0.5:
        headers.append((b"authorization", rng.choice((b"Bearer " + TOKEN.encode(), b"Bearer", b"\xff\xfe", b""))))
    if rng.random() < 0.3:
        names = (b"content-length", b"content-type", b"transfer-encoding", b"expect", b"x" * 1000)
        headers.insert(rng.randrange(3), (rng.choice(names), str(rng.choice((*INTEGERS, *TEXTS))).encode()))
    return headers


def _parts(rng: random.Random, body: bytes) -> list[bytes]:
    """The body in the pieces in which it arrives; at times more of it than is allowed."""
    if rng.random() < 0.1:
        return [body, *[b" " * 9000] * rng.choice((1, 20))]
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.choice((0, 0, 1, 5))))
    return [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _check(path: str, method: str, body: bytes, answer: bytes) -> None:
    if method != "POST" or path not in PATHS:
        return
    found = json.loads(answer, parse_constant=lambda name: (_ for _ in ()).throw(WrongResult(name)))
    numbers = found["scores"] if path == "/score" else found["weights"]
    expected = {"/score": "pairs", "/purify": "edges"}.get(path)
    if expected and len(numbers) != len(json.loads(body)[expected]):
        raise WrongResult(f"{len(numbers)} numbers")
    if path != "/purify":  # a posted self-loop keeps its weight, which may be anything
        _in_range(torch.tensor(numbers))


def _odd_pairs(rng: random.Random) -> torch.Tensor:
    shape = rng.choice(((2, 5), (2, 5), (2, 0), (5, 2), (2,), (2, 3, 1)))
    high = rng.choice((workshop.NODES, workshop.NODES, 2**40))
    dtype = rng.choice((torch.int64, torch.int64, torch.int32, torch.int8, torch.float32, torch.bool))
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    return torch.randint(rng.choice((0, 0, -3)), high, shape, generator=generator).to(dtype)


def _in_range(found: torch.Tensor) -> None:
    if not bool(((found >= 0) & (found <= 1)).all()):
        raise WrongResult("scores or weights outside [0, 1]")
