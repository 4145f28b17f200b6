"""Whether a call of NetworkX should run here: by its arguments, and by what it takes there and here.

NetworkX asks before every call, so that what is not worth it must be seen in microseconds; the rest costs two or three
searches through the graph, to see how much of it they reach.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from _semiring_networkx.costs import (
    DISPATCH,
    OUTPUTS,
    SEARCHES,
    START,
    Search,
    Size,
    our_seconds,
    search_from,
    their_seconds,
)

__all__ = ["can_run", "should_run"]


@dataclass(frozen=True)
class _Function:
    """Of a function that NetworkX dispatches: by which search it works there, and what it makes of the distances.

    ``plain``: parameters, with their positions, that are served only where they are left out (or False). ``weight``:
    the position and the name of the weight; ``default`` where it is left out. ``connected``: whether NetworkX is done
    at once where not all vertices are connected. ``whole``: not served for weights that are floats, whose sums may
    differ from NetworkX's in the last bit. ``cutoff``: there is one, and searches that stop at it are faster.
    ``indirect``: searches are dispatched by way of another function.
    """

    search: str
    output: str
    weight: tuple[int, str] | None = None
    default: Any = "weight"
    plain: dict[str, int] = field(default_factory=dict)
    connected: bool = False
    whole: bool = False
    cutoff: bool = False
    indirect: bool = False


_CUTOFF = {"cutoff": 1}
_SOME = {"nbunch": 1, "sources": 3}
_EXTREME = {"e": 1, "usebounds": 2}
_FUNCTIONS = {
    "all_pairs_bellman_ford_path": _Function("bellman-ford paths", "paths", (1, "weight")),
    "all_pairs_bellman_ford_path_length": _Function("bellman-ford", "lengths", (1, "weight")),
    "all_pairs_dijkstra": _Function("dijkstra paths", "paths", (2, "weight"), plain=_CUTOFF),
    "all_pairs_dijkstra_path": _Function("dijkstra paths", "paths", (2, "weight"), plain=_CUTOFF),
    "all_pairs_dijkstra_path_length": _Function("dijkstra", "lengths", (2, "weight"), cutoff=True),
    "all_pairs_shortest_path_length": _Function("hops", "lengths", cutoff=True),
    "average_shortest_path_length": _Function("dijkstra", "number", (1, "weight"), None, connected=True),
    "center": _Function("dijkstra", "number", (3, "weight"), None, _EXTREME, True, whole=True, indirect=True),
    "closeness_centrality": _Function("dijkstra", "number", (2, "distance"), None, {"u": 1, "sp": 4}, whole=True),
    "diameter": _Function("dijkstra", "number", (3, "weight"), None, _EXTREME, connected=True, indirect=True),
    "eccentricity": _Function("dijkstra", "number", (3, "weight"), None, {"v": 1, "sp": 2}, True, indirect=True),
    "floyd_warshall": _Function("floyd_warshall", "lengths", (1, "weight")),
    "floyd_warshall_numpy": _Function("floyd_warshall_numpy", "matrix", (2, "weight")),
    "floyd_warshall_predecessor_and_distance": _Function("floyd_warshall", "predecessors", (1, "weight")),
    "global_efficiency": _Function("hops", "sum"),
    "harmonic_centrality": _Function(
        "dijkstra", "sum", (2, "distance"), None, {"nbunch": 1, "sources": 3}, whole=True, indirect=True
    ),
    "harmonic_diameter": _Function("dijkstra", "sum", plain={"sp": 1}),  # without weights too
    "johnson": _Function("dijkstra paths", "paths", (1, "weight")),
    "periphery": _Function("dijkstra", "number", (3, "weight"), None, _EXTREME, True, whole=True, indirect=True),
    "radius": _Function("dijkstra", "number", (3, "weight"), None, _EXTREME, connected=True, indirect=True),
    "transitive_closure": _Function("descendants", "edges"),
    "transitive_closure_dag": _Function("descendants", "edges"),
    "wiener_index": _Function("dijkstra", "number", (1, "weight"), None, connected=True),
}

_MARGIN = 0.9  # a win by less may be none on another machine
_MOST_MEMORY = 0.2  # of the machine's, for the matrix
_PROBES = 3  # searches to see how far they get; one below
_FEW = 20  # vertices, below which nothing is gained
_SMALL = 64  # vertices


@cache
def _memory() -> float:
    """The bytes of the machine's memory; where nobody says, 8 GiB."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 8.0 * 2**30


def _argument(args: Any, kwargs: Any, position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Whether the arguments are served, without a look at the graph; otherwise why not."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return f"there is no {name} here"
    for parameter, position in function.plain.items():
        value = _argument(args, kwargs, position, parameter)
        if value is not None and value is not False:
            return f"with {parameter} there is nothing to close"
    return True


def should_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Whether a dense closure takes less time than NetworkX, conversions included; otherwise why not."""
    function = _FUNCTIONS[name]
    G = _argument(args, kwargs, 0, "G")
    n = len(G)
    if n < _FEW or not hasattr(G, "_adj"):
        return f"{n} vertices: nothing to gain"
    if function.cutoff and _argument(args, kwargs, 1, "cutoff") is not None:
        return "searches stop at the cutoff"
    if function.whole and _weighs_floats(G, _weight(function, args, kwargs)):
        return "distances of floats may differ from NetworkX's in the last bit"
    search, itemsize = _search(name, function, args, kwargs)
    if n * n * itemsize > _MOST_MEMORY * _memory():
        return f"{n} vertices: a dense matrix of them is too large"
    degrees = list(map(len, G._adj.values()))
    entries, ends = sum(degrees), 0 in degrees
    if function.connected and ends and n > 1:
        return "not connected: NetworkX sees it at once"
    if name == "center" and itemsize == 2 and entries <= 2 * (n - 1) and not G.is_directed():
        return "a tree: NetworkX finds its center in linear time"
    output = OUTPUTS[function.output]
    dispatched = DISPATCH * n if function.indirect else 0.0
    if search.cubic:
        size: Size | None = Size(n, entries, n, entries)
    elif _MARGIN * (their_seconds(search, Size(n, entries, n, entries)) + dispatched) > our_seconds(
        output, Size(n, entries, 0, 0), itemsize
    ):
        size = _probe(G, n, entries, function.connected)
    else:
        return "searches are faster, by the sizes"
    if size is None:
        return "not connected: NetworkX sees it at once"
    return _worth_it(their_seconds(search, size) + dispatched, our_seconds(output, size, itemsize))


def _weighs_floats(G: Any, weight: Any) -> bool:
    """Whether the first edge that there is has a weight that is a float."""
    if type(weight) is not str:
        return False
    for neighbours in G._adj.values():
        for attributes in neighbours.values():
            found = next(iter(attributes.values())) if G.is_multigraph() else attributes
            return isinstance(found.get(weight), float)
    return False


def _weight(function: _Function, args: Any, kwargs: Any) -> Any:
    return None if function.weight is None else _argument(args, kwargs, *function.weight, function.default)


def _search(name: str, function: _Function, args: Any, kwargs: Any) -> tuple[Search, float]:
    """How NetworkX goes about it, and the bytes of the elements that are closed here."""
    weight = _weight(function, args, kwargs)
    kind = function.search
    if name == "average_shortest_path_length":
        method = _argument(args, kwargs, 2, "method")
        kind = {"floyd-warshall": "floyd_warshall", "floyd-warshall-numpy": "floyd_warshall_numpy"}.get(
            method, method if method in SEARCHES else kind
        )
        weight = None if method == "unweighted" else weight
    if kind == "descendants":
        return SEARCHES[kind], 1 / 8
    if kind == "dijkstra" and weight is None and function.default is None:
        kind = "hops"
    return SEARCHES[kind], 2 if kind == "hops" else 8


def _probe(G: Any, n: int, entries: int, connected: bool) -> Size | None:
    """What searches find, from a few vertices; None where all must be connected, and are not."""
    neighbours = G._adj
    probes = _PROBES if n >= _SMALL or G.is_directed() else 1
    sources = list(islice(G, 0, None, max(1, n // probes)))[:probes]
    found = [search_from(neighbours, source, n) for source in (sources[:1] if connected else sources)]
    if connected:
        reached = [found[0][0]]
        if G.is_directed():
            reached.append(search_from(G._pred, sources[0], n)[0])
        if min(reached) < n:
            return None
    mean = 1 / len(found)
    return Size(n, entries, mean * sum(each for each, _ in found), mean * sum(each for _, each in found))


_declined = 0.0  # seconds that calls have cost for want of a compiler


def _worth_it(theirs: float, ours: float) -> bool | str:
    """Whether to run; the start is paid for by the one call that wins by more, or by what many calls would have won.

    What calls would have won is counted, because the compiler takes longer to start than most scripts take in all:
    `nx.diameter` of 100 vertices, 0.16 s with Python's own start, would take 1.2 s.
    """
    global _declined
    won = _MARGIN * theirs - ours
    if won <= 0:
        return f"about {theirs:.2g} s by searches, {ours:.2g} s dense"
    if "numba" not in sys.modules:
        _declined += won
        if _declined < START:
            return f"about {won:.2g} s won: starting the compiler takes {START} s"
    return True
