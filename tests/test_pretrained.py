"""Saving and loading: to the same bits, or one clear sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from purigraph.classifiers import GAT, GCN, Classifier, load
from purigraph.errors import ModelFileError
from purigraph.pretrained import CONFIG_FILE, WEIGHTS_FILE, Pretrained
from purigraph.settings import setting


class Tiny(Pretrained):
    """A linear map, a counter and a mask."""

    size: int = setting("Inputs.", default=2, ge=1)
    scale: float = setting("Anything.", default=0.1)

    def _build(self) -> None:
        self.linear = nn.Linear(self.size, 1)
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("mask", torch.tensor([True, False]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Tiny().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def edit_config(folder: Path, **changes: Any) -> None:
    document = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**document, **changes}))


def edit_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    tensors = {**load_file(folder / WEIGHTS_FILE), **{k.replace("__", "."): v for k, v in changes.items()}}
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / WEIGHTS_FILE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_round_trip_keeps_bits_dtype_and_provenance(tmp_path, dtype):
    model = Tiny(size=3, scale=1 / 3).to(dtype)
    model.provenance = {"seed": 4, "settings": {"loss": "tanh_margin"}}

    model.save_pretrained(tmp_path)
    loaded = Tiny.from_pretrained(str(tmp_path))

    assert not loaded.training
    assert (loaded.size, loaded.scale) == (3, 1 / 3)
    assert loaded.provenance == model.provenance
    for name, tensor in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == tensor.dtype
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_config_says_what_it_is(folder):
    document = json.loads((folder / CONFIG_FILE).read_text())

    assert document.keys() == {"purigraph_version", "class", "config", "dtype", "sha256"}
    assert document["config"] == {"size": 2, "scale": 0.1}
    assert sorted(path.name for path in folder.iterdir()) == [CONFIG_FILE, WEIGHTS_FILE]


def test_registered_classes_are_known_by_name(tmp_path):
    GCN(4, 2).save_pretrained(tmp_path)

    assert json.loads((tmp_path / CONFIG_FILE).read_text())["class"] == "classifier/gcn"
    assert type(load(tmp_path)) is GCN


def test_saving_leaves_other_files_and_an_old_model_if_it_fails(folder):
    (folder / "README.md").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    broken = Tiny()
    broken.provenance = {"seed": {1, 2}}  # no JSON
    with pytest.raises(TypeError):
        broken.save_pretrained(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    Tiny(size=5).save_pretrained(folder)
    assert Tiny.from_pretrained(folder).size == 5
    assert (folder / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": None}, r"lacks the tensor 'count' of shape \(\) \(1 of 4 tensors are missing\)"),
        ({"linear__bias": None, "linear__b": torch.zeros(1)}, r"lacks the tensor 'linear.bias' .* It holds linear.b,"),
        ({"more": torch.zeros(1)}, "does not expect: more"),
        ({"linear__weight": torch.zeros(1, 3)}, r"'linear.weight' should have the shape \(1, 2\), but has \(1, 3\)"),
        ({"linear__bias": torch.zeros(1).double()}, "'linear.bias' should be torch.float32, but is torch.float64"),
        ({"linear__bias": torch.ones(1)}, "SHA-256 differs"),
    ],
)
def test_wrong_tensors_are_named(folder, changes, message):
    edit_tensors(folder, **changes)

    with pytest.raises(ModelFileError, match=message):
        Tiny.from_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": "classifier/gat"}, r"holds a classifier/gat, not a \S*Tiny"),
        ({"config": {"size": 2, "depth": 1}}, "does not describe a Tiny .* 'depth'"),
        ({"config": {"size": 0}}, "does not describe a Tiny .*: Tiny: size=0 is not valid"),
        ({"config": {"size": 3}}, r"'linear.weight' should have the shape \(1, 3\), but has \(1, 2\)"),
        ({"config": [2]}, "'config' an object, not str and list"),
        ({"dtype": "int64"}, "'int64' is not a floating-point dtype"),
        ({"dtype": "float64"}, "should be torch.float64, but is torch.float32"),
    ],
)
def test_wrong_configurations_are_explained(folder, changes, message):
    edit_config(folder, **changes)

    with pytest.raises(ModelFileError, match=message):
        Tiny.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (CONFIG_FILE, b"{", "not valid JSON"),
        (CONFIG_FILE, b"\xff\xfe", "not valid JSON"),
        (CONFIG_FILE, b"[]", "is not a JSON object"),
        (CONFIG_FILE, b'{"model_type": "bert"}', "lacks class, config, dtype, purigraph_version, sha256"),
        (WEIGHTS_FILE, b"PK\x03\x04 a pickle", "not a valid safetensors file"),
        (WEIGHTS_FILE, b"", "not a valid safetensors file"),
    ],
)
def test_damaged_and_foreign_files_are_refused(folder, name, content, message):
    (folder / name).write_bytes(content)

    with pytest.raises(ModelFileError, match=message):
        Tiny.from_pretrained(folder)


def test_a_single_flipped_bit_is_noticed(folder):
    content = bytearray((folder / WEIGHTS_FILE).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS_FILE).write_bytes(content)

    with pytest.raises(ModelFileError, match=r"is not the file that config\.json was saved with"):
        Tiny.from_pretrained(folder)


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()

    with pytest.raises(ModelFileError, match=f"{name} does not exist"):
        Tiny.from_pretrained(folder)


def test_what_is_no_model_folder_is_said(folder, tmp_path):
    with pytest.raises(ModelFileError, match=r"owner/name does not exist.*hf://owner/name"):
        Tiny.from_pretrained("owner/name")
    with pytest.raises(ModelFileError, match="is not a folder"):
        Tiny.from_pretrained(folder / CONFIG_FILE)
    with pytest.raises(ModelFileError, match="a model is saved to a folder"):
        Tiny().save_pretrained(folder / CONFIG_FILE)
    with pytest.raises(ModelFileError, match="A revision belongs to a model on the Hub"):
        Tiny.from_pretrained(folder, revision="main")


def test_base_and_wrong_classes_say_so(tmp_path):
    GAT(4, 2).save_pretrained(tmp_path)

    for base in (Pretrained, Classifier):
        with pytest.raises(ModelFileError, match=f"{base.__name__} is an abstract base"):
            base.from_pretrained(tmp_path)
    with pytest.raises(ModelFileError, match="holds a classifier/gat, not a classifier/gcn"):
        GCN.from_pretrained(tmp_path)


def test_load_refuses_what_is_no_classifier(folder):
    with pytest.raises(ModelFileError, match=r"holds a \S*Tiny, not one of the classifiers that are registered"):
        load(folder)


def test_the_hub_is_reached_only_when_asked_for(folder, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked = []

    def download(repo_id: str, **options: Any) -> str:
        asked.append((repo_id, options["revision"]))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    Tiny.from_pretrained(folder)
    assert asked == []
    assert Tiny.from_pretrained("hf://owner/name", revision="v1").size == 2
    assert asked == [("owner/name", "v1")]


def test_what_the_hub_says_is_passed_on(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def download(repo_id: str, **options: Any) -> str:
        raise OSError("no route to host\nand more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    with pytest.raises(
        ModelFileError, match=r"hf://owner/name can't be downloaded from the Hugging Face Hub: no route to host$"
    ):
        Tiny.from_pretrained("hf://owner/name")


def test_pushing_uploads_both_files(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    uploaded = {}

    class Api:
        def create_repo(self, repo_id: str, **options: Any) -> Any:
            return type("Repo", (), {"repo_id": f"me/{repo_id}"})

        def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> str:
            uploaded[repo_id] = sorted(path.name for path in Path(folder_path).iterdir())
            return "https://huggingface.co/commit"

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)

    assert Tiny().push_to_hub("tiny") == "https://huggingface.co/commit"
    assert uploaded == {"me/tiny": [CONFIG_FILE, WEIGHTS_FILE]}


def test_importing_does_not_import_the_hub():
    check = "import sys, purigraph.pretrained; sys.exit('huggingface_hub' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
