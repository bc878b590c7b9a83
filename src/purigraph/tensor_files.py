"""Safetensors files: written atomically and always to the same bytes, read without unpickling anything.

A file is the length of its header (8 bytes, little endian), the header as JSON, and the data of the tensors.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from purigraph.errors import ModelFileError
from purigraph.files import regular_file_size, write_bytes

_LARGEST_HEADER = 10_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


@dataclass(frozen=True)
class TensorHeader:
    """The dtype and the shape of a stored tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True)
class FileHeader:
    """What a file says about its contents.

    Attributes:
        tensors: The stored tensors by name.
        metadata: Texts by name.
    """

    tensors: Mapping[str, TensorHeader]
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class TensorFile:
    """The contents of a file.

    Attributes:
        tensors: The tensors by name.
        metadata: Texts by name.
        sha256: The SHA-256 of the very bytes that the tensors were read from.
    """

    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    sha256: str


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically; the same contents give the same bytes."""
    write_bytes(path, *tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> tuple[bytes, bytes]:
    """Return a safetensors file in two parts, its header and its data.

    The library sorts the tensors, but writes the metadata in random order: here it is sorted as well.
    """
    contents = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    whole = save(contents, metadata=None if metadata is None else dict(metadata))
    end = _LENGTH_BYTES + int.from_bytes(whole[:_LENGTH_BYTES], "little")
    header = json.loads(whole[_LENGTH_BYTES:end])
    if metadata is not None:
        del header[_METADATA]
        header = {_METADATA: dict(sorted(metadata.items())), **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % _LENGTH_BYTES)  # so that the data is aligned
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text, whole[end:]


def read_header(path: str | Path) -> FileHeader:
    """Read what a safetensors file says about its contents, without reading the tensors.

    Raises:
        ModelFileError: If the file is missing, damaged, or its size is not that of its tensors; the message names it.
    """
    size = regular_file_size(path)
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, _LARGEST_HEADER):
                raise _damaged(path, "its header has an impossible length")
            header = json.loads(file.read(length).decode("utf-8"))
    except OSError as error:
        raise ModelFileError(f"{path} can't be read: {error.strerror or error}.") from None
    except RecursionError:
        raise _damaged(path, "its header is nested too deeply") from None
    except ModelFileError:
        raise
    except ValueError as error:
        raise _damaged(path, f"its header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a JSON object")
    metadata = header.pop(_METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _damaged(path, "its metadata is not text")
    tensors = {name: _tensor_header(path, name, entry) for name, entry in header.items()}
    expected = sum(math.prod(one.shape) * one.dtype.itemsize for one in tensors.values())
    if expected != size - _LENGTH_BYTES - length:
        raise _damaged(path, f"its tensors take {expected:,} bytes, but it holds {size - _LENGTH_BYTES - length:,}")
    return FileHeader(tensors, metadata)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file: return the tensors and the metadata.

    Raises:
        ModelFileError: If the file is missing, damaged, or larger than the memory of this machine.
    """
    found = read_tensor_file(path)
    return found.tensors, found.metadata


def read_tensor_file(path: str | Path) -> TensorFile:
    """Read a safetensors file and its hash; see `read_tensors`."""
    header = read_header(path)
    size, memory = regular_file_size(path), _memory()
    if memory is not None and 2 * size > memory:  # the bytes, and the tensors that are copied from them
        raise ModelFileError(
            f"{path} has {size / 1e9:.1f} GB: reading it takes twice as much memory, and this machine has "
            f"{memory / 1e9:.1f} GB."
        )
    try:
        content = Path(path).read_bytes()
        tensors = load(content)
    except OSError as error:
        raise ModelFileError(f"{path} can't be read: {error.strerror or error}.") from None
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise _damaged(path, str(error)) from None
    return TensorFile(tensors, dict(header.metadata), hashlib.sha256(content).hexdigest())


def _tensor_header(path: str | Path, name: str, entry: Any) -> TensorHeader:
    if not isinstance(entry, dict):
        raise _damaged(path, f"its entry {name!r} is not a JSON object")
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _damaged(path, f"the dtype {dtype!r} of {name!r} is not one of {', '.join(_DTYPES)}")
    if not isinstance(shape, list) or not all(type(one) is int and one >= 0 for one in shape):
        raise _damaged(path, f"the shape {shape!r} of {name!r} is not a list of sizes")
    return TensorHeader(_DTYPES[dtype], tuple(shape))


def _damaged(path: str | Path, reason: str) -> ModelFileError:
    return ModelFileError(f"{path} is not a valid safetensors file ({reason}): it is damaged, cut short or foreign.")


def _memory() -> int | None:
    """Return the memory of this machine in bytes, or None if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # pragma: no cover - Windows
        return None
