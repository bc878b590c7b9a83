"""Cases of broken models, flips and checkpoints."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import load_file, save_file

from fuzz import workshop
from fuzz.harness import Case, WrongResult, command
from fuzz.mutations import damage_bytes, damage_json, damage_place, value
from purigraph import checkpoints, classifiers, purifiers
from purigraph.graph import Perturbation
from purigraph.tensor_files import read_tensors


def model(rng: random.Random, place: Path) -> Case:
    """A broken purifier or classifier, loaded by a function or a command."""
    name = rng.choice((workshop.PURIFIER, workshop.PURIFIER, *workshop.CLASSIFIERS))
    folder = place / name
    config, weights = folder / "config.json", folder / "model.safetensors"
    way = rng.randrange(8)
    if way < 3:
        text = damage_json(rng, config.read_text())
        config.write_text(text, encoding="utf-8", errors="replace")
        how = f"config {text[:150]}"
    elif way == 3:
        damaged = rng.choice((config, weights))
        damaged.write_bytes(damage_bytes(rng, damaged.read_bytes()))
        how = f"damaged {damaged.name}"
    elif way == 4:
        damaged = rng.choice((config, weights, folder))
        how = f"{damage_place(rng, damaged)} at {damaged.name}"
    elif way == 5:
        how = f"tensors {_change_tensors(rng, weights)}"
    elif way == 6:
        weights.write_bytes(_odd_header(rng, weights.read_bytes()))
        how = "an odd header"
    else:
        other = rng.choice((workshop.PURIFIER, *workshop.CLASSIFIERS))
        swapped = rng.choice((config, weights))
        swapped.write_bytes((place / other / swapped.name).read_bytes())
        how = f"{swapped.name} of {other}"
    if rng.random() < 0.5:
        load: Callable[..., object] = purifiers.load if name == workshop.PURIFIER else classifiers.load
        return Case(f"load {name} with {how}", lambda: load(folder))
    if name == workshop.PURIFIER:
        target = place / "out.npz"
        act = command("purify", place / workshop.GRAPH, "-m", folder, "-o", target)
        return Case(f"purify by {name} with {how}", act, outputs=[target, place / "out.npz.receipt.json"])
    act = command("evaluate", place / workshop.GRAPH, "-c", folder, "-a", "random-flip", "--epsilon", 0.1)
    return Case(f"evaluate {name} with {how}", act)


def flips(rng: random.Random, place: Path) -> Case:
    """A broken file of flips, loaded or begun from."""
    path = place / workshop.FLIPS
    way = rng.randrange(5)
    if way == 0:
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
        how = "damaged bytes"
    elif way == 1:
        how = damage_place(rng, path)
    elif way == 2:
        path.write_bytes(_odd_header(rng, path.read_bytes()))
        how = "an odd header"
    else:
        how = _change_tensors(rng, path)
    if rng.random() < 0.6:
        return Case(f"load flips with {how}", lambda: Perturbation.load(path))
    target = place / "out.safetensors"
    act = command(
        *("attack", place / workshop.GRAPH, "-c", place / "gcn", "-o", target, "--start", path),
        *("-a", rng.choice(("dice", "random-flip")), "--epsilon", 0.5),
    )
    return Case(f"attack from flips with {how}", act, outputs=[target])


def checkpoint(rng: random.Random, place: Path) -> Case:
    """A damaged checkpoint: refused, or else the run ends in what it would have without an interruption."""
    state = rng.choice(list(workshop.LONG_RUNS))
    folder = place / state
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = rng.choice([folder, *files, *files, *files])
    way = rng.randrange(5)
    if path == folder or way == 0:
        how = damage_place(rng, path)
    elif way == 1 or path.suffix != ".safetensors":
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
        how = "damaged bytes"
    elif way == 2:
        path.write_bytes(_odd_header(rng, path.read_bytes()))
        how = "an odd header"
    else:
        how = _change_tensors(rng, path)
    arguments = workshop.LONG_RUNS[state]
    expected = place / workshop.RESULTS[state]
    target = place / f"again{expected.suffix}"
    run = command(*arguments, "-o", target, "--checkpoint", folder)

    def act() -> None:
        with mock.patch.object(checkpoints, "SECONDS_BETWEEN", 0.0):
            run()
        if _result(target) != _result(expected):
            raise WrongResult("the run resumed to another result")

    return Case(f"{arguments[0]} from {path.name} with {how}", act, outputs=[target], keeps=[folder])


def _result(path: Path) -> object:
    """What a run found, without the time that it took."""
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        return json.dumps(workshop.timeless(document), sort_keys=True)
    weights = path / "model.safetensors" if path.is_dir() else path
    tensors, _ = read_tensors(weights)
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def _change_tensors(rng: random.Random, path: Path) -> str:
    """Rewrite a safetensors file: well-formed, but with other tensors or another header."""
    tensors, metadata = read_tensors(path)
    told = []
    for _ in range(rng.choice((1, 1, 2))):
        if not tensors:
            break
        name = rng.choice(sorted(tensors))
        tensor, way = tensors[name], rng.randrange(7)
        if way == 0:
            del tensors[name]
        elif way == 1:
            tensors[rng.choice(("", "odd", f"{name}.x"))] = tensors.pop(name)
        elif way == 2:
            tensors[name] = tensor.to(rng.choice((torch.float64, torch.int32, torch.bool, torch.float16, torch.uint8)))
        elif way == 3:
            tensors[name] = tensor.reshape(-1)[: rng.randrange(3)]
        elif way == 4 and tensor.numel():
            changed = tensor.clone()
            at = rng.randrange(tensor.numel())
            changed.view(-1)[at] = (changed.view(-1)[at] + 1).to(tensor.dtype)
            tensors[name] = changed
        elif way == 5 and tensor.is_floating_point():
            filled = torch.full(tensor.shape, rng.choice((float("nan"), float("inf"), 3e38)), dtype=torch.float64)
            tensors[name] = filled.to(tensor.dtype)
        elif metadata:
            key = rng.choice(sorted(metadata))
            if rng.random() < 0.3:
                del metadata[key]
            else:
                metadata[key] = rng.choice((json.dumps(value(rng)), str(value(rng)), metadata[key] + " "))
            name = f"the header's {key}"
        told.append(f"{name} changed ({way})")
    save_file(tensors, path, metadata=metadata)
    load_file(path)  # still a safetensors file
    return " and ".join(told)


def _odd_header(rng: random.Random, contents: bytes) -> bytes:
    """Change the header of a safetensors file, which says where its tensors are, and leave the rest."""
    (length,) = struct.unpack("<Q", contents[:8])
    text = damage_json(rng, contents[8 : 8 + length].decode()).encode(errors="replace")
    size = rng.choice((len(text), len(text), len(text), 0, 2**40, 2**64 - 1))
    return struct.pack("<Q", size) + text + contents[8 + length :]
