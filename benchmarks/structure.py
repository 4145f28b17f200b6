"""Measure closures that avoid work where the graph allows it, beside the dense closure and Dijkstra's algorithm.

python -m benchmarks.structure [graphs] [steps] [steps-2] [planar] [--vertices 2048]

`graphs`: thirty graphs as SciPy sparse matrices, and dense ones. "chosen" is the method of `closure`, whose time is
divided by the better of the dense closure (``structure=False``) and of ``method="johnson"``. `steps`: each step at its
best, against the closure without, by one thread, and by two. `planar`: small separators, against Dijkstra's algorithm
and the dense closure. Other libraries: `benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, at_most, by_clock, comparing, format_number, milliseconds, ours, run, theirs
from benchmarks.factor import planar_graph
from semiring.testing import graphs as random_graphs

__all__ = ["main"]

Graph = tuple[str, Any, str]  # a name, a matrix, a semiring
_ROUNDS = 5  # rounds that are timed, after one that is not
_SOME = 32  # sources for libraries that would take minutes for all vertices


def _dense(A: Any) -> Any:
    """Return the dense matrix of a sparse one."""
    full = np.full(A.shape, np.inf, np.float32)
    entries = A.tocoo()
    full[entries.row, entries.col] = entries.data
    return full


def _sparse(
    n: int, edges: np.ndarray, rng: np.random.Generator, *, is_symmetric: bool = False, weight: float = 0.0
) -> Any:
    """Return a sparse matrix of edges (2, m), each of a random weight or of ``weight``."""
    from scipy.sparse import coo_array

    tails, heads = np.unique(np.sort(edges, axis=0) if is_symmetric else edges, axis=1)
    off = tails != heads
    tails, heads = tails[off], heads[off]
    weights = np.full(tails.size, weight) if weight else rng.integers(1, 1000, tails.size)
    if is_symmetric:
        tails, heads, weights = np.r_[tails, heads], np.r_[heads, tails], np.r_[weights, weights]
    return coo_array((weights.astype(np.float32), (tails, heads)), shape=(n, n)).tocsr()


def thirty(n: int) -> Iterator[Graph]:
    """Yield thirty graphs of about n vertices."""
    rng = np.random.default_rng(0)
    for each in (2, 3, 6, 20, 60):
        edges = rng.integers(0, n, (2, each * n))
        yield f"random, {each} edges a vertex", _sparse(n, edges, rng), "min_plus"
        yield f"random, {each} edges a vertex, undirected", _sparse(n, edges, rng, is_symmetric=True), "min_plus"
        yield f"random, {each} edges a vertex, one weight", _sparse(n, edges, rng, weight=1), "min_plus"
    side = int(n**0.5)
    place = np.arange(side * side).reshape(side, side)
    grid = np.c_[[place[:, :-1].ravel(), place[:, 1:].ravel()], [place[:-1].ravel(), place[1:].ravel()]]
    yield "grid, undirected", _sparse(side * side, grid, rng, is_symmetric=True), "min_plus"
    yield "grid, one weight", _sparse(side * side, grid, rng, is_symmetric=True, weight=1), "min_plus"
    yield "grid, one way", _sparse(side * side, grid, rng), "min_plus"
    yield "Delaunay triangulation", planar_graph(n)[0], "min_plus"
    ring = np.arange(n)
    near = np.c_[[ring, (ring + 1) % n], [ring, (ring + 2) % n]]
    far = np.where(rng.random(near.shape[1]) < 0.1, rng.integers(0, n, near.shape[1]), near[1])
    yield "small world", _sparse(n, np.stack([near[0], far]), rng, is_symmetric=True), "min_plus"
    tree = np.stack([np.arange(1, n), (rng.random(n - 1) * np.arange(1, n)).astype(int)])
    yield "tree", _sparse(n, tree, rng, is_symmetric=True), "min_plus"
    scale = int(np.log2(n))
    yield "scale-free", random_graphs.rmat_graph(scale, 8, dtype="float32", sparse=True), "min_plus"
    order = rng.permutation(n)
    sparse_dag = order[np.sort(rng.integers(0, n, (2, 6 * n)), axis=0)]
    yield "acyclic, 6 edges a vertex", _sparse(n, sparse_dag, rng), "min_plus"
    upper = np.triu(rng.random((n, n)) < 0.5, 1)[np.ix_(order, order)]
    W = rng.integers(1, 1000, (n, n)).astype(np.float32)
    yield "acyclic, dense", np.where(upper, W, np.inf).astype(np.float32), "min_plus"
    part = rng.integers(0, 8, n)
    yield "eight components, dense", np.where(part[:, None] == part, W, np.inf).astype(np.float32), "min_plus"
    clique = np.full((n, n), np.inf, np.float32)
    clique[: n // 2, : n // 2] = W[: n // 2, : n // 2]
    clique[np.arange(n - 1), np.arange(1, n)] = 1
    yield "a clique with a tail", clique, "min_plus"
    yield "complete", W, "min_plus"
    yield "complete, undirected", np.minimum(W, W.T), "min_plus"
    yield "complete, one weight for half", np.where(W < 500, 1, np.inf).astype(np.float32), "min_plus"
    yield "complete, undirected, widest paths", np.minimum(W, W.T), "max_min"
    yield "complete, widest paths", W, "max_min"
    yield "complete, sums of products", (W / (2000 * n)).astype(np.float32), "plus_times"


def chosen_method(A: Any, semiring: str) -> str:
    """Return the method that closes the matrix or its largest part."""
    _, explanation = sr.closure(A, semiring, explain=True)
    return explanation.method.replace("_", " ")


def graphs(options: argparse.Namespace) -> Table:
    """Measure the method that `closure` chooses for thirty graphs, beside the alternatives."""
    from scipy.sparse import issparse

    rows: list[list[Any]] = []
    for name, A, semiring in thirty(options.vertices):
        calls = [partial(sr.closure, A, semiring)]
        calls.append(partial(sr.closure, _dense(A) if issparse(A) else A, semiring, structure=False))
        if issparse(A):
            calls.append(partial(sr.closure, A, method="johnson"))
        auto, *others = _in_turn(name, calls)
        times = [*map(milliseconds, (auto, *others)), "—"][:3]
        rows.append([name, chosen_method(A, semiring), *times, f"{format_number(auto / min(others), 2)}×"])
    title = f"Closures of graphs of {options.vertices} vertices, ms"
    return Table(title, ["graph", "chosen", "auto", "dense", "Dijkstra", "auto : best"], rows)


def _in_turn(label: str, calls: list[Callable[[], Any]]) -> list[float]:
    """Return the median time of each call, from rounds of all calls in changing orders."""
    if comparing():
        return [ours(label, calls[0]), *[float("nan")] * (len(calls) - 1)]
    rounds = 1 if at_most(1) == 0 else _ROUNDS
    rng, times = np.random.default_rng(0), np.empty((1 + rounds, len(calls)))
    for took in times:
        for which in rng.permutation(len(calls)):
            took[which] = by_clock(calls[which])
    return np.median(times[1:], axis=0).tolist()


def steps(threads: int, options: argparse.Namespace) -> Table:
    """Measure each step where it applies, and without. "aim" is the ratio to reach."""
    rows = []
    for name, A, semiring, aim, other in _at_its_best(options.vertices):
        call: Callable[..., Any] = partial(sr.closure, A, semiring, threads=threads)
        dense = partial(sr.closure, A if other is None else other, semiring, threads=threads, structure=False)
        spared, whole = ours(name, call, repeats=5, seconds=1.0), theirs(dense, repeats=3, seconds=0.0)
        rows.append([name, *map(milliseconds, (spared, whole)), f"{format_number(whole / spared, 1)}×", f"{aim}×"])
    title = f"Closures of {options.vertices} vertices by {threads} thread{'s' * (threads > 1)}, ms"
    return Table(title, ["graph", "with structure", "without", "ratio", "aim"], rows)


def _at_its_best(n: int) -> Iterator[tuple[str, Any, str, float, Any]]:
    """Yield a case for each step: name, matrix, semiring, speedup to reach, and the matrix to close without it."""
    rng = np.random.default_rng(1)
    W = rng.integers(1, 1000, (n, n)).astype(np.float32)
    order = rng.permutation(n)
    acyclic = np.triu(np.ones((n, n), bool), 1)[np.ix_(order, order)]
    yield "acyclic, dense", np.where(acyclic, W, np.inf).astype(np.float32), "min_plus", 4.5, None
    words = sr.pack(np.triu(rng.random((4 * n, 4 * n), np.float32) < 0.01, 1))
    yield f"acyclic, bits of {4 * n} vertices", words, "boolean", 4, None
    even = np.minimum(W, W.T)
    yield "undirected", even, "min_plus", 1.6, None
    yield "undirected, widest paths", even, "max_min", 25, None
    stored = _sparse(n, rng.integers(0, n, (2, 6 * n)), rng, weight=1)
    hops = _dense(stored).astype(np.float64)
    hops[np.isinf(hops)] = np.iinfo(np.int16).max
    whole = hops.astype(np.int16)
    yield "one weight, 6 edges a vertex, sparse int16", stored.astype(np.int16), "min_plus", 50, whole
    yield "the same, dense int16", whole, "min_plus", 50, None
    yield "the same, sparse float32, against int16", stored, "min_plus", 50, whole
    half = np.where(W < 500, 1, np.iinfo(np.int16).max).astype(np.int16)
    yield "one weight, half of all edges, int16", half, "min_plus", 20, None
    tails, heads = rng.integers(0, 5 * n, (2, 50 * n))
    shape, name = (5 * n, 5 * n), f"bits of {5 * n} vertices, 10 edges a vertex"
    yield name, sr.BitMatrix.from_edges(tails, heads, shape), "boolean", 40, None
    tails, heads = rng.permutation(5 * n)[np.sort([tails, heads], axis=0)]
    yield f"{name}, acyclic", sr.BitMatrix.from_edges(tails, heads, shape), "boolean", 40, None


def planar(options: argparse.Namespace) -> Table:
    """Measure all distances of a Delaunay triangulation of 4 · ``vertices`` vertices. The dense closure runs once."""
    from scipy.sparse import csgraph

    A, rows = planar_graph(4 * options.vertices)[0].astype(np.float32), []
    spared = ours("planar", partial(sr.closure, A, threads=2), repeats=3, seconds=1.0)
    some = np.linspace(0, A.shape[0] - 1, 8 * _SOME, dtype=int)
    search = theirs(lambda: csgraph.dijkstra(A, indices=some), repeats=1, seconds=0.0) * A.shape[0] / some.size
    whole = float("nan") if comparing() else by_clock(partial(sr.closure, _dense(A), threads=2, structure=False))
    for who, took, aim in (("Dijkstra of SciPy, by 256 sources", search, 20), ("the dense closure", whole, 40)):
        rows.append([who, *map(milliseconds, (spared, took)), f"{format_number(took / spared, 1)}×", f"{aim}×"])
    title = f"All distances of a Delaunay triangulation of {A.shape[0]} vertices, two threads, ms"
    return Table(title, ["against", "with structure", "without", "ratio", "aim"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, default=2048, help="of each graph (2048)")

    return run(
        "benchmarks.structure",
        str(__doc__),
        {"graphs": graphs, "steps": partial(steps, 1), "steps-2": partial(steps, 2), "planar": planar},
        arguments,
        configure,
    )


if __name__ == "__main__":
    sys.exit(main())
