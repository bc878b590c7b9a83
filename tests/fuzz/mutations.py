"""Ways to damage what is good: values, bytes, JSON documents, places in the file system."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

TEXTS = ("", " ", "a", "0", "-1", "nan", "null", "true", "gcn", "é", "\u202e", "図", "\U0001f600", "..", ".", "-", "--")
TEXTS += ("~", "a\nb", "a" * 300, "%s", "{}", "hf:", "1e999", "../..", "$HOME", "*", "edge_weight")
INTEGERS = (
    0,
    1,
    2,
    3,
    -1,
    -2,
    255,
    2**15,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
)
FLOATS = (
    0.0,
    -0.0,
    0.5,
    1.0,
    -0.5,
    1.5,
    1e-300,
    5e-324,
    1e38,
    3.5e38,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
)


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value, the odd ones rather than the usual."""
    choice = rng.randrange(10 if depth < 3 else 7)
    if choice < 2:
        return rng.choice(INTEGERS)
    if choice < 4:
        return rng.choice(FLOATS)
    if choice < 6:
        return rng.choice(TEXTS)
    if choice == 6:
        return rng.choice((None, True, False))
    if choice == 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """Some bytes flipped, overwritten, cut, doubled or added."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        size = len(out)
        at = rng.randrange(size + 1)
        length = min(rng.choice((1, 2, 4, 8, 64, 1000)), size - at)
        way = rng.randrange(8)
        if way < 3 and size:
            out[at % size] ^= 1 << rng.randrange(8)
        elif way == 3:
            out[at : at + length] = bytes(rng.getrandbits(8) for _ in range(min(length, 64)))
        elif way == 4:
            out[at : at + length] = rng.choice((b"\x00", b"\xff", b"\x7f")) * length
        elif way == 5:
            del out[at : rng.choice((at + length, size))]
        elif way == 6:
            out[at:at] = out[at : at + length]
        else:
            out += bytes(rng.getrandbits(8) for _ in range(rng.randrange(1, 30)))
    return bytes(out)


def damage_json(rng: random.Random, text: str) -> str:
    """A JSON document with some values replaced, entries missing or added, or nested too deeply."""
    document = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        holder, key = _anywhere(rng, document)
        if holder is None or key is None:
            break
        way = rng.randrange(5)
        if way < 3:
            holder[key] = value(rng)
        elif way == 3:
            del holder[key]
        elif isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = value(rng)
    text = json.dumps(document)
    way = rng.randrange(12)
    if way == 0:
        depth = rng.choice((50, 1000, 100_000))
        return text.replace("{", '{"a":' + "[" * depth + "]" * depth + ",", 1)
    if way == 1:
        return text.replace("{", '{"n":' + "9" * rng.choice((400, 5000)) + ",", 1)
    if way == 2:
        return rng.choice(("", "null", "[]", "{}", "1", '"text"', "\ufeff" + text, text * 2, text[: len(text) // 2]))
    return text


def _anywhere(rng: random.Random, document: Any) -> tuple[Any, Any]:
    """A place in a document: the dictionary or list, and the key."""
    holder, key = None, None
    here = document
    while isinstance(here, dict | list) and here:
        holder, key = here, rng.choice(list(here)) if isinstance(here, dict) else rng.randrange(len(here))
        here = holder[key]
        if rng.random() < 0.3:
            break
    return holder, key


def damage_place(rng: random.Random, path: Path) -> str:
    """Put something else where a file or folder is; return what."""
    aside = path.with_name(f"{path.name}.aside")
    way = rng.choice(("nothing", "folder", "empty", "fifo", "loop", "link", "dangling", "endless", "sparse", "closed"))
    if way in ("nothing", "folder", "empty", "fifo", "loop", "link", "dangling", "endless"):
        os.rename(path, aside)
    if way == "folder":
        path.mkdir()
    elif way == "empty":
        path.touch()
    elif way == "fifo":
        os.mkfifo(path)
    elif way == "loop":
        path.symlink_to(path.name)
    elif way == "link":
        path.symlink_to(aside.name)
    elif way == "dangling":
        path.symlink_to("nowhere")
    elif way == "endless":
        path.symlink_to("/dev/zero")
    elif way == "sparse" and path.is_file():
        with open(path, "r+b") as file:
            file.truncate(20 << 30)
    elif way == "closed":
        path.chmod(0o000)
    return way
