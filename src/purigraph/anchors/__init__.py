"""Anchors: answers that no edit of the edges can change.

An attacker who may flip enough edges can isolate a node or surround it, so an answer that depends on edges can be taken
away. An answer that does not look at the edges can't. An `Anchor` is a student that sees features only, distilled from
a classifier's own predictions on a trusted graph. Where it is sure, its answer stands; elsewhere the classifier answers
(`purigraph.protect(classifier, purifier, anchor=anchor)`). Which answers are fixed is then known, for any number of
flips and injected nodes: see `Certificate`.
"""

from purigraph.anchors.anchor import Anchor, registry
from purigraph.anchors.certificate import Certificate
from purigraph.anchors.margin import TradeOff
from purigraph.anchors.teachers import Teacher
from purigraph.anchors.votes import Votes

create, load, names, register = registry.create, registry.load, registry.names, registry.register

__all__ = ["Anchor", "Certificate", "Teacher", "TradeOff", "Votes", "create", "load", "names", "register", "registry"]
