"""`purigraph serve`: answer questions about edges over HTTP."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from purigraph.cli.commands import Terminated
from purigraph.cli.inputs import load_document, read_settings
from purigraph.cli.options import DeviceOption, FeaturesOption, SetOption
from purigraph.devices import check_device
from purigraph.errors import InputError

NAME = "serve"
HELP = "Serve scores of new edges and purified neighbourhoods of a graph over HTTP."

TOKEN_VARIABLE = "PURIGRAPH_TOKEN"
_LEAST_TOKEN = 16
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(
    purifier: Annotated[
        str, typer.Option("--purifier", "-m", help="The folder of a purifier (`purigraph fit`), or hf://owner/name.")
    ],
    graph: Annotated[
        str, typer.Option("--graph", "-g", metavar="GRAPH", help="The current graph: a dataset's name or a file.")
    ],
    features: FeaturesOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one. Default: 8000.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the token that clients must send. Default: the variable {TOKEN_VARIABLE}."),
    ] = None,
    settings: SetOption = None,
    device: DeviceOption = "cpu",
) -> None:
    """Load, listen, and answer until the process is told to stop."""
    try:
        from purigraph.serve import ServeSettings, Service
        from purigraph.serve import run as serve
    except ImportError as error:
        raise InputError(f"The service needs the extra [serve] ({error}): pip install 'purigraph[serve]'.") from None
    from purigraph import purifiers

    chosen: dict[str, Any] = read_settings(settings, host=host, port=port)
    options = ServeSettings(**chosen)
    token = _read_token(token_file)
    check_device(device)
    model = purifiers.load(purifier).to(device)
    data, document = load_document(graph, features=features, expected=model.feature_record, device=device)
    ids = None if document is None else document.ids
    service = Service(model, data, options, name=Path(graph).name, ids=ids)
    if options.host not in _LOOPBACK and token is None:
        typer.secho(
            f"Warning: everybody who reaches {options.host} can ask this service; set a token ({TOKEN_VARIABLE}).",
            err=True,
        )

    def announce(url: str) -> None:
        size = f"{service.num_nodes:,} nodes, {service.num_edges:,} edges"
        typer.echo(f"Serving {graph} ({size}) on {url}; Ctrl-C or SIGTERM ends it.", err=True)

    # It was asked to stop then, and all requests that were under way are answered.
    with contextlib.suppress(Terminated, KeyboardInterrupt):
        serve(service, token=token, announce=announce)
    typer.echo("Stopped.", err=True)


def _read_token(path: Path | None) -> str | None:
    """Return the token from the file or the environment; None if there is neither."""
    if path is not None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--token-file {path} can't be read: {error}.") from None
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            return None
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"A token must have at least {_LEAST_TOKEN} printable ASCII characters and no spaces: make one with "
            "`openssl rand -hex 32`."
        )
    return token
