"""Atomic writes, JSON and hashes of files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from purigraph.errors import ModelFileError


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; it replaces `path` if the block succeeds and is removed otherwise.

    Raises:
        OSError: If `path` can't be written. The error names `path`, not the temporary path.
    """
    target = Path(path)
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with _naming(target):
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: object) -> None:
    """Write JSON atomically, indented and with a final newline; see `json_text`."""
    write_text(path, json_text(value, ensure_ascii=False) + "\n")


def json_text(value: object, *, ensure_ascii: bool = True) -> str:
    """Return a value as indented JSON. Infinity and NaN, which JSON does not have, become null.

    >>> json_text([0.5, float("inf")]).split()
    ['[', '0.5,', 'null', ']']
    """
    return json.dumps(_finite(value), indent=2, ensure_ascii=ensure_ascii, allow_nan=False)


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        ModelFileError: If the file is missing, can't be read or is not JSON; the message names it.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise ModelFileError(f"{path} can't be read: {error.strerror or error}.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} is not valid JSON ({error}): the file is damaged or foreign.") from None


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Make file system errors name `target`."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
