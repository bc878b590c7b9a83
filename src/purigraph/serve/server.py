"""Serving the application with uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from purigraph.errors import InputError
from purigraph.serve.app import create_app
from purigraph.serve.service import Service


def run(service: Service, *, token: str | None = None, announce: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGTERM or SIGINT; requests that are under way then are answered first.

    The signal is raised again at the end, for the handler that was there before.

    Args:
        service: What is served; its settings say where.
        token: What clients must send as `Authorization: Bearer TOKEN`. Default: nothing.
        announce: Called with the address, as a URL, once connections are taken.

    Raises:
        InputError: If the address can't be listened on.
    """
    settings = service.settings
    listening = _listen(settings.host, settings.port)

    class Timed(_TimedProtocol):
        read_seconds = settings.read_seconds

    config = uvicorn.Config(
        create_app(service, token=token),
        http=Timed,
        ws="none",
        access_log=False,
        log_level="warning",
        limit_concurrency=settings.max_connections,
        timeout_graceful_shutdown=max(round(settings.drain_seconds), 1),
        server_header=False,
    )
    with listening:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        announce(f"http://{host}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"The service can't listen on {host}, port {port}: {reason}.") from None


class _TimedProtocol(H11Protocol):
    """HTTP/1.1 whose clients must send the head of a request in time.

    uvicorn waits for it without end, so a few clients that send nothing would use up all connections.
    """

    read_seconds = 10.0
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._reconsider()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._reconsider()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._reconsider()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _reconsider(self) -> None:
        """Start the clock when a request is awaited, and stop it when its head is there; the guard times the body."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None
        elif self._watch is None:
            self._watch = self.loop.call_later(self.read_seconds, self._give_up)

    def _give_up(self) -> None:
        self._watch = None
        if not self.transport.is_closing():
            self.transport.close()
