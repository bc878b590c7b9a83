"""A generated citation network: no file, no network, any size; by default the image of Cora.

What makes it more than a stochastic block model is a layer below the classes. A *field* is a class's home;
it consists of small *communities* of papers that cite one another. Edges follow the communities
(`synthetic_edges`), while the words or the features of one paper tell its community only faintly
(`synthetic_features`): what a paper is about shows in its neighbourhood more than in itself. Some papers of a
community carry the label of another field; there, edges and words mislead together, as in real networks.

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
from typing import Literal

import numpy as np
import torch
from torch_geometric.data import Data

from purigraph.datasets.assembly import features as as_tensor
from purigraph.datasets.catalogue import register
from purigraph.datasets.synthetic_communities import draw_communities
from purigraph.datasets.synthetic_edges import draw_edges
from purigraph.datasets.synthetic_features import draw_dense, draw_words
from purigraph.errors import InputError
from purigraph.graph.pair_graph import PairGraph


def citation_network(
    num_nodes: int = 2708,
    num_edges: int = 5278,
    num_features: int = 1433,
    num_classes: int = 7,
    *,
    seed: int = 0,
    homophily: float = 0.81,
    features: Literal["words", "dense"] = "words",
    sparse: bool = False,
) -> Data:
    """Generate a citation network: a `Data` with `x` (N, F) float32, `y` (N,) int64, `edge_index` (2, 2E).

    The numbers of nodes and edges are met exactly, and so is the homophily where the classes have pairs enough. No node
    is isolated as long as there are edges enough. Classes have unequal sizes, degrees a heavy tail, neighbourhoods many
    triangles. There is no split yet: see `purigraph.graph.attach_split`.

    Args:
        num_nodes: N.
        num_edges: E, undirected; at most a quarter of all pairs.
        num_features: F.
        num_classes: C.
        seed: The same seed gives the same bits; the graph doesn't depend on the kind of features.
        homophily: The share of edges that join two nodes of one class.
        features: "words" are 0/1 with about 18 ones per node; "dense" are normally distributed, as embeddings are.
        sparse: Give `x` as a torch CSR tensor: for words on large graphs.

    >>> data = citation_network(1000, 3000, 200, 5)
    >>> data.num_nodes, data.num_edges // 2, data.num_features
    (1000, 3000, 200)
    """
    _check(num_nodes, num_edges, num_features, num_classes, homophily)
    if features not in ("words", "dense"):
        raise InputError(f'features must be "words" or "dense", not {features!r}.')
    to_communities, to_edges, to_features, to_order = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(4))
    communities = draw_communities(num_nodes, num_edges, num_classes, to_communities)
    low, high = draw_edges(communities, num_edges, homophily, to_edges)

    # Until here nodes were sorted by class; nobody should be able to read a class off a node's number.
    place = to_order.permutation(num_nodes)
    low, high = place[low], place[high]
    codes = np.minimum(low, high) * num_nodes + np.maximum(low, high)
    codes.sort()
    origin = np.empty_like(place)
    origin[place] = np.arange(num_nodes)

    draw = draw_words if features == "words" else draw_dense
    x = draw(communities, origin, num_features, to_features)
    return Data(
        x=as_tensor(x, sparse=sparse),
        y=torch.from_numpy(communities.label[origin]),
        edge_index=PairGraph.from_codes(num_nodes, torch.from_numpy(codes)).edge_index()[0],
    )


@register(
    "synthetic-citation",
    nodes=2708,
    edges=5278,
    features=1433,
    classes=7,
    homophily=0.81,
)
def read_synthetic_citation(root: Path | None, *, sparse: bool) -> Data:
    """The network of seed 0: as with the other datasets, `load`'s seed changes the split and not the graph."""
    return citation_network(sparse=sparse)


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
