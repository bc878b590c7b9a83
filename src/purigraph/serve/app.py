"""The routes of the service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from purigraph._version import __version__
from purigraph.errors import PurigraphError
from purigraph.serve.guard import Guard
from purigraph.serve.metrics import Metrics
from purigraph.serve.requests import Body, NeighbourhoodRequest, PurifyRequest, ScoreRequest
from purigraph.serve.service import Service

_LOG = logging.getLogger("purigraph.serve")

# The page has no scripts and loads nothing; a browser is told to insist on it.
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "x-content-type-options": "nosniff",
}


def create_app(service: Service, *, token: str | None = None) -> FastAPI:
    """Return the ASGI application.

    Everything is computed on one thread, in the order of arrival: PyTorch's kernels use all cores themselves, and the
    event loop stays free to answer probes and to refuse what is too much.

    Args:
        service: What is served.
        token: What clients must send as `Authorization: Bearer TOKEN`. Default: nothing.

    Routes: `POST /score`, `POST /neighbourhood`, `POST /purify`, `GET /report`, `GET /health`, `GET /ready`,
    `GET /metrics`, `GET /openapi.json`.
    """
    worker = ThreadPoolExecutor(1, thread_name_prefix="purigraph-serve")
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        warm = asyncio.get_running_loop().run_in_executor(worker, service.prepare)
        warm.add_done_callback(_log_failure)
        try:
            yield
        finally:
            worker.shutdown(wait=True, cancel_futures=True)

    # No interactive documentation: its page loads scripts from elsewhere.
    app = FastAPI(title="purigraph", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, settings=service.settings, metrics=metrics, token=token)

    async def compute(work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(worker, work, *arguments)

    async def answer(request: Request, work: Callable[[bytes], dict[str, Any]], counted: str) -> Response:
        try:
            result = await compute(work, await request.body())
        except PurigraphError as error:
            return JSONResponse({"error": str(error)}, 422)
        except MemoryError:
            return JSONResponse({"error": "The memory is not enough for this request: make it smaller."}, 507)
        except Exception:
            _LOG.exception("A request to %s failed.", request.url.path)
            return JSONResponse({"error": "The request failed; the log of the service says why."}, 500)
        metrics.edges.labels(request.url.path).inc(len(result[counted]))
        return JSONResponse(result)

    @app.post("/score", openapi_extra=_takes(ScoreRequest))
    async def score(request: Request) -> Response:
        """Score pairs of nodes against the served graph; higher is more trustworthy."""
        return await answer(request, service.score, "scores")

    @app.post("/neighbourhood", openapi_extra=_takes(NeighbourhoodRequest))
    async def neighbourhood(request: Request) -> Response:
        """Purify the neighbourhood of nodes of the served graph."""
        return await answer(request, service.neighbourhood, "weights")

    @app.post("/purify", openapi_extra=_takes(PurifyRequest))
    async def purify(request: Request) -> Response:
        """Purify a posted graph."""
        return await answer(request, service.purify, "weights")

    @app.get("/report", response_class=HTMLResponse)
    async def report() -> Response:
        """The page of evidence of the served graph's purification."""
        try:
            return HTMLResponse(await compute(service.report), headers=_PAGE_HEADERS)
        except PurigraphError as error:
            return JSONResponse({"error": str(error)}, 422)
        except Exception:
            _LOG.exception("The report failed.")
            return JSONResponse({"error": "The report failed; the log of the service says why."}, 500)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the process is alive."""
        return {"status": "alive", "version": __version__}

    @app.get("/ready")
    async def ready() -> Response:
        """Say whether the node states are computed."""
        about = {"nodes": service.num_nodes, "edges": service.num_edges, "graph": service.graph_id}
        return JSONResponse({"ready": service.ready, **about}, 200 if service.ready else 503)

    @app.get("/metrics")
    async def figures() -> Response:
        """Return the figures of the service, for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


def _takes(body: type[Body]) -> dict[str, Any]:
    """Describe a body that is read by `Body.read`, off the event loop, and so not by FastAPI."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": body.model_json_schema()}}}}


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _LOG.error("The node states could not be computed.", exc_info=done.exception())
