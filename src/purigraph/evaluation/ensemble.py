"""Ensembles of attacks: what a defence has to withstand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from purigraph.attacks import Attack
from purigraph.errors import InputError
from purigraph.registry import canonical

#: The model that an attack is computed on: the attacked one, or the one that attacks are transferred from.
MODEL, TRANSFER = "model", "transfer"
#: What a member may begin from beside the perturbations of another one: the strongest so far at the same budget, or at
#: the next smaller budget.
BEST, SMALLER = "best", "smaller budget"


@dataclass(frozen=True)
class Member:
    """One attack of an ensemble.

    Attributes:
        name: Its name in the table.
        attack: The attack's registered name, its class, or an attack.
        settings: Its hyper-parameters, if the attack is given by name or class.
        view: The model it is computed on: the "model" itself, the "transfer" model, or another view of a protected
            model (`Protected.views`; "fewer-steps", "more-steps" and "small-weights" for a GPR-GAE).
        begins_from: The name of an earlier member whose perturbations it starts from, "best" for the strongest found so
            far at the same budget, or "smaller budget" for the strongest at the next smaller one. If there is nothing
            to start from, it starts from the clean graph; without a smaller budget, it is left out.
        seed_offset: Added to the seed, for the same attack with other random draws.
    """

    name: str
    attack: str | type[Attack] | Attack
    settings: Mapping[str, Any] = field(default_factory=dict)
    view: str = MODEL
    begins_from: str | None = None
    seed_offset: int = 0


def hour_ensemble(variants: Sequence[str] = (), *, block_size: int = 10_000) -> list[Member]:
    """Return the ensemble for everyday use: three budgets take less than an hour for a purified GCN on Cora.

    The cheap ones come first (isolation, transferred), then the losses that were found strongest, and last what
    improves on the strongest so far.

    Args:
        variants: The views of a protected model to attack as well (see `Protected.views`).
        block_size: Block size of the block attacks.
    """
    prbcd = _lengths(block_size, 200)
    short = _lengths(block_size, 100)
    return [
        Member("isolation", "isolation", {"loss": "margin"}),
        Member("transferred prbcd", "prbcd", {**_lengths(block_size, 400), "loss": "tanh-margin"}, view=TRANSFER),
        Member("prbcd tanh-margin", "prbcd", {**prbcd, "loss": "tanh-margin"}),
        Member("prbcd elu-margin", "prbcd", {**prbcd, "loss": "elu-margin"}),
        *(
            Member(f"prbcd, {name.replace('-', ' ')}", "prbcd", {**prbcd, "loss": "tanh-margin"}, view=name)
            for name in variants
        ),
        Member("prbcd, deletions", "prbcd", {**short, "loss": "tanh-margin", "edits": "remove"}),
        Member("prbcd from smaller budget", "prbcd", {**short, "loss": "elu-margin"}, begins_from=SMALLER),
        *(
            Member(
                f"prbcd from best, {name.replace('-', ' ')}",
                "prbcd",
                {**short, "loss": "elu-margin"},
                view=name,
                begins_from=BEST,
            )
            for name in variants
        ),
        Member("prbcd from best", "prbcd", {**short, "loss": "tanh-margin"}, begins_from=BEST),
        Member("isolation from best", "isolation", {"loss": "margin"}, begins_from=BEST),
        Member(
            "evolutionary from best",
            "evolutionary",
            {"population": 16, "generations": 20, "loss": "margin"},
            begins_from=BEST,
        ),
    ]


def focused_ensemble(variants: Sequence[str] = (), *, block_size: int = 10_000) -> list[Member]:
    """Return the ensemble of `hour_ensemble` with attacks that spend the budget on the targets that are easiest to win.

    A loss over all targets also pulls at those that are never won, the more so the better they are defended. Attacks on
    the weakest of them alone leave up to sixteen points less of some defences at the same budget.

    Args:
        variants: The views of a protected model to attack as well (see `Protected.views`).
        block_size: Block size of the block attacks.
    """
    members = hour_ensemble(variants, block_size=block_size)
    # Before the members that go on from the strongest so far.
    place = next(position for position, member in enumerate(members) if member.begins_from is not None)
    return [*members[:place], *_focused(_lengths(block_size, 200)), *members[place:]]


def thorough_ensemble(
    variants: Sequence[str] = ("fewer-steps", "more-steps", "small-weights"), *, block_size: int = 10_000
) -> list[Member]:
    """Return the ensemble for a verdict: all losses at full length, both block attacks, restarts, every way to start.

    Args:
        variants: The views of a protected model to attack as well (see `Protected.views`).
        block_size: Block size of the block attacks.
    """
    full = _lengths(block_size, 400)
    return [
        Member("isolation", "isolation", {"loss": "margin"}),
        Member("transferred prbcd", "prbcd", {**full, "loss": "tanh-margin"}, view=TRANSFER),
        Member("transferred lrbcd", "lrbcd", {**full, "loss": "tanh-margin"}, view=TRANSFER),
        Member("prbcd tanh-margin", "prbcd", {**full, "loss": "tanh-margin"}),
        Member("prbcd elu-margin", "prbcd", {**full, "loss": "elu-margin"}),
        Member("prbcd masked-cross-entropy", "prbcd", {**full, "loss": "masked-cross-entropy"}),
        Member("prbcd margin", "prbcd", {**full, "loss": "margin"}),
        *_focused(full),
        Member("prbcd, insertions", "prbcd", {**full, "loss": "elu-margin", "edits": "add"}),
        Member("prbcd, deletions", "prbcd", {**full, "loss": "tanh-margin", "edits": "remove"}),
        Member("lrbcd margin", "lrbcd", {**full, "loss": "margin"}),
        Member("prbcd from transferred", "prbcd", {**full, "loss": "margin"}, begins_from="transferred prbcd"),
        *(
            Member(f"prbcd, {name.replace('-', ' ')}", "prbcd", {**full, "loss": "margin"}, view=name)
            for name in variants
        ),
        Member("prbcd elu-margin, other draws", "prbcd", {**full, "loss": "elu-margin"}, seed_offset=1_000),
        Member("prbcd from smaller budget", "prbcd", {**full, "loss": "elu-margin"}, begins_from=SMALLER),
        Member("prbcd from best", "prbcd", {**full, "loss": "tanh-margin"}, begins_from=BEST),
        Member("isolation from best", "isolation", {"loss": "margin"}, begins_from=BEST),
        Member("evolutionary from best", "evolutionary", {"loss": "margin", "generations": 240}, begins_from=BEST),
    ]


#: The ensembles by name.
ENSEMBLES: dict[str, Callable[[Sequence[str]], list[Member]]] = {
    "hour": hour_ensemble,
    "focused": focused_ensemble,
    "thorough": thorough_ensemble,
}


def read_ensemble(ensemble: str | Sequence[Member], variants: Sequence[str]) -> list[Member]:
    """Return the members of an ensemble that is given by name or as a list, checked."""
    if isinstance(ensemble, str):
        if canonical(ensemble) not in ENSEMBLES:
            raise InputError(f"There is no ensemble {ensemble!r}. Choose from: {', '.join(ENSEMBLES)}.")
        return ENSEMBLES[canonical(ensemble)](variants)
    members = list(ensemble)
    if not members:
        raise InputError("The ensemble is empty: name at least one Member.")
    seen: set[str] = set()
    for member in members:
        if member.name in seen:
            raise InputError(f"Two members of the ensemble are called {member.name!r}: give each its own name.")
        _check_view(member, variants)
        if member.begins_from not in (None, BEST, SMALLER, *seen):
            raise InputError(
                f"Member {member.name!r} begins from {member.begins_from!r}, but no earlier member has that name."
            )
        seen.add(member.name)
    return members


def _focused(lengths: Mapping[str, Any]) -> list[Member]:
    """Return the attacks on the targets that are easiest to win."""
    return [
        Member(
            f"prbcd elu-margin, {flips:g} flips a target", "prbcd", {**lengths, "loss": "elu-margin", "focus": flips}
        )
        for flips in (2.0, 4.0)
    ]


def _lengths(block_size: int, epochs: int) -> dict[str, Any]:
    return {"block_size": block_size, "epochs": epochs, "fine_tune_epochs": epochs // 4}


def _check_view(member: Member, variants: Sequence[str]) -> None:
    """Raise if the view does not exist; for a model without variants, only the form of its name is checked."""
    known = (MODEL, TRANSFER, *variants)
    is_name = member.view == canonical(member.view) and " " not in member.view
    if not is_name or (variants and member.view not in known):
        raise InputError(f"Member {member.name!r} has the view {member.view!r}; it must be one of {', '.join(known)}.")
