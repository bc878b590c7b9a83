"""Data-parallel training of GPR-GAE over ranks: every epoch is one step of Adam on several subgraphs.

The subgraphs of an epoch are spread over the ranks and their gradients are averaged by an all-reduce. What is random
depends on the seed, the epoch and the number of the subgraph, not on the ranks: with another number of ranks, the
losses are the same up to rounding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from purigraph._version import __version__
from purigraph.checkpoints import Checkpointer, State, optimizer_tensors, restore_optimizer, with_prefix, without_prefix
from purigraph.distributed.group import Group
from purigraph.distributed.loading import load_rows
from purigraph.distributed.parts import GraphParts
from purigraph.distributed.subgraphs import BatchSettings, Subgraph, SubgraphSampler, hashed
from purigraph.errors import InputError
from purigraph.files import write_json
from purigraph.graph.injection import inject
from purigraph.graph.sampling import num_non_edges
from purigraph.kernels import Features
from purigraph.metrics import ranking_scores
from purigraph.purifiers import GPRGAE
from purigraph.purifiers.gpr_gae import FitReport, FitSettings
from purigraph.purifiers.gpr_gae.perturb import perturb
from purigraph.purifiers.gpr_gae.training import adversary_of, training_loss

CURVE = "curve.json"
_VALIDATION = 1 << 40  # "epochs" from here on are the validation sets


def fit_rank(
    parts: str | Path,
    purifier: GPRGAE,
    folder: str | Path,
    group: Group,
    batches: BatchSettings,
    settings: FitSettings,
    *,
    seed: int = 0,
) -> FitReport:
    """Train a purifier on a trusted graph in parts; all ranks call this together and end with the same purifier.

    A checkpoint in the folder is resumed from. At the end, the purifier is saved in `folder`/purifier and the losses in
    `folder`/curve.json.

    Args:
        parts: The folder of the graph.
        purifier: The purifier; its parameters are reset and trained.
        folder: The folder of the run.
        group: The ranks.
        batches: The mini-batches.
        settings: The settings of the training; `batch_ratio` is not used, as every epoch is a mini-batch.
        seed: The seed of all randomness.
    """
    training = DistributedTraining(parts, purifier, group, batches, settings, seed=seed)
    keeper = Checkpointer(folder, "fit", training.purpose)
    training.resume(keeper)
    while not training.finished:
        training.epoch()
        if group.rank == 0:
            keeper.offer(training.state)
            training.write_curve(folder)
    if training.best_epoch == 0:  # there were fewer epochs than `validate_every`
        training.validate()
    training.links.load_state_dict(training.best_state)
    report = FitReport(
        training.best_epoch, training.auc, training.ap, len(training.losses), seed, settings, keeper.seconds
    )
    purifier.provenance = report.record()
    if group.rank == 0:
        training.write_curve(folder)
        purifier.save_pretrained(Path(folder) / "purifier")
        keeper.clear()
    group.wait()
    return report


class DistributedTraining:
    """One training run, seen from one of its ranks.

    Attributes:
        losses: The loss of every epoch, the mean over all its subgraphs.
        best_epoch: The epoch with the best validation score, with its `auc` and `ap`.
    """

    def __init__(
        self,
        parts: str | Path,
        purifier: GPRGAE,
        group: Group,
        batches: BatchSettings,
        settings: FitSettings,
        *,
        seed: int = 0,
    ) -> None:
        self._graph, self._group, self._batches, self._settings, self._seed = (
            GraphParts.open(parts),
            group,
            batches,
            settings,
            seed,
        )
        rows = load_rows(self._graph, group)
        if rows.num_pairs == 0:
            raise InputError(f"{self._graph.folder} has no edges: there is nothing to learn from.")
        self._sampler = SubgraphSampler(self._graph, rows.block, rows.weight, group, batches)
        nodes = torch.arange(self._graph.num_nodes)
        # The same share of the hashes' range as of the nodes is held out.
        self._held_out = hashed(nodes, nodes, seed) < int(-(1 << 63) + settings.holdout * (1 << 64))
        self.links = purifier.reset(self._graph.num_features, torch.Generator().manual_seed(seed))
        self._dropout = purifier.dropout
        self._optimizer = torch.optim.Adam(
            self.links.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.losses: list[float] = []
        self.best_epoch, self.auc, self.ap = 0, float("nan"), float("nan")
        self.best_state = self._copy()
        self._validation = self._validation_sets()

    @property
    def purpose(self) -> str:
        """Identify the run: it resumes only with the same graph, settings and seed."""
        fixed = self._settings.model_dump(exclude={"epochs", "patience"})
        shapes = {name: list(value.shape) for name, value in self.links.state_dict().items()}
        graph = {**self._graph.record(), "folder": ""}
        return json.dumps([fixed, self._batches.to_json(), graph, self._seed, shapes, self._dropout, __version__])

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or training has stopped early."""
        done, patience = len(self.losses), self._settings.patience
        return done >= self._settings.epochs or (patience is not None and done - self.best_epoch >= patience)

    def epoch(self) -> float:
        """Take one step on the subgraphs of this epoch, validate if due, and return the loss."""
        number = len(self.losses)
        allowed = ~self._held_out
        self._optimizer.zero_grad()
        total, count = torch.zeros(()), 0
        for k, subgraph in self._sample(number, allowed).items():
            loss = self._loss(subgraph, self._generator(number, k))
            if loss is not None:
                loss.backward()
                total, count = total + loss.detach(), count + 1
        loss_value = self._all_reduce(total, count)
        if not math.isfinite(loss_value):
            raise InputError(
                f"The training loss became {loss_value} in epoch {number + 1}: lower learning_rate or symmetry, or "
                "scale the features down."
            )
        self._optimizer.step()
        self.losses.append(loss_value)
        if len(self.losses) % self._settings.validate_every == 0:
            self.validate()
        return loss_value

    @torch.no_grad()
    def validate(self) -> None:
        """Score the current model on the validation sets of all ranks, and keep a copy if it is the best so far."""
        links, scores = self.links.frozen(), torch.zeros(3, dtype=torch.float64)
        for k, subgraph in self._validation.items():
            touching = self._held_out[subgraph.nodes][subgraph.graph.pairs].any(0)
            held_out = self._held_out[subgraph.nodes].nonzero().squeeze(1)
            count = round((k + 1) * self._settings.validation_injection * int(touching.sum()))
            count = min(max(count, 1), num_non_edges(subgraph.graph, held_out))
            if not touching.any() or count == 0:
                continue
            perturbed = inject(subgraph.graph, count, self._generator(_VALIDATION, k), held_out)
            probability = links.logits(links.embed(Features(subgraph.x)), perturbed.graph).sigmoid().mean(0)
            original = probability[perturbed.is_original][touching]
            scores += torch.tensor([*ranking_scores(original, probability[~perturbed.is_original]), 1.0])
        auc, ap, number = self._group.total(scores.to(self._group.device)).tolist()
        if number == 0:
            raise InputError(
                "No edge touches a validation node: hold out more nodes (holdout=...), or take more roots."
            )
        auc, ap = auc / number, ap / number
        if self.best_epoch == 0 or auc + ap > self.auc + self.ap:
            self.auc, self.ap, self.best_epoch = auc, ap, len(self.losses)
            self.best_state = self._copy()

    def state(self) -> State:
        """Return everything that is needed to resume."""
        tensors = {
            **with_prefix("model", self.links.state_dict()),
            **with_prefix("best", self.best_state),
            **optimizer_tensors(self._optimizer),
        }
        values = {"losses": self.losses, "best_epoch": self.best_epoch, "auc": self.auc, "ap": self.ap}
        return State(tensors, values)

    def resume(self, keeper: Checkpointer) -> None:
        """Resume from the checkpoint of this run, if there is one."""
        found = keeper.resume()
        self._group.wait()  # before anybody writes the next one
        if found is None:
            return
        with keeper.restoring():
            self.links.load_state_dict(without_prefix("model", found.tensors))
            self.best_state = without_prefix("best", found.tensors)
            restore_optimizer(self._optimizer, found.tensors)
            self.losses = [float(one) for one in found.values["losses"]]
            self.best_epoch = int(found.values["best_epoch"])
            self.auc, self.ap = float(found.values["auc"]), float(found.values["ap"])

    def write_curve(self, folder: str | Path) -> None:
        """Write the losses so far."""
        write_json(Path(folder) / CURVE, {"losses": self.losses})

    def _sample(self, number: int, allowed: Tensor) -> Mapping[int, Subgraph]:
        candidates = self._settings.holdout
        # More are drawn than needed, as some are held out.
        draws = math.ceil(self._batches.roots / (1 - candidates)) + 8
        roots = [
            torch.randint(self._graph.num_nodes, (draws,), generator=self._generator(number, k))
            for k in range(self._batches.batches)
        ]
        return self._sampler.sample([one[allowed[one]][: self._batches.roots] for one in roots], number * 97, allowed)

    def _validation_sets(self) -> Mapping[int, Subgraph]:
        """Return this rank's validation sets: subgraphs around held-out nodes."""
        held_out = self._held_out.nonzero().squeeze(1)
        if not len(held_out):
            raise InputError("No node is held out for validation: hold out more (holdout=...), or use a larger graph.")
        roots = [
            held_out[torch.randint(len(held_out), (self._batches.roots,), generator=self._generator(_VALIDATION, k))]
            for k in range(self._settings.validation_sets)
        ]
        return self._sampler.sample(roots, _VALIDATION)

    def _loss(self, subgraph: Subgraph, generator: torch.Generator) -> Tensor | None:
        graph, settings = subgraph.graph, self._settings
        wanted = round(settings.injection * graph.num_pairs)
        if graph.num_pairs == 0 or wanted == 0:
            return None
        injection = min(settings.injection, num_non_edges(graph) / graph.num_pairs)
        features = Features(subgraph.x)
        adversary = adversary_of(self.links, features, graph, settings.adversarial)
        perturbed = perturb(graph, injection, settings.masking, settings.reweighting, generator, adversary)
        whole = settings.replace(batch_ratio=None)
        return training_loss(self.links.trainable(), features, perturbed, whole, self._dropout, generator)

    def _all_reduce(self, total: Tensor, count: int) -> float:
        """Average the gradients over all subgraphs of all ranks, in place, and return their mean loss."""
        parameters = list(self.links.parameters())
        flat = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        packed = torch.cat([*(one.reshape(-1) for one in flat), total.reshape(1), torch.tensor([float(count)])])
        packed = self._group.total(packed.to(self._group.device)).cpu()
        number = float(packed[-1])
        if number == 0:
            raise InputError("No subgraph of this epoch has an edge: take more roots, neighbours or rounds.")
        packed /= number
        for one, part in zip(parameters, packed[:-2].split([one.numel() for one in parameters]), strict=True):
            one.grad = part.view_as(one).clone()
        return float(packed[-2])

    def _generator(self, number: int, k: int) -> torch.Generator:
        """Return the random generator of one subgraph: the same on whichever rank."""
        mixed = hashed(torch.tensor([number]), torch.tensor([k]), self._seed)
        return torch.Generator().manual_seed(int(mixed) & ((1 << 63) - 1))

    def _copy(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.links.state_dict().items()}
