"""The options of the command line, with the same name and letter in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# The largest seed of NumPy and scikit-learn; PyTorch allows somewhat more.
LARGEST_SEED = 2**32 - 1
DEFAULT_ATTACK = "prbcd"

# Models are text, not paths: a path would turn `hf://owner/name` into `hf:/owner/name`.
ClassifierOption = Annotated[
    str,
    typer.Option("--classifier", "-c", help="The folder of a classifier (`purigraph train`), or hf://owner/name."),
]
PurifierOption = Annotated[
    str | None, typer.Option("--purifier", "-m", help="The folder of a purifier (`purigraph fit`), or hf://owner/name.")
]
AnchorOption = Annotated[
    str | None, typer.Option("--anchor", help="The folder of an anchor (`purigraph fit --anchor`), or hf://owner/name.")
]
GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A dataset's name (see `purigraph datasets`) or a graph file: .npz, .csv, .tsv, .parquet, .graphml, "
        ".gexf, .pt (docs/files.md).",
    ),
]
FeaturesOption = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="The features of the nodes of GRAPH: .csv, .tsv, .parquet, .npy or a SciPy .npz.",
    ),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="The folder for the state of the run; an interrupted run resumes from it."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change any other setting (listed below); may be repeated."),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="The random seed; the same seed gives the same result.")
]
SplitSeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=LARGEST_SEED,
        help="The seed of the split of a dataset. Default: the one that the classifier was trained with.",
    ),
]
SplitOption = Annotated[
    int | None,
    typer.Option(
        "--split", min=0, help="The split of a graph file with (N, S) masks. Default: that of the training, or 0."
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="The device to compute on: cpu, cuda, ...")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only a JSON value, for programs.")]
ReportFileOption = Annotated[Path | None, typer.Option("--output", "-o", help="Also write the JSON to a file.")]
ModelFolderOption = Annotated[Path, typer.Option("--output", "-o", help="The folder to write the model to.")]

AttackOption = Annotated[
    str | None, typer.Option("--attack", "-a", help=f"prbcd, lrbcd, pgd, evolutionary, ... Default: {DEFAULT_ATTACK}.")
]
AttackEpochsOption = Annotated[
    int | None,
    typer.Option("--epochs", min=1, help="Attack epochs; attacks with fine-tuning add a quarter as many for it."),
]
AttackSeed = typer.Option("--attack-seed", min=0, max=LARGEST_SEED, help="The random seed of the attack.")
BudgetKindOption = Annotated[
    str,
    typer.Option(
        "--budget-kind",
        help="What epsilon is a share of: the edges at the test nodes (incident), or half the sum of their degrees "
        "(half-degree). With absolute, epsilon is the number of flips.",
    ),
]
PresetOption = Annotated[
    str | None, typer.Option("--preset", help="paper: the paper's settings of prbcd or lrbcd; --set overrides them.")
]
RestartsOption = Annotated[
    int | None, typer.Option("--restarts", min=1, help="Runs of the attack; the strongest one is used. Default: 1.")
]
