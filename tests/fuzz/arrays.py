"""Cases of odd arrays and arguments in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

import purigraph as pg
from fuzz import workshop
from fuzz.harness import Case, WrongResult
from fuzz.mutations import FLOATS, INTEGERS, TEXTS, value
from fuzz.options import SHORT, WORK
from purigraph import attacks, classifiers, purifiers
from purigraph.graph import (
    Budget,
    Perturbation,
    as_pair_graph,
    attach_split,
    inductive_split,
    load_npz,
    read_data,
    read_edge_index,
    save_npz,
)
from purigraph.training import train

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
)
DTYPES += (torch.uint8, torch.bool, torch.complex64)
NUMBERS = (float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, 24, 6e4, 3e38, 1e300, 2**62, 0.5)
#: Settings that say how large something is: who asks for more than there is gets PyTorch's own error.
SIZES = {"in_channels", "hidden_channels", "node_channels", "edge_channels", "top_k", "block_size"}
EDGE = torch.tensor([[0, 1], [1, 2]])


def graphs(rng: random.Random, _place: Path) -> Case:
    """An odd graph, read."""
    data, how = _odd_data(rng)
    way = rng.randrange(6)
    if way == 0:
        return Case(f"read_data, {how}", lambda: _sane(read_data(data)[0]))
    if way == 1:
        nodes = rng.choice((None, None, 0, 3, 24, rng.choice(INTEGERS), 2.5, "3"))
        weight = data.edge_weight if "edge_weight" in data else None
        return Case(
            f"read_edge_index({nodes=}), {how}", lambda: _sane(read_edge_index(data.edge_index, weight, nodes)[0])
        )
    if way == 2:
        matrix, what = _odd_scipy(rng)
        return Case(f"as_pair_graph({what})", lambda: _sane(as_pair_graph(matrix)))
    if way == 3:
        graph, what = _odd_networkx(rng)
        return Case(f"as_pair_graph({what})", lambda: _sane(as_pair_graph(graph)))
    anything = rng.choice((data, data.edge_index, data.x, value(rng), np.eye(3), torch.eye(3)))
    return Case(f"as_pair_graph({type(anything).__name__}), {how}", lambda: _sane(as_pair_graph(anything)))


def saved_graphs(rng: random.Random, place: Path) -> Case:
    """What `save_npz` writes `load_npz` reads, and it is the same."""
    data, how = _odd_data(rng)
    path = place / "saved.npz"

    def act() -> None:
        save_npz(data, path)
        try:
            found = load_npz(path)
        except Exception as error:
            raise WrongResult(f"it was written, but can't be read: {error}") from error
        if not torch.equal(as_pair_graph(found).pairs, read_data(data)[0].pairs.long()):
            raise WrongResult("other edges came back")

    return Case(f"save_npz, {how}", act, outputs=[path])


def purification(rng: random.Random, place: Path) -> Case:
    """An odd graph, purified."""
    data, how = _odd_data(rng)
    purifier = purifiers.load(place / workshop.PURIFIER)
    weight = data.edge_weight if "edge_weight" in data else None
    calls: dict[str, Callable[[], Any]] = {
        "purifier(data)": lambda: purifier(data).edge_weight,
        "purifier(x, edge_index, edge_weight)": lambda: purifier(data.x, data.edge_index, weight),
        "trace(data)": lambda: purifier.trace(data).graph.weight,
        "trace(x, graph)": lambda: purifier.trace(workshop.good_data().x, data.edge_index).graph.weight,
        "score_edges": lambda: purifier.score_edges(workshop.good_data().x, workshop.good_data(), data.edge_index),
        "with_settings": lambda: purifier.with_settings(threshold=0.5)(data).edge_weight,
    }
    name = rng.choice(list(calls))
    without_gradient = rng.random() < 0.2

    def act() -> None:
        if without_gradient:
            with torch.no_grad():
                found = calls[name]()
        else:
            found = calls[name]()
        if isinstance(found, Tensor) and not bool(((found >= 0) & (found <= 1) | _loops(data, found)).all()):
            raise WrongResult("weights outside [0, 1]")

    return Case(f"{name}, {how}", act)


def fitting(rng: random.Random, _place: Path) -> Case:
    """A purifier, fitted to an odd graph or with odd settings."""
    data, how = _odd_data(rng) if rng.random() < 0.7 else (workshop.good_data(), "a good graph")
    own: dict[str, Any] = {"hops": 2, "node_channels": 4, "edge_channels": 4}
    fit: dict[str, Any] = {"epochs": 1, "validation_sets": 1}
    if how == "a good graph" or rng.random() < 0.2:
        where = rng.choice((own, fit))
        known = pg.GPRGAE.settings_class if where is own else pg.GPRGAE.fit_settings_class
        name = rng.choice((*known.model_fields, *known.model_fields, "odd"))
        where[name] = _tamed(name, value(rng))
        how += f", {name}={where[name]!r}"[:100]
    if rng.random() < 0.1:
        fit["seed"] = rng.choice((*INTEGERS, *FLOATS, "1", None))
        how += f", seed={fit['seed']!r}"
    if rng.random() < 0.1:
        fit["validation"], more = _odd_data(rng)
        how += f", validated on {more}"

    def act() -> None:
        purifier = pg.GPRGAE(**own).fit(data, **fit)
        if not all(bool(tensor.isfinite().all()) for tensor in purifier.state_dict().values()):
            raise WrongResult("weights of the purifier that are not finite")

    return Case(f"fit, {how}", act)


def training(rng: random.Random, _place: Path) -> Case:
    """A classifier, trained on an odd graph or with odd settings."""
    data, how = _odd_data(rng) if rng.random() < 0.7 else (workshop.good_data(), "a good graph")
    kind = rng.choice((*classifiers.names(), *classifiers.names(), rng.choice(TEXTS)))
    regime = rng.choice(("vanilla", "vanilla", "self"))
    hyper: dict[str, Any] = {"hidden_channels": 4}
    settings: dict[str, Any] = {"epochs": 1, "patience": 1}
    if how == "a good graph":
        where = rng.choice((hyper, settings))
        names = ("num_layers", "dropout", "hops", "hidden_channels", "heads", "alpha", "top_k", "in_channels", "odd")
        name = rng.choice(names if where is hyper else ("loss", "learning_rate", "weight_decay", "epochs", "patience"))
        where[name] = _tamed(name, value(rng))
        how += f", {name}={where[name]!r}"[:100]
    number = rng.choice((0, 0, 0, 0, 1, -1, 10**30, 0.5))
    act = lambda: train(kind, regime, inductive_split(data, split=number), hyper=hyper, settings=settings)  # noqa: E731
    return Case(f"train {kind!r} by {regime}, split {number}, {how}", act)


def attacking(rng: random.Random, place: Path) -> Case:
    """An attack on, or an evaluation of, a model on an odd graph or with odd arguments."""
    data, how = _odd_data(rng) if rng.random() < 0.5 else (workshop.good_data(), "a good graph")
    model: Any = classifiers.load(place / rng.choice(workshop.CLASSIFIERS))
    if rng.random() < 0.3:
        inner, purifier = model, purifiers.load(place / workshop.PURIFIER)
        model = pg.protect(inner, purifier)
        how += ", protected"
    name = rng.choice(list(SHORT))
    attack = attacks.create(name, **SHORT[name])
    arguments: dict[str, Any] = {}
    for argument, odd in (
        ("targets", lambda: _odd_nodes(rng)),
        ("labels", lambda: _odd_tensor(rng, workshop.good_data().y)[0]),
        ("restarts", lambda: rng.choice((0, 1, 2, -1, 1.5, "1"))),
        ("seed", lambda: rng.choice((*INTEGERS, "1", 1.5, None))),
        ("start", lambda: rng.choice((Perturbation(24), Perturbation(3), Perturbation(24, EDGE), 3))),
    ):
        if rng.random() < 0.15:
            arguments[argument] = odd()
            how += f", {argument}={str(arguments[argument])[:60]!r}"
    if rng.random() < 0.5:
        budget = rng.choice(
            (1, 3, Budget(0.2), 0, -1, 10**30, 0.5, "1", None, True, Budget(1e18), Budget(0.1, local=0.5))
        )
        return Case(f"{name} with budget {budget}, {how}", lambda: attack(model, data, budget, **arguments))
    epsilons: Any = rng.choice(((0.1,), 0.1, (), [0, 0.5], (-1,), ("a",), (float("nan"),), None, (1e300,), (True,)))
    kind: Any = rng.choice(("incident", "incident", "half-degree", "absolute", "", None, 3))
    arguments = {key: given for key, given in arguments.items() if key in ("targets", "restarts")}
    if rng.random() < 0.1:
        arguments["seeds"] = rng.choice(((), 0, (-1,), (0, 1), ("a",), (2**70,)))
    act = lambda: pg.evaluate(model, data, attack=attack, epsilons=epsilons, budget_kind=kind, **arguments)  # noqa: E731
    return Case(f"evaluate by {name}, {epsilons=}, {kind=}, {how}", act)


def values(rng: random.Random, place: Path) -> Case:
    """Odd budgets, perturbations and splits."""
    way = rng.randrange(4)
    if way == 0:
        amount: Any = rng.choice((*INTEGERS, *FLOATS, *TEXTS[:6], None, True, [1], torch.tensor(1.0), np.float32(0.5)))
        kind: Any = rng.choice(("incident", "half-degree", "absolute", "half_degree", "", None, 1))
        local: Any = rng.choice((None, None, 0.5, -1, float("nan"), float("inf"), 1e300, "1"))
        nodes = _odd_nodes(rng)
        graph = read_data(workshop.good_data())[0]
        return Case(
            f"Budget({amount!r}, {kind!r}, {local!r})", lambda: Budget(amount, kind, local).limits(graph, nodes)
        )
    if way == 1:
        number: Any = rng.choice((24, 24, 24, *INTEGERS, 2.5, "3", None, True))
        pairs, how = _odd_tensor(rng, workshop.good_data().edge_index[:, :5])
        path = place / "saved.safetensors"

        def act() -> None:
            made = Perturbation(number, added=pairs)
            made.save(path)
            if Perturbation.load(path) != made:
                raise WrongResult("other flips came back")

        return Case(f"Perturbation({number!r}, {how})", act, outputs=[path])
    if way == 2:
        data, how = _odd_data(rng)
        flips = Perturbation(24, removed=workshop.good_data().edge_index[:, :1])
        return Case(f"apply, {how}", lambda: Perturbation.between(data, flips.apply(data)))
    data, how = _odd_data(rng)
    arguments: dict[str, Any] = {
        "seed": rng.choice((0, 0, *INTEGERS, 1.5, "1")),
        "train_per_class": 2,
        "val_per_class": 2,
    }
    name = rng.choice((*arguments, "test_share"))
    if name != "seed":
        arguments[name] = rng.choice((*INTEGERS, *FLOATS, "1", None))
    return Case(f"attach_split({arguments}), {how}", lambda: inductive_split(attach_split(data, **arguments)))


def protection(rng: random.Random, place: Path) -> Case:
    """A protected model, called with odd arrays, or made of odd parts."""
    data, how = _odd_data(rng)
    purifier = purifiers.load(place / workshop.PURIFIER)
    name = rng.choice(workshop.CLASSIFIERS)
    classifier: Any = classifiers.load(place / name)
    threshold: Any = rng.choice((None, None, 0.5, 0, 1, -1, 2, float("nan"), "a", True))
    inner: Any = rng.choice(
        (classifier, classifier, classifier, torch.nn.Linear(3, 3), torch.nn.Identity(), None, "gcn")
    )
    front: Any = rng.choice((purifier, purifier, purifier, pg.GPRGAE(), None, "purifier"))
    weight = data.edge_weight if "edge_weight" in data else None

    def act() -> None:
        model = pg.protect(inner, front, threshold=threshold)
        if inner is classifier:
            found = model.eval()(data.x, data.edge_index, weight)
            if not bool(found.isfinite().all()):
                raise WrongResult("outputs that are not finite")

    what = f"protect({type(inner).__name__}, {type(front).__name__}, {threshold=})"
    return Case(f"{what} of {name}, {how}", act)


def _odd_data(rng: random.Random) -> tuple[Data, str]:
    """A good graph with one to three things wrong."""
    data, told = workshop.good_data(), []
    if rng.random() < 0.3:
        data.edge_weight = torch.full((data.edge_index.shape[1],), 0.5)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        name = rng.choice(
            ("x", "x", "edge_index", "edge_index", "edge_weight", "y", "train_mask", "val_mask", "test_mask")
        )
        base = data[name] if name in data and isinstance(data[name], Tensor) else torch.ones(data.edge_index.shape[-1])
        data[name], how = _odd_tensor(rng, base)
        told.append(f"{name} {how}")
        if not isinstance(data.edge_index, Tensor) or data.edge_index.dim() == 0:
            break
    return data, ", ".join(told) or "a good graph"


def _odd_tensor(rng: random.Random, base: Tensor) -> tuple[Any, str]:
    """A tensor with another dtype, shape, layout or content, or no tensor."""
    way = rng.randrange(12)
    if way < 2:
        dtype = rng.choice(DTYPES)
        return base.to(dtype), f"as {dtype}"
    if way == 2:
        shape = rng.choice(((), (0,), (1,), (2, 0), (0, 6), (24, 0), (24, 1), (6, 24), (1, 2, 3), (2, 1), (3, 5)))
        return torch.from_numpy(np.resize(_plain(base), shape)), f"of shape {shape}"
    if way == 3 and base.dim() and base.layout == torch.strided:
        turned = rng.choice(
            (base.mT if base.dim() > 1 else base[::2], base[..., ::2], base[:-1], base.repeat_interleave(2, -1))
        )
        return turned, f"turned to {tuple(turned.shape)}"
    if way == 4 and base.dim() == 2 and base.layout == torch.strided:
        layouts = (base.to_sparse, base.to_sparse_csr, base.to_sparse_csc, lambda: base.float().to_sparse_csr())
        return rng.choice(layouts)(), "in a sparse layout"
    if way == 5:
        return base.detach().clone().float().requires_grad_(), "that requires a gradient"
    if way == 6:
        return rng.choice((None, _plain(base), _plain(base).tolist(), "text", 3, [], {})), "that is no tensor"
    if way == 7 and base.dim() and base.layout == torch.strided:
        return base.expand(2, *base.shape)[0].as_strided(base.shape, [0] * base.dim()), "of one element over and over"
    changed = base.detach().clone()
    number = rng.choice(NUMBERS)
    if changed.numel() and changed.layout == torch.strided:
        at = rng.randrange(changed.numel())
        flat = changed.reshape(-1)
        flat[at : at + rng.choice((1, 1, 1, flat.numel()))] = _as(number, changed.dtype)
        changed = flat.reshape(base.shape)
    return changed, f"holding {number}"


def _as(number: float, dtype: torch.dtype) -> Any:
    """A number as a dtype can hold it."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.tensor(number, dtype=torch.float64).to(dtype)
    if number != number or abs(number) == float("inf"):
        return torch.tensor(-(2**63)).to(dtype)
    return torch.tensor(int(max(min(number, 2**62), -(2**62)))).to(dtype)


def _plain(tensor: Tensor) -> Any:
    dense = tensor.detach() if tensor.layout == torch.strided else tensor.detach().to_dense()
    return dense.float().numpy() if dense.dtype == torch.bfloat16 else dense.numpy()


def _odd_nodes(rng: random.Random) -> Any:
    mask = workshop.good_data().test_mask
    nodes = mask.nonzero().squeeze(1)
    ways = (mask, nodes, mask.long(), mask.to(torch.uint8), mask[:-1], nodes.float(), nodes + 24, nodes - 24, nodes[:0])
    ways += (
        mask[None],
        nodes.tolist(),
        "all",
        3,
        nodes.numpy(),
        torch.zeros(24, dtype=torch.bool),
        torch.tensor(2**62),
    )
    return rng.choice(ways)


def _odd_scipy(rng: random.Random) -> tuple[Any, str]:
    graph = read_data(workshop.good_data())[0]
    dense = torch.zeros(24, 24)
    dense[graph.pairs[0], graph.pairs[1]] = 1
    dense = rng.choice((dense, dense + dense.T, dense * 0, dense[:3], dense[:0, :0], dense + dense.T + torch.eye(24)))
    array = dense.numpy().astype(rng.choice(("f4", "f8", "i8", "?", "c8", "i1", "u2")))
    if array.size and rng.random() < 0.4:
        with np.errstate(all="ignore"):
            number = rng.choice(NUMBERS)
            at = rng.randrange(array.shape[0]), rng.randrange(array.shape[1])
            array[at] = np.asarray(number, dtype="f8").astype(array.dtype)
    form = rng.choice(("csr", "csc", "coo", "lil", "dok", "bsr", "dia"))
    if 0 in array.shape and form in ("bsr", "dia"):
        form = "csr"
    return getattr(sparse, f"{form}_array")(array), f"{form} {array.shape} {array.dtype}"


def _odd_networkx(rng: random.Random) -> tuple[Any, str]:
    kind = rng.choice((networkx.Graph, networkx.Graph, networkx.Graph, networkx.DiGraph, networkx.MultiGraph))
    graph = kind()
    graph.add_edges_from(workshop.good_data().edge_index.t().tolist())
    if rng.random() < 0.3:
        graph.add_node(rng.choice(("text", 2**80, (1, 2))))
    if rng.random() < 0.5:
        odd = rng.choice((*FLOATS, *INTEGERS, *TEXTS[:8], None, [1]))
        edge = rng.choice(list(graph.edges))[:2]
        graph.add_edge(*edge, weight=odd)
        return graph, f"{kind.__name__} with a weight of {odd!r}"
    return graph, kind.__name__


def _tamed(name: str, odd: Any) -> Any:
    """A value of a setting, but no wish for hours of work."""
    if name in WORK | SIZES and isinstance(odd, int | float) and odd > 3:
        return 3 if isinstance(odd, int) else 1.5
    return odd


def _loops(data: Data, found: Tensor) -> Any:
    """Where an edge is a self-loop, which keeps the weight that it had."""
    edges = data.edge_index
    if not isinstance(edges, Tensor) or edges.dim() != 2 or found.shape != edges.shape[1:]:
        return torch.tensor(False)
    return edges[0] == edges[1]


def _sane(graph: pg.PairGraph) -> None:
    """Hold a graph to what every `PairGraph` is."""
    pairs, weight = graph.pairs, graph.weight
    if pairs.shape[1] and not (
        bool((pairs[0] < pairs[1]).all()) and 0 <= int(pairs.min()) <= int(pairs.max()) < graph.num_nodes
    ):
        raise WrongResult("pairs that are none")
    if not bool(((weight >= 0) & (weight < float("inf"))).all()):
        raise WrongResult("weights that are no weights")
