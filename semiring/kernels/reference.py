"""The kernel contract in plain NumPy: the fallback for unsupported combinations, and the oracle of backend tests.

Every product is k rank-one updates, in the order of k, and sparse products add one pair after the other. So the fold is
exactly that of the contract, and memory stays O(m·n). It is slow (some 10⁸ pairs a second; 10⁵ of sparse matrices), and
correct on any strides and on every dtype of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.errors import no_star
from semiring.kernels.contract import (
    Adjacency,
    Array,
    Capabilities,
    CentralityKernels,
    CompressedRows,
    KernelPlan,
    PathKernels,
    RankedPathKernels,
    SequenceKernels,
    SparseKernels,
    SpurSearches,
    Steps,
    UpdateKernels,
    dependency_block,
)
from semiring.kernels.nearest_trees import reference_predecessors
from semiring.kernels.spans import record_kernels
from semiring.kernels.tolerance import Tolerance, tolerance_for


def _add(plan: KernelPlan, x: Array, y: Array) -> Array:
    result: Array = plan.semiring.add.expression.evaluate({"x": x, "y": y}, plan.dtype)
    return result


def _mul(plan: KernelPlan, x: Array, y: Array) -> Array:
    """Return the product of entries.

    0̄ ⊗ x = x ⊗ 0̄ = 0̄ by definition, whatever the expression computes for 0̄, if the semiring annihilates.
    """
    product = plan.semiring.mul.expression.evaluate({"x": x, "y": y}, plan.dtype)
    if not plan.semiring.annihilates:
        return np.asarray(product)
    result: Array = np.where((x == plan.zero) | (y == plan.zero), plan.zero, product)
    return result


def _terms(plan: KernelPlan, A: Array, B: Array) -> Iterator[tuple[int, Array]]:
    """Yield k and the rank-one term A[:, k] ⊗ B[k, :] of a product, in the order of k."""
    for k in range(B.shape[0]):
        yield k, _mul(plan, A[:, k : k + 1], B[k : k + 1, :])


def unpack_bits(words: Array, columns: int) -> Array:
    """Return truth values from bits: bit b of word w is column 32·w + b."""
    octets = np.ascontiguousarray(words).astype("<u4", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=columns, bitorder="little").view(np.bool_)


def pack_bits(words: Array, values: Array) -> None:
    """Write truth values as bits. Tail bits are zero."""
    octets = np.zeros((words.shape[0], 4 * words.shape[1]), np.uint8)
    packed = np.packbits(values, axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed
    words[...] = octets.view("<u4")


def follow_witnesses(W: Array, is_reached: Array, lengths: Array | None) -> None:
    """Compute `SequenceKernels.trace`: follow the witnesses (m, T, n) from each last state back."""
    states = np.where(is_reached, np.arange(W.shape[2]), -1)
    for t in reversed(range(W.shape[1])):
        before = np.where(states < 0, -1, np.take_along_axis(W[:, t], np.maximum(states, 0), 1))
        going = True if lengths is None else (lengths > t)[:, None]
        W[:, t] = np.where(going, before, -1)
        states = np.where(going, before, states)


@record_kernels
class ReferenceBackend(
    PathKernels, SequenceKernels, SparseKernels, CentralityKernels, UpdateKernels, RankedPathKernels
):
    """The kernel contract in NumPy. Packed bits are unpacked for a computation and packed again."""

    name = "reference"
    stacks = False

    @cached_property
    def capabilities(self) -> Capabilities:
        """The groups of operations from which this class derives."""
        return Capabilities.from_backend(self)

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Return whether the semiring is defined on the dtype. Bits need False as 0̄, so that tail bits stay zero."""
        if not semiring.supports(dtype):
            return False
        return storage == "elements" or (dtype == np.bool_ and not semiring.zero_for(dtype))

    def multiply(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        """Compute C ← A ⊗ B without reading C."""
        if plan.storage == "bits":
            C[...] = 0
        else:
            C[...] = plan.zero
        self.multiply_add(plan, C, A, B)

    def multiply_add(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        """Compute C ← C ⊕ A ⊗ B, one k after the other."""
        if plan.storage == "bits":
            values, A, B = _operands(C, A, B)
            for _, term in _terms(plan, A, B):
                values = _add(plan, values, term)
            pack_bits(C, values)
            return
        for _, term in _terms(plan, A, B):
            C[...] = _add(plan, C, term)

    def multiply_add_witness(self, plan: KernelPlan, C: Array, W: Array, A: Array, B: Array, k0: int) -> None:
        """Compute `multiply_add`; W becomes the smallest attaining k0 + k where C strictly improves."""
        product = np.full(W.shape, plan.zero, plan.dtype)
        witness = np.full(W.shape, -1, W.dtype)
        current = C
        if plan.storage == "bits":
            current, A, B = _operands(C, A, B, W.shape[1])
        for k, term in _terms(plan, A, B):
            better = _add(plan, product, term) != product
            product[better] = term[better]
            witness[better] = k0 + k
        better = _add(plan, current, product) != current
        W[better] = witness[better]
        if plan.storage == "bits":
            pack_bits(C, np.where(better, product, current))
        else:
            C[better] = product[better]

    def close_block(self, plan: KernelPlan, A: Array) -> None:
        """Compute A ← A* in place, one pivot at a time.

        A pivot k without a star raises no exception. It sets ``plan.status.diverged`` to k, and A is then undefined.
        Raises `AlgebraError` if the semiring has no star, and `DTypeError` if its star does not support the dtype.
        """
        if plan.storage == "bits":
            values = unpack_bits(A, A.shape[0])
            self._eliminate(plan, values)
            pack_bits(A, values)
        else:
            self._eliminate(plan, A)

    def find_predecessors(self, plan: KernelPlan, D: Array, tolerance: Tolerance | list[Tolerance], A: Array) -> Array:
        """Return the predecessors of D, one row after the other."""
        return reference_predecessors(plan, D, A, tolerance)

    def count_vertices(self, predecessors: Array, sources: Array, counts: Array, threads: int) -> None:
        """Write the lengths of paths, one path after the other."""
        for index in np.ndindex(predecessors.shape):
            path = _walk(predecessors[index[:-1]], int(sources[index[1]]), index[-1])
            counts[index] = -1 if path is None else len(path)

    def write_paths(
        self, predecessors: Array, sources: Array, targets: Array, counts: Array, out: Array, threads: int
    ) -> None:
        """Write the vertices of paths, one path after the other."""
        out[...] = -1
        for index in np.ndindex(counts.shape):
            path = _walk(predecessors[index[:-1]], int(sources[index[1]]), int(targets[index[-1]]))
            out[index][: counts[index]] = path

    def multiply_sparse(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows,
        excluded: CompressedRows | None,
        demand: Callable[[int], None],
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Array | None, dict[str, int]]:
        """Return the entries of A ⊗ B outside the positions of ``excluded``, one pair after the other."""
        rows, _, columns, *_ = _pairs(plan, A, B)
        places = np.unique(np.stack([rows, columns]), axis=1)
        if excluded is not None:
            taken = set(zip(_row_numbers(excluded).tolist(), excluded.columns.tolist(), strict=True))
            places = places[:, [place not in taken for place in zip(*places.tolist(), strict=True)]]
        demand(places.shape[1])
        starts = np.searchsorted(places[0], np.arange(A.starts.size))
        pattern = CompressedRows(starts, places[1].astype(B.columns.dtype), None, B.width)
        return self.multiply_masked(plan, A, B, pattern, witness_dtype)

    def multiply_masked(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows | Array,
        mask: CompressedRows,
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Array | None, dict[str, int]]:
        """Return the entries of A ⊗ B at the reached positions of ``mask``, one pair after the other."""
        values, reached = np.full(mask.columns.size, plan.zero, plan.dtype), np.zeros(mask.columns.size, np.bool_)
        witness = None if witness_dtype is None else np.full(values.size, -1, witness_dtype)
        places = {
            place: number
            for number, place in enumerate(zip(_row_numbers(mask).tolist(), mask.columns.tolist(), strict=True))
        }
        B = B if isinstance(B, CompressedRows) else _compress(B, mask.width)
        for i, k, j, a, b in zip(*_pairs(plan, A, B), strict=True):
            place = places.get((int(i), int(j)))
            if place is not None:
                self._add_term(plan, values, witness, place, a, b, k)
                reached[place] = True
        starts = np.append(0, np.cumsum(reached))[mask.starts]
        entries = CompressedRows(starts, mask.columns[reached], values[reached], mask.width)
        return entries, None if witness is None else witness[reached], {"list": mask.starts.size - 1}

    def multiply_mixed(
        self,
        plan: KernelPlan,
        C: Array,
        A: CompressedRows | Array,
        B: CompressedRows | Array,
        witness: Array | None,
        of_entries: bool = False,
    ) -> None:
        """Compute C ← A ⊗ B for one sparse and one dense operand, one pair after the other."""
        C[...] = plan.zero
        left = A if isinstance(A, CompressedRows) else _compress(A, A.shape[1])
        right = B if isinstance(B, CompressedRows) else _compress(B, B.shape[1])
        i, k, j, a, b = _pairs(plan, left, right)
        noted = np.repeat(np.arange(left.columns.size), np.diff(right.starts)[left.columns]) if of_entries else k
        for row, number, column, x, y in zip(i, noted, j, a, b, strict=True):
            self._add_term(plan, C, witness, (row, column), x, y, number)

    def scan_rows(self, plan: KernelPlan, A: CompressedRows, bounds: tuple[Any, Any] | None) -> tuple[bool, bool]:
        """Return whether A is valid, and has no sign bit, one row after the other."""
        starts, columns, values = A[:3]
        if starts[0] or (np.diff(starts) < 0).any() or starts[-1] > columns.size:
            return False, False
        rows = [columns[a:b] for a, b in pairwise(starts.tolist())]
        if any((np.diff(row) <= 0).any() or (row < 0).any() or (row >= A.width).any() for row in rows):
            return False, False
        values = values[: starts[-1]]
        is_inside = bounds is None or bool(((values >= bounds[0]) & (values <= bounds[1])).all())
        return is_inside, not (values.view(f"i{values.itemsize}") < 0).any()

    def multiply_unvalidated(
        self, plan: KernelPlan, C: Array, A: CompressedRows, B: Array, bounds: tuple[Any, Any] | None
    ) -> bool:
        """Compute C ← A ⊗ B after a scan of both operands, and return whether they are valid."""
        is_valid = bounds is None or bool(((bounds[0] <= B) & (bounds[1] >= B)).all())
        if not (is_valid and self.scan_rows(plan, A, bounds)[0]):
            return False
        end = int(A.starts[-1])
        self.multiply_mixed(plan, C, A._replace(columns=A.columns[:end], values=A.values[:end]), B, None)
        return True

    def prepare(self, plan: KernelPlan, A: Array | tuple[CompressedRows, ...], groups: Array) -> Any:
        """Return the matrices of each row of the batch, (m, 1 or T, n, n), where sparse matrices become dense."""
        if isinstance(A, tuple):
            matrices = np.full((1, len(A), A[0].width, A[0].width), plan.zero, plan.dtype)
            for t, rows in enumerate(A):
                matrices[0, t, _row_numbers(rows), rows.columns] = rows.values
            A = matrices
        return A[groups]

    def walk(self, plan: KernelPlan, preparation: Any, x: Array, steps: Steps) -> None:
        """Advance each row by one step after the other, one k after the other."""
        for i, matrices in enumerate(preparation):
            for t in range(steps.number):
                y, w = np.full((1, x.shape[1]), plan.zero, plan.dtype), np.full((1, x.shape[1]), -1, np.int32)
                if steps.lengths is None or t < steps.lengths[i]:
                    A = matrices[steps.first + t if len(matrices) > 1 else 0]
                    multiply = self.multiply_add if steps.witness is None else self._multiply_with_witness
                    multiply(plan, y, x[i : i + 1], A, *(() if steps.witness is None else (w,)))
                    x[i] = y if steps.weights is None else _mul(plan, y, steps.weights[i, t])
                if steps.states is not None:
                    steps.states[i, t] = x[i]
                if steps.witness is not None:
                    steps.witness[i, t] = w

    def _multiply_with_witness(self, plan: KernelPlan, C: Array, A: Array, B: Array, W: Array) -> None:
        self.multiply_add_witness(plan, C, W, A, B, 0)

    def trace(self, plan: KernelPlan, W: Array, is_reached: Array, lengths: Array | None) -> None:
        follow_witnesses(W, is_reached, lengths)

    def add_dependencies(
        self, plan: KernelPlan, graph: Any, sources: Array, has_endpoints: bool, vertex_sums: Array, edge_sums: Array
    ) -> None:
        """Add the dependencies by Brandes's algorithm, with counts of paths in integers of any size."""
        block = dependency_block(graph[0].size + graph[1].size)
        for start in range(0, sources.size, block):
            sums = np.zeros_like(vertex_sums), np.zeros_like(edge_sums)
            for source in sources[start : start + block].tolist():
                _add_dependencies_of(graph, source, has_endpoints, *sums)
            vertex_sums += sums[0]
            edge_sums += sums[1]

    def open_spur_searches(
        self, plan: KernelPlan, rows: tuple[Array, Array, Array], h: Array, target: int, margin: tuple[float, float]
    ) -> SpurSearches:
        """Return searches that relax all edges, and then follow the edges that attain the best value."""
        return _SpurSearches(plan, rows, h, target)

    def list_edges(self, plan: KernelPlan, A: Array) -> Adjacency:
        """Return the edges that differ from 0̄, and those of the transposed matrix."""
        parts: list[Array] = []
        for matrix in (A, A.T):
            is_edge = (matrix != plan.zero) & ~np.eye(len(A), dtype=bool)
            rows, columns = np.nonzero(is_edge)
            starts = np.concatenate([[0], np.cumsum(is_edge.sum(axis=1))])
            parts += [starts.astype(np.int64), columns.astype(np.int32), matrix[rows, columns]]
        return Adjacency(*parts)

    def improve(
        self, plan: KernelPlan, D: Array, P: Array, tails: Array, heads: Array, weights: Array, touched: Array
    ) -> int:
        """Add one edge after the other, by a product of a column and a row."""
        count = 0
        for u, v, weight in zip(tails.tolist(), heads.tolist(), weights, strict=True):
            offers = _mul(plan, _mul(plan, D[:, u : u + 1], np.full((1, 1), weight)), D[v : v + 1])
            is_better = (_add(plan, D, offers) != D) & (np.arange(len(D)) != v)[:, None]
            D[is_better] = offers[is_better]
            if P.size:
                before = np.broadcast_to(np.where(np.arange(len(D)) == v, u, P[v]), D.shape)
                P[is_better] = before[is_better]
            count += int((is_better & ~touched).sum() if touched.size else is_better.sum())
            if touched.size:
                touched |= is_better
        return count

    def count_users(
        self,
        plan: KernelPlan,
        D: Array,
        P: Array,
        adjacency: Adjacency,
        tails: Array,
        heads: Array,
        weights: Array,
        tolerance: tuple[float, float],
    ) -> Array:
        """Return that every path may use the edges."""
        return np.full(len(D), len(D))

    def repair(
        self,
        plan: KernelPlan,
        D: Array,
        P: Array,
        adjacency: Adjacency,
        tails: Array,
        heads: Array,
        weights: Array,
        tolerance: tuple[float, float],
        counts: Array,
        touched: Array,
    ) -> tuple[Array, Array] | None:
        """Find all values again by sweeps over the matrix, and the predecessors from them."""
        n, old = len(D), D.copy()
        A = np.full((n, n), plan.zero, D.dtype)
        A[np.repeat(np.arange(n), np.diff(adjacency.starts)), adjacency.heads] = adjacency.weights
        D[...] = A
        np.fill_diagonal(D, plan.one)
        for _ in range(n):
            before = D.copy()
            self.multiply_add(plan, D, before, A)
            if np.array_equal(before, D):
                break
        if P.size:
            P[...] = reference_predecessors(plan, D, A, tolerance_for(plan, D))
        pairs = np.flatnonzero(old != D)
        if touched.size:
            touched.reshape(-1)[pairs] = True
        return pairs, old.reshape(-1)[pairs]

    def count_changed(self, plan: KernelPlan, D: Array, pairs: Array, values: Array) -> int:
        """Compare the values."""
        return int((D.reshape(-1)[pairs] != values).sum())

    def _add_term(
        self, plan: KernelPlan, values: Array, witness: Array | None, place: Any, a: Any, b: Any, k: int
    ) -> None:
        """Add a ⊗ b to an entry, and note its witness."""
        before = values[place]
        values[place] = _add(plan, before, _mul(plan, a, b))
        if witness is not None and values[place] != before:
            witness[place] = k

    def _eliminate(self, plan: KernelPlan, A: Array) -> None:
        """Close A by Lehmann's elimination, A[i, j] ⊕= A[i, k] ⊗ A[k, k]* ⊗ A[k, j] for each pivot k.

        The row and the column of the pivot come last.
        """
        if plan.semiring.star_expression is None:
            raise no_star(plan.semiring.name)
        plan.semiring.star_expression.check_dtype(plan.dtype)
        for k in range(A.shape[0]):
            pivot = A[k : k + 1, k : k + 1].copy()
            divergence = plan.semiring.divergence
            if divergence is not None and np.any(divergence.evaluate({"x": pivot}, plan.dtype)):
                plan.status.diverged = k
                return
            star = np.broadcast_to(plan.semiring.star_expression.evaluate({"x": pivot}, plan.dtype), (1, 1))
            column, row = _mul(plan, A[:, k : k + 1], star), A[k : k + 1, :].copy()
            others = np.arange(A.shape[0]) != k
            A[np.ix_(others, others)] = _add(plan, A, _mul(plan, column, row))[np.ix_(others, others)]
            A[others, k] = column[others, 0]
            A[k, others] = _mul(plan, star, row)[0, others]
            A[k, k] = star[0, 0]


def _walk(tree: Array, source: int, vertex: int) -> list[int] | None:
    """Return the vertices of a path, [] if there is none, and None if the predecessors (n,) do not end."""
    path = [vertex]
    while path[-1] != source:
        before = int(tree[path[-1]])
        if before < 0:
            return []
        if before >= tree.size or len(path) >= tree.size:
            return None
        path.append(before)
    return path[::-1]


def _add_dependencies_of(graph: Any, source: int, has_endpoints: bool, vertex_sums: Array, edge_sums: Array) -> None:
    """Add the dependencies of one source."""
    starts, heads, weights, ranks = (array.tolist() for array in graph)
    weights = weights or [1] * len(heads)
    distances, queue = {source: 0}, [(0, 0, source)]
    order: dict[int, int] = {}
    while queue:
        distance, _, v = heappop(queue)
        if v in order:
            continue
        order[v] = len(order)
        for e in range(starts[v], starts[v + 1]):
            u, length = heads[e], distance + weights[e]
            if u not in distances or length < distances[u]:
                distances[u] = length
                heappush(queue, (length, ranks[u] if ranks else 0, u))
    counts: dict[int, int] = {**dict.fromkeys(order, 0), source: 1}
    tight: list[tuple[int, int, int]] = []
    for v in order:
        for e in range(starts[v], starts[v + 1]):
            if distances[v] + weights[e] == distances[heads[e]] and order[heads[e]] > order[v]:
                counts[heads[e]] += counts[v]
                tight.append((v, e, heads[e]))
    dependencies = dict.fromkeys(order, 0.0)
    for v, e, u in reversed(tight):
        share = counts[v] / counts[u] * (1 + dependencies[u])
        dependencies[v] += share
        if edge_sums.size:
            edge_sums[e] += share
    for v, dependency in dependencies.items():
        if v != source:
            vertex_sums[v] += dependency + has_endpoints
    vertex_sums[source] += (len(order) - 1) * has_endpoints


def _row_numbers(rows: CompressedRows) -> Array:
    """Return the row of each entry of a sparse matrix."""
    numbers: Array = np.repeat(np.arange(rows.starts.size - 1), np.diff(rows.starts))
    return numbers


def _compress(matrix: Array, width: int) -> CompressedRows:
    """Return a dense matrix as a sparse one that stores every entry."""
    m = matrix.shape[0]
    return CompressedRows(np.arange(m + 1) * width, np.tile(np.arange(width), m), matrix.ravel(), width)


def _pairs(plan: KernelPlan, A: CompressedRows, B: CompressedRows) -> tuple[Array, Array, Array, Array, Array]:
    """Return i, k, j, A[i, k] and B[k, j] of every pair of stored entries, by rows of A and then by k."""
    counts = np.diff(B.starts)[A.columns]
    ends = np.cumsum(counts)
    entries = np.arange(counts.sum()) + np.repeat(B.starts[A.columns] - ends + counts, counts)
    return (
        np.repeat(_row_numbers(A), counts),
        np.repeat(A.columns, counts),
        B.columns[entries],
        np.repeat(A.values, counts),
        B.values[entries],
    )


def _operands(C: Array, A: Array, B: Array, columns: int | None = None) -> tuple[Array, Array, Array]:
    """Return C, A and B unpacked.

    The number of rows of B is the inner size, and zero tail bits give zero tail columns.
    """
    n = 32 * C.shape[1] if columns is None else columns
    return unpack_bits(C, n), unpack_bits(A, B.shape[0]), unpack_bits(B, n)


class _SpurSearches:
    """Compute `SpurSearches` of the contract; ``to_target`` holds where no path leads on."""

    def __init__(self, plan: KernelPlan, rows: tuple[Array, Array, Array], to_target: Array, target: int) -> None:
        starts, self._heads, self._weights = rows
        self._plan, self._target, self._h = plan, target, to_target
        self._rows = [slice(starts[v], starts[v + 1]) for v in range(to_target.size)]

    def _edges(self, vertex: int, avoided: set[int]) -> list[tuple[int, float]]:
        """Return the heads and weights of the edges of a vertex to open vertices that are not avoided."""
        own = self._rows[vertex]
        edges = zip(self._heads[own].tolist(), self._weights[own].tolist(), strict=True)
        return [(u, w) for u, w in edges if u not in avoided and self._h[u] != self._plan.zero]

    def _times(self, x: float, y: float) -> float:
        return float(self._plan.semiring.mul(x, y))

    def _is_better(self, x: float, y: float) -> bool:
        return x != y and float(self._plan.semiring.add(x, y)) == x

    def search(self, prefix: Array, banned: Array, bound: float) -> tuple[Array, float]:
        path, avoided, value = prefix.tolist(), set(prefix.tolist()), float(self._plan.one)
        for u, v in pairwise(path):
            value = self._times(value, dict(self._edges(u, set()))[v])
        best = self._best_value(path[-1], value, avoided, set(banned.tolist()))
        if best == self._plan.zero:
            return np.empty(0, np.int32), best
        while path[-1] != self._target:  # to the first vertex from which the best value can still be attained
            closed = avoided | (set(banned.tolist()) if len(path) == prefix.size else set())
            for u, weight in self._edges(path[-1], closed):
                further = self._times(value, weight)
                if self._best_value(u, further, avoided | {u}, set()) == best:
                    path.append(u)
                    avoided.add(u)
                    value = further
                    break
        return np.array(path, np.int32), best

    def _best_value(self, vertex: int, value: float, avoided: set[int], banned: set[int]) -> float:
        """Return the value of the best walk to the target that continues a path and avoids its vertices."""
        if vertex == self._target:
            return value
        reached, waiting = {vertex: value}, [vertex]
        while waiting:
            v = waiting.pop()
            for u, weight in self._edges(v, avoided | banned if v == vertex else avoided):
                further = self._times(reached[v], weight)
                if u not in reached or self._is_better(further, reached[u]):
                    reached[u] = further
                    waiting += [] if u == self._target else [u]
        return reached.get(self._target, float(self._plan.zero))

    def bound(self, path: Array, first: int, banned: Array) -> Array:
        bounds, value = np.full(path.size, self._plan.zero, np.float64), float(self._plan.one)
        for c, (v, following) in enumerate(pairwise(path.tolist())):
            avoided = {*path[: c + 1].tolist(), following, *(banned.tolist() if c == first else [])}
            for u, weight in self._edges(v, avoided):
                offer = self._times(self._times(value, weight), float(self._h[u]))
                if self._is_better(offer, bounds[c]):
                    bounds[c] = offer
            value = self._times(value, dict(self._edges(v, set()))[following])
        return bounds
