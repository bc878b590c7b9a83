"""How the service listens, and how much it takes on."""

from __future__ import annotations

from purigraph.settings import Settings, setting


class ServeSettings(Settings):
    """Settings of the HTTP service. Memory is bounded by (queue + 1) bodies and what one request computes."""

    host: str = setting("The address to listen on. Default: this machine only.", default="127.0.0.1")
    port: int = setting("The port to listen on; 0 takes a free one.", default=8000, ge=0, le=65535)
    max_body_bytes: int = setting("The largest body of a request; 413 above.", default=4 << 20, ge=1)
    max_pairs: int = setting("The largest number of pairs, or of posted edges, in a request.", default=50_000, ge=1)
    max_nodes: int = setting("The largest number of nodes of a posted graph or a neighbourhood.", default=50_000, ge=1)
    max_hops: int = setting("The largest neighbourhood.", default=10, ge=1)
    queue: int = setting("The number of requests that may wait for the one at work; 429 above.", default=64, ge=0)
    max_connections: int = setting("The number of open connections; 503 above.", default=1024, ge=1)
    read_seconds: float = setting("How long a client may take to send a request.", default=10.0, gt=0, le=3600)
    drain_seconds: float = setting(
        "How long requests that are under way may take after a SIGTERM.", default=30.0, gt=0, le=3600
    )
