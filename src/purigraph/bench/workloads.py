"""The workloads that are measured, each with our side and the reference side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from purigraph import losses
from purigraph.anchors import Anchor
from purigraph.attacks import PRBCD
from purigraph.attacks.overlay import Overlay
from purigraph.attacks.projections import project_global
from purigraph.attacks.victim import Victim, frozen
from purigraph.bench import reference
from purigraph.classifiers import GCN, SoftMedianGDC
from purigraph.classifiers.edges import Edges
from purigraph.datasets import citation_network
from purigraph.errors import InputError
from purigraph.graph import PairGraph, as_pair_graph, pair_codes
from purigraph.graph.sampling import sample_non_edges
from purigraph.protection import protect
from purigraph.purifiers import GPRGAE
from purigraph.purifiers.gpr_gae.training import Training

STEPS = 5


class Workload(ABC):
    """A workload on the embedded graph at a given size, with a random purifier of the paper's dimensions.

    Args:
        num_nodes: N, the number of nodes.
        num_edges: E, the number of undirected edges.
        num_features: F, the number of features.
        block: The number of candidate pairs of an attack.
        epochs: The number of epochs of an attack.
        shape: Other hyper-parameters of the purifier.
    """

    #: The number of unavoidable products F.
    floors: int | None = None

    def __init__(
        self,
        num_nodes: int,
        num_edges: int,
        num_features: int,
        block: int = 0,
        epochs: int = 1,
        **shape: Any,
    ) -> None:
        words = num_features > 400
        self.data = citation_network(num_nodes, num_edges, num_features, seed=0, features="words" if words else "dense")
        self.graph = as_pair_graph(self.data)
        self.block, self.epochs = block, epochs
        self.purifier = GPRGAE(in_channels=num_features, **shape)
        self.purifier.provenance = {"weights": "random"}  # the time does not depend on the weights

    @property
    def links(self) -> Any:
        """Return the parameters of the purifier."""
        return self.purifier.links

    def fresh_features(self) -> Tensor:
        """Return the features as a new tensor, so nothing cached in an earlier call is used."""
        x: Tensor = self.data.x.view_as(self.data.x)
        return x

    def side(self, name: str) -> Callable[[], object]:
        """Return the function of a side, `ours` or `reference`."""
        return {"ours": self.ours, "reference": self.reference}[name]

    @abstractmethod
    def ours(self) -> object:
        """Run our side."""

    @abstractmethod
    def reference(self) -> object:
        """Run the reference side."""


class Purify(Workload):
    """Purify the clean graph in 5 steps, without gradients."""

    floors = STEPS

    @torch.no_grad()
    def ours(self) -> Tensor:
        """Use the kernels."""
        return self.purifier.trace(self.fresh_features(), self.graph, tolerance=0.0, max_steps=STEPS).graph.weight

    @torch.no_grad()
    def reference(self) -> Tensor:
        """Use the equations as printed."""
        return reference.purify(self.links, self.data.x, self.graph, STEPS)


class PurifyStep(Purify):
    """Purify in a single step."""

    floors = 1

    @torch.no_grad()
    def ours(self) -> Tensor:
        """Use the kernels."""
        return self.purifier.trace(self.fresh_features(), self.graph, tolerance=0.0, max_steps=1).graph.weight


class Gradient(Workload):
    """Compute the gradient of a loss with respect to all weights through 5 steps, with a block of candidate pairs."""

    floors: int | None = 2 * STEPS

    def __init__(self, **size: Any) -> None:
        super().__init__(**size)
        generator = torch.Generator().manual_seed(1)
        extra = sample_non_edges(self.graph, self.block, generator)
        codes, at_edges, _ = pair_codes.merge(self.graph.codes, extra)
        weight = torch.full((len(codes),), 1e-3)
        weight[at_edges] = 1
        self.union = PairGraph.from_codes(self.graph.num_nodes, codes, weight)
        self.direction = torch.randn(len(codes), generator=generator)

    def _gradient(self, loss: Callable[[PairGraph], Tensor]) -> Tensor:
        weight = self.union.weight.clone().requires_grad_()
        return torch.autograd.grad(loss(self.union.with_weight(weight)), weight)[0]

    def ours(self) -> Tensor:
        """Use the kernels."""
        x = self.fresh_features()
        return self._gradient(
            lambda graph: self.purifier.trace(x, graph, tolerance=0.0, max_steps=STEPS).graph.weight @ self.direction
        )

    def reference(self) -> Tensor:
        """Use the equations as printed and plain autograd."""
        return self._gradient(lambda graph: reference.purify(self.links, self.data.x, graph, STEPS) @ self.direction)


class DiffusionGradient(Gradient):
    """Compute the gradient of a loss through the diffusion of SoftMedianGDC, with a block of candidate pairs."""

    floors = None

    def _through(self, diffuse: Callable[[Edges], Tensor]) -> Tensor:
        def loss(graph: PairGraph) -> Tensor:
            index = torch.cat([graph.pairs, graph.pairs.flip(0)], dim=1)
            weight = torch.cat([graph.weight, graph.weight])
            return diffuse(Edges(index, weight, graph.num_nodes, weight.dtype)).square().sum()

        return self._gradient(loss)

    def ours(self) -> Tensor:
        """Invert a symmetric matrix, and compute the gradient at its entries alone."""
        model = SoftMedianGDC(1, 2, exact_below=self.graph.num_nodes + 1)
        return self._through(lambda edges: model.diffuse(edges).weight)

    def reference(self) -> Tensor:
        """Let autograd differentiate a general inverse."""
        return self._through(reference.diffused)


class TrainEpoch(Workload):
    """One training epoch and its share (a third) of the validation."""

    floors = 3

    def __init__(self, **size: Any) -> None:
        super().__init__(**size)
        self.training = Training(self.purifier, self.data, seed=0)
        task = self.training.task
        self.optimizer = torch.optim.Adam(self.links.parameters(), lr=0.01, weight_decay=1e-4)
        self.sets = [(one.graph, one.scored, one.is_original) for one in task.validation_sets]
        self.train_x, self.train_graph = self.data.x[: task.graph.num_nodes], task.graph

    def ours(self) -> None:
        """Run three epochs, which include one validation."""
        for _ in range(3):
            self.training.epoch()

    def reference(self) -> None:
        """Run the same three epochs with the equations as printed."""
        for _ in range(3):
            reference.training_epoch(self.links, self.optimizer, self.train_x, self.train_graph, 1.5)
        reference.validate(self.links, self.data.x, self.sets)


class PrbcdOnGcn(Workload):
    """PRBCD on a plain GCN: ours and PyG's, with the same epochs and block."""

    def __init__(self, **size: Any) -> None:
        super().__init__(**size)
        torch.manual_seed(0)
        self.model = GCN(self.data.num_features, int(self.data.y.max()) + 1).eval()
        self.targets = torch.arange(0, self.data.num_nodes, 10)
        self.flips = max(self.graph.num_pairs // 20, 1)

    def ours(self) -> object:
        """Our PRBCD."""
        attack = PRBCD(
            epochs=self.epochs, fine_tune_epochs=0, block_size=self.block, final_samples=1, loss="tanh-margin"
        )
        return attack(self.model, self.data, self.flips, targets=self.targets, progress=False)

    def reference(self) -> object:
        """Run PyG's PRBCDAttack on the same model."""
        from torch_geometric.contrib.nn import PRBCDAttack  # imported here, as it warns that it is experimental

        attack = PRBCDAttack(
            self.model,
            block_size=self.block,
            epochs=self.epochs,
            epochs_resampling=self.epochs,
            max_final_samples=1,
            loss="tanh_margin",
            log=False,
        )
        torch.manual_seed(0)
        return attack.attack(self.data.x, self.data.edge_index, self.data.y, budget=self.flips, idx_attack=self.targets)


class AnchoredPrediction(Workload):
    """Predict with an anchor beside a protected GCN; the reference is the protected GCN alone."""

    def __init__(self, **size: Any) -> None:
        super().__init__(**size)
        torch.manual_seed(0)
        classes = int(self.data.y.max()) + 1
        gcn = GCN(self.data.num_features, classes)
        anchor = Anchor(in_channels=self.data.num_features, out_channels=classes)
        anchor.provenance = {"weights": "random"}
        self.protected = protect(gcn, self.purifier).eval()
        self.anchored = protect(gcn, self.purifier, anchor=anchor).eval()

    @torch.no_grad()
    def ours(self) -> Tensor:
        """Predict with the anchor."""
        answer: Tensor = self.anchored(self.fresh_features(), self.data.edge_index)
        return answer

    @torch.no_grad()
    def reference(self) -> Tensor:
        """Predict without it."""
        answer: Tensor = self.protected(self.fresh_features(), self.data.edge_index)
        return answer


class AdaptiveEpoch(Workload):
    """One epoch of an adaptive PRBCD through a protected GCN: 5 steps, forward, recomputation and backward."""

    floors = 3 * STEPS

    def __init__(self, **size: Any) -> None:
        super().__init__(**size)
        torch.manual_seed(0)
        self.model = protect(GCN(self.data.num_features, int(self.data.y.max()) + 1), self.purifier)
        self.targets = torch.arange(0, self.data.num_nodes, 10)

    def ours(self) -> Tensor:
        """Merge a new block with the graph, compute the gradient of every candidate, and project to the budget."""
        generator = torch.Generator().manual_seed(2)
        union = Overlay(self.graph, sample_non_edges(self.graph, self.block, generator))
        weight = torch.full((self.block,), 1e-3)
        with frozen(self.model):
            victim = Victim(self.model, self.data.x, self.data.y, self.targets, losses.create("margin"))
            _, gradient = victim.gradient(union, weight)
        return project_global(weight + gradient, self.graph.num_pairs // 10)

    def reference(self) -> object:
        """Refuse: the equations as printed keep over 5,000 numbers per directed edge and step, far too much memory."""
        raise InputError("The reference version does not fit in memory at arXiv's size.")


WORKLOADS: dict[str, Callable[..., Workload]] = {
    "purify": Purify,
    "purify_step": PurifyStep,
    "gradient": Gradient,
    "diffusion_gradient": DiffusionGradient,
    "train_epoch": TrainEpoch,
    "prbcd_vs_pyg": PrbcdOnGcn,
    "anchored_prediction": AnchoredPrediction,
    "arxiv_purify": Purify,
    "arxiv_attack_epoch": AdaptiveEpoch,
}
