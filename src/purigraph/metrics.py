"""Accuracy, how sure answers are, and the areas under the ROC and the precision-recall curve with one sort."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Return the share of rows whose largest logit is that of the label; NaN if there are no rows.

    Shapes: logits (M, C), labels (M,).
    """
    if labels.numel() == 0:
        return float("nan")
    return float((logits.argmax(dim=-1) == labels).double().mean())


def gaps(probabilities: Tensor) -> Tensor:
    """Return the gap between the two largest probabilities of every row, (N,); 1 if there is one class only."""
    if probabilities.shape[1] < 2:
        return torch.ones(len(probabilities), dtype=probabilities.dtype, device=probabilities.device)
    largest = probabilities.topk(2, dim=1).values
    return largest[:, 0] - largest[:, 1]


def ranking_scores(positive: Tensor, negative: Tensor) -> tuple[float, float]:
    """Return AUC and average precision of scores that should be high for `positive` and low for `negative`.

    Equal to scikit-learn's `roc_auc_score` and `average_precision_score`, ties included, but both come
    from one sort: $\\mathrm{AUC} = P(s^+ > s^-) + P(s^+ = s^-)/2$ and
    $\\mathrm{AP} = \\sum_t (R_t - R_{t-1}) P_t$ over the distinct thresholds t.
    Both are NaN if either side is empty. Shapes: positive (P,), negative (Q,).
    """
    if positive.numel() == 0 or negative.numel() == 0:
        return float("nan"), float("nan")
    scores = torch.cat([positive, negative])
    scores, order = scores.sort(descending=True)
    hits = (order < positive.numel()).double()
    last_of_tie = torch.ones_like(hits, dtype=torch.bool)
    last_of_tie[:-1] = scores[1:] != scores[:-1]
    true_positives = hits.cumsum(0)[last_of_tie]
    seen = torch.arange(1, len(scores) + 1, dtype=torch.double, device=scores.device)[last_of_tie]
    zero = true_positives.new_zeros(1)
    gained = torch.diff(true_positives, prepend=zero)
    false_positives = seen - true_positives
    passed = torch.diff(false_positives, prepend=zero)
    # The trapezoidal rule between two thresholds counts a tie as one half.
    area = (passed * (true_positives - gained / 2)).sum()
    auc = float(area / (positive.numel() * negative.numel()))
    ap = float((gained * true_positives / seen).sum() / positive.numel())
    return auc, ap
