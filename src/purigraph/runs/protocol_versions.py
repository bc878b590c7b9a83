"""The protocol version of each component: raise it by hand when the component's results change.

Cells and cached models name the versions of the components that they use, so that raising one makes exactly those
results open again that depend on it. A release alone changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from purigraph.registry import canonical

#: Versions above 1, by the component's name and, for what has no name, by its package.
VERSIONS: Mapping[str, int] = {"agreement": 2, "anchor": 4}


def protocols(components: Iterable[str]) -> dict[str, int]:
    """Return the protocol version of each component, by name.

    >>> protocols(["gcn", "training"])
    {'gcn': 1, 'training': 1}
    """
    return {name: VERSIONS.get(name, 1) for name in sorted({canonical(component) for component in components})}
