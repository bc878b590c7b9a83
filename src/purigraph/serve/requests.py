"""The bodies of requests, checked before anything is computed."""

from __future__ import annotations

from typing import Annotated, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from purigraph.errors import InputError

# Beyond this, integers don't fit in a tensor.
Node = Annotated[int, Field(ge=0, lt=2**62)]
# A node of the served graph: its number, or as text the id that the graph's file gives it.
ServedNode = Node | Annotated[str, Field(max_length=1000)]
ServedPair = Annotated[list[ServedNode], Field(min_length=2, max_length=2)]
Pair = Annotated[list[Node], Field(min_length=2, max_length=2)]
Number = Annotated[float, Field(allow_inf_nan=False)]

B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """Base class of all bodies: JSON objects without unknown names, in which "5" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def read(cls: type[B], body: bytes) -> B:
        """Read a body.

        Raises:
            InputError: If it is not such a body; the message names the first fault.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in problem["loc"]) or "the body"
            others = error.error_count() - 1
            more = f" ({others} more faults)" if others else ""
            raise InputError(f"{place}: {problem['msg']}{more}.") from None


class ScoreRequest(Body):
    """Pairs of nodes of the served graph."""

    pairs: list[ServedPair] = Field(
        description="Pairs of nodes, edges or not: numbers from 0, or ids of the served graph's file as text."
    )


class NeighbourhoodRequest(Body):
    """Nodes of the served graph whose neighbourhood is purified."""

    nodes: list[ServedNode] = Field(min_length=1, description="Nodes of the served graph, by number or by id.")
    hops: int = Field(2, ge=1, description="How far the neighbourhood reaches.")


class PurifyRequest(Body):
    """A graph, with features of its own or with those of nodes of the served graph."""

    edges: list[Pair] = Field(description="Undirected edges, each once, between positions from 0 in x or nodes.")
    weights: list[Annotated[Number, Field(ge=0)]] | None = Field(None, description="One per edge. Default: 1.")
    x: list[list[Number]] | None = Field(None, description="The features of the posted graph's nodes.")
    nodes: list[ServedNode] | None = Field(
        None, description="Instead of x: nodes of the served graph, for their features; by number or by id."
    )


def as_pairs(pairs: list[list[int]]) -> Tensor:
    """Return pairs as a tensor (2, M)."""
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t().contiguous()
