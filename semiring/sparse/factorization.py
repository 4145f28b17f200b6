"""Factor a sparse graph once with `factor`, and answer many queries with the resulting `Factor`.

x = A ⊗ x ⊕ b has the least solution A* ⊗ b, and A* is a product of sparse triangular factors. The entries of the
factors are the best paths over vertices that were eliminated earlier (`semiring.sparse`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_products, as_semiring, max_times, min_times, path_counts
from semiring.algebra.expressions.tree import float_limits, is_floating, is_half
from semiring.algorithms.stars import counts_paths, divergence_error, warn_of_diverging_sum
from semiring.arguments import check_flags, require_integer
from semiring.arrays.encoding import check_entries, decode, encode, has_inner_zero, round_to_dtype
from semiring.arrays.memory import demand_memory, format_bytes
from semiring.arrays.operands import as_array, as_host_operand, as_output
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import limits_of
from semiring.arrays.vertices import Vertices
from semiring.errors import (
    AlgebraError,
    DivergenceError,
    DTypeError,
    IntegerOverflowError,
    NoPathError,
    ShapeError,
    no_star,
)
from semiring.io.files import is_npy_name
from semiring.io.inputs import Reading
from semiring.io.network import semiring_of
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import make_plan
from semiring.namespaces import is_device_array
from semiring.progress import Progress, report_progress
from semiring.sparse.edge_inputs import SparseEntries, check_values, choose_work_dtype, edges_of, largest_magnitude
from semiring.sparse.improving_cycles import ImprovingCycles, check_on_cycle, unbounded_value
from semiring.sparse.mixed_signs import ExactPotentials, find_potentials, raise_for_negative_cycle
from semiring.sparse.numeric_factor import FactorNumbers, OpenFactor, PivotError, update_factor_numbers
from semiring.sparse.path_counts import check_counts
from semiring.sparse.placement import HostPlacement, select_placement
from semiring.sparse.reductions import Reduction, find_reduction
from semiring.sparse.symbolic_factor import Analysis, FactorLayout, analyse, widest_level, widest_level_of_core
from semiring.terminal import announce
from semiring.thread_counts import check_threads, get_threads

__all__ = [
    "Factor",
    "FactorExplanation",
    "align_labels",
    "as_columns",
    "choose_work_dtype",
    "convert_right_side",
    "factor",
    "largest_magnitude",
]


Array = NDArray[Any]

_SMALLER_CALLS = "name fewer of them, or call rows(...), which returns some rows at a time"  # advice in a message
_MAX_UNSEARCHED_BYTES = 1 << 28  # before the ordering of a factor of more bytes, its separators are estimated
_BLOCK_ENTRIES = 1 << 24  # entries of the rows in one block of an iteration, unless the caller passes ``chunk``


@overload
def factor(
    A: Any,
    semiring: Semiring | str | None = ...,
    ordering: Any = ...,
    *,
    weight: str | Callable[[Any], Any] | None = ...,
    directed: bool | None = ...,
    columns: tuple[str, str] | None = ...,
    on_cycle: Literal["raise", "unbounded"] = ...,
    check: bool = ...,
    threads: int | None = ...,
    device: Any = ...,
    progress: Progress | bool | None = ...,
    explain: Literal[False] = ...,
) -> Factor: ...
@overload
def factor(
    A: Any,
    semiring: Semiring | str | None = ...,
    ordering: Any = ...,
    *,
    weight: str | Callable[[Any], Any] | None = ...,
    directed: bool | None = ...,
    columns: tuple[str, str] | None = ...,
    on_cycle: Literal["raise", "unbounded"] = ...,
    check: bool = ...,
    threads: int | None = ...,
    device: Any = ...,
    progress: Progress | bool | None = ...,
    explain: Literal[True],
) -> tuple[Factor, FactorExplanation]: ...
def factor(
    A: Any,
    semiring: Semiring | str | None = None,
    ordering: Any = "auto",
    *,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    on_cycle: Literal["raise", "unbounded"] = "raise",
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    progress: Progress | bool | None = None,
    explain: bool = False,
) -> Any:
    """Return the `Factor` of a graph: A* in sparse triangular factors, which answer any number of queries.

    Parameters
    ----------
    A : array_like, shape (n, n)
        A SciPy sparse matrix, a frame of edges, a graph of NetworkX, igraph or rustworkx, the name of a file that lists
        edges, a dense matrix, a square frame, or a `Network`. Only the first four kinds never take n² of memory. In a
        sparse matrix, entries that are not stored are no edges, and neither are stored zeros of the semiring, such as ∞
        in min-plus. A stored 0 is an edge of min-plus.
    semiring : Semiring or str, optional
        Any semiring with a star: ``"min_plus"`` for shortest paths, ``"log_plus"`` and ``"plus_times"`` for sums over
        all paths, ``"boolean"``, ``"max_min"``, your own. By default that of a `Network`, else min-plus.
    ordering : str or array_like of int, default "auto"
        The order in which vertices are eliminated. It decides the fill, but only the rounding of results. It is
        ``"metis"``, ``"minimum_degree"``, ``"natural"`` (0, 1, …), or a permutation (n,). ``"metis"`` is nested
        dissection by the package pymetis, the extra ``sparse``. ``"auto"`` is METIS from 100,000 vertices on if it is
        installed, else minimum degree.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    on_cycle : str, default "raise"
        The answer of queries about walks over a cycle that improves without end, such as a negative cycle of min-plus:
        ``"raise"``, or ``"unbounded"``, which returns −∞ in min-plus and ∞ in max-plus, of floats. Queries about other
        walks have their answers in any case.
    check : bool, default True
        Whether to warn of the "no edge" of another convention in a dense matrix (`SuspiciousWeightsWarning`). The
        weights of edges are validated in any case, because their signs decide how the graph is eliminated.
    threads : int, optional
        The number of threads of this call and of the queries, by default `semiring.get_threads()` at each call.
    device : str, optional
        ``"cuda"`` (or ``"cuda:1"``): the GPU that computes and holds the factor, and answers queries. Matrices are
        returned as CuPy arrays there. Paths and reductions of rows are returned on the host.
    progress : callable or bool, optional
        A function is called as ``progress(done, total)`` during the elimination, and True draws a bar, as in
        `semiring.closure`.
    explain : bool, default False
        Return (F, explanation). The explanation prints the ordering, the fill, the supernodes, the work and the memory.

    Returns
    -------
    Factor
        The factor, with the vertices 0 … n - 1 or the names that A has. With ``explain`` it is the first of two
        results.
    explanation : FactorExplanation
        With ``explain``, how the matrix was eliminated.

    Raises
    ------
    DivergenceError
        If a pivot of a semiring that sums paths has no star. In min_plus, max_plus, max_times and min_times the queries
        raise it, or `NegativeCycleError`, with the vertices of the cycle.
    AlgebraError
        For a semiring without a star, and with ``on_cycle="unbounded"`` for one without an infinite gain.
    DomainError
        For an entry that is NaN or outside the domain, and for an edge of unbounded gain.
    IntegerOverflowError
        If the sum of n weights may leave int64.
    TooLargeError, DTypeError, ShapeError, MissingExtraError
        If the factor does not fit into memory, or an argument has the wrong dtype or shape, or METIS is missing.
    UnknownNameError
        For an unknown semiring, ordering or ``on_cycle``.
    DeviceError
        If there is no such GPU.

    Notes
    -----
    The cost is `Factor.operations`, which the symbolic factorization computes. It is some 10⁸ for a road network or a
    planar graph of 65,000 vertices. Graphs without small separators, such as random ones of six edges a vertex, fill
    up: `Factor.nnz` tends to n²/4. Their ordering takes minutes and cannot be interrupted. A terminal or a notebook
    shows a line about it. If their factor would not fit into memory, ``"auto"`` refuses them before the ordering.

    Only cycles on a walk from an asked source to an asked target matter. If the elimination meets a cycle that improves
    without end, it is repeated without the strong components that have such a cycle. A query then also searches the
    edges from its sources.

    Exact sums on the edges decide whether a cycle is negative, so height differences raise no false alarm. Floats of
    both signs that are not whole numbers are eliminated under potentials in float64. The potentials are exact, at some
    µs an entry, if the weights on cycles differ so much in size that float64 potentials would lose some of them.

    Sources: B. A. Carré, J. Inst. Maths. Applics. 7 (1971); R. E. Tarjan, JACM 28 (1981); J. Dibbelt, B. Strasser, D.
    Wagner, "Customizable contraction hierarchies", ACM JEA 21 (2016).

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> roads = sp.csr_array(np.array([[0.0, 7.0, 1.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    >>> F = factor(roads)
    >>> F.table([0, 2], [1])
    array([[3.],
           [2.]])
    """
    algebra = as_semiring(semiring_of(A, semiring))
    if algebra.star_expression is None:
        raise no_star(algebra.name, ", and a factor needs one")
    count = None if threads is None else check_threads(threads)
    placement = select_placement(device)
    check_flags({"check": check, "explain": explain})
    check_on_cycle(on_cycle, algebra)
    edges = edges_of(A, algebra, reading=Reading(weight, directed, columns), check=check).require_eliminable()
    wide = isinstance(ordering, str) and ordering == "auto" and _has_wide_levels(edges)
    line, start = f"ordering {edges.pattern.n:,} vertices without small separators", perf_counter()
    if wide:
        announce(line)
    analysis = analyse(edges.pattern, ordering)
    if wide:
        announce(line, perf_counter() - start)
    with report_progress(progress, "factor"):
        result = Factor(algebra, edges, analysis, count, placement, on_cycle=on_cycle)
    return (result, result.explain()) if explain else result


def _has_wide_levels(edges: SparseEntries) -> bool:
    """Return whether the ordering will take long, because the graph has no small separators.

    Raises `TooLargeError` if the factor will not fit into memory, before the minutes that an ordering takes.

    The factor of a graph whose widest level has w vertices has about w² entries or more. For random graphs with 3 and 6
    edges a vertex the factor has 0.6 to 1.4 · w² entries, and for graphs with narrow levels more.
    """
    pattern, size = edges.pattern, edges.values.dtype.itemsize
    if widest_level(pattern) ** 2 * size < _MAX_UNSEARCHED_BYTES:
        return False
    width = widest_level_of_core(pattern)
    reason = f"a search finds {width:,} of its {pattern.n:,} vertices at one distance"
    demand_memory(
        width**2 * size,
        f"the factor of a graph without small separators ({reason})",
        "call shortest_paths or another function of paths with sources=, or pass ordering= to factor it nevertheless",
    )
    return width**2 * size >= _MAX_UNSEARCHED_BYTES


class Factor:
    """A* of a sparse matrix A (n, n) as triangular factors, which `factor` returns.

    Vertices are 0 … n - 1, or the names that A has. `factor`, `refactor` and `update` call the constructor, which
    eliminates the matrix.

    Parameters
    ----------
    semiring : Semiring
        The semiring of the matrix.
    edges : SparseEntries
        The entries of the matrix, and the names of its vertices.
    analysis : Analysis
        The symbolic factorization, with the elimination order.
    threads : int or None
        The number of threads. None is `semiring.get_threads()` at each call.
    placement : HostPlacement, DevicePlacement or None
        The memory of the factor. The default is that of the host.
    changed : tuple, or None
        An earlier factor, and the indices of the entries that differ from it.
    on_cycle : str, or None
        As of `factor`. None raises the error of a cycle that improves without end at once.

    Attributes
    ----------
    semiring
        The semiring of the matrix.
    dtype
        The dtype of the matrix and of results.
    names
        A tuple of the names of the vertices, or None.
    ordering
        The name of the method that computed the elimination order.
    order
        (n,) int32: the vertices in the order of their elimination.
    symmetric
        Whether A equals its transpose and ⊗ commutes, which halves the work and the memory.
    """

    def __init__(
        self,
        semiring: Semiring,
        edges: SparseEntries,
        analysis: Analysis,
        threads: int | None,
        placement: Any = None,
        changed: tuple[Factor, Array] | None = None,
        *,
        on_cycle: str | None = None,
    ) -> None:
        self._placement = placement or HostPlacement()
        self.semiring, self.dtype, self.names = semiring, edges.values.dtype, edges.names
        self._edges, self._analysis, self._threads = edges, analysis, threads
        self._all_edges, self._on_cycle = edges, on_cycle
        self._cycles: ImprovingCycles | None = None  # whose edges are not eliminated
        self._vertices = Vertices(edges.pattern.n, edges.names)
        self.ordering, self.order = analysis.ordering, analysis.order
        self._counts = counts_paths(semiring, self.dtype)
        if self._counts:
            check_counts(edges, semiring)
        self._shift: Array | None = None
        self._exact: ExactPotentials | None = None
        self._solvers: dict[tuple[bool, bool, int], Any] = {}  # by columns, facts and threads
        commutes = semiring.commutative
        self.symmetric = bool(commutes and edges.pattern.is_symmetric(edges.values))
        self._largest = largest_magnitude(edges.values, edges.scan)
        own = is_half(self.dtype) and self._placement.xp is not np  # GPUs have kernels for float16 and bfloat16
        self._work_dtype = self.dtype if own else choose_work_dtype(semiring, self.dtype, len(self), self._largest)
        try:
            with self._placement.context():
                self._numbers = self._eliminate_bounded(changed)
                if adds_products(semiring) and edges.values.size and not self._counts:
                    positive = bool(edges.scan.low >= 0)
                    warn_of_diverging_sum(semiring, self._numbers.memory, nonnegative=positive)
        except DivergenceError as error:
            raise error.named(self.names) from None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the solvers, whose kernels belong to this process."""
        return {**self.__dict__, "_solvers": {}}

    def __len__(self) -> int:
        """Return the number of vertices."""
        return self._analysis.n

    def __repr__(self) -> str:
        n = len(self)
        return (
            f"<Factor of {n:,} {'vertex' if n == 1 else 'vertices'} in {self.semiring.name}, {self.dtype}, "
            f"by {self.ordering.replace('_', ' ')}: {self.nnz:,} numbers>"
        )

    @property
    def nnz(self) -> int:
        """The number of entries of the factors."""
        return self._numbers.layout.size

    @property
    def operations(self) -> int:
        """The number of pairs of one ⊗ and one ⊕ in the elimination."""
        return int(self._analysis.pairs(self.symmetric).sum())

    @property
    def memory(self) -> int:
        """The bytes of the factors and of their structure."""
        a, layout = self._analysis, self._numbers.layout
        structure = a.order, a.place, a.supernode_of, a.parents, a.pivot_starts, a.row_starts, a.rows
        arrays = *structure, layout.slots, self._edges.values
        return int(self._numbers.nbytes + sum(array.nbytes for array in arrays))

    def explain(self) -> FactorExplanation:
        """Return the ordering, fill, supernodes and work of the factor, as ``factor(A, explain=True)`` does.

        Returns
        -------
        FactorExplanation
            The counts and choices, which ``str`` formats in five or six lines.
        """
        analysis, numbers = self._analysis, self._numbers
        potentials = "exact" if self._exact is not None else "float64" if self._shift is not None else ""
        return FactorExplanation(
            semiring=self.semiring.name,
            n=len(self),
            edges=int(self._edges.values.size),
            dtype=self.dtype,
            ordering=self.ordering,
            symmetric=self.symmetric,
            nnz=self.nnz,
            supernodes=analysis.count,
            largest_front=int((analysis.pivots + analysis.depths).max(initial=0)),
            operations=self.operations,
            memory=self.memory,
            work_dtype=np.dtype(numbers.plan.dtype),
            potentials=potentials,
            cycles=0 if self._cycles is None else len(self._cycles.errors),
            threads=numbers.plan.threads,
            device="cpu" if self._placement.xp is np else "cuda",
        )

    def fill(self, cells: int = 800) -> tuple[Array, Array]:
        """Return the number of entries of the factor, and of edges of A, in each cell of a grid over the matrix.

        Parameters
        ----------
        cells : int
            The number of rows and of columns of the grid, at most n.

        Returns
        -------
        filled, edges : array of int64, shape (cells, cells)
            The counts, (n, n) if that is less. Rows and columns are in the order of elimination.
        """
        a, n = self._analysis, len(self)
        size = min(require_integer(cells, "cells", 1), n)
        cell = np.arange(n) * size // max(1, n)
        filled, edges = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
        for s in range(a.count):
            own = np.bincount(cell[a.pivot_starts[s] : a.pivot_starts[s + 1]], minlength=size)
            below = np.bincount(cell[a.rows[a.row_starts[s] : a.row_starts[s + 1]]], minlength=size)
            own_vertices = np.flatnonzero(own)
            filled[own_vertices] += np.outer(own[own_vertices], own + below)
            filled[:, own_vertices] += np.outer(below, own[own_vertices])
        ends = cell[a.place[a.pattern.rows]], cell[a.place[a.pattern.indices]]
        np.add.at(edges, ends, 1)
        return filled, edges

    # ------------------------------------------------------------------------------------------------- elimination

    def _plan(self, nonnegative: bool, dtype: Any = None) -> KernelPlan:
        threads = get_threads() if self._threads is None else self._threads
        dtype = self._work_dtype if dtype is None else dtype
        semiring = path_counts(self.semiring.name) if self._counts else self.semiring
        return make_plan(semiring, dtype, nonnegative=nonnegative, threads=threads)

    def _eliminate_bounded(self, base: tuple[Factor, Any] | None) -> FactorNumbers:
        """Return the factor's numbers, without the strong components in which a cycle improves without end."""
        try:
            return self._eliminate(base)
        except DivergenceError as error:
            is_tropical = self.semiring.tropical is not None
            if self._on_cycle is None or not (is_tropical or self.semiring in (max_times, min_times)):
                raise
            if self._on_cycle == "unbounded":
                unbounded_value(self.semiring, self.dtype)  # DTypeError for integers
            cycles = self._cycles = ImprovingCycles(self._all_edges, self.semiring)
            if not is_tropical:
                cycles.remove(error)
        while True:
            edges, zero = self._all_edges, self.semiring.zero_for(self.dtype)
            values = np.where(cycles.has_remaining_ends, edges.values, zero).astype(self.dtype, copy=False)
            self._edges = check_values(edges.pattern, values, self.semiring, edges.names)
            try:
                return self._eliminate(None)
            except DivergenceError as error:
                cycles.remove(error)

    def _find_unbounded(self, sources: Array, targets: Array, *, is_paired: bool = False) -> Array | None:
        """Return a mask (p, q), or (p,) of pairs, where walks improve without end; None if there are none.

        Raises `DivergenceError` if there are some, unless ``on_cycle`` is "unbounded".
        """
        if self._cycles is None:
            return None
        mask = self._cycles.join(sources, targets, is_paired=is_paired)
        if not mask.any():
            return None
        if self._on_cycle != "unbounded":
            place = np.unravel_index(int(mask.argmax()), mask.shape)
            raise self._cycle_error(sources[place[:1]], targets[place[-1:]])
        return mask

    def _refuse_unbounded_rows(self, vertices: Array) -> None:
        """Raise `DivergenceError` if walks from some vertices improve without end, with ``on_cycle="raise"``."""
        if self._cycles is not None and self._on_cycle != "unbounded":
            starts = vertices[self._cycles.starts[vertices]]
            if starts.size:
                raise self._cycle_error(starts[:1], None)

    def _cycle_error(self, sources: Array, targets: Array | None) -> DivergenceError:
        """Return the error for the walks from some vertices to others, with the names of the cycle."""
        assert self._cycles is not None
        error = copy(self._cycles.error_between(sources, targets))  # a raised error keeps its traceback
        return error.of_paths().named(self.names)

    def _write_unbounded(self, values: Any, mask: Array | None) -> Any:
        """Write the weight of walks that improve without end to a result."""
        if mask is not None:
            values[self._placement.xp.asarray(mask)] = unbounded_value(self.semiring, self.dtype)
        return values

    def _eliminate(self, base: tuple[Factor, Any] | None) -> FactorNumbers:
        """Return the factor's numbers. If potentials are needed, also set the shift and the work dtype.

        ``base``: the factor before an update, and the indices of the changed entries.
        """
        edges, semiring = self._edges, self.semiring
        nonnegative = edges.scan.nonnegative and semiring.tropical == "min"
        if not nonnegative and self._is_rounded():
            potentials = find_potentials(*self._signed_edges())
            if isinstance(potentials, ExactPotentials):
                return self._eliminate_exactly(potentials)
            h, component = potentials
            if h.any():
                return self._eliminate_with_potentials(h, component)
        integers = has_inner_zero(semiring, self._work_dtype)
        self._values = (
            encode(edges.values, semiring, self._work_dtype)
            if integers
            else edges.values.astype(self._work_dtype, copy=False)
        )
        layout, plan = self._analysis.layout(self.symmetric), self._plan(nonnegative)
        try:
            if base is not None and base[0]._may_be_reused(layout, plan):
                return update_factor_numbers(base[0]._numbers, plan, self._values, base[1])
            return self._run_elimination(layout, plan, keeps_updates=base is not None)
        except PivotError as failure:
            vertex = int(self.order[failure.place])
        if semiring.tropical is not None:
            raise_for_negative_cycle(*self._signed_edges())
        error = divergence_error(semiring, vertex)
        if semiring in (max_times, min_times):
            error = DivergenceError(f"{error}. If the product is 1 up to rounding, use closure", vertex)
        raise error

    def _may_be_reused(self, layout: FactorLayout, plan: KernelPlan) -> bool:
        """Return whether an update may reuse these numbers: updates are stored, and layout and plan are equal."""
        if self._cycles is not None:
            return False
        own = self._numbers
        same = own.layout is layout and own.plan.dtype == plan.dtype and own.plan.facts == plan.facts
        return own.updates is not None and self._has_no_potentials and same

    def _is_rounded(self) -> bool:
        """Return whether the elimination sums floats of both signs, so that sums are rounded."""
        if self.semiring.tropical is None or not is_floating(self.dtype):
            return False
        values, limit = self._edges.values, 2 ** float_limits(self.dtype).nmant
        signed = bool((values < 0).any() if self.semiring.tropical == "min" else (values > 0).any())
        whole = self._largest * (len(self) + 1) < limit and bool((values == np.rint(values)).all())
        return signed and not whole

    def _signed_edges(self) -> tuple[int, Array, Array, Array, int]:
        """Return the number of vertices, the edges, and the sign that makes them min-plus edges."""
        pattern, sign = self._edges.pattern, 1 if self.semiring.tropical == "min" else -1
        is_edge = self._edges.values != self.semiring.zero_for(self.dtype)
        return pattern.n, pattern.rows[is_edge], pattern.indices[is_edge], self._edges.values[is_edge], sign

    def _eliminate_with_potentials(self, h: Array, component: Array) -> FactorNumbers:
        """Return the factor's numbers under float64 potentials within each strong component."""
        sign = 1.0 if self.semiring.tropical == "min" else -1.0
        rows, columns = self._edges.pattern.rows, self._edges.pattern.indices
        reduced = sign * self._edges.values.astype(np.float64) + (h[rows] - h[columns])
        inside = component[rows] == component[columns]
        self._values = sign * np.maximum(reduced, 0.0, where=inside, out=reduced)
        self._shift, self._work_dtype, self.symmetric = sign * h, np.dtype(np.float64), False
        return self._run_elimination(self._analysis.layout(False), self._plan(False))

    def _eliminate_exactly(self, potentials: ExactPotentials) -> FactorNumbers:
        """Return the factor's numbers under exact potentials."""
        self._exact, self._work_dtype, self.symmetric = potentials, np.dtype(np.float64), False
        self._values = np.full(self._edges.values.size, self.semiring.zero_for(self._work_dtype), self._work_dtype)
        entries = self._edge_indices(potentials.tails, potentials.heads)
        self._values[entries] = potentials.sign * potentials.reduced_weights()
        return self._run_elimination(self._analysis.layout(False), self._plan(False))

    def _run_elimination(self, layout: FactorLayout, plan: KernelPlan, *, keeps_updates: bool = False) -> FactorNumbers:
        """Return the numbers of the factor of the encoded values."""
        result: FactorNumbers = self._placement.eliminate(
            self._analysis, layout, plan, self._values, keeps_updates=keeps_updates
        )
        return result

    # -------------------------------------------------------------------------------------------------- vectors

    def _sweeps(self, *, columns: bool = False, nonnegative: bool = True) -> Any:
        """Return the triangular solver; ``nonnegative``: whether its vectors have no entries below 0."""
        plan = self._plan(nonnegative and self._numbers.plan.facts.nonnegative)
        kind = columns, plan.facts.nonnegative, plan.threads
        if kind not in self._solvers:  # kept, because a query of few pairs takes less time than making one
            self._solvers[kind] = self._placement.sweeps(self._numbers, plan, columns=columns)
        return self._solvers[kind]

    def solve(self, b: Any, *, transpose: bool = False) -> Any:
        """Return the least solution of x = A ⊗ x ⊕ b, which is A* ⊗ b.

        Parameters
        ----------
        b : array, shape (n,) or (n, k)
            The right-hand side, of the factor's dtype, or of one that fits into it.
        transpose : bool
            Whether to solve x = x ⊗ A ⊕ b for every column of b instead. In min-plus x[i] is then the least sum of
            b[j] and of a path from j to i. Otherwise the path leads from i to j.

        Returns
        -------
        array
            The solution, of the shape of b and the factor's dtype. On a GPU a CuPy array.

        Raises
        ------
        ShapeError, DTypeError, DomainError
            If b has another number of rows, or a dtype that does not fit, or entries outside the domain.
        NegativeCycleError, DivergenceError
            If a cycle that improves without end reaches an entry of b, unless ``on_cycle`` is "unbounded".
        IntegerOverflowError
            If sums of b and of paths may leave the dtype.

        Notes
        -----
        It costs twice `nnz` for every column. Many columns together take less time for each than one column.

        Examples
        --------
        >>> inf = float("inf")
        >>> F = factor([[inf, 3.0, inf], [inf, inf, 1.0], [inf, inf, inf]])
        >>> F.solve([inf, inf, 0.0])  # to vertex 2, from each
        array([4., 1., 0.])
        """
        right_side = convert_right_side(align_labels(b, self.names), self.semiring, self.dtype)
        n = len(self)
        if right_side.ndim not in (1, 2) or right_side.shape[0] != n:
            raise ShapeError(f"b is {right_side.shape}: give shape ({n},) or ({n}, k)")
        scan = check_entries(right_side, self.semiring, "b")
        mask = self._find_unbounded_solutions(to_host_array(right_side), transpose)
        if has_inner_zero(self.semiring, self._work_dtype):
            ends = [abs(int(end)) for end in (scan.low, scan.high) if end is not None]
            if max(ends, default=0) + self._largest * n >= limits_of(self._work_dtype).half:
                raise IntegerOverflowError(
                    f"b has entries up to {max(ends)} and paths have {n} edges of weights up to {self._largest}: their "
                    f"sums may exceed half the range of {self._work_dtype}. Use int64 or float64"
                )
            B = encode(right_side, self.semiring, self._work_dtype)
        else:
            if self._counts:
                check_counts(self._edges, self.semiring, to_host_array(right_side), transpose=transpose)
            B = right_side.astype(self._work_dtype)
        matrix = as_columns(B)
        if self._exact is not None:
            solution = self._exact.solve(matrix, transpose).reshape(right_side.shape)
            return self._write_unbounded(self._decode_result(self._placement.xp.asarray(solution)), mask)
        shift = None if self._shift is None else self._shift[:, np.newaxis] * (-1.0 if transpose else 1.0)
        if shift is not None:
            matrix = matrix + shift
        xp = self._placement.xp
        with self._placement.context():
            values = xp.empty(matrix.shape, self._work_dtype)
            sweeps = self._sweeps(columns=not transpose, nonnegative=scan.nonnegative)
            if matrix.shape[1]:
                sweeps.solve(xp.asarray(np.ascontiguousarray(matrix)), values)
            if shift is not None:
                values -= xp.asarray(shift)
            return self._write_unbounded(self._decode_result(values.reshape(right_side.shape)), mask)

    def _find_unbounded_solutions(self, b: Array, transpose: bool) -> Array | None:
        """Return a mask of the shape of b of the entries of x that improve without end, as `_find_unbounded`.

        Only cycles on a walk to an entry of b other than the zero matter, with ``transpose`` on a walk from one.
        """
        if self._cycles is None:
            return None
        columns = as_columns(b) != self.semiring.zero_for(b.dtype)
        mask = np.zeros(columns.shape, np.bool_)
        for column, support in enumerate(columns.T):
            mask[:, column] = self._cycles.join_any(np.flatnonzero(support), is_forward=transpose)
        if mask.any() and self._on_cycle != "unbounded":
            support = np.flatnonzero(columns[:, mask.any(axis=0).argmax()])
            everything = np.arange(len(self))
            raise self._cycle_error(*((support, everything) if transpose else (everything, support)))
        return mask.reshape(b.shape) if mask.any() else None

    def _decode_result(self, result: Any) -> Any:
        """Convert a result of the kernels to the caller's dtype and value of "no path"."""
        if has_inner_zero(self.semiring, self._work_dtype):
            return decode(result, self.semiring, self.dtype)
        return round_to_dtype(result, self.dtype)

    # ------------------------------------------------------------------------------------------------ rows of A*

    @property
    def _has_no_potentials(self) -> bool:
        """Whether the elimination of the matrix used no potentials."""
        return self._shift is None and self._exact is None

    def _visit_rows(self, vertices: Array, receive: Callable[[Array, Array], None], columns: bool = False) -> None:
        """Call ``receive(positions, block)`` on several threads with rows of A* in the caller's dtype."""
        xp, shift = self._placement.xp, None if self._shift is None else self._shift * (-1.0 if columns else 1.0)

        def hand_over(positions: Array, block: Any) -> None:
            if self._exact is not None:
                copy = _copy_to_host(block)
                block = xp.asarray(self._exact.row_distances(vertices[positions], np.arange(len(self)), copy))
            if shift is not None:
                block += xp.asarray(shift) - xp.asarray(shift[vertices[positions], np.newaxis])
            rows = self._decode_result(block)
            if self._cycles is not None and not columns:
                rows = self._write_unbounded(rows, self._find_unbounded(vertices[positions], np.arange(len(self))))
            receive(positions, rows)

        if vertices.size:
            self._sweeps(columns=columns).rows(vertices, hand_over)

    def _write_rows(self, vertices: Array, out: Any) -> None:
        """Write rows of A* to ``out``, (r, n) of the caller's dtype."""

        def receive(positions: Array, block: Any) -> None:
            if is_device_array(out):
                out[self._placement.xp.asarray(positions)] = block
            else:
                out[positions] = _copy_to_host(block)

        self._refuse_unbounded_rows(vertices)
        has_own_encoding = self._work_dtype == self.dtype and not has_inner_zero(self.semiring, self.dtype)
        direct = self._has_no_potentials and has_own_encoding and self._cycles is None
        with self._placement.context():
            if direct and vertices.size:  # the kernels use the caller's encoding
                self._sweeps().rows_into(vertices, out)
            else:
                self._visit_rows(vertices, receive)

    def table(self, sources: Any, targets: Any = None) -> Any:
        """Return the entries of A* from each source to each target: in min-plus, the distances.

        Parameters
        ----------
        sources : sequence of vertices
            The p vertices where paths begin, by number or name.
        targets : sequence of vertices, or None
            The q vertices where paths end, by number or name. By default all n vertices.

        Returns
        -------
        array
            (p, q), of the factor's dtype. On a GPU a CuPy array.

        Raises
        ------
        VertexError
            For a source or target that is not a vertex.
        NegativeCycleError, DivergenceError
            If walks of an asked pair improve without end, unless ``on_cycle`` is "unbounded".
        TooLargeError
            If the table does not fit into memory.

        Notes
        -----
        With targets it costs a climb of the elimination tree from each vertex. Then it costs p q times as many
        operations as sources and targets have pivots above both. Without targets it costs p rows.

        Examples
        --------
        >>> import networkx as nx
        >>> G = nx.Graph()
        >>> G.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
        >>> factor(G).table(["Ulm", "Kiel"], ["Jena"])
        array([[11.],
               [ 4.]])
        """
        rows = self._vertices.indices(sources)
        if targets is None:
            with self._placement.context():
                return self._compute_rows(rows, f"{rows.size:,} rows of A*")
        columns = self._vertices.indices(targets)
        mask = self._find_unbounded(rows, columns)
        needed = rows.size * columns.size * self._work_dtype.itemsize
        with self._placement.context():
            self._placement.demand(needed, f"a table of {rows.size:,} × {columns.size:,}", _SMALLER_CALLS)
            values = self._placement.xp.empty((rows.size, columns.size), self._work_dtype)
            if values.size:
                self._placement.table(self._sweeps, rows, columns, values)
            if self._exact is not None:
                values = self._placement.xp.asarray(self._exact.row_distances(rows, columns, _copy_to_host(values)))
            if self._shift is not None:
                values += self._placement.xp.asarray(self._shift[columns] - self._shift[rows, np.newaxis])
            return self._write_unbounded(self._decode_result(values), mask)

    def distances(self, sources: Any, targets: Any) -> Any:
        """Return the entries of A* for a list of pairs: in min-plus, the distances from each source to its target.

        Parameters
        ----------
        sources, targets : sequence of vertices, length p
            The ends of the pairs: pair number e leads from ``sources[e]`` to ``targets[e]``, each by number or name.

        Returns
        -------
        array
            (p,), of the factor's dtype; the semiring's zero where no path leads from the source to the target. Entries
            equal those of `table`, up to rounding. On a GPU a CuPy array.

        Raises
        ------
        VertexError
            For a source or target that is no vertex.
        NegativeCycleError, DivergenceError
            As in `table`.
        ShapeError
            If the lists differ in length.

        Notes
        -----
        A few pairs cost what lies above their ends in the elimination tree. Many pairs share that part: 10⁵ random
        pairs of a planar graph of 262,144 vertices take 0.56 s of processor time, on two threads together. They need up
        to 256 bytes for each vertex and thread, twice that for a directed graph. On a GPU each distinct source costs a
        row, down to the targets alone.

        Examples
        --------
        >>> import networkx as nx
        >>> G = nx.Graph()
        >>> G.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
        >>> factor(G).distances(["Ulm", "Jena"], ["Jena", "Kiel"])
        array([11.,  4.])
        """
        rows, columns = self._vertices.indices(sources), self._vertices.indices(targets)
        if rows.size != columns.size:
            counts = f"{rows.size} source{'s'[: rows.size != 1]} and {columns.size} target{'s'[: columns.size != 1]}"
            raise ShapeError(f"{counts}: give two lists of one length, or call table for all combinations")
        mask = self._find_unbounded(rows, columns, is_paired=True)
        xp = self._placement.xp
        with self._placement.context():
            values = xp.empty(rows.size, self._work_dtype)
            if rows.size:
                self._placement.pairs(self._sweeps, rows, columns, values)
            if self._exact is not None:
                values = xp.asarray(self._exact.pair_distances(rows, columns, _copy_to_host(values)))
            if self._shift is not None:
                values += xp.asarray(self._shift[columns] - self._shift[rows])
            return self._write_unbounded(self._decode_result(values), mask)

    def _compute_rows(self, rows: Array, subject: str, remedy: str = _SMALLER_CALLS) -> Any:
        """Return rows of A* in a new array. Raises `TooLargeError` with ``subject`` and ``remedy`` in its message."""
        self._placement.demand(rows.size * len(self) * self.dtype.itemsize, subject, remedy)
        out = self._placement.empty_rows(rows.size, len(self), self.dtype)
        self._write_rows(rows, out)
        return out

    def distance(self, source: Any, target: Any) -> Any:
        """Return the entry of A* for two vertices: in min-plus, the weight of `path`.

        Parameters
        ----------
        source, target : vertex
            The ends of the path, by number or name.

        Returns
        -------
        scalar
            The entry, of the factor's dtype. It is the semiring's zero if no path leads from the source to the target.
            On a GPU it is a CuPy array without axes.

        Raises
        ------
        VertexError
            For a source or target that is not a vertex.
        NegativeCycleError, DivergenceError
            As in `table`.
        """
        return self.table([source], [target])[0, 0]

    def path(self, source: Any, target: Any) -> list[Any]:
        """Return the vertices of a best path, for a selective ⊕ whose stars are 1̄.

        Parameters
        ----------
        source, target : vertex
            The ends of the path, by number or name.

        Returns
        -------
        list
            The vertices, both ends included, by name if the graph has names. ``[source]`` if both ends are equal.

        Raises
        ------
        NoPathError
            If no path leads from the source to the target.
        NegativeCycleError, DivergenceError
            If walks from the source to the target improve without end, whatever ``on_cycle`` is.
        VertexError
            For a source or target that is not a vertex.
        AlgebraError
            For a ⊕ that adds paths up.

        Notes
        -----
        The first path eliminates once more, on one thread, and stores as many numbers as the factor has. Every path
        costs a climb of the elimination tree from both ends, and a search over the supernodes at the vertices of each
        edge. Ties, weights of 0 and cycles of weight 0 are handled.

        Examples
        --------
        >>> inf = float("inf")
        >>> F = factor([[inf, 7.0, 1.0], [inf, inf, inf], [inf, 2.0, inf]])
        >>> F.path(0, 1)
        [0, 2, 1]
        """
        i, j = self._vertices.index(source), self._vertices.index(target)
        ends = np.array([i]), np.array([j])
        if self._cycles is not None and self._cycles.join(*ends).any():
            raise self._cycle_error(*ends)
        vertices = self._open_factor.path(i, j) if self._exact is None else self._exact.path(i, j)
        if not vertices:
            raise NoPathError(f"no path leads from {self._vertices.name(i)} to {self._vertices.name(j)}")
        return [self._vertices.name(vertex) for vertex in vertices]

    @cached_property
    def _open_factor(self) -> OpenFactor:
        """The entries of the factor for path searches. Raises `AlgebraError` if no path is best."""
        semiring = self.semiring
        if not semiring.selective:
            raise AlgebraError(f"the ⊕ of {semiring.name} adds paths instead of selecting one, so no path is the best")
        numbers = self._numbers
        try:
            return OpenFactor(self._analysis, numbers.layout, numbers.plan.with_semiring(semiring), self._values)
        except PivotError as error:  # in the first elimination, rounding made this pivot valid
            raise divergence_error(semiring, int(self.order[error.place])).named(self.names) from None

    def rows(self, chunk: int | None = None, *, vertices: Any = None, reduce: Any = None, out: Any = None) -> Any:
        """Return all rows of A* in blocks, or a reduction of each row, without holding n² entries.

        Parameters
        ----------
        chunk : int or None
            The largest number of rows in a block of the iterator.
        vertices : sequence of vertices, or None
            The vertices whose rows are computed, by number or name. By default all.
        reduce : str, tuple, callable or None
            The reduction of each row:

            - ``"eccentricity"``: the worst value, which is the semiring's zero if a vertex is not reached; in max-plus
              the longest path;
            - ``"mean"``: the mean of the values of the other vertices that are reached, in float64, NaN if there are
              none;
            - ``"closeness"``: r²/((n - 1)·s), where r other vertices are reached and their values sum to s;
            - ``("histogram", edges)``: the number of other vertices with a value in each bin, int64;
            - ``("nearest", k)``: the numbers of the k other vertices with the best values, the best first, -1 for
              none, int64;
            - a function, which takes rows (k, n), in any order and on several threads, and returns an array (k, …).
        out : array, str or None
            An array, or the name of an .npy file, for the reductions, or without ``reduce`` for all rows. The first
            bytes of a file are written last, so an incomplete file is not a valid .npy file.

        Returns
        -------
        iterator or array
            With ``out``, the array, or the `numpy.memmap` of the file. Without it, an array (n, …) of the reductions,
            or an iterator over pairs: the numbers of up to ``chunk`` vertices, in their order, and their rows (k, n).

        Notes
        -----
        It costs twice `nnz` a row.

        Examples
        --------
        >>> inf = float("inf")
        >>> F = factor([[inf, 3.0, inf], [inf, inf, 1.0], [2.0, inf, inf]])
        >>> F.rows(reduce="eccentricity")
        array([4., 3., 5.])
        >>> F.rows(reduce=lambda block: (block < 3).sum(axis=1))
        array([1, 2, 2])
        """
        chosen = self._vertices.indices(vertices)
        if chunk is not None:
            require_integer(chunk, "chunk", 1)
        if reduce is not None:
            reduced = self._reduce_rows(chosen, find_reduction(reduce, self.semiring))
            if out is None:
                return reduced
            target = _open_output(out, reduced.shape, reduced.dtype)
            target[...] = reduced
        elif out is None:
            return self._iterate_rows(chosen, chunk or max(1, _BLOCK_ENTRIES // max(1, len(self))))
        else:
            target = _open_output(out, (chosen.size, len(self)), self.dtype)
            self._write_rows(chosen, target)
        return _finish_output(out, target)

    def _reduce_rows(self, vertices: Array, reduction: Reduction) -> Array:
        """Return a reduction of the rows of some vertices, which are computed some at a time."""
        self._refuse_unbounded_rows(vertices)
        if reduction.needs_only_worst and self._has_no_potentials and self._cycles is None and vertices.size:
            worst = np.empty(vertices.size, self._work_dtype)
            with self._placement.context():
                self._sweeps().worst(vertices, worst)
            return np.asarray(self._decode_result(worst))
        parts: list[tuple[Array, Array]] = []

        def receive(positions: Array, block: Any) -> None:
            rows = _copy_to_host(block) if reduction.is_builtin else block
            reduced = _copy_to_host(reduction.reduce_rows(vertices[positions], rows))
            if reduced.shape[:1] != (positions.size,):
                raise ShapeError(
                    f"reduce returned shape {reduced.shape} for {positions.size} rows: return one result for each row"
                )
            parts.append((positions, reduced))

        with self._placement.context():
            self._visit_rows(vertices, receive)
        if not parts:
            return np.asarray(reduction.reduce_rows(vertices, np.empty((0, len(self)), self.dtype)))
        out = np.empty((vertices.size, *parts[0][1].shape[1:]), np.result_type(*(part.dtype for _, part in parts)))
        for positions, reduced in parts:
            out[positions] = reduced
        return out

    def _iterate_rows(self, vertices: Array, chunk: int) -> Iterator[tuple[Array, Array]]:
        for start in range(0, vertices.size, chunk):
            part = vertices[start : start + chunk]
            yield part, self.table(part if self.names is None else [self.names[v] for v in part])

    def closure(self, out: Any = None) -> Any:
        """Return A* as a dense matrix.

        Parameters
        ----------
        out : array, shape (n, n), str or None
            An array of the factor's dtype, or the name of an .npy file, for the result.

        Returns
        -------
        array
            (n, n): ``out``, the `numpy.memmap` of the file, or a new array.

        Raises
        ------
        NegativeCycleError, DivergenceError
            If some cycle improves without end, unless ``on_cycle`` is "unbounded".
        TooLargeError
            If n² entries do not fit into memory, before any work.
        """
        n = len(self)
        if out is None:
            instead = (
                "call table for some sources and targets, rows for some rows at a time, or pass out= the name of a file"
            )
            with self._placement.context():
                return self._compute_rows(np.arange(n), f"A* of {n:,} vertices", instead)
        return self.rows(out=out)

    # ------------------------------------------------------------------------------------------------- new weights

    def refactor(self, A: Any) -> Factor:
        """Return the factor of a matrix with the same edges and other weights, without a new symbolic factorization.

        Parameters
        ----------
        A : matrix, shape (n, n), frame or graph
            A matrix of any kind that `factor` takes, in which some of the edges may be missing. It is converted to the
            dtype of this factor.

        Returns
        -------
        Factor
            The new factor. This factor does not change.

        Raises
        ------
        ShapeError
            If A has an edge that this factor has no entry for. Other errors are those of `factor`.
        """
        edges = edges_of(A, self.semiring, self.dtype).require_eliminable()
        own = self._all_edges
        if edges.pattern.n != len(self):
            raise ShapeError(f"A has {edges.pattern.n} vertices, the factor {len(self)}")
        if own.names is not None and edges.names is not None and own.names != edges.names:
            raise ShapeError("A has other vertices than the factor, or the same in another order")
        values = edges.values
        if edges.pattern != own.pattern:
            indices = self._edge_indices(edges.pattern.rows, edges.pattern.indices)
            values = np.full(own.values.size, self.semiring.zero_for(self.dtype), self.dtype)
            values[indices] = edges.values
        entries = SparseEntries(own.pattern, values, own.names, edges.scan)
        return self._with_entries(entries)

    def _with_entries(self, entries: SparseEntries, changed: tuple[Factor, Array] | None = None) -> Factor:
        """Return the factor of other entries of the same pattern, with the options of this factor."""
        options = {"on_cycle": self._on_cycle}
        return Factor(self.semiring, entries, self._analysis, self._threads, self._placement, changed, **options)

    def update(self, edges: Iterable[tuple[Any, Any, Any]]) -> Factor:
        """Return the factor of the matrix after a change of some weights, bitwise identical to a new `factor`.

        Parameters
        ----------
        edges : iterable of tuple
            The changes: (from, to, weight) each, with vertices by number or name. Each direction is a separate edge.
            The semiring's zero removes an edge, whose entry remains. An edge that the matrix of `factor` stored with
            the weight zero has no entry: store it with another weight, and remove it by this function.

        Returns
        -------
        Factor
            The new factor. This factor does not change.

        Raises
        ------
        ShapeError
            If an edge has no entry in this factor. Other errors are those of `refactor`.

        Notes
        -----
        Only the fronts on the ways from these edges to the roots of the elimination tree are computed again. All fronts
        are computed again in three cases: the two directions of an edge of a symmetric matrix change differently,
        floats of both signs need potentials, or it is the first update. The first update stores the data that later
        updates need, some times `nnz` numbers.

        Examples
        --------
        >>> F = factor([[float("inf"), 7.0, 1.0], [float("inf")] * 3, [float("inf"), 2.0, float("inf")]])
        >>> float(F.update([(0, 1, 2.5)]).distance(0, 1))
        2.5
        """
        listed = list(edges) if isinstance(edges, Iterable) else [edges]
        if not all(isinstance(edge, tuple | list) and len(edge) == 3 for edge in listed):
            raise ShapeError("an edge is not a triple: give (from, to, weight) for each edge that changes")
        tails = self._vertices.indices([edge[0] for edge in listed])
        heads = self._vertices.indices([edge[1] for edge in listed])
        own, indices = self._all_edges, self._edge_indices(tails, heads)
        values = own.values.copy()
        if listed:
            values[indices] = convert_right_side([edge[2] for edge in listed], self.semiring, self.dtype, "weights")
        changed = check_values(own.pattern, values, self.semiring, own.names).require_eliminable()
        return self._with_entries(changed, (self, indices))

    def _edge_indices(self, rows: Array, columns: Array) -> Array:
        """Return the indices of edges in the pattern. Raises `ShapeError` for an edge that it does not have."""
        n, own = np.int64(len(self)), self._edges.pattern
        own_keys, keys = own.rows * n + own.indices, rows * n + columns
        positions = np.searchsorted(own_keys, keys)
        positions[positions == own_keys.size] = 0
        strange = np.flatnonzero(own_keys[positions] != keys) if own_keys.size else np.arange(keys.size)
        if strange.size:
            i, j = divmod(int(keys[strange[0]]), int(n))
            name = self._vertices.name
            raise ShapeError(
                f"the edge {name(i)} → {name(j)} is new, and this factor has no entry for it: call factor on a matrix "
                "that has this edge, of any weight but the zero"
            )
        return positions


def _open_output(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the caller's array, or a new .npy file, which is valid only after `_finish_output`."""
    if is_npy_name(out):
        result: Array = np.lib.format.open_memmap(out, mode="w+", dtype=dtype, shape=shape)
        _write_prefix(out, bytes(len(np.lib.format.MAGIC_PREFIX)))
        return result
    operand: Array = as_output(out, shape, dtype)
    return operand


def _finish_output(out: Any, target: Array) -> Any:
    """Complete the file, if there is one, and return the output for the caller."""
    if not is_npy_name(out):
        return out
    target.flush()  # type: ignore[attr-defined]  # a numpy.memmap
    _write_prefix(out, np.lib.format.MAGIC_PREFIX)
    return target


def _write_prefix(path: Any, content: bytes) -> None:
    """Overwrite the first bytes of a file, and wait until they are on the disk."""
    with open(path, "r+b") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _copy_to_host(array: Any) -> Array:
    """Return an array in the memory of the host."""
    if is_device_array(array):
        from semiring.arrays.device import to_host

        return to_host(array)
    return np.asarray(array)


def align_labels(b: Any, names: tuple[Hashable, ...] | None) -> Any:
    """Return a right-hand side in the order of the vertices, by the labels of a series or a frame.

    Raises `ShapeError` if the labels are not the names of the vertices.
    """
    if names is None or not (hasattr(b, "loc") and hasattr(b, "index")):
        return b
    if len(b.index) != len(names) or set(b.index) != set(names):
        raise ShapeError("the labels of b are not the names of the vertices of A: give b the same labels")
    return b.loc[list(names)]


def as_columns(b: Array) -> Array:
    """Return a right side (n,) as a view (n, 1), and one of shape (n, k) itself, also for n = 0."""
    return b[:, np.newaxis] if b.ndim == 1 else b


def convert_right_side(b: Any, semiring: Semiring, dtype: np.dtype[Any], name: str = "b") -> Array:
    """Return a right-hand side in the dtype of the matrix. Raises `DTypeError` if its dtype does not fit into it."""
    if not hasattr(b, "dtype") and not hasattr(b, "to_numpy"):
        return np.asarray(as_array(b, semiring, dtype, name=name))
    array = np.asarray(as_host_operand(b, name))
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "safe"):
        raise DTypeError(f"{name} is {array.dtype}, the matrix {dtype}: convert one of them")
    return np.asarray(as_array(array, semiring, dtype, name=name))


@dataclass(frozen=True)
class FactorExplanation:
    """How `factor` eliminated a matrix. ``str`` returns a summary of five or six lines.

    The parameters are also its attributes.

    Parameters
    ----------
    semiring : str
        The name of the semiring.
    n, edges : int
        The numbers of vertices and of edges.
    dtype : numpy.dtype
        The dtype of the matrix.
    ordering : str
        The name of the method that computed the elimination order.
    symmetric : bool
        Whether the factor has one triangle, because A equals its transpose and ⊗ commutes.
    nnz : int
        The number of entries of the factor.
    supernodes : int
        The number of groups of vertices that are eliminated together.
    largest_front : int
        The number of rows of the largest dense front.
    operations : int
        The number of pairs of one ⊗ and one ⊕ in the elimination.
    memory : int
        The bytes of the factor and of its structure.
    work_dtype : numpy.dtype
        The dtype in which the factor is computed and stored.
    potentials : {"", "float64", "exact"}
        The arithmetic of the potentials under which weights of both signs are eliminated. It is empty without
        potentials.
    cycles : int
        The number of strong components with a cycle that improves without end, which are not eliminated.
    threads : int
        The number of threads on a CPU.
    device : str
        ``"cpu"`` or ``"cuda"``.
    """

    semiring: str
    n: int
    edges: int
    dtype: np.dtype[Any]
    ordering: str
    symmetric: bool
    nnz: int
    supernodes: int
    largest_front: int
    operations: int
    memory: int
    work_dtype: np.dtype[Any]
    potentials: str
    cycles: int
    threads: int
    device: str

    @property
    def fill(self) -> float:
        """The entries of the factor for each edge of the matrix, 0 without edges."""
        return self.nnz / self.edges if self.edges else 0.0

    def __str__(self) -> str:
        threads = f" with {self.threads} thread{'s' * (self.threads > 1)}" if self.device == "cpu" else ""
        triangles = "one triangle, because A is symmetric" if self.symmetric else "two triangles"
        potentials = [f"  weights  of both signs, under {self.potentials} potentials"] if self.potentials else []
        components = f"{self.cycles:,} strong component{'s' * (self.cycles > 1)}"
        cycles = [f"  cycles   improve without end in {components}, which are not eliminated"] if self.cycles else []
        groups = f"{self.supernodes:,} supernode{'s' * (self.supernodes != 1)}"
        rows = f"{self.largest_front:,} row{'s' * (self.largest_front != 1)}"
        return "\n".join(
            [
                f"factor of {self.n:,} vertices and {self.edges:,} edges in {self.semiring}, {self.dtype}",
                f"  order    {self.ordering.replace('_', ' ')}, {groups}, the largest front has {rows}",
                f"  fill     {self.nnz:,} entries, {self.fill:.2g} for each edge, in {triangles}",
                *potentials,
                *cycles,
                f"  method   elimination in {self.work_dtype}, on {self.device}{threads}",
                f"  cost     {self.operations:,} pairs of ⊗ and ⊕, {format_bytes(self.memory)}",
            ]
        )
