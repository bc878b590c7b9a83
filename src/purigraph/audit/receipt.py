"""Receipts: what was purified, by what, and what came of it, so that anybody can do it again and compare."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from purigraph._version import __version__
from purigraph.audit.file_audit import FileAudit, Request, audit_file
from purigraph.errors import InputError, ModelFileError
from purigraph.files import json_text, read_json, sha256
from purigraph.fingerprint import fingerprint
from purigraph.model_folders import CONFIG_FILE, read_document
from purigraph.pretrained import HUB

FORMAT = "purigraph.receipt/1"
SUFFIX = ".receipt.json"
_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "pyarrow", "networkx")
_KEYS = ("format", "request", "models", "inputs", "output", "counts")


def receipt_path(output: Path) -> Path:
    """Return where the receipt of an output is: beside it, with `.receipt.json` after its name."""
    return output.with_name(output.name + SUFFIX)


def make_receipt(found: FileAudit, written: Path, output: Path, folder: Path) -> dict[str, Any]:
    """Return the receipt of a purification.

    Args:
        found: The purification.
        written: Where its output can be read now.
        output: Where that will be.
        folder: The folder of the receipt; paths are given relative to it, so that all can be moved together.
    """
    request = found.request
    files = {name: _file(path, folder) for name, path in request.files().items()}
    models = {name: _model(place, folder) for name, place in request.models().items()}
    moved = {name: entry["path"] for name, entry in {**files, **models}.items()}
    return {
        "format": FORMAT,
        "purigraph_version": __version__,
        "versions": versions(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(found.seconds, 3),
        "threads": torch.get_num_threads(),
        "request": {**request.to_json(), **moved},
        "models": models,
        "inputs": files,
        "graph": {"fingerprint": _graph_fingerprint(found), **found.document.facts()},
        "output": {"path": _relative(output, folder), "sha256": sha256(written), "bytes": written.stat().st_size},
        "threshold": None if found.audit.decision is None else found.audit.suspicious_below,
        "counts": found.audit.counts(),
    }


def versions() -> dict[str, str]:
    """Return the versions of everything that may change a result."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True)
class Verification:
    """What became of a receipt when it was checked.

    Attributes:
        matches: Whether everything is as the receipt says.
        checks: What was compared: a name, whether it is as it was, and a sentence.
    """

    matches: bool
    checks: list[tuple[str, bool, str]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rows = [{"check": name, "matches": fits, "detail": detail} for name, fits, detail in self.checks]
        return {"matches": self.matches, "checks": rows}


def read_receipt(path: str | Path) -> dict[str, Any]:
    """Read a receipt.

    Raises:
        InputError: If it is missing or not a receipt; the message names it.
    """
    try:
        document = read_json(path)
    except ModelFileError as error:
        raise InputError(str(error)) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path} is not a receipt of `purigraph purify` (its format is not {FORMAT}).")
    missing = [key for key in _KEYS if not isinstance(document.get(key), str if key == "format" else dict)]
    if missing:
        raise InputError(f"{path} is a damaged receipt: it lacks {', '.join(missing)}.")
    return document


def verify(path: str | Path) -> Verification:
    """Check a receipt: whether its inputs, models and output are what they were, and purify again to compare.

    The replay is bit-identical on the same machine with the same versions; the receipt's own are named if it is not.

    Raises:
        InputError: If it is not a receipt, or a file that it names can't be read.
    """
    receipt, folder = read_receipt(path), Path(path).resolve().parent
    checks: list[tuple[str, bool, str]] = []
    request = _request(receipt, folder, path)
    for name, place in request.files().items():
        checks.append(_compare_file(f"input {name}", Path(place), _entry(receipt["inputs"], name)))
    for name, place in request.models().items():
        checks.append(_compare_model(name, place, _entry(receipt["models"], name)))
    output = _entry({"output": receipt["output"]}, "output")
    written = folder / str(output.get("path"))
    if written.is_file():
        checks.append(_compare_file("output", written, output))
    else:
        checks.append(("output", True, f"{written} is not there any more; the replay is compared with its hash."))
    if all(fits for _, fits, _ in checks):
        checks.append(_replay(request, receipt, output))
    return Verification(all(fits for _, fits, _ in checks), checks)


def _replay(request: Request, receipt: Mapping[str, Any], output: Mapping[str, Any]) -> tuple[str, bool, str]:
    found = audit_file(request)
    with tempfile.TemporaryDirectory(prefix="purigraph-") as place:
        again = Path(place) / Path(str(output.get("path"))).name
        found.save(again)
        digest = sha256(again)
    if digest == output.get("sha256"):
        return "replay", True, "purifying again gives the same output, byte by byte."
    own, then = versions(), receipt.get("versions")
    other = [name for name, value in own.items() if isinstance(then, dict) and then.get(name) != value]
    why = f" Versions differ: {', '.join(other)}." if other else ""
    threads = receipt.get("threads")
    if threads != torch.get_num_threads():
        why += f" It was made with {threads} threads, and here are {torch.get_num_threads()}."
    counts = found.audit.counts()
    same = all(counts.get(name) == receipt["counts"].get(name) for name in ("edges", "suspicious", "cut"))
    what = "the same counts, but other bytes" if same else "another result"
    return "replay", False, f"purifying again gives {what}.{why}"


def _request(receipt: Mapping[str, Any], folder: Path, path: str | Path) -> Request:
    """Return the request of a receipt, with paths as they are from here."""
    values = dict(receipt["request"])
    named = {**receipt["inputs"], **receipt["models"]}
    for name in named:
        place = values.get(name)
        if isinstance(place, str) and not place.startswith(HUB):
            values[name] = os.path.normpath(folder / place)
    try:
        return Request(**values)
    except (InputError, TypeError) as error:
        raise InputError(f"{path} is a damaged receipt: {error}") from None


def _entry(entries: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    entry = entries.get(name)
    return entry if isinstance(entry, dict) else {}


def _file(path: str, folder: Path) -> dict[str, Any]:
    return {"path": _relative(Path(path), folder), "sha256": sha256(path), "bytes": os.path.getsize(path)}


def _model(place: str, folder: Path) -> dict[str, Any]:
    if place.startswith(HUB):
        return {"path": place}
    document = read_document(place)
    return {
        "path": _relative(Path(place), folder),
        "class": document["class"],
        "config_sha256": sha256(Path(place) / CONFIG_FILE),
        "weights_sha256": document["sha256"],
    }


def _compare_file(name: str, place: Path, entry: Mapping[str, Any]) -> tuple[str, bool, str]:
    if not place.is_file():
        return name, False, f"{place} is not there."
    size = place.stat().st_size
    if size != entry.get("bytes"):
        return name, False, f"{place} is not what it was: it has {size:,} bytes, not {entry.get('bytes')}."
    if sha256(place) == entry.get("sha256"):
        return name, True, f"{place} is what it was."
    return name, False, f"{place} is not what it was: its SHA-256 differs."


def _compare_model(name: str, place: str, entry: Mapping[str, Any]) -> tuple[str, bool, str]:
    if place.startswith(HUB):
        return name, True, f"{place} is not compared: it is not on this machine."
    try:
        found = _model(place, Path(place))
    except (ModelFileError, OSError) as error:
        return name, False, str(error)
    if all(found[key] == entry.get(key) for key in ("config_sha256", "weights_sha256")):
        return name, True, f"{place} is the same model."
    return name, False, f"{place} is another model than it was: its SHA-256 differs."


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(path.resolve(), folder.resolve())
    except ValueError:  # another drive, on Windows
        return str(path.resolve())


def _graph_fingerprint(found: FileAudit) -> str:
    graph = found.audit.graph
    return fingerprint(graph.codes, graph.weight, found.document.x)


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """Return a receipt as the text of its file."""
    return json_text(dict(receipt), ensure_ascii=False) + "\n"
