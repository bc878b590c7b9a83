"""The service's figures, in the format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from purigraph._version import __version__

# Latencies of an answer from kept node states begin at a millisecond.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The figures of one application; each has a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("purigraph_requests", "Answered requests.", ["path", "status"], registry=self._registry)
        self.seconds = Histogram(
            "purigraph_request_seconds",
            "The time from the arrival of a request to its answer.",
            ["path"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.in_flight = Gauge("purigraph_in_flight", "Requests at work or waiting.", registry=self._registry)
        self.edges = Counter(
            "purigraph_edges", "Pairs and edges that got a score or a weight.", ["path"], registry=self._registry
        )
        version = Gauge("purigraph_version", "The version of purigraph.", ["version"], registry=self._registry)
        version.labels(__version__).set(1)

    def text(self) -> bytes:
        """Return all figures as text."""
        return generate_latest(self._registry)
