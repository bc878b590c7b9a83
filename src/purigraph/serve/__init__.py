"""The HTTP service: scores of new edges and purified neighbourhoods, from a purifier and the current graph.

It needs the extra `[serve]`: `pip install 'purigraph[serve]'`. `create_app` makes the ASGI application, for a server of
your own; `run` serves it with uvicorn, as `purigraph serve` does.
"""

from purigraph.serve.app import create_app
from purigraph.serve.server import run
from purigraph.serve.service import Service
from purigraph.serve.settings import ServeSettings

__all__ = ["ServeSettings", "Service", "create_app", "run"]
