"""Saving a trained module as `config.json` + `model.safetensors`, and loading it strictly.

`huggingface_hub.ModelHubMixin` was considered but is not used: it deletes the `config.json` of a folder before saving
(so a crash destroys the old model), treats any name that is not a folder as a repository to download (so a typo becomes
a network request), and adds 0.2 s to every import. Instead, the Hub is accessed through the public functions of that
package, and only for `hf://owner/name`.
"""

from __future__ import annotations

import inspect
import tempfile
from abc import ABC
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from purigraph._version import __version__
from purigraph.errors import InputError, ModelFileError, PurigraphError
from purigraph.files import atomic_path, read_json, sha256, write_json
from purigraph.registry import Components
from purigraph.settings import Configured, Settings, setting
from purigraph.tensor_files import read_tensors

Self = TypeVar("Self", bound="Pretrained")
P = TypeVar("P", bound="Pretrained")

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
HUB = "hf://"

_KEYS = {"purigraph_version", "class", "config", "dtype", "sha256"}

# Where the tables of names are. A component that holds one of another kind finds its class here by name, as through an
# entry point: the packages of the two don't import each other.
_TABLES = {"classifier": "purigraph.classifiers", "purifier": "purigraph.purifiers"}


class Pretrained(Configured, nn.Module, ABC):
    """A configured module that can be saved to a folder and loaded back bit-identically.

    The folder holds two files. `model.safetensors` has the module's `state_dict`; `config.json` has

    - `purigraph_version` and `class`: the version that wrote it and the class of the module;
    - `config`: the settings that the module is built from, including its dimensions;
    - `dtype`: the dtype of its floating-point tensors (null if they have different ones);
    - `sha256`: the hash of the other file, so files of different models are never combined;
    - `training`: where the weights come from, if known (see `provenance`).
    """

    #: The registry of this kind of component.
    registry: ClassVar[SavedComponents[Any] | None] = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._provenance: Mapping[str, Any] | None = None

    @property
    def provenance(self) -> Mapping[str, Any] | None:
        """Return where the weights come from (training settings, seed, scores) as JSON values, or None if unknown."""
        return self._provenance

    @provenance.setter
    def provenance(self, record: Mapping[str, Any] | None) -> None:
        self._provenance = record

    @classmethod
    def _identity(cls) -> str:
        """Return the value of `class` in the configuration; it is only compared, never imported."""
        name = None if cls.registry is None else cls.registry.name_of(cls)
        if cls.registry is None or name is None:
            return f"{cls.__module__}.{cls.__qualname__}"
        return f"{cls.registry.kind}/{name}"

    def extra_repr(self) -> str:
        """Return the settings for `print(model)`."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.values().items())

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` to a folder, both or neither; other files there are kept.

        Both are written completely to temporary files before either is moved to its place.
        """
        target = Path(folder)
        if target.exists() and not target.is_dir():
            raise ModelFileError(f"{target} is a file: a model is saved to a folder.")
        # Copied, as tensors may share memory in torch (tied or sliced weights), but not in safetensors.
        state = {name: tensor.detach().cpu().clone() for name, tensor in self.state_dict().items()}
        document: dict[str, Any] = {
            "purigraph_version": __version__,
            "class": self._identity(),
            "config": self.settings.to_json(),
            "dtype": _dtype_name(state),
        }
        # The configuration is moved last: without it, the folder is not a model.
        with atomic_path(target / CONFIG_FILE) as config, atomic_path(target / WEIGHTS_FILE) as weights:
            save_file(state, weights)
            document["sha256"] = sha256(weights)
            if self.provenance is not None:
                document["training"] = dict(self.provenance)
            write_json(config, document)

    @classmethod
    def from_pretrained(cls: type[Self], folder: str | Path, *, revision: str | None = None) -> Self:
        """Load a module saved by `save_pretrained`, in evaluation mode.

        Args:
            folder: A local folder (without any network access), or `hf://owner/name` for a repository on the Hugging
                Face Hub.
            revision: A branch, tag or commit of that repository. Default: its main branch.

        Raises:
            ModelFileError: If the files are missing, damaged, of an unknown format or of another class, or if a tensor
                is missing, unexpected or does not have the shape or dtype given by the configuration.
        """
        if inspect.isabstract(cls) or cls is Pretrained:
            raise ModelFileError(
                f"{cls.__name__} is an abstract base class: call from_pretrained on the class that was saved, or use "
                "load of its package, which finds the class."
            )
        path = local_folder(folder, revision)
        document = read_document(path)
        if document["class"] != cls._identity():
            raise ModelFileError(
                f"{path} holds a {document['class']}, not a {cls._identity()}: call from_pretrained on the "
                "class that was saved."
            )
        tensors, _ = read_tensors(path / WEIGHTS_FILE)
        model = cls._from_config(document["config"], path)
        dtype = _read_dtype(document["dtype"], path)
        if dtype is not None:
            model.to(dtype)
        _check_tensors(path / WEIGHTS_FILE, expected=model.state_dict(), found=tensors)
        if sha256(path / WEIGHTS_FILE) != document["sha256"]:
            raise ModelFileError(
                f"{path / WEIGHTS_FILE} is not the file that {CONFIG_FILE} was saved with (its SHA-256 "
                "differs): it is damaged or belongs to another model."
            )
        model.load_state_dict(tensors, strict=True)
        model.provenance = document.get("training")
        return model.eval()

    def push_to_hub(
        self, repo_id: str, *, private: bool | None = None, commit_message: str = "Upload with purigraph"
    ) -> str:
        """Upload both files to a Hugging Face Hub repository (created if needed) and return the URL of the commit.

        Needs a login (`hf auth login`).
        """
        from huggingface_hub import HfApi  # takes 0.2 s, so only imported if the Hub is used

        api = HfApi()
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return str(api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message))

    @classmethod
    def _from_config(cls: type[Self], config: Mapping[str, Any], path: Path) -> Self:
        try:
            # The initial weights are overwritten at once and must not change the caller's random state.
            with torch.random.fork_rng(devices=[]):
                return cls(**config)
        except (TypeError, ValueError, RuntimeError, PurigraphError) as error:
            raise ModelFileError(
                f"{path / CONFIG_FILE} does not describe a {cls.__name__} of purigraph {__version__}: {error}"
            ) from error


class SavedComponents(Components[P], Generic[P]):
    """A registry of components that can be saved."""

    def load(self, folder: str | Path, *, revision: str | None = None) -> P:
        """Load a saved component of this kind, whatever its class.

        Args:
            folder: A local folder, or `hf://owner/name` for a repository on the Hugging Face Hub.
            revision: A branch, tag or commit of that repository. Default: its main branch.

        Raises:
            ModelFileError: If there is no such folder, or its files are damaged, of another kind or unknown.
        """
        path = local_folder(folder, revision)
        kind, _, name = read_document(path)["class"].partition("/")
        if kind != self.kind or name not in self:
            raise ModelFileError(
                f"{folder} holds a {kind}{'/' if name else ''}{name}, not a {self.kind} that is registered here "
                f"({', '.join(self.names())})."
            )
        return self[name].from_pretrained(path)


class ComponentRecord(Settings):
    """Which component another one holds, as a setting: what it takes to build it again.

    Its tensors are those of the holder, of which it is a submodule.
    """

    kind: str = setting("What it is: classifier or purifier.")
    name: str = setting("The name that it is registered under.")
    config: dict[str, Any] = setting("Its settings, as plain JSON values.")

    @classmethod
    def of(cls, component: object) -> ComponentRecord:
        """Return the record of a component.

        Raises:
            InputError: If it is not registered under a name, without which nobody could build it again.
        """
        if isinstance(component, Pretrained) and component.registry is not None:
            table = component.registry
            name = table.name_of(type(component))
            if name is not None and table.kind in _TABLES:
                return cls(kind=table.kind, name=name, config=component.settings.to_json())
        raise InputError(
            f"A {type(component).__name__} is not registered under a name, so that what holds it could not be saved: "
            f"give one of {', '.join(f'{package}.names()' for package in _TABLES.values())}, or register its class."
        )

    def build(self) -> Pretrained:
        """Return a new component with these settings and with random initial values."""
        if self.kind not in _TABLES:
            raise InputError(f"There is no kind of component {self.kind!r}: {' and '.join(_TABLES)} are.")
        table: SavedComponents[Any] = import_module(_TABLES[self.kind]).registry
        component: Pretrained = table.create(self.name, **self.config)
        return component


def read_document(folder: str | Path) -> dict[str, Any]:
    """Read and check the `config.json` of a saved model (see `Pretrained` for its contents)."""
    path = Path(folder) / CONFIG_FILE
    document = read_json(path)
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} is not a JSON object: it was not written by purigraph.")
    missing = sorted(_KEYS - document.keys())
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(missing)}: it was not written by purigraph.")
    if not isinstance(document["class"], str) or not isinstance(document["config"], dict):
        raise ModelFileError(
            f"{path} is damaged or foreign: 'class' must be a string and 'config' an object, not "
            f"{type(document['class']).__name__} and {type(document['config']).__name__}."
        )
    return document


def local_folder(folder: str | Path, revision: str | None = None) -> Path:
    """Return the folder of a model: the given one, or one downloaded from the Hub for `hf://owner/name`.

    Raises:
        ModelFileError: If it does not exist; the message says what a model is.
    """
    name = str(folder)
    if name.startswith(HUB):
        return _download(name.removeprefix(HUB), revision)
    path = Path(folder)
    if not path.is_dir():
        found = "is not a folder" if path.exists() else "does not exist"
        raise ModelFileError(
            f"{path} {found}. A model is a folder with {CONFIG_FILE} and {WEIGHTS_FILE}; one on the Hugging "
            f"Face Hub is written {HUB}owner/name."
        )
    if revision is not None:
        raise ModelFileError(f"A revision belongs to a model on the Hub ({HUB}owner/name), not to {path}.")
    return path


def _download(repo_id: str, revision: str | None) -> Path:
    import huggingface_hub  # takes 0.2 s, so only imported if the Hub is used
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(
            huggingface_hub.snapshot_download(repo_id, revision=revision, allow_patterns=[CONFIG_FILE, WEIGHTS_FILE])
        )
    except (OSError, HFValidationError) as error:  # all HTTP errors of the Hub are OSErrors
        reason = str(error).strip().split("\n")[0]
        raise ModelFileError(f"{HUB}{repo_id} can't be downloaded from the Hugging Face Hub: {reason}") from error


def _dtype_name(state: Mapping[str, Tensor]) -> str | None:
    dtypes = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    return str(dtypes.pop()).removeprefix("torch.") if len(dtypes) == 1 else None


def _read_dtype(name: object, path: Path) -> torch.dtype | None:
    if name is None:
        return None
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ModelFileError(f"{path / CONFIG_FILE}: {name!r} is not a floating-point dtype of PyTorch.")
    return dtype


def _check_tensors(path: Path, expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    missing = sorted(expected.keys() - found.keys())
    superfluous = sorted(found.keys() - expected.keys())
    if missing:
        name = missing[0]
        others = f" It holds {', '.join(superfluous)}, which is not expected." if superfluous else ""
        raise ModelFileError(
            f"{path} lacks the tensor {name!r} of shape {tuple(expected[name].shape)} "
            f"({len(missing)} of {len(expected)} tensors are missing).{others}"
        )
    if superfluous:
        raise ModelFileError(f"{path} holds tensors that the configuration does not expect: {', '.join(superfluous)}.")
    for name, tensor in expected.items():
        if found[name].shape != tensor.shape:
            raise ModelFileError(
                f"{path}: tensor {name!r} should have the shape {tuple(tensor.shape)}, "
                f"but has {tuple(found[name].shape)}."
            )
        if found[name].dtype != tensor.dtype:
            raise ModelFileError(f"{path}: tensor {name!r} should be {tensor.dtype}, but is {found[name].dtype}.")
