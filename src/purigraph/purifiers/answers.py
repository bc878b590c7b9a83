"""The model whose answers a purifier goes by: one that sees features only, held as a part of the purifier."""

from __future__ import annotations

import copy

from torch import nn

from purigraph.pretrained import ComponentRecord


def built_answers(record: ComponentRecord | None) -> nn.Module | None:
    """Return a new model by its record, to be filled by loading; None without one."""
    return None if record is None else record.build().eval().requires_grad_(False)


def taken_answers(answers: nn.Module | None) -> tuple[ComponentRecord | None, nn.Module | None]:
    """Return the record of a model that `fit` was given, and a copy of it that training does not change."""
    if answers is None:
        return None, None
    return ComponentRecord.of(answers), copy.deepcopy(answers).eval().requires_grad_(False)
