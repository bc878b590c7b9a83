"""The README's picture, from the results of `cora_robustness.py`: `python studies/figures.py`."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from common import RESULTS, ROOT

from purigraph.files import read_json

STUDY = RESULTS / "cora-robustness"
EPSILONS = (0.1, 0.25, 0.5)


def curve(*prefixes: str) -> list[float]:
    """The lowest accuracies in percent, at all budgets and over the given attacks that were run, seed 0."""
    lowest = []
    for epsilon in EPSILONS:
        paths = [STUDY / f"{prefix}-{epsilon:g}-0.json" for prefix in prefixes]
        lowest.append(min(100 * read_json(path)["accuracy"] for path in paths if path.exists()))
    return lowest


def main() -> None:
    """Draw accuracy against budget."""
    purifier = read_json(STUDY / "purifier.json")
    plain, protected = 100 * purifier["clean"], 100 * purifier["purified_clean"]
    budgets = [0.0, *EPSILONS]
    figure, axes = plt.subplots(figsize=(7, 3.6), dpi=150)
    axes.plot(budgets, [protected, *curve("transferred-prbcd")], "o-", color="#1b7837", label="purified, same attack")
    worst = curve("adaptive-prbcd", "warm-prbcd", "worst")
    label = "purified, attacked through the purifier"
    axes.plot(budgets, [protected, *worst], "s--", color="#5aae61", label=label)
    axes.plot(budgets, [plain, *curve("plain-prbcd")], "o-", color="#b2182b", label="GCN alone, attacked")
    axes.set_xlabel("attacker's budget (share of the edges at the test nodes)")
    axes.set_ylabel("test accuracy (%)")
    axes.set_ylim(0, 100)
    axes.set_xticks(budgets)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower left")
    axes.set_title("A GCN on Cora under PRBCD, with and without the purifier", fontsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    target = ROOT / "docs" / "images" / "accuracy.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)


if __name__ == "__main__":
    main()
