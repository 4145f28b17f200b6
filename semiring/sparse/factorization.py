"""`factor`: the elimination of a sparse graph, done once, and `Factor`: what can be asked of it.

x = A ⊗ x ⊕ b has the least solution A* ⊗ b, and A* is a product of sparse triangular factors: their numbers are the
paths over vertices eliminated earlier (`semiring.sparse`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_products, as_semiring, max_times, min_times
from semiring.algebra.expressions.tree import float_limits, is_floating, is_half
from semiring.algorithms.stars import divergence_error, warn_of_diverging_sum
from semiring.arrays.encoding import check_entries, decode, encode, has_inner_zero, rounded, widen
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_array, as_output, in_host_memory
from semiring.arrays.scans import Scan, limits_of
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
from semiring.io.network import semiring_of
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import make_plan
from semiring.namespaces import is_device_array
from semiring.out_of_core.stored_matrix import is_npy_name
from semiring.sparse.exact_weights import ExactPotentials
from semiring.sparse.inputs import SparseEntries, checked, edges_of
from semiring.sparse.numeric import FactorNumbers, NoStar, eliminate_again
from semiring.sparse.paths import OpenFactor
from semiring.sparse.placement import Host, home_of
from semiring.sparse.reductions import Reduction, reduction
from semiring.sparse.signs import find_potentials, name_negative_cycle
from semiring.sparse.symbolic import Analysis, FactorLayout, analyse, widest_level, widest_level_of_core
from semiring.terminal import announce
from semiring.threads import checked_threads, get_threads

__all__ = ["Factor", "aligned", "factor", "fitting", "inner_dtype", "largest_size"]

Array = NDArray[Any]

_IN_PARTS = "name fewer of them, or call rows(...), which returns some rows at a time"
_WORTH_A_LOOK = 1 << 28  # bytes that numbers may take before anyone looks for separators
_BLOCK = 1 << 24  # entries of rows that are handed over at a time, unless the caller says


def factor(
    A: Any,
    semiring: Semiring | str | None = None,
    ordering: Any = "auto",
    *,
    threads: int | None = None,
    device: Any = None,
) -> Factor:
    """The `Factor` of a graph: A* in sparse triangular factors, for as many questions as come.

    Parameters
    ----------
    A
        (n, n): what lists edges. A SciPy sparse matrix (what it does not store is no edge, nor is a stored zero of the
        semiring, such as ∞ in min-plus; a stored 0 is an edge of min-plus), a frame of edges, a graph of NetworkX,
        igraph or rustworkx; a dense matrix, a square frame, a `Network`. Only the first three never take n² of memory.
    semiring
        Any with a star: ``"min_plus"`` for shortest paths, ``"log_plus"`` and ``"plus_times"`` for sums over all paths,
        ``"boolean"``, ``"max_min"``, your own. By default that of a `Network`, else min-plus.
    ordering
        In which order vertices are eliminated, which decides the fill, and of results only the rounding: ``"metis"``
        (nested dissection; package pymetis, the extra ``sparse``), ``"minimum_degree"``, ``"natural"``
        (0, 1, …), or a permutation (n,). ``"auto"`` is METIS from 100,000 vertices on, where it is installed, else
        minimum degree.
    threads
        How many threads this call and the questions use; by default `semiring.get_threads()` at each call.
    device
        ``"cuda"`` (or ``"cuda:1"``): the GPU where the numbers are found and stay, and questions are answered. Matrices
        that come back are CuPy arrays there; paths, and what is reduced from rows, come to the host.

    Cost: `Factor.operations`, known before the numbers begin; some 10⁸ for a road network or a planar graph of 65,000
    vertices. Graphs without small separators (random ones of six edges a vertex) fill up: `Factor.nnz` tends to n²/4,
    and to find an order takes minutes, in which nothing interrupts it; a terminal and a notebook say so. Where that
    would not fit into memory, ``"auto"`` refuses them before.

    Weights of both signs: a negative cycle is decided by exact sums on the edges, so height differences raise no false
    alarm. Floats of both signs that are no whole numbers are eliminated under potentials, in float64; exact ones, some
    µs an entry, where weights on cycles differ so much in size that those would drown some.

    Raises `NegativeCycleError` with the vertices of a cycle (`DivergenceError` where another semiring's pivot has no
    star), `AlgebraError` for a semiring without a star, `DomainError` for NaN and for edges of unbounded gain,
    `IntegerOverflowError` where n weights in a row leave int64, `TooLargeError`, `DTypeError`, `ShapeError`,
    `MissingExtraError`.

    Sources: B. A. Carré, J. Inst. Maths. Applics. 7 (1971); R. E. Tarjan, JACM 28 (1981); J. Dibbelt, B. Strasser,
    D. Wagner, "Customizable contraction hierarchies", ACM JEA 21 (2016).

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
    count = None if threads is None else checked_threads(threads)
    home = home_of(device)
    edges = edges_of(A, algebra).sparse()
    wide = isinstance(ordering, str) and ordering == "auto" and _is_wide(edges)
    line, start = f"ordering {edges.pattern.n:,} vertices without small separators", perf_counter()
    if wide:
        announce(line)
    analysis = analyse(edges.pattern, ordering)
    if wide:
        announce(line, perf_counter() - start)
    return Factor(algebra, edges, analysis, count, home)


def _is_wide(edges: SparseEntries) -> bool:
    """Whether the order will take long, for a graph without small separators.

    Raises `TooLargeError` where the numbers will not fit into memory, before the minutes that an order takes.

    A graph whose levels are w wide has w² numbers or more: 0.6 to 1.4 times as many of random graphs with 3 and 6 edges
    a vertex, more where levels are narrow.
    """
    pattern, size = edges.pattern, edges.values.dtype.itemsize
    if widest_level(pattern) ** 2 * size < _WORTH_A_LOOK:
        return False
    width = widest_level_of_core(pattern)
    found = f"a search finds {width:,} of its {pattern.n:,} vertices at one distance"
    demand_memory(
        width**2 * size,
        f"the factor of a graph without small separators ({found})",
        "call shortest_paths or another function of paths with sources=, or pass ordering= to factor it nevertheless",
    )
    return width**2 * size >= _WORTH_A_LOOK


class Factor:
    """A* of a sparse matrix A (n, n), in factors; made by `factor`. Vertices are 0 … n - 1, or the names A brought.

    Attributes
    ----------
    semiring, dtype, names
        Of the matrix. Results are of this dtype.
    ordering
        The name of the method that found the elimination order.
    order
        (n,) int32: the vertices in the order of their elimination.
    symmetric
        Whether A equals its transpose and ⊗ commutes: half of the work and of the memory is spared.
    nnz
        How many numbers the factors hold.
    operations
        How many pairs of one ⊗ and one ⊕ it took to find them.
    memory
        Bytes: of the factors and of what is known of their structure.
    """

    def __init__(
        self,
        semiring: Semiring,
        edges: SparseEntries,
        analysis: Analysis,
        threads: int | None,
        home: Any = None,
        changed: tuple[Factor, Array] | None = None,
    ) -> None:
        """Made by `factor`, `refactor` and `update`.

        ``home``: where the numbers are, by default on the host; ``changed``: a factor, and in which entries it differs.
        """
        self._home = home or Host()
        self.semiring, self.dtype, self.names = semiring, edges.values.dtype, edges.names
        self._edges, self._analysis, self._threads = edges, analysis, threads
        self._vertices = Vertices(edges.pattern.n, edges.names)
        self.ordering, self.order = analysis.ordering, analysis.order
        self._shift: Array | None = None
        self._exact: ExactPotentials | None = None
        commutes = semiring.commutative
        self.symmetric = bool(commutes and edges.pattern.is_symmetric(edges.values))
        self._largest = largest_size(edges.values, edges.scan)
        own = is_half(self.dtype) and self._home.xp is not np  # a GPU has kernels for halves
        self._inner = self.dtype if own else inner_dtype(semiring, self.dtype, len(self), self._largest)
        try:
            with self._home.current():
                self._numbers = self._eliminate(changed)
                if adds_products(semiring) and edges.values.size:
                    positive = bool(edges.scan.low >= 0)
                    warn_of_diverging_sum(semiring, self._numbers.memory, nonnegative=positive)
        except DivergenceError as error:
            raise error.named(self.names) from None

    def __len__(self) -> int:
        """The number of vertices."""
        return self._analysis.n

    def __repr__(self) -> str:
        n = len(self)
        return (
            f"<Factor of {n:,} {'vertex' if n == 1 else 'vertices'} in {self.semiring.name}, {self.dtype}, "
            f"by {self.ordering.replace('_', ' ')}: {self.nnz:,} numbers>"
        )

    @property
    def nnz(self) -> int:
        return self._numbers.layout.size

    @property
    def operations(self) -> int:
        return int(self._analysis.pairs(self.symmetric).sum())

    @property
    def memory(self) -> int:
        a, layout = self._analysis, self._numbers.layout
        kept = (a.order, a.place, a.of, a.above, a.firsts, a.begins, a.rows, layout.slots, self._edges.values)
        return int(self._numbers.nbytes + sum(array.nbytes for array in kept))

    def fill(self, cells: int = 800) -> tuple[Array, Array]:
        """Where the numbers are: how many, and how many edges of the matrix, in each square of a picture of A.

        Two arrays of integers, (cells, cells) or (n, n) if that is less, rows and columns in the order of elimination.
        """
        a, n = self._analysis, len(self)
        size = min(cells, n)
        cell = np.arange(n) * size // max(1, n)
        filled, edges = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
        for s in range(a.count):
            own = np.bincount(cell[a.firsts[s] : a.firsts[s + 1]], minlength=size)
            below = np.bincount(cell[a.rows[a.begins[s] : a.begins[s + 1]]], minlength=size)
            mine = np.flatnonzero(own)
            filled[mine] += np.outer(own[mine], own + below)
            filled[:, mine] += np.outer(below, own[mine])
        ends = cell[a.place[a.pattern.rows]], cell[a.place[a.pattern.indices]]
        np.add.at(edges, ends, 1)
        return filled, edges

    # ------------------------------------------------------------------------------------------------- elimination

    def _plan(self, nonnegative: bool, dtype: Any = None) -> KernelPlan:
        threads = get_threads() if self._threads is None else self._threads
        dtype = self._inner if dtype is None else dtype
        return make_plan(self.semiring, dtype, nonnegative=nonnegative, threads=threads)

    def _eliminate(self, changed: tuple[Factor, Array] | None) -> FactorNumbers:
        """The numbers; sets the shift, and the dtype that is computed in, where they are found under potentials."""
        edges, semiring = self._edges, self.semiring
        nonnegative = edges.scan.nonnegative and semiring.tropical == "min"
        if not nonnegative and self._is_rounded():
            found = find_potentials(*self._signed_edges())
            if isinstance(found, ExactPotentials):
                return self._eliminate_exactly(found)
            h, component = found
            if h.any():
                return self._eliminate_under(h, component)
        integers = has_inner_zero(semiring, self._inner)
        self._values = (
            encode(edges.values, semiring, self._inner) if integers else edges.values.astype(self._inner, copy=False)
        )
        layout, plan = self._analysis.layout(self.symmetric), self._plan(nonnegative)
        try:
            if changed is not None and changed[0]._may_be_reused(layout, plan):
                return eliminate_again(changed[0]._numbers, plan, self._values, changed[1])
            return self._made(layout, plan, keep=changed is not None)
        except NoStar as failure:
            vertex = int(self.order[failure.place])
        if semiring.tropical is not None:
            name_negative_cycle(*self._signed_edges())
        error = divergence_error(semiring, vertex)
        if semiring in (max_times, min_times):
            error = DivergenceError(f"{error}. If the product is 1 up to rounding, use closure", vertex)
        raise error

    def _may_be_reused(self, layout: FactorLayout, plan: KernelPlan) -> bool:
        """Whether these numbers were kept, and stand where those of another plan would."""
        own = self._numbers
        same = own.layout is layout and own.plan.dtype == plan.dtype and own.plan.facts == plan.facts
        return own.updates is not None and self._is_plain and same

    def _is_rounded(self) -> bool:
        """Whether floats of both signs are summed, and sums are rounded."""
        if self.semiring.tropical is None or not is_floating(self.dtype):
            return False
        values, limit = self._edges.values, 2 ** float_limits(self.dtype).nmant
        signed = bool((values < 0).any() if self.semiring.tropical == "min" else (values > 0).any())
        whole = self._largest * (len(self) + 1) < limit and bool((values == np.rint(values)).all())
        return signed and not whole

    def _signed_edges(self) -> tuple[int, Array, Array, Array, int]:
        """The vertices, the edges, and the sign that makes them min-plus edges."""
        pattern, sign = self._edges.pattern, 1 if self.semiring.tropical == "min" else -1
        kept = self._edges.values != self.semiring.zero_for(self.dtype)
        return pattern.n, pattern.rows[kept], pattern.indices[kept], self._edges.values[kept], sign

    def _eliminate_under(self, h: Array, component: Array) -> FactorNumbers:
        sign = 1.0 if self.semiring.tropical == "min" else -1.0
        rows, columns = self._edges.pattern.rows, self._edges.pattern.indices
        reduced = sign * self._edges.values.astype(np.float64) + (h[rows] - h[columns])
        inside = component[rows] == component[columns]
        self._values = sign * np.maximum(reduced, 0.0, where=inside, out=reduced)
        self._shift, self._inner, self.symmetric = sign * h, np.dtype(np.float64), False
        return self._made(self._analysis.layout(False), self._plan(False))

    def _eliminate_exactly(self, potentials: ExactPotentials) -> FactorNumbers:
        self._exact, self._inner, self.symmetric = potentials, np.dtype(np.float64), False
        self._values = np.full(self._edges.values.size, self.semiring.zero_for(self._inner), self._inner)
        self._values[self._entries(potentials.tails, potentials.heads)] = potentials.sign * potentials.reduced()
        return self._made(self._analysis.layout(False), self._plan(False))

    def _made(self, layout: FactorLayout, plan: KernelPlan, *, keep: bool = False) -> FactorNumbers:
        made: FactorNumbers = self._home.eliminate(self._analysis, layout, plan, self._values, keep=keep)
        return made

    # -------------------------------------------------------------------------------------------------- vectors

    def _sweeps(self, *, columns: bool = False, nonnegative: bool = True) -> Any:
        """For vectors of zeros and ones, or any."""
        plan = self._plan(nonnegative and self._numbers.plan.facts.nonnegative)
        return self._home.sweeps(self._numbers, plan, columns=columns)

    def solve(self, b: Any, *, transposed: bool = False) -> Any:
        """The least x = A ⊗ x ⊕ b, (n,) or (n, k) for b of that shape: x = A* ⊗ b.

        ``transposed``: the least x = x ⊗ A ⊕ b, for every column of b. In min-plus x[i] is then the least sum of b[j]
        and of a path from j to i (to j from i without it).

        b is of the factor's dtype, or one that fits into it. Costs twice `nnz` for every column; many columns together
        take less time for each than one. Raises `ShapeError`, `DTypeError`, `DomainError`, `IntegerOverflowError`.

        >>> inf = float("inf")
        >>> F = factor([[inf, 3.0, inf], [inf, inf, 1.0], [inf, inf, inf]])
        >>> F.solve([inf, inf, 0.0])  # to vertex 2, from each
        array([4., 1., 0.])
        """
        given = fitting(aligned(b, self.names), self.semiring, self.dtype)
        n = len(self)
        if given.ndim not in (1, 2) or given.shape[0] != n:
            raise ShapeError(f"b is {given.shape}: give shape ({n},) or ({n}, k)")
        scan = check_entries(given, self.semiring, "b")
        if has_inner_zero(self.semiring, self._inner):
            ends = [abs(int(end)) for end in (scan.low, scan.high) if end is not None]
            if max(ends, default=0) + self._largest * n >= limits_of(self._inner).half:
                raise IntegerOverflowError(
                    f"b has entries up to {max(ends)} and paths have {n} edges of weights up to {self._largest}: their "
                    f"sums may exceed half the range of {self._inner}. Use int64 or float64"
                )
            B = encode(given, self.semiring, self._inner)
        else:
            B = given.astype(self._inner)
        matrix = B.reshape(n, -1)
        if self._exact is not None:
            return self._handed_over(self._home.xp.asarray(self._exact.solve(matrix, transposed).reshape(given.shape)))
        shift = None if self._shift is None else self._shift[:, np.newaxis] * (-1.0 if transposed else 1.0)
        if shift is not None:
            matrix = matrix + shift
        xp = self._home.xp
        with self._home.current():
            found = xp.empty(matrix.shape, self._inner)
            sweeps = self._sweeps(columns=not transposed, nonnegative=scan.nonnegative)
            if matrix.shape[1]:
                sweeps.solve(xp.asarray(np.ascontiguousarray(matrix)), found)
            if shift is not None:
                found -= xp.asarray(shift)
            return self._handed_over(found.reshape(given.shape))

    def _handed_over(self, found: Any) -> Any:
        """What kernels computed, as the caller holds it."""
        if has_inner_zero(self.semiring, self._inner):
            return decode(found, self.semiring, self.dtype)
        return rounded(found, self.dtype)

    # ------------------------------------------------------------------------------------------------ rows of A*

    @property
    def _is_plain(self) -> bool:
        """Whether A* is what was eliminated, without potentials."""
        return self._shift is None and self._exact is None

    def _each_rows(self, vertices: Array, give: Callable[[Array, Array], None], columns: bool = False) -> None:
        """``give(which, block)`` with rows of A* as the caller holds them, on several threads."""
        xp, shift = self._home.xp, None if self._shift is None else self._shift * (-1.0 if columns else 1.0)

        def hand_over(which: Array, block: Any) -> None:
            if self._exact is not None:
                block = xp.asarray(self._exact.of_rows(vertices[which], np.arange(len(self)), _on_host(block)))
            if shift is not None:
                block += xp.asarray(shift) - xp.asarray(shift[vertices[which], np.newaxis])
            give(which, self._handed_over(block))

        if vertices.size:
            self._sweeps(columns=columns).rows(vertices, hand_over)

    def _fill(self, vertices: Array, out: Any) -> None:
        """Rows of A* into ``out``, (r, n) of the caller's dtype."""

        def give(which: Array, block: Any) -> None:
            if is_device_array(out):
                out[self._home.xp.asarray(which)] = block
            else:
                out[which] = _on_host(block)

        direct = self._is_plain and self._inner == self.dtype and not has_inner_zero(self.semiring, self.dtype)
        with self._home.current():
            if direct and vertices.size:  # as kernels hold them
                self._sweeps().rows_into(vertices, out)
            else:
                self._each_rows(vertices, give)

    def table(self, sources: Any, targets: Any = None) -> Any:
        """(p, q): the entries of A* from each of p sources to each of q targets, by number or name; to all without.

        In min-plus the distances. Costs, with targets, what leads from each vertex to those above it in the elimination
        tree, and p q times as many operations as the sources and targets have in common there; without, p rows.

        >>> import networkx as nx
        >>> G = nx.Graph()
        >>> G.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
        >>> factor(G).table(["Ulm", "Kiel"], ["Jena"])
        array([[11.],
               [ 4.]])
        """
        rows = self._vertices.indices(sources)
        if targets is None:
            with self._home.current():
                return self._rows(rows, f"{rows.size:,} rows of A*")
        columns = self._vertices.indices(targets)
        needed = rows.size * columns.size * self._inner.itemsize
        with self._home.current():
            self._home.demand(needed, f"a table of {rows.size:,} × {columns.size:,}", _IN_PARTS)
            found = self._home.xp.empty((rows.size, columns.size), self._inner)
            if found.size:
                self._home.table(self._sweeps, rows, columns, found)
            if self._exact is not None:
                found = self._home.xp.asarray(self._exact.of_rows(rows, columns, _on_host(found)))
            if self._shift is not None:
                found += self._home.xp.asarray(self._shift[columns] - self._shift[rows, np.newaxis])
            return self._handed_over(found)

    def distances(self, sources: Any, targets: Any) -> Any:
        """Return the entries of A* for a list of pairs: in min-plus, the distances from each source to its target.

        Parameters
        ----------
        sources, targets
            (p,): pair number e leads from ``sources[e]`` to ``targets[e]``, each by number or name.

        Returns
        -------
        array
            (p,), of the factor's dtype; the semiring's zero where no path leads from the source to the target. Entries
            equal those of `table`, up to rounding. On a GPU a CuPy array.

        Raises
        ------
        VertexError
            For a source or target that is no vertex.
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
            given = f"{rows.size} source{'s'[: rows.size != 1]} and {columns.size} target{'s'[: columns.size != 1]}"
            raise ShapeError(f"{given}: give two lists of one length, or call table for all combinations")
        xp = self._home.xp
        with self._home.current():
            found = xp.empty(rows.size, self._inner)
            if rows.size:
                self._home.pairs(self._sweeps, rows, columns, found)
            if self._exact is not None:
                found = xp.asarray(self._exact.of_pairs(rows, columns, _on_host(found)))
            if self._shift is not None:
                found += xp.asarray(self._shift[columns] - self._shift[rows])
            return self._handed_over(found)

    def _rows(self, rows: Array, what: str, instead: str = _IN_PARTS) -> Any:
        self._home.demand(rows.size * len(self) * self.dtype.itemsize, what, instead)
        out = self._home.empty_rows(rows.size, len(self), self.dtype)
        self._fill(rows, out)
        return out

    def distance(self, source: Any, target: Any) -> Any:
        """The entry of A* from one vertex to another, by number or name: the weight of `path`, in min-plus."""
        return self.table([source], [target])[0, 0]

    def path(self, source: Any, target: Any) -> list[Any]:
        """The vertices of a best path, by name where there are names, both ends included; ``[source]`` to itself.

        For a ⊕ that selects, and stars that are 1̄. The first path eliminates once more, on one thread, and keeps as
        many numbers as the factor has; then a path costs what lies above its ends in the elimination tree, and for each
        of its edges a search over the supernodes at its vertices. Ties, weights of 0 and cycles of weight 0 do no harm.

        Raises `NoPathError` where no path leads there, `VertexError`, `AlgebraError` for a ⊕ that adds up.

        >>> inf = float("inf")
        >>> F = factor([[inf, 7.0, 1.0], [inf, inf, inf], [inf, 2.0, inf]])
        >>> F.path(0, 1)
        [0, 2, 1]
        """
        i, j = self._vertices.index(source), self._vertices.index(target)
        found = self._open.path(i, j) if self._exact is None else self._exact.path(i, j)
        if not found:
            raise NoPathError(f"no path leads from {self._vertices.name(i)} to {self._vertices.name(j)}")
        return [self._vertices.name(vertex) for vertex in found]

    @cached_property
    def _open(self) -> OpenFactor:
        semiring = self.semiring
        if not semiring.selective:
            raise AlgebraError(f"the ⊕ of {semiring.name} adds paths instead of selecting one, so no path is the best")
        numbers = self._numbers
        try:
            return OpenFactor(self._analysis, numbers.layout, numbers.plan.renewed(semiring), self._values)
        except NoStar as error:  # that rounding hid from the other elimination
            raise divergence_error(semiring, int(self.order[error.place])).named(self.names) from None

    def rows(self, chunk: int | None = None, *, vertices: Any = None, reduce: Any = None, out: Any = None) -> Any:
        """All rows of A*, some at a time: n² is never held.

        Without ``reduce`` an iterator over pairs of the numbers of up to ``chunk`` vertices, in their order, and their
        rows (k, n). With it an array (n, …) of what it makes of each row:

        - ``"eccentricity"``: the worst value, the semiring's zero where some vertex is not reached; in max-plus the
          longest path;
        - ``"mean"``: of the values of all other vertices that are reached, in float64, NaN where there are none;
        - ``"closeness"``: r²/((n - 1)·s), where r others are reached and their values sum to s;
        - ``("histogram", edges)``: how many others have a value in each bin, int64;
        - ``("nearest", k)``: the numbers of the k others with the best values, the best first, -1 for none, int64;
        - a function, which takes rows (k, n), in any order and on several threads, and returns an array (k, …).

        ``vertices``: whose rows, by number or name, in place of all. ``out``: an array, or the name of an .npy file,
        for the result, or for all rows without ``reduce``; it is returned, of a file its `numpy.memmap`. A file that is
        not whole is no .npy file, for its first bytes are written last. Costs twice `nnz` a row.

        >>> inf = float("inf")
        >>> F = factor([[inf, 3.0, inf], [inf, inf, 1.0], [2.0, inf, inf]])
        >>> F.rows(reduce="eccentricity")
        array([4., 3., 5.])
        >>> F.rows(reduce=lambda block: (block < 3).sum(axis=1))
        array([1, 2, 2])
        """
        chosen = self._vertices.indices(vertices)
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk is {chunk}: give a number of rows, 1 or more")
        if reduce is not None:
            reduced = self._reduced(chosen, reduction(reduce, self.semiring))
            if out is None:
                return reduced
            target = _target(out, reduced.shape, reduced.dtype)
            target[...] = reduced
        elif out is None:
            return self._iterated(chosen, chunk or max(1, _BLOCK // max(1, len(self))))
        else:
            target = _target(out, (chosen.size, len(self)), self.dtype)
            self._fill(chosen, target)
        return _ended(out, target)

    def _reduced(self, chosen: Array, reduce: Reduction) -> Array:
        if reduce.worst and self._is_plain and chosen.size:
            worst = np.empty(chosen.size, self._inner)
            with self._home.current():
                self._sweeps().worst(chosen, worst)
            return np.asarray(self._handed_over(worst))
        parts: list[tuple[Array, Array]] = []

        def give(which: Array, block: Any) -> None:
            reduced = _on_host(reduce.of_rows(chosen[which], _on_host(block) if reduce.named else block))
            if reduced.shape[:1] != (which.size,):
                raise ShapeError(
                    f"reduce returned shape {reduced.shape} for {which.size} rows: return one result for each row"
                )
            parts.append((which, reduced))

        with self._home.current():
            self._each_rows(chosen, give)
        if not parts:
            return np.asarray(reduce.of_rows(chosen, np.empty((0, len(self)), self.dtype)))
        out = np.empty((chosen.size, *parts[0][1].shape[1:]), np.result_type(*(part.dtype for _, part in parts)))
        for which, reduced in parts:
            out[which] = reduced
        return out

    def _iterated(self, chosen: Array, chunk: int) -> Iterator[tuple[Array, Array]]:
        for start in range(0, chosen.size, chunk):
            part = chosen[start : start + chunk]
            yield part, self.table(part if self.names is None else [self.names[v] for v in part])

    def closure(self, out: Any = None) -> Any:
        """A* as a dense matrix (n, n), in ``out`` where it is given: an array of the factor's dtype, or an .npy file.

        Raises `TooLargeError`, before any work, where n² entries do not fit into memory.
        """
        n = len(self)
        if out is None:
            instead = (
                "call table for some sources and targets, rows for some rows at a time, or pass out= the name of a file"
            )
            with self._home.current():
                return self._rows(np.arange(n), f"A* of {n:,} vertices", instead)
        return self.rows(out=out)

    # ------------------------------------------------------------------------------------------------- new weights

    def refactor(self, A: Any) -> Factor:
        """The factor of a matrix with the same edges and other weights; the structure is not analysed again.

        A is of any kind that `factor` takes, in which some of the edges may be missing. It is converted to the dtype
        of this factor, which stays as it is. Raises as `factor`, and `ShapeError` where A has an edge that this factor
        has no place for.
        """
        edges = edges_of(A, self.semiring, self.dtype).sparse()
        own = self._edges
        if edges.pattern.n != len(self):
            raise ShapeError(f"A has {edges.pattern.n} vertices, the factor {len(self)}")
        if own.names is not None and edges.names is not None and own.names != edges.names:
            raise ShapeError("A has other vertices than the factor, or the same in another order")
        values = edges.values
        if edges.pattern != own.pattern:
            at = self._entries(edges.pattern.rows, edges.pattern.indices)
            values = np.full(own.values.size, self.semiring.zero_for(self.dtype), self.dtype)
            values[at] = edges.values
        given = SparseEntries(own.pattern, values, own.names, edges.scan)
        return Factor(self.semiring, given, self._analysis, self._threads, self._home)

    def update(self, edges: Iterable[tuple[Any, Any, Any]]) -> Factor:
        """The factor after the weights of some edges have changed, (from, to, weight) each, by number or name.

        It is that of `factor` on the changed matrix, bit by bit, but only what lies on the way from these edges to the
        roots of the elimination tree is computed again, and this factor stays as it is. Each direction is an edge of
        its own; where both of a symmetric matrix do not change alike, everything is computed anew. So it is by the
        first update of a factor, which from then on keeps what the next ones need, some times `nnz` numbers, and where
        floats of both signs need potentials.

        The semiring's zero removes an edge, whose place remains. An edge that the matrix of `factor` stored with the
        weight zero has no place: store it with another weight, and remove it by this function. Raises as `refactor`.

        >>> F = factor([[float("inf"), 7.0, 1.0], [float("inf")] * 3, [float("inf"), 2.0, float("inf")]])
        >>> float(F.update([(0, 1, 2.5)]).distance(0, 1))
        2.5
        """
        listed = list(edges)
        if not all(isinstance(edge, tuple | list) and len(edge) == 3 for edge in listed):
            raise ShapeError("an edge is not a triple: give (from, to, weight) for each edge that changes")
        tails = self._vertices.indices([edge[0] for edge in listed])
        heads = self._vertices.indices([edge[1] for edge in listed])
        own, at = self._edges, self._entries(tails, heads)
        values = own.values.copy()
        if listed:
            values[at] = fitting([edge[2] for edge in listed], self.semiring, self.dtype, "weights")
        changed = checked(own.pattern, values, self.semiring, own.names).sparse()
        return Factor(self.semiring, changed, self._analysis, self._threads, self._home, (self, at))

    def _entries(self, rows: Array, columns: Array) -> Array:
        """Where edges stand among those of the pattern. Raises `ShapeError` for one that is not there."""
        n, own = np.int64(len(self)), self._edges.pattern
        there, here = own.rows * n + own.indices, rows * n + columns
        at = np.searchsorted(there, here)
        at[at == there.size] = 0
        strange = np.flatnonzero(there[at] != here) if there.size else np.arange(here.size)
        if strange.size:
            i, j = divmod(int(here[strange[0]]), int(n))
            name = self._vertices.name
            raise ShapeError(
                f"the edge {name(i)} → {name(j)} is new, and this factor has no entry for it: call factor on a matrix "
                "that has this edge, of any weight but the zero"
            )
        return at


def _target(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Where a result goes: an array, or a new .npy file, which nobody takes for one before it is `_ended`."""
    if is_npy_name(out):
        made: Array = np.lib.format.open_memmap(out, mode="w+", dtype=dtype, shape=shape)
        _write_first(out, bytes(len(np.lib.format.MAGIC_PREFIX)))
        return made
    given: Array = as_output(out, shape, dtype)
    return given


def _ended(out: Any, target: Array) -> Any:
    """What the caller gets, now that it holds the result."""
    if not is_npy_name(out):
        return out
    target.flush()  # type: ignore[attr-defined]  # a numpy.memmap
    _write_first(out, np.lib.format.MAGIC_PREFIX)
    return target


def _write_first(path: Any, content: bytes) -> None:
    with open(path, "r+b") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _on_host(array: Any) -> Array:
    if is_device_array(array):
        from semiring.arrays.device import to_host

        return to_host(array)
    return np.asarray(array)


def aligned(b: Any, names: tuple[Hashable, ...] | None) -> Any:
    """A right-hand side in the order of the vertices: labels of a series or a frame are matched with their names.

    Raises `ShapeError` where these are others.
    """
    if names is None or not (hasattr(b, "loc") and hasattr(b, "index")):
        return b
    if len(b.index) != len(names) or set(b.index) != set(names):
        raise ShapeError("the labels of b are not the names of the vertices of A: give b the same labels")
    return b.loc[list(names)]


def fitting(b: Any, semiring: Semiring, dtype: np.dtype[Any], name: str = "b") -> Array:
    """A right-hand side in the dtype of the matrix; `DTypeError` where it is of one that does not fit into it."""
    if not hasattr(b, "dtype") and not hasattr(b, "to_numpy"):
        return np.asarray(as_array(b, semiring, dtype, name=name))
    given = np.asarray(in_host_memory(b, name))
    if given.dtype != dtype and not np.can_cast(given.dtype, dtype, "safe"):
        raise DTypeError(f"{name} is {given.dtype}, the matrix {dtype}: convert one of them")
    return np.asarray(as_array(given, semiring, dtype, name=name))


def largest_size(values: Array, scan: Scan) -> Any:
    """The size of the greatest number in an array that a look has seen, "no path" and infinities left out."""
    if values.dtype.kind == "i":
        return max((abs(int(end)) for end in (scan.low, scan.high) if end is not None), default=0)
    if not is_floating(values.dtype):
        return 0
    return float(np.abs(values.astype(np.float64)).max(initial=0.0, where=np.isfinite(values)))


def inner_dtype(semiring: Semiring, dtype: np.dtype[Any], n: int, largest: Any, more: int = 0) -> np.dtype[Any]:
    """The dtype to compute in, where n weights in a row of at most a size, and ``more``, stay below "no path".

    Of halves it is float32.
    """
    inner: np.dtype[Any] | None = dtype
    if not has_inner_zero(semiring, dtype):
        return np.dtype(np.float32) if is_half(dtype) else dtype
    while inner is not None:
        if largest * (n + 1) + more < limits_of(inner).half:
            return inner
        inner = widen(inner)
    raise IntegerOverflowError(
        f"paths of {n} edges of weights up to {largest} may exceed half the range of int64, in which {semiring.name} "
        "computes in: use float64, which holds every sum, rounded"
    )
