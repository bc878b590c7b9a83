"""Training of the detectors: each tells the edges of a trusted graph from those that an attack adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from purigraph.errors import InputError
from purigraph.fingerprint import fingerprint
from purigraph.graph import PairGraph
from purigraph.graph.perturbation import Perturbation
from purigraph.graph.sampling import sample_non_edges
from purigraph.graph.sparse_features import select_rows
from purigraph.kernels import Features
from purigraph.purifiers.good_at.detector import Detector
from purigraph.settings import Settings, setting


class AttackedFitSettings(Settings):
    """How GOOD-AT is trained; the defaults are those of its public code."""

    epochs: int = setting("Epochs of every detector.", default=50, ge=1)
    batch_size: int = setting("Edges in a batch.", default=2048, ge=1)
    learning_rate: float = setting("Of Adam.", default=0.01, gt=0)
    weight_decay: float = setting("Of Adam.", default=1e-4, ge=0)
    perturbation: float = setting("Flips per edge in the graphs that detectors learn from.", default=0.3, gt=0)
    target_share: float = setting(
        "The share of the nodes that an attack is aimed at, drawn anew for every detector.", default=0.8, gt=0, le=1
    )
    attack_epochs: int = setting(
        "Steps of the attack that `purigraph.training.fit_against_attacks` makes; one that is given to `fit` has its "
        "own.",
        default=100,
        ge=1,
    )
    attack_pairs: int = setting(
        "Most pairs that this attack looks at: it is PGD on all pairs if there are no more, else PRBCD with a block of "
        "so many.",
        default=100_000,
        ge=1,
    )


class EdgeAttack(Protocol):
    """What makes adversarial graphs: anything that is called as `purigraph.attacks.Attack` is."""

    def __call__(
        self,
        model: Any,
        data: tuple[Tensor, PairGraph],
        budget: int,
        *,
        targets: Tensor,
        labels: Tensor,
        seed: int,
        progress: bool | None,
    ) -> Perturbation:
        """Return at most `budget` flips that hurt the model on its targets."""


@dataclass(frozen=True)
class Samples:
    """What one detector learns from.

    Attributes:
        logits: (N, C) of the classifier on the graph under attack.
        pairs: (2, M), the edges of the trusted graph and then the added ones.
        is_added: (M,) bool.
    """

    logits: Tensor
    pairs: Tensor
    is_added: Tensor


class Adversary:
    """Where the samples come from.

    Args:
        classifier: From (x, edge_index, edge_weight) to logits (N, C), in evaluation mode; None for no logits.
        attack: Finds the edges that are added; None adds random pairs.
        attacked: What is attacked, in turn. Default: the classifier.
        x: (N, F).
        graph: The trusted graph.
        settings: Of the training.
    """

    def __init__(
        self,
        classifier: nn.Module | None,
        attack: EdgeAttack | None,
        attacked: Sequence[nn.Module] | None,
        x: Tensor,
        graph: PairGraph,
        settings: AttackedFitSettings,
    ) -> None:
        if classifier is None and attack is not None:
            raise InputError(
                "An attack needs something to attack: give GOODAT.fit a trained classifier too (classifier=...)."
            )
        self._classifier, self._attack = classifier, attack
        self._attacked = attacked or ([] if classifier is None else [classifier])
        self._x, self._graph, self._settings = x, graph, settings
        self._flips = max(round(settings.perturbation * graph.num_pairs), 1)
        # No label is read: the attack is aimed at what the classifier takes for the truth.
        self._labels = self.logits(graph).argmax(1) if classifier is not None else None

    def identity(self) -> str:
        """Return what the samples depend on besides the graph: two runs with the same share a checkpoint."""
        models = [*self._attacked, *([] if self._classifier is None else [self._classifier])]
        tensors = [tensor for model in models for tensor in model.state_dict().values()]
        how = getattr(self._attack, "settings", None)
        return fingerprint(f"{type(self._attack).__name__} {how!r}", *tensors)

    def logits(self, graph: PairGraph) -> Tensor:
        """(N, C) the logits on a graph; (N, 0) without a classifier."""
        if self._classifier is None:
            return torch.zeros((graph.num_nodes, 0), dtype=self._x.dtype, device=graph.device)
        with torch.no_grad():
            logits: Tensor = self._classifier(self._x, *graph.edge_index())
        return logits

    def samples(self, number: int, seed: int, generator: torch.Generator) -> Samples:
        """Attack the graph for one detector.

        Raises:
            InputError: If the attack adds no edge.
        """
        graph = self._graph
        found = self._perturbation(number, seed, generator)
        added = found.added.to(graph.device)
        if added.shape[1] == 0:
            raise InputError(
                f"The attack for detector {number} added no edge, so that there is nothing to detect: give a stronger "
                "attack, or a larger `perturbation`."
            )
        is_added = torch.arange(graph.num_pairs + added.shape[1], device=graph.device) >= graph.num_pairs
        return Samples(self.logits(found.apply(graph)), torch.cat([graph.pairs, added], dim=1), is_added)

    def _perturbation(self, number: int, seed: int, generator: torch.Generator) -> Perturbation:
        graph = self._graph
        if self._attack is None:
            pairs = PairGraph.from_codes(graph.num_nodes, sample_non_edges(graph, self._flips, generator)).pairs
            return Perturbation(graph.num_nodes, added=pairs)
        assert self._labels is not None
        count = max(round(self._settings.target_share * graph.num_nodes), 1)
        targets = torch.randperm(graph.num_nodes, generator=generator)[:count].sort().values
        return self._attack(
            self._attacked[number % len(self._attacked)],
            (self._x, graph),
            self._flips,
            targets=targets.to(graph.device),
            labels=self._labels,
            seed=seed,
            progress=False,
        )


def train_detector(
    detector: Detector, x: Tensor, samples: Samples, settings: AttackedFitSettings, generator: torch.Generator
) -> float:
    """Minimise the binary cross-entropy of both directions of every pair; return the last epoch's mean loss.

    Args:
        detector: Trained in place.
        x: (N, F), dense or CSR.
        samples: What it learns from.
        settings: Of the training.
        generator: For the order of the pairs and for dropout; on the CPU.
    """
    optimiser = torch.optim.Adam(
        detector.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=True
    )
    truth = samples.is_added.to(samples.logits.dtype)
    detector.norm.train()
    total = 0.0
    for _ in range(settings.epochs):
        total = 0.0
        order = torch.randperm(len(truth), generator=generator).to(truth.device)
        for batch in order.split(settings.batch_size):
            # A batch touches a part of the nodes: only their rows are multiplied.
            nodes, pairs = torch.unique(samples.pairs[:, batch], return_inverse=True)
            rows = Features(select_rows(x, nodes))
            logits = detector.training_logits(rows, samples.logits[nodes], pairs, generator)
            loss = functional.binary_cross_entropy_with_logits(logits, truth[batch].expand_as(logits))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(batch)
    detector.norm.eval()
    return total / len(truth)
