"""Who is faster, by sizes alone: what the same call takes in NetworkX and here. Data, measured, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "DISPATCH",
    "OUTPUTS",
    "SEARCHES",
    "START",
    "Output",
    "Search",
    "Size",
    "our_seconds",
    "search_from",
    "their_seconds",
]


class Size(NamedTuple):
    """Of a graph: n vertices, and ``entries`` of its adjacency (both ways where undirected).

    From a vertex, on average, ``reached`` vertices can be reached, and a search that stops when it has seen them all
    follows ``followed`` entries.
    """

    n: int
    entries: int
    reached: float
    followed: float


@dataclass(frozen=True)
class Search:
    """What NetworkX takes for all pairs, in seconds: for a vertex that a search reaches and an entry it follows."""

    vertex: float
    entry: float
    source: float = 5e-6  # for each search: NetworkX dispatches those too, to whom they may concern
    stops: bool = False  # when all vertices have been seen, at the latest
    cubic: float = 0.0  # for n³, whatever is reached
    converted: float = 0.0  # for an entry, once


@dataclass(frozen=True)
class Output:
    """What is made of distances here: seconds for a pair of vertices and for a vertex; whether paths are needed."""

    pair: float
    vertex: float = 0.0
    paths: bool = False


# Zen 4 (EPYC, 3.7 GHz), CPython 3.11, NetworkX 3.6.1: fitted to benchmarks/compat.py.
SEARCHES: Mapping[str, Search] = {
    "hops": Search(180e-9, 30e-9, stops=True),
    "dijkstra": Search(900e-9, 200e-9),
    "dijkstra paths": Search(1400e-9, 200e-9),
    "bellman-ford": Search(600e-9, 500e-9),
    "bellman-ford paths": Search(2500e-9, 500e-9),
    "floyd_warshall": Search(600e-9, 0.0, 0.0, cubic=110e-9),
    "floyd_warshall_numpy": Search(0.0, 0.0, 4e-6, cubic=1e-9, converted=200e-9),
    "descendants": Search(500e-9, 500e-9),
}
OUTPUTS: Mapping[str, Output] = {
    "matrix": Output(0.0),
    "number": Output(5e-9, 0.2e-6),
    "sum": Output(30e-9, 3e-6),
    "lengths": Output(150e-9, 2e-6),
    "paths": Output(1200e-9, 2e-6, paths=True),
    "predecessors": Output(250e-9, 10e-6, paths=True),
    "edges": Output(500e-9, 12e-6),
}

START = 1.1  # importing this library and its compiler, and reading kernels from their cache, once in a process
_PAIR = 6e-12  # for a byte of the elements, on one thread
DISPATCH = 5e-6  # for each search that NetworkX dispatches by way of another function
_CALLED = 8e-6  # the call there, beside its searches, where it might have been dispatched
_CALL = 75e-6  # the decision, conversion, checks and kernels of a small graph,
_WEIGHTED, _PATHS = 10e-6, 150e-6  # more with weights to be read, and with predecessors
_ENTRY, _WEIGHT = 110e-9, 130e-9  # conversion of an entry of the adjacency, and of its weight


def their_seconds(search: Search, size: Size) -> float:
    """What NetworkX takes, from its graph to its result."""
    followed = size.followed if search.stops else size.entries * size.reached / max(1, size.n)
    searches = size.n * (search.source + search.vertex * size.reached + search.entry * followed)
    return _CALLED + search.cubic * size.n**3 + search.converted * size.entries + searches


def our_seconds(output: Output, size: Size, itemsize: float) -> float:
    """What it takes here, from a NetworkX graph to NetworkX's result; elements of 8 bytes have weights to be read."""
    closed = _PAIR * itemsize * size.n**3 + 10e-9 * size.n**2
    if output.paths:
        closed = 2 * closed + 60e-9 * size.n**2 + _PATHS
    read = _ENTRY * size.entries
    if itemsize == 8:
        read += _WEIGHTED + _WEIGHT * size.entries
    return _CALL + read + closed + size.n * (output.vertex + output.pair * max(1.0, size.reached))


def search_from(neighbours: Any, source: Any, n: int) -> tuple[int, int]:
    """(vertices reached, entries followed) of a breadth-first search that stops when it has seen n vertices."""
    seen, level, followed = {source}, [source], 0
    while level and len(seen) < n:
        found = []
        for vertex in level:
            near = neighbours[vertex]
            followed += len(near)
            fresh = near.keys() - seen
            seen |= fresh
            found.extend(fresh)
            if len(seen) == n:
                break
        level = found
    return len(seen), followed
