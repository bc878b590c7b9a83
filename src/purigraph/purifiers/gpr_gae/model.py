"""GPR-GAE, the purifier of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from typing_extensions import Unpack

from purigraph.errors import InputError, NotFittedError
from purigraph.graph import PairGraph, as_pair_graph
from purigraph.kernels import Features
from purigraph.kernels.feature_matrix import read_features
from purigraph.memo import Memo
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.cut import cut
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.evidence import Evidence
from purigraph.purifiers.gpr_gae.calibration import calibrate_on_validation
from purigraph.purifiers.gpr_gae.fit_settings import FitOptions, FitReport, FitSettings
from purigraph.purifiers.gpr_gae.links import LinkMap, LinkModel
from purigraph.purifiers.gpr_gae.presets import PRESETS, preset_for
from purigraph.purifiers.gpr_gae.purification import Purification, iterate
from purigraph.purifiers.gpr_gae.scoring import purified_scores
from purigraph.purifiers.gpr_gae.training import Training
from purigraph.settings import setting

# The memory that the steps of one purification may take for the backward pass; above it, each step is recomputed.
_LEAN_ABOVE_BYTES = 1 << 30
# The constant part of the codes is kept between steps up to this size; above it, saving 1/8 of the time is not worth
# the memory.
_KEEP_FIRST_CODES_BYTES = 1 << 30


@registry.register("gpr-gae")
class GPRGAE(Purifier):
    r"""Graph auto-encoder with generalized PageRank filters that restores a graph's clean structure.

    It is trained without labels on a trusted graph to distinguish the graph's edges from injected ones. Afterwards, it
    gives every edge of any later version of the graph a weight in [0, 1] by a few converging steps
    $A^{(t+1)} = A^{(t)} + \alpha (f_\theta(A^{(t)}, X) - A^{(t)})$.

    Reference: "Self-supervised Adversarial Purification for Graph Neural Networks", ICML 2025.

    Shapes:
        `purifier(data)`: `Data` with x (N, F), edge_index (2, M) and, optionally, edge_weight (M,) -> new `Data`.
        `purifier(x, edge_index, edge_weight=None)`: -> (M,), differentiable in edge_weight.
    """

    in_channels: int | None = setting("F, the number of node features. None: set by `fit`.", default=None, ge=1)
    hops: int = setting("K, the order of the largest of the K+1 filters.", default=7, ge=1, le=1_000)
    node_channels: int = setting("Z1, the width of the node encoding.", default=128, ge=1)
    edge_channels: int = setting("Z2, the width of the edge encoding.", default=512, ge=1)
    dropout: float = setting("The dropout rate of the features in training.", default=0.7, ge=0, lt=1)
    encoder: Literal["gpr", "gcn"] = setting(
        '"gcn" uses a 2-layer GCN instead of the filters (the paper\'s ablation).', default="gpr"
    )
    self_loops: bool = setting("Normalise the adjacency with self-loops (ablation).", default=False)
    alpha: float = setting("The step size.", default=1.0, gt=0, le=1)
    tolerance: float = setting("tau, the relative change at which purification stops.", default=1e-3, ge=0)
    max_steps: int = setting("The maximum number of purification steps.", default=5, ge=1)
    threshold: float | None = setting(
        "Set weights below this to 0 and all others to 1 (the ablation uses max_steps=1, threshold=0.1). None keeps "
        "the weights.",
        default=None,
        ge=0,
        le=1,
    )
    straight_through: bool = setting(
        "Give the cut at the threshold the gradient of a sigmoid, for attacks: the result is the same.", default=False
    )

    fit_settings_class = FitSettings
    presets = MappingProxyType(PRESETS)
    trial_settings = MappingProxyType({"hops": 3, "node_channels": 8, "edge_channels": 16})
    trial_fit = MappingProxyType({"epochs": 15})

    @classmethod
    def preset_for(cls, graph: PairGraph) -> str:
        """Return "paper" for small graphs, "fast" or "large" where the paper's training would take hours."""
        return preset_for(graph)

    def _build(self) -> None:
        self.links: LinkModel | None = None
        self._report: FitReport | None = None
        self._constants: Memo[Constants] = Memo()
        if self.in_channels is not None:
            self.reset(self.in_channels, torch.Generator().manual_seed(0))

    def reset(self, in_channels: int, generator: torch.Generator) -> LinkModel:
        """Reset the parameters to random initial values for `in_channels` features."""
        self._settings = self._settings.replace(in_channels=in_channels)
        self._report, self.provenance = None, None
        self.links = LinkModel(
            in_channels,
            hops=self.hops,
            node_channels=self.node_channels,
            edge_channels=self.edge_channels,
            encoder=self.encoder,
            self_loops=self.self_loops,
            generator=generator,
        )
        self._constants = Memo()
        return self.links

    @property
    def is_fitted(self) -> bool:
        """Whether it has been fitted, here or before it was saved; otherwise its weights are random."""
        return self.provenance is not None

    @property
    def report(self) -> FitReport | None:
        """Return the report of the training, also for a loaded purifier; None if it is unknown."""
        if self._report is None and self.provenance is not None:
            self._report = FitReport.of_record(self.provenance)
        return self._report

    def fit(  # type: ignore[override]  # typed settings, so editors can complete them
        self,
        data: Data,
        *,
        validation: Data | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        **settings: Unpack[FitOptions],
    ) -> GPRGAE:
        """Learn what the edges of a trusted graph look like. Labels and masks are not used.

        Args:
            data: A trusted graph: x, edge_index and, optionally, edge_weight. Without `validation`, a share of its
                nodes is held out: the model trains on the graph without them, and its best epoch is chosen on the edges
                that touch them.
            validation: The larger graph of an inductive split; its additional nodes (by `n_id`) are used for validation
                instead of held-out ones.
            seed: The seed of initial values, perturbed graphs and dropout; results are bit-identical for the same seed.
            checkpoint: The folder for the state of the run; an interrupted run resumes from it, bit-identically.
            progress: Whether to show loss, AUC, AP and the time left. Default: only if it takes long.
            **settings: See `FitSettings`: epochs, injection, masking, ...

        Returns:
            The purifier itself; see `report` for how the training went.
        """
        return super().fit(data, validation=validation, seed=seed, checkpoint=checkpoint, progress=progress, **settings)

    def _learn(
        self,
        data: Data,
        validation: Data | None,
        settings: FitSettings,
        *,
        seed: int,
        checkpoint: str | Path | None,
        progress: bool | None,
    ) -> None:
        training = Training(self, data, validation, settings, seed=seed)
        report = training.complete(checkpoint, progress)
        kept = calibrate_on_validation(self, (data if validation is None else validation).x, training.validation_sets)
        self._report, self.provenance = report, {**report.record(), "calibration": kept.record()}

    def summary(self) -> str:
        """Return a sentence that summarises the last `fit`."""
        report = self.report
        if report is None:
            return "It is not known how this GPRGAE was trained."
        took = "" if report.seconds is None else f" in {report.seconds:.0f} s"
        return (
            f"Trained {report.epochs_run} epochs{took}; best epoch {report.best_epoch}: AUC {report.auc:.4f}, AP "
            f"{report.ap:.4f} for original against injected edges of unseen nodes."
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` (see `Pretrained`)."""
        self._built()
        super().save_pretrained(folder)

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """Return the graph with purified weights (see `Purifier`)."""
        return self.trace(x, graph).graph

    def traced(self, x: Tensor, graph: PairGraph) -> tuple[PairGraph, Purification]:
        """Return the purified graph and its steps."""
        trace = self.trace(x, graph)
        return trace.graph, trace

    def evidence(self, x: Tensor, graph: PairGraph) -> Evidence:
        """Return the purified graph with the weights of all steps, and both directions' scores in the last."""
        trace = self.trace(x, graph, history=True)
        directed = None
        if len(trace.weights) > 1:
            links = self._built().frozen()
            h, first_codes = self._prepare(x, links, graph.num_nodes)
            directed = links.logits(h, graph.with_weight(trace.weights[-2]), None, first_codes).sigmoid()
        weights = trace.weights if len(trace.weights) > 1 else [graph.weight, trace.graph.weight]
        return Evidence(trace.graph, weights, directed, trace.relative_change, trace.converged)

    def purify_parts(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        r"""Purify partially present edges (see `Purifier`): every step is $\pi \odot f_\theta(A^{(t)})$."""
        return self.trace(x, graph, presence=presence).graph

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Return the weights that whole pairs would have (see `Purifier`)."""
        return graph.with_weight(self.trace(x, graph, presence=presence).whole.to(graph.weight.dtype))

    def trace(
        self,
        x: Tensor | Data,
        graph: Any = None,
        *,
        alpha: float | None = None,
        tolerance: float | None = None,
        max_steps: int | None = None,
        edge_batch: int | None = None,
        lean: bool | None = None,
        history: bool = False,
        presence: Tensor | None = None,
    ) -> Purification:
        """Purify a graph and return the result with its history.

        Args:
            x: (N, F), the node features, or a `Data` with features and edges.
            graph: A `PairGraph` or anything that can be converted to one.
            alpha: The step size. Default: the purifier's setting.
            tolerance: The relative change at which to stop. Default: the purifier's setting.
            max_steps: The maximum number of steps. Default: the purifier's setting.
            edge_batch: The number of edges to score at a time, to save memory on very large graphs; the result is the
                same. Default: all.
            lean: Whether to recompute every step in the backward pass. Default: chosen by size.
            history: Whether to keep the weights of every step.
            presence: (E,) in [0, 1], to what degree every edge is present (see `Purifier.relaxed`). Default: ones.
        """
        if isinstance(x, Data):
            if graph is not None:
                raise InputError("Pass a single Data, or x and a graph.")
            graph, x = as_pair_graph(x), x.x
        graph = as_pair_graph(graph)
        changes = {"alpha": alpha, "tolerance": tolerance, "max_steps": max_steps}
        config = self.settings.replace(**{name: value for name, value in changes.items() if value is not None})
        if edge_batch is not None and edge_batch < 1:
            raise InputError(f"edge_batch must be at least 1, not {edge_batch}.")
        links = self._built().frozen()
        given = graph.weight
        graph = graph.with_weight(given.to(links.node_weight.dtype))
        if presence is not None:
            presence = presence.to(links.node_weight.dtype)
        h, first_codes = self._prepare(x, links, graph.num_nodes)
        if lean is None:
            kept = config.max_steps * graph.num_nodes * sum(links.code_weight.shape) * h.element_size()
            lean = kept > _LEAN_ABOVE_BYTES

        def step(weight: Tensor) -> Tensor:
            return _predict(links, h, graph.with_weight(weight), first_codes, edge_batch)

        result = iterate(
            step,
            graph,
            presence=presence,
            alpha=config.alpha,
            tolerance=config.tolerance,
            max_steps=config.max_steps,
            lean=lean,
            history=history,
        )
        if config.threshold is not None:
            result.whole = cut(result.whole, config.threshold, straight_through=config.straight_through)
            kept = result.whole if presence is None else presence * result.whole
            result.graph = graph.with_weight(kept.to(given.dtype))
        return result

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """The weights, before any threshold, that pairs would get if they were there; the graph is purified once."""
        links = self._built().frozen()
        graph = graph.with_weight(graph.weight.detach().to(links.node_weight.dtype))
        h, first_codes = self._prepare(x, links, graph.num_nodes)
        config = self.settings
        return purified_scores(
            links,
            h,
            graph,
            first_codes,
            alpha=config.alpha,
            tolerance=config.tolerance,
            max_steps=config.max_steps,
        )

    @property
    def suspicious_below(self) -> float:
        """The threshold, if there is one; otherwise below which few true edges lie."""
        return super().suspicious_below if self.threshold is None else self.threshold

    @property
    def receptive_field(self) -> int:
        r"""All steps together: $T (K + 1) + 1$ hops for at most T steps of filters up to order K.

        In one step, the weight of an edge depends on walks of up to K edges from both of its ends and on the degrees
        along them, that is, on the edges at nodes within K hops of its ends.
        """
        reach = 2 if self.encoder == "gcn" else self.hops
        return self.max_steps * (reach + 1) + 1

    def with_settings(self, **changes: Any) -> GPRGAE:
        """Return the same trained purifier with other purification settings (alpha, tolerance, max_steps, ...).

        The parameters are shared, not copied.
        """
        fixed = {"in_channels", "hops", "node_channels", "edge_channels", "encoder", "self_loops"} & changes.keys()
        if fixed:
            raise InputError(f"{', '.join(sorted(fixed))} belong to the trained parameters and can't be changed.")
        other = type(self)(**{**self.settings.values(), **changes, "in_channels": None})
        other._settings = self.settings.replace(**changes)
        other.links, other.provenance, other._report = self.links, self.provenance, self._report
        return other

    def variants(self) -> Mapping[str, Purifier]:
        """Return this purifier with fewer and with more steps; one with a threshold also straight-through."""
        variants = {
            "fewer-steps": self.with_settings(max_steps=max(self.max_steps // 2, 1)),
            "more-steps": self.with_settings(max_steps=2 * self.max_steps),
        }
        if self.threshold is not None and not self.straight_through:
            variants["straight-through"] = self.with_settings(straight_through=True)
        return variants

    def _built(self) -> LinkModel:
        if self.links is None:
            raise NotFittedError("This GPRGAE is not trained yet: call fit(data), or GPRGAE.from_pretrained(folder).")
        return self.links

    def _prepare(self, x: Tensor, links: LinkMap, num_nodes: int) -> Constants:
        """Return what does not depend on the edges: the embeddings and the contribution of filter 0 to the codes."""
        if not isinstance(x, Tensor) or x.dim() != 2:
            read_features(x)  # raises an error that says what is expected
        if x.shape[0] != num_nodes:
            raise InputError(f"x has {x.shape[0]} rows, but the graph has {num_nodes} nodes.")
        if x.shape[1] != len(links.node_weight):
            raise InputError(
                f"This purifier was trained on {len(links.node_weight)} features per node; x has shape "
                f"{tuple(x.shape)}."
            )
        model = self._built()
        kept = self._constants.get(x, _state(model))
        if kept is not None:
            return kept
        with torch.no_grad():
            h = links.embed(Features.of(read_features(x, dtype=links.node_weight.dtype)))
            size = len(h) * links.code_weight.shape[1] * h.element_size()
            first_codes = links.first_filter_codes(h) if size <= _KEEP_FIRST_CODES_BYTES else None
        self._constants.put(x, (h, first_codes), _state(model))
        return h, first_codes


def _predict(links: LinkMap, h: Tensor, graph: PairGraph, first_codes: Tensor | None, edge_batch: int | None) -> Tensor:
    r"""Return $f_\theta$, the predicted weight of every pair, (E,)."""
    if edge_batch is None or edge_batch >= graph.num_pairs:
        return links.logits(h, graph, None, first_codes).sigmoid().mean(0)
    parts = [
        links.logits(h, graph, PairGraph(graph.num_nodes, part), first_codes).sigmoid().mean(0)
        for part in graph.pairs.split(edge_batch, dim=1)
    ]
    return torch.cat(parts)


Constants = tuple[Tensor, Tensor | None]


def _state(links: LinkModel) -> object:
    """Return a value that changes whenever the parameters are modified or replaced."""
    return [(id(p), p._version, p.dtype, p.device) for p in links.parameters()]
