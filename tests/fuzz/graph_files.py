"""Cases of broken graph files: wrong arrays, lying headers, odd archives, damaged bytes, and no files at all."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fuzz import workshop
from fuzz.harness import Case, WrongResult, command
from fuzz.mutations import TEXTS, damage_bytes, damage_place
from purigraph.audit.receipt import receipt_path
from purigraph.graph import as_pair_graph
from purigraph.graph.npz import load_npz

Array = np.ndarray[Any, Any]

DTYPES = ("f2", "f4", "f8", "g", "i1", "i2", "i4", "i8", "u1", "u2", "u8", "?", "c8", "S3", "U2", ">f4", ">i8")
DTYPES += ("M8[s]", "m8[s]", "V4", "f4,i4")
SHAPES = (
    (),
    (0,),
    (1,),
    (0, 0),
    (2, 0),
    (0, 6),
    (1, 1, 1),
    (24,),
    (24, 0),
    (3, 24),
    (2, 2, 24),
    (10**15,),
    (10**12, 10**11),
)
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
NUMBERS = (float("nan"), float("inf"), -float("inf"), -1, 0, 1e300, 3e38, 6e4, 10**9, 2**62, -(2**62), 23, 24, 25)


def graph_file(rng: random.Random, place: Path) -> Case:
    """A broken graph file, read by a command or a function."""
    path = place / rng.choice((workshop.GRAPH, workshop.GRAPH, workshop.SPARSE, workshop.WEIGHTED))
    how = _damage(rng, path)
    description, case = _reader(rng, path)
    case.description = f"{description} of {path.name} with {how}"
    return case


def _damage(rng: random.Random, path: Path) -> str:
    way = rng.randrange(10)
    if way == 0:
        return damage_place(rng, path)
    if way < 3:
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
        return "damaged bytes"
    with np.load(path) as archive:
        arrays: dict[str, Array] = {key: archive[key] for key in archive.files}
    told = [_change(rng, arrays) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
    members = {f"{key}.npy": _encoded(array) for key, array in arrays.items()}
    if rng.random() < 0.3:
        told.append(_change_members(rng, members))
    buffer = io.BytesIO()
    compression = rng.choice(COMPRESSIONS)
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
    contents = buffer.getvalue()
    if rng.random() < 0.2:
        contents, what = _lying_archive(rng, contents)
        told.append(what)
    path.write_bytes(contents)
    return ", ".join([*told, f"compression {compression}"])


def _change(rng: random.Random, arrays: dict[str, Array]) -> str:
    if not arrays:
        return "nothing"
    key = rng.choice(list(arrays))
    array = arrays[key]
    way = rng.randrange(9)
    if way == 0:
        del arrays[key]
        return f"no {key}"
    if way == 1:
        name = rng.choice((*TEXTS, key.upper(), f"{key}s", "edge_kind", "x", "x_data", "../out", f"{key}.npy"))
        arrays[name] = arrays.pop(key)
        return f"{key} as {name[:20]!r}"
    if way == 2:
        dtype = rng.choice(DTYPES)
        with np.errstate(all="ignore"):
            try:
                arrays[key] = array.astype(dtype)
            except (ValueError, TypeError, OverflowError):
                arrays[key] = np.zeros(array.shape, dtype)
        return f"{key} as {dtype}"
    if way == 3:
        shape = rng.choice([shape for shape in SHAPES if np.prod(shape, dtype=float) < 1e4])
        arrays[key] = np.resize(array, shape)
        return f"{key} of shape {shape}"
    if way == 4:
        arrays[key] = rng.choice(
            (array.T, np.atleast_1d(array)[..., ::-1], np.atleast_1d(array)[:-1], np.asfortranarray(array))
        )
        return f"{key} turned"
    if way == 5:
        arrays[key] = np.array([None, {}, "text"], dtype=object)
        return f"{key} of objects"
    changed = array.copy()
    number = rng.choice(NUMBERS)
    with np.errstate(all="ignore"):
        if changed.size and changed.dtype.kind in "fiub":
            at = rng.randrange(changed.size)
            try:
                changed.reshape(-1)[at : at + rng.choice((1, 1, changed.size))] = np.asarray(number).astype(
                    changed.dtype
                )
            except (OverflowError, ValueError):
                return "nothing"
    arrays[key] = changed
    return f"{key} holding {number}"


def _encoded(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _change_members(rng: random.Random, members: dict[str, bytes]) -> str:
    if not members:
        return "no members"
    name = rng.choice(list(members))
    way = rng.randrange(6)
    if way == 0:
        members[name] = damage_bytes(rng, members[name])
        return f"{name} damaged"
    if way == 1:
        members[name.removesuffix(".npy")] = members.pop(name)
        return f"{name} without its ending"
    if way == 2:
        members[rng.choice(("readme.txt", "folder/", "x", "edges"))] = rng.choice((b"", b"text", b"\x93NUMPY"))
        return "a member that is no array"
    if way == 3:
        shape = rng.choice(((10**15,), (10**23,), (2, 10**15), (10**12, 10**11), (-1,), (2**63,), (24, 10**10)))
        members[name] = _header(rng.choice(DTYPES[:12]), repr(shape)) + bytes(64)
        return f"{name} that claims {shape}"
    if way == 4:
        shape = rng.choice(("()", "(2.5,)", "None", "(1,)" + " " * 20_000, "(" * 150 + ")" * 150, "('a',)", "[2, 3]"))
        members[name] = _header(rng.choice(("<f4", "|O", "x", "<f99", "")), shape)
        return f"{name} with an odd header"
    members[name] = members[name][: rng.randrange(len(members[name]) + 1)]
    return f"{name} cut short"


def _header(dtype: str, shape: str) -> bytes:
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text


def _lying_archive(rng: random.Random, contents: bytes) -> tuple[bytes, str]:
    """Change the fields of a member that zip readers believe: flags, compression, sizes."""
    out = bytearray(contents)
    signature, shift = rng.choice(((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)))
    positions = [at for at in range(len(out) - 46) if out[at : at + 4] == signature]
    if not positions:
        return contents, "nothing"
    at = rng.choice(positions)
    field, offset, size = rng.choice((("flags", 6, 2), ("compression", 8, 2), ("packed size", 18, 4), ("size", 22, 4)))
    number = rng.choice((0, 1, 8, 12, 14, 99, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), rng.getrandbits(8 * size)))
    out[at + offset + shift : at + offset + shift + size] = number.to_bytes(size, "little")
    return bytes(out), f"{field} {number} in a header"


def _reader(rng: random.Random, path: Path) -> tuple[str, Case]:
    place = path.parent
    way = rng.randrange(8)
    if way < 4:
        sparse = rng.random() < 0.3
        return f"load_npz(sparse={sparse})", Case("", _loading(path, sparse=sparse))
    if way < 6:
        target = place / "out.npz"
        cut = rng.choice(([], ["--threshold", "0.5"]))
        arguments = ["purify", path, "-m", place / workshop.PURIFIER, "-o", target, *cut]
        return f"purify {' '.join(cut)}", Case(
            "", _and_read(command(*arguments), target), outputs=[target, receipt_path(target)]
        )
    if way == 6:
        target = place / "out"
        inductive = rng.choice(([], ["--inductive"]))
        arguments = ["fit", path, "-o", target, "--epochs", 1, *workshop.SMALL_PURIFIER, *inductive]
        return f"fit {' '.join(inductive)}", Case("", command(*arguments), outputs=[target])
    name = rng.choice(("train", "evaluate"))
    if name == "train":
        target = place / "out"
        arguments = ["train", path, "-o", target, "--epochs", 1, "--set", "hidden_channels=4"]
        return name, Case("", command(*arguments), outputs=[target])
    return name, Case("", command("evaluate", path, "-c", place / "gcn", "-a", "dice", "--epsilon", 0.1))


def _loading(path: Path, *, sparse: bool) -> Callable[[], object]:
    def act() -> None:
        data = load_npz(path, sparse=sparse)
        values = data.x.values() if sparse else data.x
        if not bool(torch.isfinite(values).all()):
            raise WrongResult("features that are not finite")
        as_pair_graph(data)

    return act


def _and_read(run: Callable[[], object], target: Path) -> Callable[[], object]:
    def act() -> None:
        run()
        if not target.is_file():
            raise WrongResult("no output")
        weight = load_npz(target).edge_weight
        if weight is not None and not bool(((weight >= 0) & (weight < float("inf"))).all()):
            raise WrongResult("weights that are no weights")

    return act
