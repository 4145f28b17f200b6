"""Draw the pictures of ``docs/structure.md``, which show the work that each step avoids, on small graphs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import semiring as sr
from semiring.graphs.components import strong_components

__all__ = ["IDEAS"]

BLUE, ORANGE, GREEN, LINE, NONE = "#0072b2", "#d55e00", "#00805d", "#66717f", "#e4e4e4"


def _panels(count: int, height: float = 2.6) -> Any:
    figure, axes = plt.subplots(1, count, figsize=(6.4, height), layout="constrained")
    axes = np.atleast_1d(axes)
    for each in axes:
        each.set_aspect("equal")
        each.axis("off")
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def _cells(axes: Any, colours: Any, title: str, texts: Any = None) -> None:
    """Draw a matrix as coloured squares with texts in them."""
    n, m = np.shape(colours)
    for i in range(n):
        for j in range(m):
            axes.add_patch(plt.Rectangle((j, -i - 1), 0.9, 0.9, color=colours[i][j], lw=0))
            if texts is not None and texts[i][j]:
                axes.text(j + 0.45, -i - 0.55, texts[i][j], ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.2, m + 0.1), ylim=(-n - 0.2, 0.1))
    axes.set_title(title, fontsize=9)


def _graph(axes: Any, places: Any, edges: Any, colours: Any, size: float = 5) -> None:
    for a, b, colour, width in edges:
        axes.plot(*zip(places[a], places[b], strict=True), color=colour, lw=width, zorder=1)
    for place, colour in zip(places, colours, strict=True):
        axes.plot(*place, "o", color=colour, ms=size, zorder=2)


def components(path: Path) -> None:
    rng = np.random.default_rng(4)
    sizes = (3, 1, 4, 1, 2, 3)
    part = np.repeat(np.arange(len(sizes)), sizes)
    n = part.size
    edges = (part[:, None] < part) & (rng.random((n, n)) < 0.25)
    for first, size in zip(np.cumsum((0, *sizes)), sizes, strict=False):
        ring = first + np.arange(size)
        edges[ring, np.roll(ring, -1)] |= size > 1
    order = rng.permutation(n)
    A = edges[np.ix_(order, order)]
    found = strong_components(np.where(A, 1.0, np.inf), np.inf)
    sorted_ = A[np.ix_(found.order, found.order)]
    own = np.repeat(np.arange(len(found)), found.sizes)
    closed = sr.closure(sorted_, "boolean")
    figure, (left, middle, right) = _panels(3)
    _cells(left, np.where(A, LINE, NONE), "edges as given")
    inside = own[:, None] == own
    _cells(middle, np.where(inside, BLUE, np.where(sorted_, LINE, NONE)), "1  blocks closed alone")
    _cells(right, np.where(inside, BLUE, np.where(closed, ORANGE, NONE)), "2  products above")
    _save(figure, path)


def undirected(path: Path) -> None:
    n, pivots = 14, slice(6, 8)
    figure, (left, right) = _panels(2)
    before = np.full((n, n), NONE, object)
    before[: pivots.start, pivots] = before[pivots, pivots.start :] = ORANGE
    before[pivots, : pivots.start] = LINE
    _cells(left, before, "the rows of some pivots: left of the\ndiagonal they stand in the columns above")
    after = np.where(np.triu(np.ones((n, n), bool)), BLUE, NONE).astype(object)
    after[pivots, pivots.start :] = after[: pivots.start, pivots] = ORANGE
    _cells(right, after, "their product with themselves:\none triangle, mirrored at the end")
    _save(figure, path)


def bottleneck(path: Path) -> None:
    rng = np.random.default_rng(7)
    x, y = np.meshgrid(np.arange(4), np.arange(3))
    places = np.c_[x.ravel(), y.ravel()] + rng.random((12, 2)) * 0.4
    W = np.full((12, 12), -np.inf)
    for a in range(12):
        for b in range(a):
            if np.hypot(*(places[a] - places[b])) < 1.2:
                W[a, b] = W[b, a] = rng.integers(1, 30)
    tree = [(a, b) for a in range(12) for b in range(a) if W[a, b] > -np.inf and _joins(W, a, b)]
    D = sr.closure(W, "max_min")
    route = sr.widest_paths(np.where(_tree_of(tree, 12), W, -np.inf)).path(0, 11)
    steps = {frozenset(pair) for pair in itertools.pairwise(route)}
    figure, (axes,) = _panels(1, 2.8)
    edges = [(a, b, NONE, 1.5) for a in range(12) for b in range(a) if W[a, b] > -np.inf]
    edges += [(a, b, ORANGE if frozenset((a, b)) in steps else BLUE, 3) for a, b in tree]
    _graph(axes, places, edges, [BLUE] * 12, 6)
    for a, b in tree:
        axes.text(*(places[a] + places[b]) / 2, f"{W[a, b]:.0f}", ha="center", va="center", fontsize=8, zorder=3)
    axes.set_title(f"the widest path from corner to corner is the one in the tree: {D[0, 11]:.0f}", fontsize=9)
    _save(figure, path)


def _joins(W: Any, a: int, b: int) -> bool:
    """Return whether an edge is in the maximum spanning tree: no path of wider edges joins its ends."""
    return not sr.closure(W[a, b] < W, "boolean")[a, b]


def _tree_of(edges: Any, n: int) -> Any:
    found = np.zeros((n, n), bool)
    for a, b in edges:
        found[a, b] = found[b, a] = True
    return found


def reachability(path: Path) -> None:
    A = np.triu(np.random.default_rng(2).random((7, 7)) < 0.65, 1)
    colours, reached = np.full((7, 7), NONE, object), np.eye(7, dtype=bool)
    texts = np.full((7, 7), "", object)
    for v in range(6, -1, -1):
        for u in np.flatnonzero(A[v]):
            texts[v, u] = "passed" if reached[v, u] else "joined"
            colours[v][reached[u] & ~reached[v]] = LINE
            colours[v, u] = NONE if reached[v, u] else ORANGE
            reached[v] |= reached[u]
        colours[v][reached[v] & (colours[v] == NONE)] = LINE
        colours[v, v] = BLUE
    texts = np.where(texts == "passed", "×", "")
    figure, (left, right) = _panels(2)
    _cells(left, np.where(A, LINE, np.where(np.eye(7, dtype=bool), BLUE, NONE)), "edges, in topological order")
    _cells(
        right,
        colours,
        "rows from the last to the first: an edge joins\nthe row of its head, but not (×) if covered",
        texts,
    )
    _save(figure, path)


def hops(path: Path) -> None:
    rng = np.random.default_rng(5)
    n = 9
    A = rng.random((n, n)) < 0.2
    A[np.arange(n), (np.arange(n) + 1) % n] = True
    D = sr.closure(np.where(A, 1.0, np.inf))
    figure, axes = _panels(3)
    for level, each in enumerate(axes, 1):
        colours = np.where(level == D, ORANGE, np.where(level > D, LINE, NONE))
        title = (
            f"round {level}: what heads\nhad a round before"
            if level > 1
            else "round 1: the edges,\na bit for each target"
        )
        _cells(each, colours, title)
    _save(figure, path)


def separators(path: Path) -> None:
    side = 7
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    places = np.c_[x.ravel(), y.ravel()].astype(float)
    colours = np.full((side, side), LINE, object)
    colours[side // 2, : side // 2] = colours[side // 2, side // 2 + 1 :] = BLUE
    colours[:, side // 2] = ORANGE
    at = np.arange(side * side).reshape(side, side)
    edges = [(a, b, NONE, 1.5) for a, b in zip(at[:, :-1].ravel(), at[:, 1:].ravel(), strict=True)]
    edges += [(a, b, NONE, 1.5) for a, b in zip(at[:-1].ravel(), at[1:].ravel(), strict=True)]
    figure, (left, right) = _panels(2)
    _graph(left, places, edges, colours.ravel())
    left.set_title("few vertices separate the others", fontsize=9)
    tree = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    knots = [(3, 2), (1, 1), (5, 1), (0, 0), (2, 0), (4, 0), (6, 0)]
    lines = [(a, b, LINE, 1.5) for a, b in tree]
    _graph(right, knots, lines, [ORANGE, BLUE, BLUE, *[LINE] * 4], 9)
    right.annotate("up", (0.1, 1.3), color=GREEN, fontsize=9)
    right.annotate("down", (5.6, 1.3), color=GREEN, fontsize=9)
    right.set(xlim=(-0.6, 6.8), ylim=(-0.6, 2.6))
    right.set_title("a row of A*: up the tree from its vertex,\nand down to all others", fontsize=9)
    _save(figure, path)


IDEAS = {
    "structure-components.svg": components,
    "structure-undirected.svg": undirected,
    "structure-bottleneck.svg": bottleneck,
    "structure-reachability.svg": reachability,
    "structure-hops.svg": hops,
    "structure-separators.svg": separators,
}
