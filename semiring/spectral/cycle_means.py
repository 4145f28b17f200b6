"""Find the best mean weight of a cycle, and the best ratio of weight to time.

Every semiring here has cycles of a least cost: in min-plus the weight, in max-plus its negative, in min-times and
max-times the logarithm and its negative. Howard's policy iteration finds the least ratio of every strong component. It
runs in exact arithmetic if the weights are integers, or floats that are whole numbers. In max-min and min-max the
"mean" of a cycle is its bottleneck, because ⊗ is idempotent, and a bisection over the weights finds the best one.

Sources: see `semiring.kernels.graphs.policy_iteration`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, max_min, max_plus, max_times, min_max, min_plus, min_times
from semiring.arguments import as_numbers, check_flags, is_one_of
from semiring.arrays.operands import as_host_operand
from semiring.arrays.sparse import is_sparse
from semiring.arrays.zero_conventions import warn_of_other_zeros
from semiring.errors import AlgebraError, DomainError, IntegerOverflowError, ShapeError, cycle_text
from semiring.graphs.strongly_connected import Components, strong_components_of_lists, walk_cycle
from semiring.io.inputs import Reading, open_graph
from semiring.io.network import semiring_of
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.sparse.edge_inputs import SparseEntries, check_values, edges_of
from semiring.sparse.symbolic_factor import Pattern
from semiring.thread_counts import check_threads, get_threads

__all__ = [
    "BOTTLENECKS",
    "COSTS",
    "LARGEST",
    "CycleMean",
    "CycleRatio",
    "LeastRatios",
    "as_integers",
    "best_bottleneck",
    "cycle_mean",
    "cycle_ratio",
    "read_edges",
    "zero_mean",
]

Array = NDArray[Any]

#: The semirings whose cycles have a mean, with the sign of the cost, and whether the cost is a logarithm.
COSTS = {min_plus: (1, False), max_plus: (-1, False), min_times: (1, True), max_times: (-1, True)}
BOTTLENECKS = (max_min, min_max)
LARGEST = 2**62  # a bound of the exact values, within int64
_PIECE = 2**15  # values that are converted at a time, which stay in the cache


class CycleMean(NamedTuple):
    """The best mean of a cycle, and a cycle that attains it."""

    mean: float | Fraction
    cycle: list[Hashable]


class CycleRatio(NamedTuple):
    """The best ratio of weight to time of a cycle, and a cycle that attains it."""

    ratio: float | Fraction
    cycle: list[Hashable]


def cycle_mean(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    exact: bool = False,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> CycleMean:
    """Return the best mean weight of a cycle, and a cycle that attains it.

    In min_plus it is the least sum of weights over the number of edges, in max_plus the greatest. In max_times it is
    the greatest geometric mean, in min_times the least. In max_min and min_max it is the best bottleneck of a cycle.

    Parameters
    ----------
    A : array_like, shape (n, n)
        A dense or sparse matrix, a frame, a graph, a `Network` or the name of a file, in the memory of the host.
    semiring : Semiring or str, optional
        One of the semirings above, by default that of a `Network`, else min-plus.
    exact : bool, default False
        Return the value as a `fractions.Fraction`. The weights must be whole numbers, in min_plus or max_plus.
    weight : str or callable, optional
        The column or attribute of the weights, as in `as_network`.
    directed : bool, optional
        False adds the reverse of each edge. The default is the direction of the graph.
    columns : tuple of str, optional
        The titles of the two columns in which a frame or a file lists the ends of edges.
    check : bool, default True
        Warn of the "no edge" of another convention. The entries are validated in any case.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`. A strong component is searched by one of them.
    device : None or "cpu", optional
        Where the computation runs.

    Returns
    -------
    CycleMean
        The mean, a float or a Fraction, and the vertices of the cycle in order, without the first one at the end, by
        their names if they have names. A graph without a cycle has the zero of the semiring and an empty list.

    Raises
    ------
    AlgebraError
        For another semiring, or for ``exact`` where the weights are not whole numbers.
    IntegerOverflowError
        If whole numbers are so large that exact values do not fit int64.
    ShapeError, DTypeError, DomainError
        For a matrix that is not square, and for entries outside the domain.

    Notes
    -----
    Whole numbers are computed exactly, and the mean is rounded once. Other floats are within n · ε of the greatest
    sum of weights along a path, over the length of the cycle. Costs O(m) for each of some tens of iterations for m
    edges. Sources: see `semiring.spectral`.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.spectral.cycle_mean([[inf, 3, inf], [inf, inf, 2], [2, 1, inf]])
    CycleMean(mean=1.5, cycle=[1, 2])
    """
    algebra = _find_semiring(A, semiring, exact)
    edges = read_edges(A, algebra, Reading(weight, directed, columns), check, threads, device)
    if algebra in BOTTLENECKS:
        best = best_bottleneck(edges, algebra)
        if best is None:
            return CycleMean(zero_mean(algebra), [])
        return CycleMean(best[0], _named(best[1], edges))
    found = LeastRatios.of(edges, algebra, np.ones(1, np.int64), threads, exact=exact)
    if found.component < 0:
        return CycleMean(zero_mean(algebra), [])
    cycle = found.cycle()
    return CycleMean(found.value(cycle, exact), _named(cycle, edges))


def cycle_ratio(
    A: Any,
    T: Any,
    semiring: Semiring | str | None = None,
    *,
    exact: bool = False,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> CycleRatio:
    """Return the best ratio of the weight of a cycle to its time, and a cycle that attains it.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The weights, as in `cycle_mean`. The semiring is min_plus (the least ratio) or max_plus (the greatest).
    T : array_like or sparse matrix, shape (n, n)
        The time of each edge of A, at least 0 and above 0 on every cycle; the order of the vertices is that of A.
        A sparse matrix has time 0 where it stores nothing. For the attribute "time" of a graph pass
        ``as_network(graph, weight="time").matrix``.
    semiring : Semiring or str, optional
        min_plus or max_plus, by default that of a `Network`, else min-plus.
    exact : bool, default False
        Return the value as a `fractions.Fraction`. The weights must be whole numbers, in min_plus or max_plus.
    weight : str or callable, optional
        The column or attribute of the weights, as in `as_network`.
    directed : bool, optional
        False adds the reverse of each edge. The default is the direction of the graph.
    columns : tuple of str, optional
        The titles of the two columns in which a frame or a file lists the ends of edges.
    check : bool, default True
        Warn of the "no edge" of another convention. The entries are validated in any case.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : None or "cpu", optional
        Where the computation runs.

    Returns
    -------
    CycleRatio
        The ratio, and the cycle as in `cycle_mean`.

    Raises
    ------
    DomainError
        If a time is negative or not finite, or if a cycle takes no time.
    AlgebraError, IntegerOverflowError, ShapeError, DTypeError
        As in `cycle_mean`.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.spectral.cycle_ratio([[5, 1], [1, inf]], [[2, 1], [3, 1]])
    CycleRatio(ratio=0.5, cycle=[0, 1])
    """
    algebra = _find_semiring(A, semiring, exact)
    if algebra not in (min_plus, max_plus):
        raise AlgebraError(f"a ratio to time needs weights that add up, min_plus or max_plus, not {algebra.name}")
    edges = read_edges(A, algebra, Reading(weight, directed, columns), check, threads, device)
    found = LeastRatios.of(edges, algebra, _read_times(T, edges), threads, exact=exact)
    if found.component < 0:
        return CycleRatio(zero_mean(algebra), [])
    cycle = found.cycle()
    return CycleRatio(found.value(cycle, exact), _named(cycle, edges))


def _find_semiring(A: Any, semiring: Semiring | str | None, exact: bool) -> Semiring:
    check_flags({"exact": exact})
    algebra = as_semiring(semiring_of(A, semiring))
    if exact and algebra not in (min_plus, max_plus):
        raise AlgebraError(f"exact means are quotients of sums, of min_plus and max_plus, not of {algebra.name}")
    if algebra not in COSTS and algebra not in BOTTLENECKS:
        names = ", ".join(each.name for each in (*COSTS, *BOTTLENECKS))
        raise AlgebraError(f"cycles have no mean in {algebra.name}: use {names}")
    return algebra


def read_edges(
    A: Any, semiring: Semiring, reading: Reading, check: bool, threads: int | None, device: Any
) -> SparseEntries:
    """Return the edges of an operand of this package. Raises `ValueError` for another device than the host."""
    check_flags({"check": check})
    if threads is not None:
        check_threads(threads)
    if device is not None and not is_one_of(device, ("cpu",)):
        raise ValueError(f"device={quote(device)} is not supported: cycles are searched on the CPU, device='cpu'")
    A, reading = open_graph(A, semiring, reading, sparse=True)
    if (full := _read_full_matrix(A, semiring, reading, check)) is not None:
        return full
    return edges_of(A, semiring, reading=reading, check=check).require_eliminable()


def _read_full_matrix(A: Any, semiring: Semiring, reading: Reading, check: bool) -> SparseEntries | None:
    """Return the edges of an array in which every entry is an edge, in place of a search for the entries that are."""
    if type(A) is not np.ndarray or A.ndim != 2 or A.shape[0] != A.shape[1] or not reading.is_default:
        return None
    if A.dtype.char not in "fdil" or not A.dtype.isnative or not A.size or not semiring.supports(A.dtype):
        return None
    zero = semiring.zero_for(A.dtype)
    if A[0, -1] == zero or (zero == A).any():
        return None
    if check:
        warn_of_other_zeros(A, semiring)
    n = len(A)
    pattern = Pattern(n, np.arange(0, n * n + 1, n), np.tile(np.arange(n, dtype=np.int32), n))
    return check_values(pattern, A.ravel(), semiring, None).require_eliminable()


def _read_times(T: Any, edges: SparseEntries) -> Array:
    """Return the times of the edges, in their order."""
    pattern = edges.pattern
    T = as_host_operand(T, "T")
    shape = as_numbers(T, "T").shape if isinstance(T, list | tuple) else np.shape(T)
    if shape != (pattern.n, pattern.n):
        raise ShapeError(f"T is {shape}, and A has {pattern.n} vertices: pass the times as ({pattern.n}, {pattern.n})")
    if is_sparse(T):
        times = np.asarray(T.tocsr()[pattern.rows, pattern.indices]).reshape(-1)
    else:
        times = np.asarray(T)[pattern.rows, pattern.indices]
    wrong = ~(np.isfinite(times) & (times >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        at = int(pattern.rows[place]), int(pattern.indices[place])
        raise DomainError(f"T[{at[0]}, {at[1]}] is {times[place]}: a time is finite and at least 0", at)
    idle = times == 0
    if idle.any():
        rows, heads = pattern.rows[idle], pattern.indices[idle]
        starts, order = elimination_trees.compress_rows(pattern.n, rows, heads)
        parts, heads = strong_components_of_lists(starts, heads[order]), heads[order]
        loops = rows[order][rows[order] == heads]
        large = parts.order[parts.bounds[:-1][parts.sizes > 1]]
        if loops.size or large.size:
            vertex = int(loops[0] if loops.size else large[0])
            cycle = walk_cycle(vertex, starts, heads, parts)
            raise DomainError(f"the cycle {cycle_text(_named(cycle, edges))} takes no time, so it has no ratio")
    return times


def _named(cycle: Sequence[int], edges: SparseEntries) -> list[Hashable]:
    return list(cycle) if edges.names is None else [edges.names[vertex] for vertex in cycle]


def zero_mean(semiring: Semiring) -> float:
    """Return the mean of a graph without a cycle: the zero of the semiring."""
    return float(semiring.zero_for(np.dtype(np.float64)))


@dataclass(frozen=True, eq=False)
class LeastRatios:
    """The least ratio of cost to time of each strong component, with the potentials that prove it.

    The vertices are in the order of the components; ``place`` is the position of each vertex. ``positions`` are the
    edges inside components, as positions in the pattern.
    """

    edges: SparseEntries
    semiring: Semiring
    parts: Components
    place: Array  # (n,)
    positions: Array | slice  # (inside,)
    starts: Array
    heads: Array
    costs: Array  # (inside,), int64 if the arithmetic is exact, else float64
    times: Array  # (inside,) or (1,)
    policy: Array
    values: Array
    ratios: Array  # (components, 2): cost and time; the time is 0 without a cycle
    rounding: float
    component: int  # the component of the least ratio, -1 without a cycle

    @classmethod
    def of(
        cls, edges: SparseEntries, semiring: Semiring, times: Array, threads: int | None, *, exact: bool = False
    ) -> LeastRatios:
        """Compute the ratios. Raises `AlgebraError` and `IntegerOverflowError` as `cycle_mean` does."""
        pattern, n = edges.pattern, edges.pattern.n
        is_full = pattern.indices.size == n * n > 0
        if is_full:
            parts = Components(np.arange(n), np.array([0, n]), np.array([0, 1]))
        else:
            parts = strong_components_of_lists(pattern.starts, pattern.indices)
        component = np.empty(n, np.int64)
        component[parts.order] = np.repeat(np.arange(len(parts)), parts.sizes)
        # the vertices of a component ascend, so that the heads of a row do
        parts = Components(np.argsort(component, kind="stable"), parts.bounds, parts.weak)
        place = np.empty(n, np.int32)
        place[parts.order] = np.arange(n, dtype=np.int32)
        positions: Array | slice = slice(None)
        if len(parts) == 1:  # nothing to sort
            starts, heads = pattern.starts, pattern.indices
        else:
            from semiring.kernels.graphs.policy_iteration import select_inside

            starts, m = np.empty(n + 1, np.int64), pattern.indices.size
            heads, chosen = np.empty(m, np.int32), np.empty(m, np.int64)
            count = select_inside(
                *(component, place, parts.order.astype(np.int64), pattern.starts, pattern.indices),
                *(starts, heads, chosen),
            )
            heads, positions = heads[:count], chosen[:count]
        largest = int(parts.sizes.max(initial=0))
        weights, times = edges.values[positions], times if len(times) == 1 else times[positions]
        costs, times = _as_costs(weights, semiring, times, largest)
        rounding = 0.0
        if costs.dtype.kind == "f":
            if exact:
                raise AlgebraError("the weights are not all whole numbers, so there is no exact mean: leave out exact=")
            rounding = float(np.finfo(np.float64).eps) * (16 + 4 * math.sqrt(largest))
        policy, values = np.full(n, -1, np.int64), np.zeros(n, costs.dtype)
        ratios = np.zeros((len(parts), 2), costs.dtype)
        if heads.size:
            from semiring.kernels.graphs.policy_iteration import iterate_policies

            bounds, count = parts.bounds.astype(np.int64), get_threads() if threads is None else threads

            def iterate(first: int, last: int) -> None:
                iterate_policies(
                    *(bounds[first : last + 1], starts, heads, costs, times),
                    *(policy, values, ratios[first:last], rounding),
                )

            run_tasks(iterate, _split_components(starts[bounds], count), count)
        return cls(
            *(edges, semiring, parts, place, positions, starts, heads, costs, times),
            *(policy, values, ratios, rounding, _least(ratios)),
        )

    @property
    def is_exact(self) -> bool:
        return self.costs.dtype.kind == "i"

    def best_components(self) -> list[int]:
        """Return the components whose ratio is the least one, within the error of floats."""
        cyclic = np.flatnonzero(self.ratios[:, 1] > 0)
        if cyclic.size == 1:
            return [self.component]
        p, q = self.ratios[self.component]
        if self.is_exact:  # the bound of the exact values holds for these products too
            return [int(each) for each in cyclic if self.ratios[each, 0] * q == p * self.ratios[each, 1]]
        bound = p / q + 2 * self.rounding * _magnitude(self.costs)
        return [int(each) for each in cyclic if self.ratios[each, 0] / self.ratios[each, 1] <= bound]

    def tight_edges(self) -> Array:
        """Return a mask (m,) of the edges of reduced cost 0 in the components of the least ratio."""
        from semiring.kernels.graphs.policy_iteration import mark_tight_edges

        is_tight = np.zeros(self.costs.size, bool)
        for component in self.best_components():
            first, last = self.parts.bounds[component : component + 2]
            bound = self.costs.dtype.type(self.error_bound(component))
            mark_tight_edges(
                *(first, last, self.starts, self.heads, self.costs, self.times, self.values),
                *(*self.ratios[component], bound, is_tight),
            )
        mask = np.zeros(self.edges.values.size, bool)
        mask[self.positions] = is_tight
        return mask

    def error_bound(self, component: int) -> float:
        """Return the reduced cost that rounding alone may give a tight edge of a component; 0 for exact values."""
        if self.is_exact:
            return 0.0
        bounds = slice(*self.parts.bounds[component : component + 2])
        scale = self.ratios[component, 1] * _magnitude(self.costs)
        return float(4 * self.rounding * max(np.abs(self.values[bounds]).max(), scale))

    def cycle(self) -> list[int]:
        """Return the vertices of a cycle of the least ratio, which begins with its least vertex."""
        u, order = int(self.parts.bounds[self.component]), self.parts.order
        seen: dict[int, int] = {}
        while u not in seen:
            seen[u] = len(seen)
            u = int(self.heads[self.policy[u]])
        on_cycle = [v for v, step in seen.items() if step >= seen[u]]
        vertices = [int(order[v]) for v in on_cycle]
        first = vertices.index(min(vertices))
        return vertices[first:] + vertices[:first]

    def value(self, cycle: list[int], exact: bool = False) -> float | Fraction:
        """Return the ratio of a cycle of the policy in the caller's weights."""
        chosen = self.policy[self.place[cycle]]
        positions = chosen if isinstance(self.positions, slice) else self.positions[chosen]
        weights = self.edges.values[positions]
        times = np.broadcast_to(self.times, self.costs.shape)[chosen]
        if COSTS[self.semiring][1]:
            if len(weights) == 1:
                return float(weights[0])
            return math.exp(math.fsum(np.log(weights.astype(np.float64))) / len(weights))
        if self.is_exact:
            total = Fraction(sum(map(int, weights)), sum(map(int, times)))
            return total if exact else float(total)
        return math.fsum(weights.astype(np.float64)) / math.fsum(times)


def _magnitude(values: Array) -> Any:
    return max(values.max(), -values.min())


def _as_costs(values: Array, semiring: Semiring, times: Array, vertices: int) -> tuple[Array, Array]:
    """Return costs and times as int64 if all are whole numbers, else as float64.

    ``vertices`` is the size of the largest component. Raises `IntegerOverflowError` if the reduced costs of its paths
    may leave int64. Whole numbers in floats are then computed in float64.
    """
    sign, is_logarithm = COSTS[semiring]
    if is_logarithm:
        return sign * np.log(values.astype(np.float64)), times.astype(np.float64)
    whole, times_whole = as_integers(values), as_integers(times)
    if whole is not None and times_whole is not None:
        largest = max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
        if 4 * vertices**2 * largest * int(times.max(initial=0)) < LARGEST:
            return (whole if sign > 0 else -whole), times_whole
        if values.dtype.kind in "iu":
            raise IntegerOverflowError(
                f"weights of up to {largest:,} in a strong component of {vertices:,} vertices are too large for exact "
                "means in int64: divide the weights by a common factor, or pass them as float64"
            )
    costs = values.astype(np.float64, copy=False)
    return (costs if sign > 0 else np.negative(costs)), times.astype(np.float64)


def as_integers(values: Array) -> Array | None:
    """Return values as int64, or None if one of them is no whole number, or a float that is too large to tell."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64, copy=False)
    result = np.empty(values.shape, np.int64)
    for first in range(0, values.size, _PIECE):
        piece, whole = values[first : first + _PIECE], result[first : first + _PIECE]
        if not (np.abs(piece) < 2.0**53).all():
            return None
        np.copyto(whole, piece, casting="unsafe")
        if not (whole == piece).all():
            return None
    return result


def _split_components(edges: Array, threads: int) -> list[tuple[int, int]]:
    """Return ranges of components with about equal numbers of edges, of which ``edges`` are the sums."""
    parts = min(threads, max(1, len(edges) - 1))
    ends = np.searchsorted(edges, np.linspace(0, edges[-1], parts + 1)[1:] - edges[-1] // (4 * parts)).clip(1)
    ends[-1] = len(edges) - 1
    return [(int(a), int(b)) for a, b in itertools.pairwise([0, *np.unique(ends)])]


def _least(ratios: Array) -> int:
    """Return the component of the least ratio, or -1."""
    cyclic = np.flatnonzero(ratios[:, 1] > 0)
    if not cyclic.size:
        return -1
    p, q = ratios[cyclic].T
    floats = p / q
    if ratios.dtype.kind == "f":
        return int(cyclic[floats.argmin()])
    close = cyclic[floats <= floats.min() + 1e-9 * abs(floats.min())]
    return int(min(close, key=lambda each: (Fraction(int(ratios[each, 0]), int(ratios[each, 1])), each)))


# ---------------------------------------------------------------------------------------------------------- bottlenecks


def best_bottleneck(edges: SparseEntries, semiring: Semiring) -> tuple[float, list[int]] | None:
    """Return the best bottleneck of a cycle and such a cycle, or None, by bisection over the weights.

    Costs O(m log m): a search for the strong components of the edges above each threshold.
    """
    pattern, values = edges.pattern, edges.values
    if semiring is min_max:
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
        values = -values
    levels = np.unique(values)
    low, high = 0, len(levels) - 1  # the edges of at least levels[low] have a cycle
    if not levels.size or _cycle_above(pattern, values, levels[0]) is None:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if _cycle_above(pattern, values, levels[middle]) is None:
            high = middle - 1
        else:
            low = middle
    cycle = _cycle_above(pattern, values, levels[low])
    assert cycle is not None
    return float(-levels[low] if semiring is min_max else levels[low]), cycle


def _cycle_above(pattern: Any, values: Array, level: Any) -> list[int] | None:
    kept = values >= level
    rows, heads = pattern.rows[kept], pattern.indices[kept]
    starts, order = elimination_trees.compress_rows(pattern.n, rows, heads)
    rows, heads = rows[order], heads[order]
    loops = rows[rows == heads]
    if loops.size:
        return [int(loops[0])]
    parts = strong_components_of_lists(starts, heads)
    large = parts.order[parts.bounds[:-1][parts.sizes > 1]]
    return walk_cycle(int(large.min()), starts, heads, parts) if large.size else None
