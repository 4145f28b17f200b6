"""Compute slow, obviously right answers that share no code and no constant with the library.

Every semiring is written down again here: ⊕, ⊗, 0̄ and 1̄, in plain Python and NumPy. A product is the loop of its
definition. A closure of an idempotent semiring is the sum of its powers. Shortest paths come from Dijkstra with a heap,
from Bellman–Ford and, where rounding matters, from exact arithmetic on fractions.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

INF = math.inf


@dataclass(frozen=True)
class Oracle:
    """A semiring, written down independently. ``add`` and ``mul`` act on NumPy arrays of one dtype."""

    add: Callable[[Any, Any], Any]
    mul: Callable[[Any, Any], Any]
    zero: Callable[[np.dtype], Any]
    one: Callable[[np.dtype], Any]
    idempotent: bool = True
    selective: bool = True


def _number(value):
    return lambda dtype: dtype.type(value)


def _top(dtype):
    return (
        dtype.type(INF)
        if dtype.kind == "f"
        else dtype.type(True)
        if dtype.kind == "b"
        else dtype.type(np.iinfo(dtype).max)
    )


def _bottom(dtype):
    return (
        dtype.type(-INF)
        if dtype.kind == "f"
        else dtype.type(False)
        if dtype.kind == "b"
        else dtype.type(np.iinfo(dtype).min)
    )


def _plus_above(x, y):
    """Return x + y, where the largest value of the dtype (∞) means "no path" and stays."""
    x, y = np.broadcast_arrays(x, y)
    top = _top(x.dtype)
    with np.errstate(all="ignore"):
        return np.where((x == top) | (y == top), top, x + y)


def _plus_below(x, y):
    x, y = np.broadcast_arrays(x, y)
    bottom = _bottom(x.dtype)
    with np.errstate(all="ignore"):
        return np.where((x == bottom) | (y == bottom), bottom, x + y)


def _log_add(x, y):
    with np.errstate(all="ignore"):
        return np.logaddexp(x, y)


ORACLES: dict[str, Oracle] = {
    "min_plus": Oracle(np.minimum, _plus_above, _top, _number(0)),
    "max_plus": Oracle(np.maximum, _plus_below, _bottom, _number(0)),
    "boolean": Oracle(np.logical_or, np.logical_and, _number(False), _number(True)),
    "max_min": Oracle(np.maximum, np.minimum, _bottom, _top),
    "min_max": Oracle(np.minimum, np.maximum, _top, _bottom),
    "max_times": Oracle(np.maximum, np.multiply, _number(0), _number(1)),
    "min_times": Oracle(np.minimum, np.multiply, _top, _number(1)),
    "plus_times": Oracle(np.add, np.multiply, _number(0), _number(1), False, False),
    "log_plus": Oracle(_log_add, _plus_below, _bottom, _number(0), False, False),
    "xor_and": Oracle(np.bitwise_xor, np.bitwise_and, _number(0), lambda dtype: ~dtype.type(0), False, False),
    "lukasiewicz": Oracle(np.maximum, lambda x, y: np.maximum(0, x + y - x.dtype.type(1)), _number(0), _number(1)),
}


# ------------------------------------------------------------------------------------------------- matrices


def zero(name: str, dtype: Any) -> Any:
    """Return 0̄, as the caller sees it."""
    return ORACLES[name].zero(np.dtype(dtype))


def one(name: str, dtype: Any) -> Any:
    return ORACLES[name].one(np.dtype(dtype))


def identity(n: int, name: str, dtype: Any) -> np.ndarray:
    result = np.full((n, n), zero(name, dtype), dtype)
    for i in range(n):
        result[i, i] = one(name, dtype)
    return result


def product(A: np.ndarray, B: np.ndarray, name: str, C: np.ndarray | None = None) -> np.ndarray:
    """Compute C ⊕ A ⊗ B (C zero by default), k in ascending order, in the dtype of A.

    Exact for a selective ⊕: one rounded ⊗ for each candidate. Sums of integers must fit the dtype.
    """
    semiring, (m, k), (rows, n) = ORACLES[name], A.shape, B.shape
    assert k == rows, "the inner sizes differ"
    A, B = np.ascontiguousarray(A), np.ascontiguousarray(B)
    result = np.full((m, n), semiring.zero(A.dtype), A.dtype) if C is None else np.array(C)
    with np.errstate(all="ignore"):
        for p in range(k):
            result = semiring.add(result, semiring.mul(A[:, p : p + 1], B[p : p + 1, :])).astype(A.dtype)
    return result


def product_by_scalars(A: np.ndarray, B: np.ndarray, name: str) -> np.ndarray:
    """Multiply entry by entry, by three plain loops."""
    semiring = ORACLES[name]
    result = np.full((A.shape[0], B.shape[1]), semiring.zero(A.dtype), A.dtype)
    with np.errstate(all="ignore"):
        for i in range(A.shape[0]):
            for j in range(B.shape[1]):
                for k in range(A.shape[1]):
                    result[i, j] = semiring.add(result[i, j], semiring.mul(A[i, k], B[k, j]))
    return result


def witness(A: np.ndarray, B: np.ndarray, name: str) -> np.ndarray:
    """Return the smallest k that attains each entry of the product, -1 where the entry is zero."""
    semiring, C = ORACLES[name], product(A, B, name)
    W = np.full(C.shape, -1, np.int64)
    with np.errstate(all="ignore"):
        for k in reversed(range(A.shape[1])):
            attains = semiring.mul(A[:, k : k + 1], B[k : k + 1, :]) == C
            W[attains] = k
    W[semiring.zero(A.dtype) == C] = -1
    return W


def closure(A: np.ndarray, name: str, *, reflexive: bool = True) -> np.ndarray:
    """Compute A* = I ⊕ A ⊕ … ⊕ Aⁿ⁻¹ (A⁺ = A ⊕ … ⊕ Aⁿ) of an idempotent ⊕ in which no cycle improves on 1̄."""
    semiring, n = ORACLES[name], len(A)
    assert semiring.idempotent, "of the others: inverse_closure, log_closure, gf2_closure"
    start = identity(n, name, A.dtype) if reflexive else np.array(A)
    result = start
    for _ in range(n):
        following = semiring.add(start, product(A, result, name)).astype(A.dtype)
        if np.array_equal(following, result):
            break
        result = following
    return result


def inverse_closure(A: np.ndarray) -> list[list[Fraction]]:
    """Compute (I - A)⁻¹ in exact arithmetic, the closure of plus_times."""
    n = len(A)
    rows = [
        [Fraction(int(i == j)) - Fraction(float(A[i, j])) for j in range(n)] + [Fraction(int(i == j)) for j in range(n)]
        for i in range(n)
    ]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [value - factor * top for value, top in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]


def log_closure(A: np.ndarray) -> np.ndarray:
    """Compute the closure of log_plus: the logarithm of Σ (e^A)ᵏ, summed until nothing changes."""
    P = np.exp(A.astype(np.longdouble))
    total, power = np.eye(len(A), dtype=np.longdouble), np.eye(len(A), dtype=np.longdouble)
    for _ in range(100_000):
        power = np.array([[sum(power[i, :] * P[:, j]) for j in range(len(A))] for i in range(len(A))])
        if np.array_equal(total + power, total):
            break
        total = total + power
    with np.errstate(divide="ignore"):
        return np.log(total)


def gf2_closure(A: np.ndarray) -> np.ndarray | None:
    """Compute (I ⊕ A)⁻¹ over GF(2) for each bit of an integer on its own, or None if one is singular."""
    bits = 1 if A.dtype == bool else 8 * A.dtype.itemsize
    n, result = len(A), np.zeros(A.shape, A.dtype)
    unsigned = A.view(f"u{A.dtype.itemsize}")
    for bit in range(bits):
        rows = [
            [int(unsigned[i, j] >> bit) & 1 ^ (i == j) for j in range(n)] + [int(i == j) for j in range(n)]
            for i in range(n)
        ]
        for k in range(n):
            pivot = next((i for i in range(k, n) if rows[i][k]), None)
            if pivot is None:
                return None
            rows[k], rows[pivot] = rows[pivot], rows[k]
            for i in range(n):
                if i != k and rows[i][k]:
                    rows[i] = [x ^ y for x, y in zip(rows[i], rows[k], strict=True)]
        inverse = np.array([row[n:] for row in rows], unsigned.dtype).reshape(n, n)
        result.view(unsigned.dtype)[...] |= inverse << unsigned.dtype.type(bit)
    return result


# ------------------------------------------------------------------------------------------------- shortest paths


def edges(A: np.ndarray) -> list[list[tuple[int, Any]]]:
    """Return adjacency lists of a min-plus matrix, weights as Python numbers."""
    none = zero("min_plus", A.dtype)
    return [[(j, A[i, j].item()) for j in range(A.shape[1]) if A[i, j] != none] for i in range(A.shape[0])]


def dijkstra(A: np.ndarray, source: int) -> tuple[list[Any], list[int]]:
    """Return distances (∞ without a path) and predecessors (-1) from one source, for weights ≥ 0."""
    graph = edges(A)
    distance, previous = [INF] * len(graph), [-1] * len(graph)
    distance[source] = 0
    heap, settled = [(0, source)], set()
    while heap:
        far, u = heapq.heappop(heap)
        if u in settled:
            continue
        settled.add(u)
        for v, weight in graph[u]:
            assert weight >= 0, "Dijkstra needs weights ≥ 0"
            if far + weight < distance[v]:
                distance[v], previous[v] = far + weight, u
                heapq.heappush(heap, (distance[v], v))
    return distance, previous


def all_pairs_dijkstra(A: np.ndarray) -> np.ndarray:
    """Return distances in float64, ∞ without a path. They are exact if the weights are whole numbers."""
    return np.array([dijkstra(A, source)[0] for source in range(len(A))], np.float64).reshape(A.shape)


def exact(weight: Any) -> int | Fraction:
    """Return a finite float or integer as an exact number, an int if it is whole, which is much faster."""
    return int(weight) if weight == int(weight) else Fraction(weight)


def bellman_ford(A: np.ndarray, sources: list[int]) -> tuple[list[Any], list[int]]:
    """Return exact distances from the nearest of ``sources``, and the vertices of a negative cycle, or []."""
    graph = [[(v, exact(w)) for v, w in row] for row in edges(A)]
    n = len(graph)
    distance: list[Any] = [INF] * n
    previous = [-1] * n
    for source in sources:
        distance[source] = 0
    improved = -1
    for _ in range(n):
        improved = -1
        for u in range(n):
            if distance[u] == INF:
                continue
            for v, weight in graph[u]:
                if distance[u] + weight < distance[v]:
                    distance[v], previous[v], improved = distance[u] + weight, u, v
        if improved < 0:
            return distance, []
    for _ in range(n):
        improved = previous[improved]
    cycle, vertex = [improved], previous[improved]
    while vertex != improved:
        cycle.append(vertex)
        vertex = previous[vertex]
    return distance, cycle[::-1]


def negative_cycle(A: np.ndarray) -> list[int]:
    """Return the vertices of a cycle of negative weight, decided exactly, or [] if there is none."""
    return bellman_ford(A, list(range(len(A))))[1]


def exact_distances(A: np.ndarray) -> np.ndarray:
    """Compute all-pairs shortest distances exactly, as an object array with ∞ for no path. No cycle may be negative."""
    rows = []
    for source in range(len(A)):
        distance, cycle = bellman_ford(A, [source])
        assert not cycle, f"the cycle {cycle} is negative"
        rows.append(distance)
    result = np.empty(A.shape, object)
    for i, row in enumerate(rows):
        result[i, :] = row
    return result


def cycle_weight(A: np.ndarray, cycle: list[int]) -> int | Fraction:
    """Return the exact weight of a closed walk, every edge of which must exist."""
    total: int | Fraction = 0
    for u, v in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
        assert A[u, v] != zero("min_plus", A.dtype), f"there is no edge {u} → {v}"
        total += exact(A[u, v].item())
    return total


def reachable(adjacent: np.ndarray, *, reflexive: bool = True) -> np.ndarray:
    """Return which vertices each vertex reaches, by breadth-first searches. Without ``reflexive`` a vertex reaches
    itself only along a cycle."""
    graph = [[j for j in range(len(adjacent)) if adjacent[i, j]] for i in range(len(adjacent))]
    result = np.zeros(adjacent.shape, bool)
    for source in range(len(graph)):
        queue, seen = deque([source]), set()
        while queue:
            for v in graph[queue.popleft()]:
                if v not in seen:
                    seen.add(v)
                    queue.append(v)
        if reflexive:
            seen.add(source)
        result[source, sorted(seen)] = True
    return result
