"""GOOD-AT, which cuts the edges that one of many detectors takes for adversarial."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.checkpoints import Checkpointer, State, with_prefix, without_prefix
from purigraph.errors import InputError, NotFittedError
from purigraph.fingerprint import fingerprint
from purigraph.graph import PairGraph, read_data
from purigraph.kernels import Features
from purigraph.memo import Memo
from purigraph.pretrained import ComponentRecord
from purigraph.progress import progress as show_progress
from purigraph.purifiers.base import Purifier, registry
from purigraph.purifiers.edge_scorer import PairScores
from purigraph.purifiers.good_at.detector import Detector
from purigraph.purifiers.good_at.training import Adversary, AttackedFitSettings, EdgeAttack, train_detector
from purigraph.settings import setting

# The detectors' codes of the features are the same for all graphs on the same nodes: kept up to this size.
_KEPT_BYTES = 1 << 28
# A score of exactly 0 or 1 has no finite logit.
_SMALLEST_SCORE = 1e-6


@registry.register("good-at")
class GOODAT(Purifier):
    r"""Detectors trained on adversarial graphs; an edge that one of them takes for adversarial is cut.

    From `Boosting the Adversarial Robustness of Graph Neural Networks: An OOD Perspective
    <https://openreview.net/forum?id=DCDT918ZkI>`_ (Li et al., ICLR 2024). A classifier is attacked; K detectors
    $s^{(k)}$ (see `Detector`), each on an attack of its own, learn to tell the trusted graph's edges from the added
    ones by the features of both ends and by the classifier's logits for them *on the attacked graph*. Then

    $$\hat A_{ij} = A_{ij} \cdot [\max_k s^{(k)}_{ij}(X, f(X, A)) \leq t]$$

    so that a verdict depends on the graph through the classifier's logits. The classifier is kept, and saved, in the
    purifier; it need not be the one that the purifier protects.

    What differs from the public code:

    - Scores are averages over both orders of an edge's ends, and both are trained on; there, an edge counts in the
      order of its node numbers alone, so that a renumbering changes the result.
    - Every detector's attack is aimed at a random share of the nodes, with the classifier's own predictions as labels.
      There, it is aimed at the test nodes, and found on a new GCN each time: pass some as `attacked`.
    - `purigraph.training.fit_against_attacks`, which makes the attack, takes PRBCD on a large random block where the
      public code has PGD on the whole adjacency matrix, and whole flips at its end where that draws them.

    Without a classifier (`fit(data)` alone), detectors see features only and learn from random pairs in place of
    attacks. That needs no training beforehand and works, but it is not GOOD-AT: say so where you compare.

    Shapes:
        `purifier(data)`: a `Data` with x (N, F), edge_index (2, M), and edge_weight (M,) if any -> a new `Data`.
        `purifier(x, edge_index, edge_weight=None)`: -> (M,).
    """

    in_channels: int | None = setting(
        "F, the number of node features; None until `fit` has seen some.", default=None, ge=1
    )
    classifier_record: ComponentRecord | None = setting(
        "The classifier whose logits the detectors see, as `fit` was given it.", default=None
    )
    num_detectors: int = setting("K.", default=20, ge=1)
    hidden_channels: int = setting("The width of a detector's hidden layer.", default=64, ge=1)
    dropout: float = setting("The share of hidden units that is dropped in training.", default=0.5, ge=0, lt=1)
    threshold: float = setting("t; an edge is cut if a detector's score exceeds it.", default=0.1, ge=0, le=1)
    straight_through: bool = setting(
        "Let gradients pass the cut, as if it were a sigmoid of the score's logit: for adaptive attacks. The weights "
        "stay the same.",
        default=False,
    )
    temperature: float = setting("Of that sigmoid.", default=1.0, gt=0)

    fit_settings_class = AttackedFitSettings
    learns_from_attacks = True
    trial_settings = MappingProxyType({"num_detectors": 3, "hidden_channels": 8})
    trial_fit = MappingProxyType({"epochs": 10})

    def _build(self) -> None:
        self.classifier: nn.Module | None = None
        self.detectors = nn.ModuleList()
        self._codes: Memo[list[Tensor]] = Memo()
        self._seconds: float | None = None
        if self.classifier_record is not None:
            self.classifier = self.classifier_record.build().eval().requires_grad_(False)
        if self.in_channels is not None:
            generator = torch.Generator().manual_seed(0)
            self.detectors.extend(self._detector(generator) for _ in range(self.num_detectors))
        elif self.classifier is not None:
            raise InputError("GOODAT: classifier_record is what fit was given: call fit(data, classifier=...) instead.")
        self.train(False)

    def _detector(self, generator: torch.Generator) -> Detector:
        assert self.in_channels is not None
        record = self.classifier_record
        logits = 0 if record is None else int(record.config["out_channels"])
        return Detector(self.in_channels, logits, self.hidden_channels, self.dropout, generator)

    def train(self, mode: bool = True) -> GOODAT:
        """Do nothing: a purifier is always in inference mode."""
        super().train(False)
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has run, here or before it was saved."""
        return self.provenance is not None

    def fit(
        self,
        data: Data,
        *,
        classifier: nn.Module | None = None,
        attack: EdgeAttack | None = None,
        attacked: Sequence[nn.Module] | None = None,
        validation: Data | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        **settings: Any,
    ) -> GOODAT:
        """Train the detectors. Labels and masks are never read.

        `purigraph.training.fit_against_attacks` calls this with an attack that suits the graph.

        Args:
            data: x, edge_index, edge_weight if any: a graph that nobody hostile has edited.
            classifier: A trained one that is registered under a name (`purigraph.classifiers`); copied. Default: none,
                which leaves the detectors the features alone.
            attack: Called as `purigraph.attacks.Attack` is. Default: none, which adds random pairs.
            attacked: The models that are attacked, one after the other. Default: the classifier.
            validation: Not used: there is no choice to make.
            seed: Of initial values, attacks, batches and dropout: the same seed gives the same bits.
            checkpoint: A folder to keep the finished detectors in; an interrupted run resumes from them.
            progress: Report on the error stream. Default: only if it takes long.
            **settings: See `AttackedFitSettings`.

        Returns:
            Itself.
        """
        chosen = AttackedFitSettings(**settings)
        if data.x is None:
            raise InputError("data.x is missing: a purifier needs node features.")
        graph, _ = read_data(data)
        if graph.num_pairs == 0:
            raise InputError("The trusted graph has no edges: there is nothing to learn from.")
        held = None if classifier is None else ComponentRecord.of(classifier)
        self._settings = self._settings.replace(in_channels=data.x.shape[1], classifier_record=held)
        self.classifier = None if classifier is None else copy.deepcopy(classifier).eval().requires_grad_(False)
        self.provenance, self._codes, self.detectors = None, Memo(), nn.ModuleList()
        x = data.x if data.x.layout != torch.sparse_coo else data.x.to_sparse_csr()
        if x.layout == torch.strided and Features(x).is_sparse:
            x = x.to_sparse_csr()
        graph = graph.with_weight(graph.weight.detach().to(x.dtype))
        adversary = Adversary(self.classifier, attack, attacked, x, graph, chosen)
        subject = fingerprint(graph.codes, graph.weight, x, adversary.identity())
        purpose = f"{self.settings!r} with {chosen!r} on {subject}, seed {seed}"
        record = self._train_detectors(
            adversary, x, chosen, seed, Checkpointer(checkpoint, "detectors", purpose), progress
        )
        with torch.no_grad():
            cut = float((self._scores(x, graph) > self.threshold).double().mean())
        self.provenance = {**record, "trusted_edges_cut": cut}
        self._keep_statistics(data)
        return self

    def _train_detectors(
        self,
        adversary: Adversary,
        x: Tensor,
        settings: AttackedFitSettings,
        seed: int,
        checkpointer: Checkpointer,
        progress: bool | None,
    ) -> dict[str, Any]:
        """Train the detectors one by one, each with a generator of its own, and return the record of it."""
        done = checkpointer.resume() or State({}, {"losses": [], "added": []})
        losses, added = list(done.values["losses"]), list(done.values["added"])
        with show_progress("GOOD-AT", self.num_detectors, progress) as report:
            for number in range(self.num_detectors):
                own_seed = seed + 1_000_003 * number
                generator = torch.Generator().manual_seed(own_seed)
                detector = self._detector(generator).to(x.device, x.dtype)
                if number < len(losses):
                    detector.load_state_dict(without_prefix(str(number), done.tensors))
                else:
                    samples = adversary.samples(number, own_seed, generator)
                    losses.append(train_detector(detector, x, samples, settings, generator))
                    added.append(int(samples.is_added.sum()))
                self.detectors.append(detector.eval().requires_grad_(False))
                report.update(number + 1, loss=losses[-1])
                checkpointer.offer(lambda: State(self._detector_tensors(), {"losses": losses, "added": added}))
        self._seconds = checkpointer.seconds
        checkpointer.clear()
        return {
            "seed": seed,
            "detector_loss": sum(losses) / len(losses),
            "added_edges": sum(added) / len(added),
            "settings": settings.to_json(),
            "purigraph_version": __version__,
        }

    def _detector_tensors(self) -> dict[str, Tensor]:
        return {
            name: tensor
            for number, detector in enumerate(self.detectors)
            for name, tensor in with_prefix(str(number), detector.state_dict()).items()
        }

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        record = self.provenance
        if record is None:
            return "This GOODAT has not been fitted."
        took = "" if self._seconds is None else f" in {self._seconds:.0f} s"
        return (
            f"Trained {self.num_detectors} detectors{took}, on {record['added_edges']:.0f} added edges each; they "
            f"would cut {100 * record['trusted_edges_cut']:.1f} % of the trusted graph's own edges."
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, the classifier's tensors included (see `Pretrained`)."""
        self._require_fitted()
        super().save_pretrained(folder)

    def purify(self, x: Tensor, graph: PairGraph) -> PairGraph:
        """The graph with the weights that it has, and 0 for what is cut (see `Purifier`)."""
        return graph.with_weight(graph.weight * self._kept(x, graph))

    def whole_weights(self, x: Tensor, graph: PairGraph, presence: Tensor) -> PairGraph:
        """Return the weights that whole pairs would have (see `Purifier`).

        The classifier sees them in part; the verdict on an edge is about the edge, and its presence comes after.
        """
        return graph.with_weight(graph.weight * self._kept(x, graph.with_weight(graph.weight * presence)))

    @property
    def receptive_field(self) -> int | None:
        """One hop if there is no classifier; that of a classifier is not known here."""
        return 1 if self.classifier is None else None

    @property
    def suspicious_below(self) -> float:
        """The score of an edge that is just about to be cut."""
        return 1 - self.threshold

    def suspicion(self, x: Tensor, graph: Any, edge_index: Tensor) -> Tensor:
        """How adversarial any node pairs look to the most suspicious detector, in the light of a graph.

        Args:
            x: (N, F).
            graph: What the classifier sees.
            edge_index: (2, M), undirected pairs, edges or not.

        Returns:
            (M,) in [0, 1]; what is above `threshold` would be cut. `score_edges` returns 1 minus this.
        """
        return 1 - self.score_edges(x, graph, edge_index)

    def _pair_scores(self, x: Tensor, graph: PairGraph) -> PairScores:
        """One minus the suspicion of the most suspicious detector, in [0, 1]; the classifier is called once."""
        logits, codes = self._logits(x, graph), self._feature_codes(self._cast(x))
        if not isinstance(codes, list):
            return lambda pairs: 1 - self._scores(x, graph, pairs.pairs)
        return lambda pairs: 1 - self._highest(codes, logits, pairs.pairs)

    def with_settings(self, **changes: Any) -> GOODAT:
        """The same detectors with another threshold, straight_through or temperature; parameters are shared."""
        fixed = changes.keys() - {"threshold", "straight_through", "temperature"}
        if fixed:
            raise InputError(f"{', '.join(sorted(fixed))} belong to the trained detectors and can't be changed.")
        values = {**self.settings.values(), **changes}
        other = type(self)(**{**values, "in_channels": None, "classifier_record": None})
        other._settings = self.settings.replace(**changes)
        other.classifier, other.detectors, other.provenance = self.classifier, self.detectors, self.provenance
        return other

    def variants(self) -> Mapping[str, Purifier]:
        """Return the same purifier with gradients through its cuts."""
        return {} if self.straight_through else {"straight-through": self.with_settings(straight_through=True)}

    def _kept(self, x: Tensor, graph: PairGraph) -> Tensor:
        """(E,) 1 for what is kept, 0 for what is cut."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.straight_through):
            scores = self._scores(x, graph)
            kept = (scores.detach() <= self.threshold).to(graph.weight.dtype)
            if not scores.requires_grad:
                return kept
            bar = torch.logit(scores.new_tensor(self.threshold), eps=_SMALLEST_SCORE)
            surrogate = torch.sigmoid((bar - torch.logit(scores, eps=_SMALLEST_SCORE)) / self.temperature)
            return kept + (surrogate - surrogate.detach()).to(kept.dtype)

    def _scores(self, x: Tensor, graph: PairGraph, pairs: Tensor | None = None) -> Tensor:
        """(E,) the highest score of every pair; differentiable in the graph's weights."""
        pairs = graph.pairs if pairs is None else pairs
        logits = self._logits(x, graph)
        return self._highest(self._feature_codes(self._cast(x)), logits, pairs)

    def _cast(self, x: Tensor) -> Tensor:
        """Return the features in the dtype of the detectors, checked."""
        self._require_fitted(trained=False)
        dtype = next(self.detectors.parameters()).dtype
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise InputError(
                f"This purifier was trained on {self.in_channels} features per node; x has shape {tuple(x.shape)}."
            )
        return x if x.dtype == dtype else x.to(dtype)

    def _logits(self, x: Tensor, graph: PairGraph) -> Tensor:
        """(N, C) what the classifier says about the graph; (N, 0) without one."""
        x = self._cast(x)
        if self.classifier is None:
            return torch.zeros((graph.num_nodes, 0), dtype=x.dtype, device=graph.device)
        edge_index, weight = graph.edge_index()
        logits: Tensor = self.classifier(x, edge_index, weight.to(x.dtype))
        return logits

    def _highest(self, all_codes: Iterable[Tensor], logits: Tensor, pairs: Tensor) -> Tensor:
        """(E,) the score of the most suspicious detector."""
        highest = logits.new_zeros(pairs.shape[1])
        for detector, codes in zip(self.detectors, all_codes, strict=True):
            assert isinstance(detector, Detector)
            highest = torch.maximum(highest, detector.scores(codes, logits, pairs))
        return highest

    def _feature_codes(self, x: Tensor) -> Iterable[Tensor]:
        """(N, 2H) for every detector: kept for the last x where they are small, else made one at a time."""
        state = [(id(p), p._version, p.dtype, p.device) for p in self.detectors.parameters()]
        kept = self._codes.get(x, state)
        if kept is not None:
            return kept
        features = Features(x.detach())

        def made() -> Iterator[Tensor]:
            for detector in self.detectors:
                assert isinstance(detector, Detector)
                with torch.no_grad():
                    codes = detector.feature_codes(features)
                yield codes

        size = self.num_detectors * x.shape[0] * 2 * self.hidden_channels * 4
        if size > _KEPT_BYTES:
            return made()
        codes = list(made())
        self._codes.put(x, codes, state)
        return codes

    def _require_fitted(self, *, trained: bool = True) -> None:
        if len(self.detectors) == 0 or (trained and not self.is_fitted):
            raise NotFittedError(
                "This GOODAT is not trained yet: call purigraph.training.fit_against_attacks(purifier, split), "
                "fit(data, classifier=..., attack=...), or GOODAT.from_pretrained(folder)."
            )
