"""Cases of odd command lines: options in any number, with values of any kind, and places of any kind."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz import workshop
from fuzz.harness import Case, command
from fuzz.mutations import FLOATS, INTEGERS, TEXTS, value
from purigraph.cli import setting_lists

#: Settings that say how long something takes: a large number is a wish, and not refused.
WORK = {"hops", "epochs", "num_layers", "validation_sets", "max_steps", "population", "generations", "tournament"}
WORK |= {"final_samples", "fine_tune_epochs", "heads", "clean_epochs", "injection", "validation_injection", "restarts"}

SMALL = {
    "fit": {"hops": 2, "node_channels": 4, "edge_channels": 4, "validation_sets": 1, "epochs": 1},
    "train": {"epochs": 1},
    "attack": {},
    "evaluate": {},
    "purify": {},
}
#: What makes each attack short.
SHORT = {
    "dice": {},
    "random-flip": {},
    "evolutionary": {"population": 4, "generations": 2},
    "pgd": {"epochs": 2, "final_samples": 1},
    "prbcd": {"epochs": 2, "fine_tune_epochs": 1, "final_samples": 1, "block_size": 50},
    "lrbcd": {"epochs": 2, "fine_tune_epochs": 1, "final_samples": 1, "block_size": 50},
}
#: Options by what they take.
FLAGS = {
    "fit": ("--inductive", "--json"),
    "train": ("--json",),
    "purify": ("--json", "--shadow", "--drop"),
    "attack": ("--json",),
}
FLAGS["evaluate"] = ("--json", "--transfer")
NUMBERS = {
    "fit": ("--seed", "--split", "--epochs"),
    "train": ("--seed", "--split", "--epochs"),
    "purify": ("--threshold", "--false-positives", "--min-degree", "--max-cut", "--seed"),
    "attack": ("--epsilon", "--seed", "--attack-seed", "--split", "--epochs", "--restarts"),
    "evaluate": (
        "--epsilon",
        "--epsilon",
        "--seed",
        "--attack-seed",
        "--attack-seed",
        "--split",
        "--epochs",
        "--restarts",
    ),
}
NAMES = {
    "fit": ("--kind", "--device"),
    "train": ("--kind", "--regime", "--profile", "--device"),
    "purify": ("--device",),
    "attack": ("--budget-kind", "--preset", "--device", "--attack"),
    "evaluate": ("--budget-kind", "--preset", "--device", "--attack"),
}
WORDS = ("gcn", "gat", "mlp", "appnp", "evennet", "gpr-gae", "GCN", "soft_median", "vanilla", "self", "paper", "cpu")
WORDS += ("incident", "half_degree", "absolute", "meta", "mps", "cuda", "cuda:7", "cpu:0", "xpu", "adversarial", *SHORT)

PLACES = (
    "foreign.txt",
    ".",
    "gcn",
    workshop.FLIPS,
    "missing.npz",
    "gcn/config.json",
    "gcn/model.safetensors",
    "cora.npz",
)
PLACES += (workshop.GRAPH, workshop.PURIFIER, "graph.npz/x", "fit-state", "cora.npz")


def options(rng: random.Random, place: Path) -> Case:
    """A command with any options."""
    name = rng.choice(("fit", "train", "purify", "attack", "evaluate"))
    graph = rng.choice((workshop.GRAPH, workshop.GRAPH, workshop.GRAPH, _input(rng)))
    words = [name, graph]
    if name in ("attack", "evaluate"):
        words += ["-c", rng.choice(("gcn", "gcn", *workshop.CLASSIFIERS, _input(rng)))]
        if rng.random() < 0.4:
            words += ["-m", rng.choice((workshop.PURIFIER, workshop.PURIFIER, _input(rng)))]
    if name == "purify":
        words += ["-m", rng.choice((workshop.PURIFIER, workshop.PURIFIER, workshop.PURIFIER, _input(rng)))]
    outputs, keeps = [], []
    if name != "evaluate" or rng.random() < 0.3:
        suffix = {"purify": ".npz", "attack": ".safetensors", "evaluate": ".json"}.get(name, "")
        target = _output(rng, place, suffix)
        words += ["-o", target]
        outputs.append(Path(target))
        if name == "purify":
            outputs.append(Path(f"{target}.receipt.json"))
    if name == "purify":
        words += _purify_options(rng, place, outputs)
    if name == "attack" and rng.random() < 0.3:
        words += ["--graph-output", other := _output(rng, place, ".npz")]
        outputs.append(Path(other))
    if name != "purify" and rng.random() < 0.2:
        words += ["--checkpoint", kept := _output(rng, place, "")]
        keeps.append(Path(kept))
    words += _settings(rng, name)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        words += _odd_option(rng, name)
    if rng.random() < 0.05:
        words.insert(rng.randrange(len(words)), rng.choice(TEXTS))
    if rng.random() < 0.05:
        words.pop(rng.randrange(len(words)))
    act = _with_readers(command(*words), [*outputs, *keeps])
    return Case(" ".join(map(repr, words)), act, outputs=outputs, keeps=keeps)


def small_commands(rng: random.Random, _place: Path) -> Case:
    """The commands that need no model."""
    words = [rng.choice(("settings", "datasets", "fit", "evaluate", rng.choice(TEXTS)))]
    choices = (*SHORT, *WORDS, *TEXTS, "--json", "--help", "--version", "-o", "--set")
    words += [rng.choice(choices) for _ in range(rng.randrange(4))]
    return Case(" ".join(map(repr, words)), command(*words))


def _purify_options(rng: random.Random, place: Path, outputs: list[Path]) -> list[str]:
    """Further places that `purify` reads and writes."""
    words: list[str] = []
    for option, suffix in (("--report", ".html"), ("--changes", ".csv"), ("--receipt", ".json")):
        if rng.random() < 0.15:
            target = _output(rng, place, suffix)
            words += [option, target]
            outputs.append(Path(target))
    for option, good in (("--trusted", workshop.GRAPH), ("--never-cut", workshop.GRAPH), ("--classifier", "gcn")):
        if rng.random() < 0.2:
            words += [option, rng.choice((good, good, workshop.EDGES, _input(rng)))]
    if rng.random() < 0.05:
        words += ["--features", rng.choice((workshop.FEATURES, _input(rng)))]
    return words


def _settings(rng: random.Random, name: str) -> list[str]:
    """Settings that keep the command short, and some odd ones."""
    given: dict[str, object] = dict(SMALL[name])
    words = []
    lists = setting_lists.read()
    if name in ("attack", "evaluate"):
        attack = rng.choice(list(SHORT))
        words += ["-a", attack]
        given |= SHORT[attack]
        known = [row[0] for row in lists["attack"][attack]]
        if name == "evaluate":
            words += ["--epsilon", "0.1"]
    elif name == "train":
        kind = rng.choice(list(lists["classifier"]))
        words += ["-k", kind]
        if rng.random() < 0.2:
            words += ["--regime", rng.choice(("self", "adversarial"))]
            given |= {"patience": 1}
        known = [row[0] for row in lists["classifier"][kind] + lists["regime"]["adversarial"]]
    else:
        known = [row[0] for row in lists["purifier"]["gpr-gae"]]
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        setting = rng.choice((*known, *known, rng.choice(TEXTS)))
        odd = value(rng)
        if setting in WORK and isinstance(odd, int | float) and odd > 3:
            odd = 3 if isinstance(odd, int) else 1.5
        given[setting] = odd
    for setting, chosen in given.items():
        words += ["--set", f"{setting}={chosen if isinstance(chosen, str) else json.dumps(chosen)}"]
    return words


def _odd_option(rng: random.Random, name: str) -> list[str]:
    way = rng.randrange(4)
    if way == 0:
        return [rng.choice(FLAGS[name])]
    if way == 1:
        option = rng.choice(NAMES[name])
        return [option, rng.choice((*WORDS, *WORDS, *TEXTS))]
    option = rng.choice(NUMBERS[name])
    number = rng.choice((*INTEGERS, *FLOATS, *TEXTS))
    if option in ("--epochs", "--restarts") and isinstance(number, int | float) and number > 3:
        number = 2
    return [option, str(number)]


def _input(rng: random.Random) -> str:
    """A place or name that is not what is asked for."""
    return rng.choice((*TEXTS, *PLACES))


def _output(rng: random.Random, place: Path, suffix: str) -> str:
    """A place to write to: mostly a new one, else any other."""
    if rng.random() < 0.6:
        return f"out{suffix}"
    way = rng.randrange(10)
    path = place / f"odd-{rng.getrandbits(32):x}{suffix}"
    if way == 0:
        path.symlink_to("elsewhere")
    elif way == 1:
        path.symlink_to(path.name)
    elif way == 2:
        path.mkdir()
    elif way == 3:
        path.write_text("not ours\n")
    elif way == 4:
        os.mkfifo(path)
    elif way == 5:
        return f"foreign.txt/out{suffix}"
    elif way == 6:
        return f"new/folder/out{suffix}"
    elif way == 7:
        return rng.choice(TEXTS) + suffix
    elif way == 8:
        return rng.choice((workshop.GRAPH, "gcn", workshop.PURIFIER, workshop.FLIPS, "gcn/model.safetensors"))
    else:
        path.symlink_to("foreign.txt")
    return path.name


def _with_readers(act: Callable[[], object], targets: list[Path]) -> Callable[[], object]:
    """Run with a reader at the other end of outputs that are FIFOs, without which any program would wait for one."""

    def run() -> object:
        with contextlib.ExitStack() as stack:
            for target in targets:
                stack.enter_context(_reading(target))
            return act()

    return run


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        is_fifo = path.is_fifo()
    except (OSError, ValueError):
        is_fifo = False
    if not is_fifo:
        yield
        return
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
    finally:
        os.close(reader)
