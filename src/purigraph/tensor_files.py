"""Safetensors files: written atomically, read without unpickling anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from purigraph.errors import ModelFileError
from purigraph.files import atomic_path


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    with atomic_path(path) as temporary:
        contents = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(contents, temporary, metadata=None if metadata is None else dict(metadata))


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file: return the tensors and the metadata.

    Raises:
        ModelFileError: If the file is missing or damaged; the message names it.
    """
    if not Path(path).is_file():
        raise ModelFileError(f"{path} does not exist.")
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
            return tensors, dict(file.metadata() or {})
    except SafetensorError as error:
        raise ModelFileError(
            f"{path} is not a valid safetensors file ({error}): it is damaged, cut short or foreign."
        ) from None
