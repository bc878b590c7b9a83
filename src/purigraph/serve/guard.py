"""What stands before the application: the token, the limits of bodies and of the queue, and the figures."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purigraph.serve.metrics import Metrics
from purigraph.serve.settings import ServeSettings

#: Paths that are answered at once, also without the token: probes must work when nothing else does.
OPEN_PATHS = frozenset({"/health", "/ready"})
#: Paths that compute something, and so wait in the queue.
WORK_PATHS = frozenset({"/score", "/neighbourhood", "/purify", "/report"})
_KNOWN_PATHS = OPEN_PATHS | WORK_PATHS | {"/metrics", "/openapi.json"}
_RETRY_AFTER = "1"


class Refused(Exception):
    """A request is not let in.

    Attributes:
        status: The status of the answer.
        headers: Headers of the answer.
    """

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, dict(headers or {})


class Guard:
    """ASGI middleware that lets in what the application can handle.

    A body is read here, whole and bounded in size and time, before the application sees the request: what is refused
    never costs more than that. The number of requests that are read, waiting or at work is bounded, too.

    Args:
        app: The application.
        settings: The limits.
        metrics: Where requests are counted.
        token: What clients must send as `Authorization: Bearer TOKEN`. Default: nothing.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, token: str | None = None) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._token = None if token is None else token.encode()
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; other events of ASGI pass through."""
        if scope["type"] == "websocket":
            return  # not accepted: the server answers 403
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in _KNOWN_PATHS else "other"
        started, status = time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._admit(scope, receive, noting)
        except Refused as refused:
            status = refused.status
            await _answer(send, refused)
        finally:
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.monotonic() - started)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in OPEN_PATHS:
            self._check_token(scope)
        if scope["path"] not in WORK_PATHS:
            # Nothing else has a use for a body; it is dropped with the connection.
            await self.app(scope, _nothing, send)
            return
        if self._in_flight > self.settings.queue:
            raise Refused(429, "The service is busy: try again later.", {"retry-after": _RETRY_AFTER})
        self._in_flight += 1
        self.metrics.in_flight.set(self._in_flight)
        try:
            body = await self._read(scope, receive)
            await self.app(scope, _replay(body, receive), send)
        finally:
            self._in_flight -= 1
            self.metrics.in_flight.set(self._in_flight)

    def _check_token(self, scope: Scope) -> None:
        if self._token is None:
            return
        given = _headers(scope).get(b"authorization", b"")
        # Compared in constant time: how long a refusal takes must not tell how much of a token is right.
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            raise Refused(401, "A token is needed: Authorization: Bearer TOKEN.", {"www-authenticate": "Bearer"})

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        most = self.settings.max_body_bytes
        announced = _headers(scope).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            raise Refused(413, f"The body may have at most {most} bytes.", {"connection": "close"})
        parts: list[bytes] = []
        size = 0
        deadline = asyncio.get_running_loop().time() + self.settings.read_seconds
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                message = await asyncio.wait_for(receive(), max(left, 0.001))
            except asyncio.TimeoutError:
                raise Refused(408, "The body did not arrive in time.", {"connection": "close"}) from None
            if message["type"] == "http.disconnect":
                raise Refused(400, "The client went away.")
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise Refused(413, f"The body may have at most {most} bytes.", {"connection": "close"})
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


def _headers(scope: Scope) -> MutableMapping[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), value)
    return headers


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that has the whole body at once, and then whatever the server says."""
    waiting: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _answer(send: Send, refused: Refused) -> None:
    body = json.dumps({"error": str(refused)}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refused.headers}
    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": listed})
    await send({"type": "http.response.body", "body": body})
