"""Decide whether a call of NetworkX should run here, by its arguments, the size of the graph, and its connectivity.

NetworkX calls these functions before every call. So a graph that is too small is rejected in microseconds, without a
scan of the edges. A graph that is large enough is searched from a few vertices. If they reach few vertices, NetworkX's
own searches end early.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

__all__ = ["can_run", "should_run"]


@dataclass(frozen=True)
class _Function:
    """The supported arguments of a function that NetworkX dispatches, and the sizes from which it is faster here.

    ``least_vertices``: the number of vertices from which a call is faster here, conversion included.
    ``start_vertices``: the number of vertices from which one call saves more time than the compiler takes to start.
    ``density``: the largest share of all pairs that may be edges. ``searches``: whether NetworkX takes less time if few
    vertices can be reached.

    ``unsupported_parameters``: parameters, with their positions, that must be omitted or False. ``weight``: the
    position and the name of the weight. ``default_weight``: the default of the weight. ``needs_connected``: whether
    NetworkX ends early if some vertices are not connected. ``needs_exact``: whether float weights are rejected, because
    their sums may differ from NetworkX's in the last bit. ``has_cutoff``: whether the function has a cutoff, at which
    searches stop early. ``itemsize``: the bytes of an entry of the closed matrix, 0 if there is
    none.
    """

    least_vertices: int = 20
    start_vertices: int = 850
    density: float = 1.0
    searches: bool = True
    unsupported_parameters: dict[str, int] = field(default_factory=dict)
    weight: tuple[int, str] | None = None
    default_weight: Any = "weight"
    needs_connected: bool = False
    needs_exact: bool = False
    has_cutoff: bool = False
    itemsize: float = 8


_CUTOFF = {"cutoff": 1}
_EXTREME = {"e": 1, "usebounds": 2}
_HOPS = 2200  # the number of vertices from which one call that counts hops saves more than the start
_BY_METHOD = {"floyd-warshall": "floyd_warshall", "floyd-warshall-numpy": "floyd_warshall_numpy"}

# Measured on two cores of Zen 4 with CPython 3.11 and NetworkX 3.6.1: docs/benchmarks/thresholds.md.
_FUNCTIONS = {
    "all_pairs_all_shortest_paths": _Function(weight=(1, "weight"), default_weight=None),
    "all_pairs_bellman_ford_path": _Function(start_vertices=500, weight=(1, "weight")),
    "all_pairs_bellman_ford_path_length": _Function(start_vertices=750, weight=(1, "weight")),
    "all_pairs_dijkstra": _Function(weight=(2, "weight"), unsupported_parameters=_CUTOFF),
    "all_pairs_dijkstra_path": _Function(weight=(2, "weight"), unsupported_parameters=_CUTOFF),
    "all_pairs_dijkstra_path_length": _Function(weight=(2, "weight"), has_cutoff=True),
    "all_pairs_shortest_path_length": _Function(60, 2500, density=0.6, has_cutoff=True, itemsize=2),
    "all_shortest_paths": _Function(weight=(3, "weight"), default_weight=None, itemsize=0),
    "average_shortest_path_length": _Function(weight=(1, "weight"), default_weight=None, needs_connected=True),
    "barycenter": _Function(
        unsupported_parameters={"attr": 2, "sp": 3}, weight=(1, "weight"), default_weight=None, needs_connected=True
    ),
    "betweenness_centrality": _Function(start_vertices=500, weight=(3, "weight"), default_weight=None, itemsize=0),
    "center": _Function(
        unsupported_parameters=_EXTREME,
        weight=(3, "weight"),
        default_weight=None,
        needs_connected=True,
        needs_exact=True,
    ),
    "closeness_centrality": _Function(
        unsupported_parameters={"u": 1, "sp": 4}, weight=(2, "distance"), default_weight=None
    ),
    "diameter": _Function(
        unsupported_parameters=_EXTREME, weight=(3, "weight"), default_weight=None, needs_connected=True
    ),
    "eccentricity": _Function(
        unsupported_parameters={"v": 1, "sp": 2}, weight=(3, "weight"), default_weight=None, needs_connected=True
    ),
    "edge_betweenness_centrality": _Function(start_vertices=500, weight=(3, "weight"), default_weight=None, itemsize=0),
    "floyd_warshall": _Function(start_vertices=230, searches=False, weight=(1, "weight")),
    "floyd_warshall_numpy": _Function(30, 1000, searches=False, weight=(2, "weight")),
    "floyd_warshall_predecessor_and_distance": _Function(start_vertices=230, searches=False, weight=(1, "weight")),
    "global_efficiency": _Function(45, _HOPS, itemsize=2),
    "harmonic_centrality": _Function(
        unsupported_parameters={"nbunch": 1, "sources": 3},
        weight=(2, "distance"),
        default_weight=None,
    ),
    "harmonic_diameter": _Function(unsupported_parameters={"sp": 1}),
    "johnson": _Function(weight=(1, "weight")),
    "periphery": _Function(
        unsupported_parameters=_EXTREME,
        weight=(3, "weight"),
        default_weight=None,
        needs_connected=True,
        needs_exact=True,
    ),
    "radius": _Function(
        unsupported_parameters=_EXTREME, weight=(3, "weight"), default_weight=None, needs_connected=True
    ),
    "shortest_simple_paths": _Function(
        200, 2000, searches=False, weight=(3, "weight"), default_weight=None, itemsize=0
    ),
    "single_source_all_shortest_paths": _Function(
        100, 50_000, searches=False, weight=(2, "weight"), default_weight=None, itemsize=0
    ),
    "transitive_closure": _Function(start_vertices=310, itemsize=1 / 8),
    "transitive_closure_dag": _Function(50, 2500, searches=False, itemsize=1 / 8),
    "wiener_index": _Function(weight=(1, "weight"), default_weight=None, needs_connected=True),
}

_MOST_MEMORY = 0.2  # the largest share of the machine's memory for the matrix
_PROBES = 3  # the number of searches that estimate how many vertices can be reached
_REACHED = 0.25  # the share of the vertices that searches must reach for a closure to be faster


@cache
def _memory() -> float:
    """Return the bytes of the machine's memory; 8 GiB if the system does not report them."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 8.0 * 2**30


def _argument(args: Any, kwargs: Any, position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Return True if the arguments are supported, else the reason, without a scan of the graph."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return f"there is no {name} here"
    for parameter, position in function.unsupported_parameters.items():
        value = _argument(args, kwargs, position, parameter)
        if value is not None and value is not False:
            return f"with {parameter} there is nothing to close"
    return True


def should_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Return True if a dense closure takes less time than NetworkX, conversions included, else the reason."""
    function = _FUNCTIONS[name]
    G = _argument(args, kwargs, 0, "G")
    weight = None if function.weight is None else _argument(args, kwargs, *function.weight, function.default_weight)
    sizes, hops = function, function.default_weight is None and weight is None
    if name == "average_shortest_path_length":
        method = _argument(args, kwargs, 2, "method")
        sizes, hops = _FUNCTIONS[_BY_METHOD.get(method, name)], hops or method == "unweighted"
    if name == "all_shortest_paths":
        return "one search of NetworkX takes no more time than a conversion of the graph"
    if name == "shortest_simple_paths" and weight is None:
        return "NetworkX orders paths with equally many edges by its searches"
    n = len(G)
    if n < sizes.least_vertices or not hasattr(G, "_adj"):
        return f"{n} vertices: nothing to gain below {sizes.least_vertices}"
    if function.has_cutoff and _argument(args, kwargs, 1, "cutoff") is not None:
        return "searches stop at the cutoff"
    if function.needs_exact and _weighs_floats(G, weight):
        return "distances of floats may differ from NetworkX's in the last bit"
    if n * n * min(sizes.itemsize, 2 if hops else 8) > _MOST_MEMORY * _memory():
        return f"{n} vertices: a dense matrix of them is too large"
    degrees = list(map(len, G._adj.values()))
    entries = sum(degrees)
    if name in ("barycenter", "center") and hops and entries <= 2 * (n - 1) and not G.is_directed():
        return "a tree: NetworkX finds its center in linear time"
    if entries > function.density * n * n:
        return f"{entries} edges of {n} vertices: searches of NetworkX end after one step"
    if function.needs_connected:
        if 0 in degrees or not _is_connected(G, n):
            return "not connected: NetworkX sees it at once"
    elif sizes.searches and _mean_reach(G, n) < max(_REACHED * n, sizes.least_vertices / 2):
        return "searches reach few vertices"
    return _is_worth_starting(n / (_HOPS if hops and sizes.itemsize else sizes.start_vertices))


def _weighs_floats(G: Any, weight: Any) -> bool:
    """Return whether the first edge has a weight that is a float."""
    if type(weight) is not str:
        return False
    for neighbours in G._adj.values():
        for attributes in neighbours.values():
            found = next(iter(attributes.values())) if G.is_multigraph() else attributes
            return isinstance(found.get(weight), float)
    return False


def _is_connected(G: Any, n: int) -> bool:
    """Return whether a vertex reaches all vertices, and is reached from all of them."""
    source = next(iter(G))
    return _search(G._adj, source, n) == n and (not G.is_directed() or _search(G._pred, source, n) == n)


def _mean_reach(G: Any, n: int) -> float:
    """Return the mean number of vertices that searches from a few sources reach."""
    sources = list(islice(G, 0, None, max(1, n // _PROBES)))[:_PROBES]
    return sum(_search(G._adj, source, n) for source in sources) / len(sources)


def _search(neighbours: Any, source: Any, n: int) -> int:
    """Return the number of vertices that a breadth-first search reaches. The search stops at all n vertices."""
    seen, level = {source}, [source]
    while level and len(seen) < n:
        found = []
        for vertex in level:
            fresh = neighbours[vertex].keys() - seen
            seen |= fresh
            found.extend(fresh)
            if len(seen) == n:
                break
        level = found
    return len(seen)


_declined_share = 0.0  # the time that declined calls would have saved, as a share of the start of the compiler


def _is_worth_starting(size: float) -> bool | str:
    """Return whether the compiler runs, or is worth its start, which takes about a second once in a process.

    One call of ``size`` 1 or more saves the time of the start, and smaller calls save a part, in proportion to the
    pairs of their vertices. The compiler starts when the declined calls would have saved the start, because most
    scripts take less time in all than the start.
    """
    global _declined_share
    if "numba" in sys.modules:
        return True
    _declined_share += size**2
    return True if _declined_share >= 1 else f"{size**2:.2g} of the time saved that starting the compiler takes"
