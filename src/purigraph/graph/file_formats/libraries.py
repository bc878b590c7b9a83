"""Libraries that only some formats need, imported when such a file is read."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from purigraph.errors import InputError


def require(module: str, path: str | Path) -> Any:
    """Import a module of the extra `files`; say how to install it if it is not there."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError(
            f"{path} can't be read or written without {package}: pip install 'purigraph[files]', or convert it to a "
            ".npz graph file (docs/graph-files.md)."
        ) from None
