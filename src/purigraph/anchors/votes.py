"""Answers that take many flips to change: a node's own features, and a bounded vote of its neighbours."""

from __future__ import annotations

import copy
import math
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from purigraph._version import __version__
from purigraph.anchors.anchor import Anchor
from purigraph.anchors.certificate import ROUNDING, Certificate, certified_nodes
from purigraph.anchors.distillation import predict_logits
from purigraph.anchors.lessons import labelled_nodes
from purigraph.errors import InputError, NotFittedError
from purigraph.kernels.known_rows import KnownRows
from purigraph.memo import Memo
from purigraph.metrics import gaps
from purigraph.pretrained import ComponentRecord, Pretrained
from purigraph.settings import Settings, setting

# What `fit` chooses the strength among.
_STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)


class VotesFitSettings(Settings):
    """How the strength of a vote is chosen."""

    give_up: float = setting(
        "How many points of accuracy below the classifier are acceptable on validation nodes, in percent.",
        default=2.0,
        ge=0,
    )


class Votes(Pretrained):
    r"""A model whose every answer takes a known number of flips to change.

    $$f(X, A)_v = \log g(x_v) + \beta \sum_u A_{uv}\, m(x_u)$$

    with an anchor $g$, which sees a node's own features only, and messages $m(x_u) \in [0, 1]^C$ that depend on no
    edge: what the classifier said about u on the trusted graph if u is a node of it (recognised by its features), else
    $g(x_u)$. Where the anchor is sure, its answer stands, as in `Anchored`.

    One flip moves the difference of two classes by at most $\beta$, so an answer that leads by $d$ stands until about
    $d / \beta$ flips have been spent on that node alone: see `certificate`. Prior work that certifies by bounded votes
    is deep partition aggregation (`Levine and Feizi 2021 <https://arxiv.org/abs/2006.14768>`_); randomised smoothing
    (`Bojchevski et al. 2020 <https://arxiv.org/abs/2008.12952>`_) certifies any model, for a few flips of each node.

    Shapes: x (N, F), edge_index (2, M), edge_weight (M,) in [0, 1] give (N, C).
    """

    anchor_record: ComponentRecord | None = setting("The anchor, as `fit` was given it.", default=None)
    num_trusted: int = setting("The number of trusted nodes that are recognised.", default=0, ge=0)
    strength: float = setting("beta, what one vote weighs; chosen by `fit`.", default=1.0, gt=0)

    trial_settings = MappingProxyType({})

    def _build(self) -> None:
        self.anchor: Anchor | None = None
        classes = 0
        if self.anchor_record is not None:
            anchor = self.anchor_record.build()
            if not isinstance(anchor, Anchor) or anchor.out_channels is None:
                raise InputError("Votes need a fitted anchor.")
            self.anchor, classes = anchor, anchor.out_channels
        self.memory = KnownRows(self.num_trusted, classes)
        self._messages: Memo[tuple[Tensor, Tensor]] = Memo()

    @property
    def is_fitted(self) -> bool:
        """Whether there is an anchor."""
        return self.anchor is not None

    def fit(
        self,
        classifier: nn.Module,
        trusted: Data,
        anchor: Anchor,
        validation: Data | None = None,
        **settings: Any,
    ) -> Votes:
        """Remember what the classifier says on the trusted graph, and choose the strength of a vote.

        Args:
            classifier: A trained classifier.
            trusted: x, edge_index, edge_weight if any: a graph that nobody hostile has edited. Labels are not read.
            anchor: A fitted anchor of the classifier; copied.
            validation: A graph with labelled nodes (`y`, `val_mask`): the smallest strength is chosen that costs no
                more than `give_up` there. Default: the strength stays as it is.
            **settings: Those of `VotesFitSettings`.

        Returns:
            Itself.
        """
        chosen = VotesFitSettings(**settings)
        if not isinstance(anchor, Anchor) or not anchor.is_fitted:
            raise InputError("Votes need a fitted purigraph.Anchor.")
        self.memory = KnownRows.of(trusted.x, predict_logits(classifier, trusted).softmax(1))
        self._settings = self._settings.replace(anchor_record=ComponentRecord.of(anchor), num_trusted=len(self.memory))
        self.anchor = copy.deepcopy(anchor).requires_grad_(False)
        self._messages = Memo()
        record: dict[str, Any] = {}
        if validation is not None:
            strength, record = self._choose(classifier, validation, chosen.give_up / 100)
            self._settings = self._settings.replace(strength=strength)
        self.provenance = {
            "settings": chosen.to_json(),
            "trusted_nodes": int(trusted.num_nodes or 0),
            **record,
            "purigraph_version": __version__,
        }
        return self.eval()

    def _choose(self, classifier: nn.Module, validation: Data, allowed: float) -> tuple[float, dict[str, Any]]:
        nodes = labelled_nodes(validation)
        labels = validation.y[nodes]

        def accuracy(logits: Tensor) -> float:
            return float((logits[nodes].argmax(1) == labels).double().mean())

        reached = {one: accuracy(predict_logits(self.with_strength(one), validation)) for one in _STRENGTHS}
        wanted = min(accuracy(predict_logits(classifier, validation)) - allowed, max(reached.values()))
        strength = min(one for one in _STRENGTHS if reached[one] >= wanted)
        return strength, {"accuracy_by_strength": {f"{one:g}": value for one, value in reached.items()}}

    def with_strength(self, strength: float) -> Votes:
        """Return the same model with votes of another strength; anchor and messages are shared."""
        other = type(self)(strength=strength)
        other._settings = self.settings.replace(strength=strength)
        other.anchor, other.memory, other.provenance = self.anchor, self.memory, self.provenance
        other._messages = self._messages
        return other.train(self.training)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return scores (N, C), differentiable in edge_weight; self-loops have no vote."""
        own, message = self._own_and_messages(x)
        anchored = own.clamp(min=torch.finfo(own.dtype).tiny).log()
        weight = own.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight.clamp(0, 1)
        weight = weight * (edge_index[0] != edge_index[1])
        votes = (weight * self.strength).unsqueeze(1).to(own.dtype) * message.index_select(0, edge_index[0])
        voted = anchored.index_add(0, edge_index[1], votes)
        assert self.anchor is not None  # checked by _own_and_messages
        return torch.where(self.anchor.sure(own).unsqueeze(1), anchored, voted)

    def _own_and_messages(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the anchor's probabilities and the messages, both (N, C)."""
        if self.anchor is None:
            raise NotFittedError("These Votes are not fitted yet: call fit(classifier, trusted, anchor), or load some.")
        kept = self._messages.get(x)
        if kept is None:
            own = self.anchor(x)
            kept = own, self.memory.replaced(x, own)
            self._messages.put(x, kept)
        return kept

    def certificate(self, data: Data, *, targets: Tensor | None = None, injected: bool = True) -> Certificate:
        r"""Return how many flips it takes, at least, to change each answer.

        An answer c that leads c' by $d$ falls when the largest reductions of the lead sum to $d$: a removed neighbour u
        takes $\beta (m_c - m_{c'})$, an added one $\beta (m_{c'} - m_c)$, and an injected one at most $\beta$. Sorting
        them gives the cheapest flips of a node, exactly if there are no injected nodes.

        Args:
            data: x, edge_index, edge_weight in [0, 1] if any, and y and test_mask for the certified accuracy.
            targets: (M,) indices or (N,) bool, the nodes that are certified. Default: `data.test_mask`, or all.
            injected: Whether the attacker can also add nodes with features of their own; if not, `fixed` answers are
                those that no flips between existing nodes can change.
        """
        own, message = self._own_and_messages(data.x)
        nodes, labels = certified_nodes(data, targets, len(own))
        assert self.anchor is not None
        sure = Certificate.of(own, self.anchor.margin, nodes, labels)
        weight = data.edge_weight if "edge_weight" in data else None
        with torch.no_grad():
            scores = self(data.x, data.edge_index, weight).double()
        voted = gaps(own) < self.anchor.margin - ROUNDING
        reductions = _Reductions(message.double(), data.edge_index, weight, injected=injected)
        flips = torch.zeros(len(own), dtype=torch.float64)
        for node in nodes[voted[nodes]].tolist():
            flips[node] = reductions.flips_needed(node, scores[node] / self.strength, ROUNDING / self.strength)
        flips[sure.fixed.cpu()] = math.inf
        # Answers within rounding of a tie or of the gate are not known.
        answer = torch.where(flips.to(own.device) > 0, scores.argmax(1), -1)
        return Certificate.by_flips(answer, flips.clamp(min=1).to(own.device), nodes, labels)

    def summary(self) -> str:
        """Return a sentence that says how `fit` went."""
        return (
            f"Remembers the classifier's answers at {self.num_trusted} trusted nodes; a vote weighs {self.strength:g}."
        )


class _Reductions:
    """By how much flips reduce the lead of one class over another at a node, in units of the strength.

    Args:
        message: (N, C) float64, in [0, 1].
        edge_index: (2, M).
        edge_weight: (M,) in [0, 1], or None for ones.
        injected: Whether nodes can be injected, too.
    """

    def __init__(self, message: Tensor, edge_index: Tensor, edge_weight: Tensor | None, *, injected: bool) -> None:
        self._message = message.cpu()
        edges = edge_index.cpu()
        order = torch.argsort(edges[1], stable=True)
        self._sources = edges[0][order]
        weight = torch.ones(edges.shape[1]) if edge_weight is None else edge_weight.detach().cpu().clamp(0, 1)
        self._weight = weight.double()[order]
        counts = torch.bincount(edges[1], minlength=len(message))
        self._begin = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        self._injected = injected

    def flips_needed(self, node: int, scores: Tensor, rounding: float) -> float:
        """Return the smallest number of flips after which another class is within rounding of the first; 0 if one is.

        Args:
            node: Which node.
            scores: (C,) its scores, divided by the strength.
            rounding: What counts as a tie.
        """
        own = slice(int(self._begin[node]), int(self._begin[node + 1]))
        sources, weight = self._sources[own], self._weight[own]
        loop = sources == node
        sources, weight = sources[~loop], weight[~loop]
        best, needed = int(scores.argmax()), math.inf
        for other in range(len(scores)):
            if other == best:
                continue
            lead = float(scores[best] - scores[other]) - rounding
            if lead <= 0:
                return 0.0
            if self._injected:
                needed = min(needed, float(math.ceil(lead)))  # an injected neighbour takes 1, and nothing takes more
                continue
            swing = self._message[:, other] - self._message[:, best]
            added = swing.clone()
            added[sources] = -weight * swing[sources]  # what is there can only be removed
            added[node] = 0.0
            gains = added[added > 0].sort(descending=True).values.cumsum(0)
            enough = (gains >= lead).nonzero()
            if len(enough):
                needed = min(needed, float(enough[0]) + 1)
        return needed
