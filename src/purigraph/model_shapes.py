"""Building a saved model only after its configuration was compared with the shapes in its weights file.

A configuration is a few bytes that may ask for any amount of memory. So the module is first built on PyTorch's `meta`
device, where tensors have shapes but no contents, and compared with the header of the file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from purigraph._version import __version__
from purigraph.errors import ModelFileError, PurigraphError
from purigraph.tensor_files import FileHeader, TensorHeader, read_header

M = TypeVar("M", bound=nn.Module)


def build_checked(
    kind: type[M], config: Mapping[str, Any], dtype: torch.dtype | None, config_path: Path, weights_path: Path
) -> M:
    """Build a module whose tensors have the names, shapes and dtypes of a weights file.

    Args:
        kind: The class of the module.
        config: Its settings.
        dtype: The dtype of its floating-point tensors; None leaves them unchanged.
        config_path: The file that `config` was read from, for the messages.
        weights_path: The weights file; only its header is read.

    Raises:
        ModelFileError: If the configuration does not describe such a module, or not one with these tensors.
    """
    header = read_header(weights_path)
    try:
        # A setting may also ask for millions of layers, so that not even the shapes fit.
        with _at_most_parameters(10 * len(header.tensors) + 1_000):
            shapes = _build(kind, config, dtype, config_path, "meta")
    except NotImplementedError:
        shapes = None  # a component of another package that needs the values of its tensors when it is built
    if shapes is not None:
        _check_tensors(weights_path, expected=shapes.state_dict(), header=header)
    model = _build(kind, config, dtype, config_path, None)
    if shapes is None:
        _check_tensors(weights_path, expected=model.state_dict(), header=header)
    return model


def check_finite(where: str, tensors: Mapping[str, Tensor]) -> None:
    """Raise `ModelFileError` if a tensor is not finite: the answers of such a model would be NaN."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            bad = int((~torch.isfinite(tensor)).sum())
            raise ModelFileError(f"{where}: tensor {name!r} is not finite ({bad} of {tensor.numel()} values).")


def _build(
    kind: type[M], config: Mapping[str, Any], dtype: torch.dtype | None, config_path: Path, device: str | None
) -> M:
    try:
        # The initial weights are overwritten at once and must not change the caller's random state.
        with torch.random.fork_rng(devices=[]):
            if device is None:
                model = kind(**config)
            else:
                with torch.device(device):
                    model = kind(**config)
        return model if dtype is None else model.to(dtype)
    except NotImplementedError:
        raise
    except RuntimeError as error:
        if device is not None and "meta" in str(error) and not isinstance(error, PurigraphError):
            raise NotImplementedError from error
        raise _not_described(kind, config_path, error) from error
    except (TypeError, ValueError, OverflowError, MemoryError, PurigraphError) as error:
        raise _not_described(kind, config_path, error) from error


def _not_described(kind: type[nn.Module], config_path: Path, error: Exception) -> ModelFileError:
    reason = str(error) or type(error).__name__
    return ModelFileError(f"{config_path} does not describe a {kind.__name__} of purigraph {__version__}: {reason}")


@contextmanager
def _at_most_parameters(limit: int) -> Iterator[None]:
    """Make a module that registers more parameters than this fail while it is built."""
    thread, count = threading.get_ident(), 0

    def registered(module: nn.Module, name: str, parameter: object) -> None:
        nonlocal count
        count += threading.get_ident() == thread
        if count > limit:
            raise ValueError("it has far more tensors than the weights file.")

    handle = register_module_parameter_registration_hook(registered)
    try:
        yield
    finally:
        handle.remove()


def _check_tensors(path: Path, expected: Mapping[str, Tensor], header: FileHeader) -> None:
    found: Mapping[str, TensorHeader] = header.tensors
    missing = sorted(expected.keys() - found.keys())
    superfluous = sorted(found.keys() - expected.keys())
    if missing:
        name = missing[0]
        others = f" It holds {_listing(superfluous)}, which is not expected." if superfluous else ""
        raise ModelFileError(
            f"{path} lacks the tensor {name!r} of shape {tuple(expected[name].shape)} "
            f"({len(missing)} of {len(expected)} tensors are missing).{others}"
        )
    if superfluous:
        raise ModelFileError(f"{path} holds tensors that the configuration does not expect: {_listing(superfluous)}.")
    for name, tensor in expected.items():
        if found[name].shape != tuple(tensor.shape):
            raise ModelFileError(
                f"{path}: tensor {name!r} should have the shape {tuple(tensor.shape)}, but has {found[name].shape}."
            )
        if found[name].dtype != tensor.dtype:
            raise ModelFileError(f"{path}: tensor {name!r} should be {tensor.dtype}, but is {found[name].dtype}.")


def _listing(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
