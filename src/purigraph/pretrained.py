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
from torch import Tensor, nn

from purigraph._version import __version__
from purigraph.errors import InputError, ModelFileError
from purigraph.model_folders import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    check_folder,
    consistent,
    read_document,
    save_model,
    weights_path,
)
from purigraph.model_shapes import build_checked, check_finite
from purigraph.registry import Components
from purigraph.settings import Configured, Settings, setting
from purigraph.tensor_files import read_tensor_file

Self = TypeVar("Self", bound="Pretrained")
P = TypeVar("P", bound="Pretrained")

HUB = "hf://"

# Where the tables of names are. A component that holds one of another kind finds its class here by name, as through an
# entry point: the packages of the two don't import each other.
_TABLES = {
    "classifier": "purigraph.classifiers",
    "purifier": "purigraph.purifiers",
    "anchor": "purigraph.anchors",
}


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

        One rename switches from an old model to the new one: a process that is killed at any moment leaves a folder
        that loads as either.

        Raises:
            ModelFileError: If the folder holds a `config.json` that purigraph did not write, or a model of another kind
                (a classifier where a purifier is saved), or if a weight is not finite.
            OutputError: If the files can't be written; an old model stays as it is.
        """
        target = Path(folder)
        check_folder(target, self._identity())
        # Copied, as tensors may share memory in torch (tied or sliced weights), but not in safetensors.
        state = {name: tensor.detach().cpu().clone() for name, tensor in self.state_dict().items()}
        check_finite(f"The model can't be saved to {target}", state)
        document: dict[str, Any] = {
            "purigraph_version": __version__,
            "class": self._identity(),
            "config": self.settings.to_json(),
            "dtype": _dtype_name(state),
        }
        save_model(target, document, state, None if self.provenance is None else dict(self.provenance))

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
        return consistent(path, lambda: cls._load(path))

    @classmethod
    def _load(cls: type[Self], path: Path) -> Self:
        document = read_document(path)
        if document["class"] != cls._identity():
            raise ModelFileError(
                f"{path} holds a {document['class']}, not a {cls._identity()}: call from_pretrained on the "
                "class that was saved."
            )
        weights = weights_path(path, document)
        dtype = _read_dtype(document["dtype"], path)
        model = build_checked(cls, document["config"], dtype, path / CONFIG_FILE, weights)
        found = read_tensor_file(weights)
        if found.sha256 != document["sha256"]:
            raise ModelFileError(
                f"{weights} is not the file that {CONFIG_FILE} was saved with (its SHA-256 "
                "differs): it is damaged or belongs to another model."
            )
        check_finite(str(weights), found.tensors)
        model.load_state_dict(found.tensors, strict=True)
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
                f"{folder} holds a {kind}{'/' if name else ''}{name}, not one of the {self.kind}s that are registered "
                f"here ({', '.join(self.names())})."
            )
        return self[name].from_pretrained(path)


class ComponentRecord(Settings):
    """Which component another one holds, as a setting: what it takes to build it again.

    Its tensors are those of the holder, of which it is a submodule.
    """

    kind: str = setting("What it is: classifier, purifier or anchor.")
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
