"""A teacher who learns the labels of the validation nodes, and can forget them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import purigraph as pg
from helpers import communities
from purigraph.errors import InputError, UnknownNameError
from purigraph.graph.splits import InductiveSplit, attach_split, inductive_split
from purigraph.training import AllLabels, train

SHORT: dict[str, Any] = {"epochs": 12, "views": 2, "choose_from": 4}
TOPICS: dict[str, Any] = {"student": "topics", "topics": 8, "landmarks": 16}


@pytest.fixture(scope="module")
def split() -> InductiveSplit:
    return inductive_split(attach_split(communities(160), seed=0, train_per_class=5, val_per_class=8))


@pytest.fixture(scope="module")
def gcn(split: InductiveSplit) -> torch.nn.Module:
    return train("gcn", "vanilla", split, settings={"epochs": 20}, hyper={"hidden_channels": 8}).model


def teacher_of(split: InductiveSplit) -> AllLabels:
    return AllLabels("gcn", split, hyper={"hidden_channels": 8}, settings=SHORT)


def nobody(data: Data) -> torch.Tensor:
    return torch.zeros(data.num_nodes, dtype=torch.bool)


def with_labels(split: InductiveSplit, labels: torch.Tensor) -> InductiveSplit:
    validation = copy.copy(split.validation)
    validation.y = labels
    return InductiveSplit(split.train, validation, split.test)


def test_it_hears_the_labels_of_validation_nodes_and_no_others(split) -> None:
    data, mask = split.validation, split.validation.val_mask
    said = teacher_of(split)
    first = said.answers(data, nobody(data))
    assert first.shape == (data.num_nodes, 2)
    assert torch.allclose(first.sum(1), torch.ones(len(first)), atol=1e-5)
    known = mask | data.train_mask
    hidden = with_labels(split, torch.where(known, data.y, 1 - data.y))
    assert torch.equal(teacher_of(hidden).answers(hidden.validation, nobody(data)), first)
    # How long to train is the same question for both, so that only what is learned differs.
    wrong, other = with_labels(split, torch.where(mask, 1 - data.y, data.y)), teacher_of(split)
    other.__dict__["first"] = said.first
    assert not torch.equal(other.answers(wrong.validation, nobody(data)), first)


def test_nodes_that_are_held_out_are_neither_seen_nor_heard(split) -> None:
    data = split.validation
    held_out = data.val_mask & (torch.arange(data.num_nodes) % 2 == 0)
    said = teacher_of(split)
    first = said.answers(data, held_out)
    assert torch.equal(first[held_out], torch.full_like(first[held_out], 0.5))
    changed = copy.copy(data)
    changed.y = torch.where(held_out, 1 - data.y, data.y)
    changed.x = torch.where(held_out.unsqueeze(1), 7.0, data.x)
    at_held_out = held_out[data.edge_index].any(0)
    changed.edge_index = data.edge_index[:, ~at_held_out]
    other = teacher_of(split)
    other.__dict__["first"] = said.first
    assert torch.equal(other.answers(changed, held_out), first)


def test_it_is_trained_once_for_every_set_of_labels(split, monkeypatch: pytest.MonkeyPatch) -> None:
    said, calls = teacher_of(split), []
    own = AllLabels._train
    monkeypatch.setattr(AllLabels, "_train", lambda self, *given: calls.append(given) or own(self, *given))
    data, trusted_only = split.validation, ~split.validation.val_mask
    for held_out in (nobody(data), trusted_only, data.val_mask, data.val_mask | trusted_only):
        said.answers(data, held_out)
    assert len(calls) == 3  # one says how long; trusted nodes have no label to forget
    assert [settings.epochs for _, settings, _ in calls[1:]] == [said.first.best_epoch] * 2
    assert said.first.best_epoch >= SHORT["choose_from"]


def test_an_anchor_learns_from_it_and_is_judged_by_those_who_did_not_hear(gcn, split, monkeypatch) -> None:
    data, asked = split.validation, []
    answers = AllLabels.answers

    def spy(self: AllLabels, graph: Data, held_out: torch.Tensor, /) -> torch.Tensor:
        asked.append(graph.val_mask & held_out)
        return answers(self, graph, held_out)

    monkeypatch.setattr(AllLabels, "answers", spy)
    said = teacher_of(split)
    anchor = pg.Anchor(**TOPICS).fit(gcn, split.train, data, teacher=said, folds=2)
    parts = {tuple(one.nonzero().squeeze(1).tolist()) for one in asked}
    assert len(parts) == 3  # none, and the two halves
    assert set().union(*parts) == set(data.val_mask.nonzero().squeeze(1).tolist())
    assert anchor.provenance is not None
    assert anchor.provenance["teacher"] == "gcn, consistency, all labels"
    own = pg.Anchor(**TOPICS).fit(gcn, split.train, data, folds=2)
    assert not torch.equal(own(split.test.x), anchor(split.test.x))
    model = pg.protect(gcn, None, anchor=anchor)
    fixed = model.certificate(split.test).fixed
    lonely = model(split.test.x, split.test.edge_index[:, :0]).argmax(1)
    assert torch.equal(lonely[fixed], model(split.test.x, split.test.edge_index).argmax(1)[fixed])


@pytest.mark.parametrize("case", ["validation", "taught", "learn_labels"])
def test_what_it_needs_is_said(case: str, gcn, split) -> None:
    taught = torch.nn.functional.one_hot(split.train.y).float()
    validation, options, words = {
        "validation": (None, {}, "give validation"),
        "taught": (split.validation, {"taught": taught}, "give one of them"),
        "learn_labels": (split.validation, {"learn_labels": True}, "give one of them"),
    }[case]
    with pytest.raises(InputError, match=words):
        pg.Anchor().fit(gcn, split.train, validation, teacher=teacher_of(split), **options)


def test_names_are_checked_when_it_is_asked(split) -> None:
    with pytest.raises(UnknownNameError):
        AllLabels("gnc", split).answers(split.validation, nobody(split.validation))
    with pytest.raises(InputError, match="views"):
        AllLabels("gcn", split, settings={"views": 0}).answers(split.validation, nobody(split.validation))
