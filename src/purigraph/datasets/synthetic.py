"""A generated citation network: no file, no download, any size; calibrated to Cora at its default size.

It differs from a stochastic block model by a second level below the classes. A *field* is the home of a class;
it consists of small *communities* of papers that cite one another. Edges follow the communities
(`synthetic_edges`), while the words or features of a single paper reveal its community only weakly
(`synthetic_features`): the neighbourhood of a paper says more about its topic than the paper itself. Some papers of
a community have the label of another field; there, edges and words mislead together, as in real networks.

Calibrated at the default size against Cora. Means over 20 inductive splits with 20 labels per class (of the generated
network: 4 splits of each of 5 seeds); MLP and GCN with 2 layers and 64 hidden units; edge AUC for held-out edges
against random pairs, by a trained scorer of the two ends' words, and by a graph auto-encoder (2 GCN layers):

                             Cora    generated
    accuracy of an MLP       54.8    56.7
    accuracy of a GCN        79.2    80.0
    edge AUC, words          0.89    0.85
    edge AUC, auto-encoder   0.92    0.90
    homophily                0.81    0.81
    mean local clustering    0.24    0.24
    transitivity             0.09    0.11
    degree, quartiles        2 3 5   2 3 5
    degree, 99 % and max     19 168  19 66
    words of a paper         18.2    18.1
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from purigraph.datasets.assembly import assemble
from purigraph.datasets.base import register
from purigraph.datasets.raw_graph import RawGraph
from purigraph.datasets.synthetic_communities import draw_communities
from purigraph.datasets.synthetic_edges import draw_edges
from purigraph.datasets.synthetic_features import draw_dense, draw_words
from purigraph.errors import InputError
from purigraph.numbers import read_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Cora's figures.
NODES, EDGES, FEATURES, CLASSES, HOMOPHILY = 2708, 5278, 1433, 7, 0.81

FeatureKind = Literal["words", "dense"]


def citation_network(
    num_nodes: int = NODES,
    num_edges: int = EDGES,
    num_features: int = FEATURES,
    num_classes: int = CLASSES,
    *,
    seed: int = 0,
    homophily: float = HOMOPHILY,
    features: FeatureKind = "words",
    sparse: bool = False,
) -> Data:
    """Generate a citation network: a `Data` with `x` (N, F) float32, `y` (N,) int64, `edge_index` (2, 2E).

    The numbers of nodes and edges are exact, and so is the homophily if the classes have enough pairs. No node is
    isolated if there are enough edges. Classes have unequal sizes, degrees a heavy tail, neighbourhoods many
    triangles. There is no split yet: see `purigraph.graph.attach_split`.

    Args:
        num_nodes: N. Default: 2708.
        num_edges: E, undirected; at most a quarter of all pairs. Default: 5278.
        num_features: F. Default: 1433.
        num_classes: C. Default: 7.
        seed: The same seed gives bit-identical results; the graph does not depend on the kind of features. Default: 0.
        homophily: The share of edges that join two nodes of the same class. Default: 0.81.
        features: "words" are 0/1 with about 18 ones per node; "dense" are normally distributed, as embeddings are.
            Default: "words".
        sparse: Return `x` as a torch CSR tensor: for words on large graphs. Default: False.

    Raises:
        InputError: If there can't be such a network.

    >>> data = citation_network(1000, 3000, 200, 5)
    >>> data.num_nodes, data.num_edges // 2, data.num_features
    (1000, 3000, 200)
    """
    raw = _draw(num_nodes, num_edges, num_features, num_classes, seed=seed, homophily=homophily, features=features)
    return assemble(raw, sparse=sparse)


@register("synthetic-citation", nodes=NODES, edges=EDGES, features=FEATURES, classes=CLASSES, homophily=HOMOPHILY)
def read_synthetic_citation(root: Path | None) -> RawGraph:
    """Generate the network of seed 0: as with the other datasets, `load`'s seed changes the split, not the graph."""
    return _draw(NODES, EDGES, FEATURES, CLASSES, seed=0, homophily=HOMOPHILY, features="words")


def _draw(
    num_nodes: int,
    num_edges: int,
    num_features: int,
    num_classes: int,
    *,
    seed: int,
    homophily: float,
    features: FeatureKind,
) -> RawGraph:
    _check(num_nodes, num_edges, num_features, num_classes, homophily)
    if features not in ("words", "dense"):
        raise InputError(f'features must be "words" or "dense", not {features!r}.')
    to_communities, to_edges, to_features, to_order = map(
        np.random.default_rng, np.random.SeedSequence(read_seed(seed)).spawn(4)
    )
    communities = draw_communities(num_nodes, num_edges, num_classes, to_communities)
    low, high = draw_edges(communities, num_edges, homophily, to_edges)

    # So far nodes are sorted by class; a node's number must not tell its class.
    place = to_order.permutation(num_nodes)
    origin = np.empty_like(place)
    origin[place] = np.arange(num_nodes)

    draw = draw_words if features == "words" else draw_dense
    x = draw(communities, origin, num_features, to_features)
    return RawGraph(x=x, y=communities.label[origin], arcs=np.stack([place[low], place[high]]))


def _check(num_nodes: int, num_edges: int, num_features: int, num_classes: int, homophily: float) -> None:
    if num_nodes < 2 or num_edges < 0 or num_features < 1 or not 1 <= num_classes <= num_nodes:
        raise InputError(
            "A citation network has at least 2 nodes, 1 feature and 1 class, and not more classes than nodes: got "
            f"{num_nodes} nodes, {num_edges} edges, {num_features} features, {num_classes} classes."
        )
    if not 0 <= homophily <= 1:
        raise InputError(f"homophily must be in [0, 1], not {homophily}.")
    if 4 * num_edges > num_nodes * (num_nodes - 1) // 2:
        raise InputError(
            f"{num_edges} edges are more than a quarter of all pairs of {num_nodes} nodes: "
            "a citation network is sparse. Give fewer edges or more nodes."
        )
