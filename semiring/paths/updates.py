"""Change edges of a closed graph in place: distances and predecessors follow without another closure.

Better edges improve pairs (`UpdateKernels.improve`), and worse edges leave pairs to repair (`UpdateKernels.repair`).
The matrix is closed again where that is predicted to take less time, and for everything that these kernels do not
compute. That is a ⊕ that only adds, floats of 16 bits, integers near the ends of their range, and cycles that may gain.
All of this is decided, and every error is raised, before the first write.

The matrices are NumPy arrays, or CuPy arrays on a GPU. The edges that change are arrays of the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.advice import option, quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, min_plus
from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.dijkstra import never_improves
from semiring.algorithms.schedule import dense_operations, search_operations
from semiring.arguments import as_numbers, check_flags, is_one_of
from semiring.arrays.device import addresses, as_cupy, may_write_to
from semiring.arrays.encoding import convert
from semiring.arrays.entries import check_entries
from semiring.arrays.folds import fold_rows
from semiring.arrays.operands import device_context
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import refuse_unbounded
from semiring.arrays.vertices import Vertices
from semiring.arrays.zero_conventions import trust_zeros
from semiring.closures import closure, closure_with_predecessors
from semiring.errors import AlgebraError, DeviceError, DivergenceError, DomainError, DTypeError, ShapeError
from semiring.kernels import backend_for
from semiring.kernels.contract import Adjacency, KernelPlan, UpdateKernels
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace, is_device_array
from semiring.thread_counts import check_threads, get_threads

__all__ = ["ClosedGraph", "change_edges", "read_edges", "require_closed", "update"]

Array = NDArray[Any]

#: The cost of a pair that is repaired, in float64 pairs of a dense closure, and of each edge at its vertex. Measured on
#: Zen 4 for 700 to 2,048 vertices with 4 to 700 edges each: 0.2 to 4.5 µs a pair.
_REPAIR_OPERATIONS, _EDGE_OPERATIONS = 4000, 200
#: The same on a GPU, in its pairs, and the cost of the call itself. Measured on an H200 for 4,096 vertices with 4 edges
#: each: 2.5 ms, and 2 to 5 ns a pair.
_DEVICE_CALL, _DEVICE_REPAIR_OPERATIONS, _DEVICE_EDGE_OPERATIONS = 1e10, 4000, 1000
_MOST_CYCLE_EDGES = 2000  # better edges whose cycles are searched; more are closed again


def update(
    D: Any,
    A: Any,
    tails: Any,
    heads: Any,
    weights: Any,
    semiring: Semiring | str | None = None,
    *,
    predecessors: Any = None,
    directed: bool = True,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> int:
    """Change edges of A and its closure D in place, and return how many entries of D change.

    Parameters
    ----------
    D : array, shape (n, n)
        The closure A*, of the dtype of A. It is overwritten.
    A : array, shape (n, n)
        The matrix of the edges. The new weights are written to it.
    tails, heads : sequence of int, or int
        The ends of the edges tails[e] → heads[e], k vertices each.
    weights : sequence of scalar, or scalar
        The k new weights, or one for all edges. A weight replaces that of the edge, better or worse; the zero of the
        semiring removes the edge.
    semiring : Semiring or str, optional
        An idempotent semiring with a closure, by default min-plus.
    predecessors : array of int32, shape (n, n), optional
        The predecessors of D, as `Paths.predecessors` has them. They are changed in place, too.
    directed : bool, default True
        False changes both directions of each edge.
    check : bool, default True
        Whether to validate the new weights.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        "cpu" or "cuda", where the arrays are: an array is changed in its own memory.

    Returns
    -------
    int
        The number of pairs whose entry of D differs from before.

    Raises
    ------
    NegativeCycleError, DivergenceError
        If a new weight makes a cycle that improves without end. No array is changed.
    AlgebraError
        If ⊕ is not idempotent, or predecessors are given and ⊕ does not select.
    ShapeError, DTypeError, DeviceError, TypeError
        If D, A and the predecessors are not arrays of one shape, dtype and device: of NumPy, or of CuPy, PyTorch or
        another library with arrays on a GPU that can be changed.
    ValueError
        If an array is read-only, or an edge is listed with two weights.
    VertexError, DomainError, IntegerOverflowError
        If there is no such vertex, or a weight is not valid.

    Notes
    -----
    A better edge costs O(n), and the pairs that improve. A worse edge costs O(d log n) for each pair whose best path
    may use it, for d edges at a vertex, and one pass over A. Where this takes longer than a closure, A is closed again.
    D equals a new closure bit for bit where sums are exact, and within the bound of a closure otherwise. After Ctrl-C
    the arrays hold some of the changes: close A again. `Paths.update` keeps what it knows of the edges, so worse edges
    take no pass over A in the memory of the host. Sources: see `semiring.kernels.cpu.update_loops`.

    Examples
    --------
    >>> import numpy as np
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> A = np.array([[inf, 3, inf], [inf, inf, 4], [inf, inf, inf]])
    >>> D = sr.closure(A)
    >>> sr.update(D, A, 0, 2, 5.0)
    1
    >>> D
    array([[ 0.,  3.,  5.],
           [inf,  0.,  4.],
           [inf, inf,  0.]])
    """
    check_flags({"directed": directed, "check": check})
    count = get_threads() if threads is None else check_threads(threads)
    algebra = min_plus if semiring is None else as_semiring(semiring)
    arrays = {"D": D, "A": A} | ({} if predecessors is None else {"predecessors": predecessors})
    on_device, on_cpu = is_device_array(D), is_one_of(device, ("cpu",))
    if device is not None and on_device == on_cpu:
        home = "a GPU" if on_device else "the host"
        raise DeviceError(
            f"{option('device', device)} is not where D is, in the memory of {home}: arrays are changed where they "
            "are, so leave device out, or copy them"
        )
    with device_context(tuple(arrays.values()), device if on_device else None):
        opened = _open_arrays(arrays, on_device)
        graph = ClosedGraph(opened["D"], opened["A"], algebra, opened.get("predecessors"))
        D, A = graph.D, graph.A
        if A.dtype != D.dtype:
            raise DTypeError(f"D is {D.dtype} and A is {A.dtype}: pass arrays of one dtype")
        algebra.check_dtype(D.dtype)
        if graph.predecessors is not None and graph.predecessors.dtype != np.int32:
            raise DTypeError(f"predecessors are {graph.predecessors.dtype}: pass int32")
        if not algebra.idempotent:
            raise AlgebraError(
                f"the ⊕ of {algebra.name} is not idempotent, so the old edges cannot be replaced: close A"
            )
        require_closed(D, algebra)
        edges = read_edges(Vertices(len(D)), tails, heads, weights, algebra, D.dtype, directed=directed, check=check)
        return change_edges(graph, edges, count)


def _open_arrays(arrays: dict[str, Any], on_device: bool) -> dict[str, Any]:
    """Return arrays that are changed in place as NumPy arrays, or as CuPy arrays of the same memory."""
    opened: dict[str, Any] = {}
    for name, array in arrays.items():
        if not is_device_array(array) and not isinstance(array, np.ndarray):
            raise TypeError(
                f"{name} is changed in place, so it is an array of NumPy or of a GPU, not {quote(array)}: copy it to "
                "one, or call update of the paths, which shortest_paths computes of a matrix of any kind"
            )
        if is_device_array(array) != on_device:
            raise DeviceError(f"one of D and {name} is on a GPU, and the other is not: pass arrays of one device")
        if array.ndim != 2 or tuple(array.shape) != (arrays["D"].shape[0],) * 2:
            raise ShapeError(f"{name} is {tuple(array.shape)}, and D, A and predecessors are (n, n) of one n")
        if not (may_write_to(array) if on_device else array.flags.writeable):
            raise ValueError(f"{name} is read-only, and update changes it in place: pass a copy")
        opened[name] = as_cupy(array, name) if on_device else array
    D, A = opened["D"], opened["A"]
    if np.shares_memory(*((addresses(D), addresses(A)) if on_device else (D, A))):
        raise ValueError("D and A share memory: pass the closure and the edges in two arrays")
    return opened


def require_closed(D: Array, semiring: Semiring) -> None:
    """Raise `AlgebraError` if a path from a vertex to itself is not the empty path."""
    own = to_host_array(D.diagonal())
    wrong = own != semiring.one_for(D.dtype)
    if wrong.any():
        v = int(wrong.argmax())
        raise AlgebraError(
            f"the entry of the closure at [{v}, {v}] is {own[v]}, not {semiring.one_for(D.dtype)}, the one of "
            f"{semiring.name}: give the closure before the matrix, and its semiring. Closures of paths with at least "
            "one edge, or with cycles that improve without end, are not updated"
        )


@dataclass(frozen=True, eq=False)
class ChangedEdges:
    """Edges with new weights, each listed once."""

    tails: Array  # (k,) int64
    heads: Array
    weights: Array  # (k,) of the dtype of the matrix

    def select(self, mask: Array) -> ChangedEdges:
        return ChangedEdges(self.tails[mask], self.heads[mask], self.weights[mask])


@dataclass(eq=False)
class ClosedGraph:
    """A closure D (n, n) of A (n, n), which are changed in place, and what is known of their edges."""

    D: Any
    A: Any
    semiring: Semiring
    predecessors: Any = None
    adjacency: Adjacency | None = None
    is_writing: bool = False  # whether arrays hold a part of the changes


def read_edges(
    vertices: Vertices,
    tails: Any,
    heads: Any,
    weights: Any,
    semiring: Semiring,
    dtype: np.dtype[Any],
    *,
    directed: bool,
    check: bool = True,
) -> ChangedEdges:
    """Return the edges that a caller lists, by names or numbers, in both directions unless ``directed``.

    Raises `VertexError`, `ShapeError`, `DomainError`, `DTypeError`, and `ValueError` for an edge with two weights.
    """
    values = as_numbers(weights, "weights")
    if values.ndim == 0 and vertices.is_one(tails):
        values, tails, heads = values[None], [tails], [heads]
    elif values.ndim == 0:
        tails = tails if hasattr(tails, "__len__") else list(tails)
        values = np.full(len(tails), values)  # one weight for all edges
    rows, columns = vertices.indices(tails), vertices.indices(heads)
    if not rows.shape == columns.shape == values.shape:
        raise ShapeError(
            f"there are {rows.size} tails, {columns.size} heads and weights of shape {values.shape}: list one of each "
            "for an edge"
        )
    if values.dtype.kind not in "fiub" and values.dtype.name != "bfloat16":
        raise DTypeError(f"weights are {values.dtype}: pass numbers")
    if dtype.kind in "iu" and values.dtype.kind == "f":  # ∞ removes an edge of integers
        is_none = values == semiring.zero_for(values.dtype)
        kept = convert(np.where(is_none, 0, values), semiring, dtype, "weights")
        values = np.where(is_none, semiring.zero_for(dtype), kept)
    values = convert(values, semiring, dtype, "weights")
    if check:
        try:
            scan = check_entries(values, semiring, "weights")
            if semiring.tropical is not None:
                refuse_unbounded(values, scan, semiring)
        except DomainError as error:
            (entry,) = error.position
            raise error.at(int(rows[entry]), int(columns[entry])).named(vertices.names) from None
    if not directed:
        rows, columns = np.concatenate([rows, columns]), np.concatenate([columns, rows])
        values = np.concatenate([values, values])
    cells, first, place = np.unique(rows * len(vertices) + columns, return_index=True, return_inverse=True)
    if not np.array_equal(values[first][place], values):
        edge = int(np.flatnonzero(values[first][place] != values)[0])
        i, j = vertices.name(int(rows[edge])), vertices.name(int(columns[edge]))
        raise ValueError(f"the edge {i} → {j} is listed with two weights: list it once")
    return ChangedEdges(cells // len(vertices), cells % len(vertices), values[first])


def change_edges(graph: ClosedGraph, edges: ChangedEdges, threads: int) -> int:
    """Give edges their new weights, and return how many pairs of the closure change."""
    A, semiring = graph.A, graph.semiring
    old = _read(A, edges.tails, edges.heads)
    is_changed = old != edges.weights
    edges, old = edges.select(is_changed), old[is_changed]
    if not edges.tails.size:
        return 0
    is_better = np.asarray(semiring.add(edges.weights, old) == edges.weights)
    if not _has_room(graph, edges) or _may_gain(graph, edges.select(is_better)):
        return _close_again(graph, edges, threads)
    if not semiring.selective:
        return _add_edges(graph, edges) if is_better.all() else _close_again(graph, edges, threads)
    kernels = backend_for(A, semiring, A.dtype).capabilities.updates
    if kernels is None:
        return _close_again(graph, edges, threads)
    if not (graph.D.flags.c_contiguous and (graph.predecessors is None or graph.predecessors.flags.c_contiguous)):
        return _change_copy(graph, edges, threads)
    return _change_in_place(graph, kernels, edges, old, is_better, threads)


def _read(A: Any, rows: Array, columns: Array) -> Array:
    """Return some entries of a matrix, in the memory of the host."""
    entries: Array = to_host_array(_flatten(A)[_places(A, rows, columns)])
    return entries


def _write(A: Any, edges: ChangedEdges) -> None:
    _flatten(A)[_places(A, edges.tails, edges.heads)] = array_namespace(A).asarray(edges.weights)


def _flatten(A: Any) -> Any:
    """Return a C-contiguous matrix as a vector of the same memory, and any other matrix as it is."""
    return A.reshape(-1) if A.flags.c_contiguous else A


def _places(A: Any, rows: Array, columns: Array) -> Any:
    """Return the index of some entries of `_flatten` (A). One index costs a GPU one launch, and two cost it several."""
    xp = array_namespace(A)
    return xp.asarray(rows * len(A) + columns) if A.flags.c_contiguous else (xp.asarray(rows), xp.asarray(columns))


def _change_in_place(
    graph: ClosedGraph, kernels: UpdateKernels, edges: ChangedEdges, old: Array, is_better: Array, threads: int
) -> int:
    """Repair the pairs of edges that became worse, and then improve the pairs of better edges."""
    D, A, n, semiring, xp = graph.D, graph.A, len(graph.D), graph.semiring, array_namespace(graph.D)
    P = xp.empty((0, 0), np.int32) if graph.predecessors is None else graph.predecessors
    plan = make_plan(semiring, A.dtype, threads=threads)
    plan = replace(plan, zero=semiring.zero_for(A.dtype))
    better, worse, count = edges.select(is_better), edges.select(~is_better), 0
    touched = xp.zeros((n, n) if edges.tails.size > 1 else (0, 0), np.bool_)
    before: tuple[Any, Any] | None = None  # pairs that are repaired, and their old values
    adjacency = graph.adjacency
    if worse.tails.size:
        adjacency = _adjacency_without(graph, worse, kernels, plan)
        users = worse.tails, worse.heads, old[~is_better], _tolerance(graph, plan)
        counts = kernels.count_users(plan, D, P, adjacency, *users)
        if _repair_operations(int(counts.sum()), graph, adjacency) > _closing_operations(graph, adjacency):
            return _close_again(graph, edges, threads)
        backup = (D.copy(), P.copy()) if _may_improve(semiring, adjacency.weights) else None
        graph.is_writing, graph.adjacency = True, None
        before = kernels.repair(plan, D, P, adjacency, *users, counts, touched)
        if before is None:  # only if weights gain
            assert backup is not None
            D[...], P[...] = backup
            graph.is_writing = False
            return _close_again(graph, edges, threads)
    graph.is_writing, graph.adjacency = True, None
    _write(A, edges)
    if better.tails.size:
        count += kernels.improve(plan, D, P, better.tails, better.heads, better.weights, touched)
    if before is not None:
        count += kernels.count_changed(plan, D, *before)
    if adjacency is not None and not is_device_array(D):
        graph.adjacency = _replace_weights(adjacency, better, plan.zero)
    graph.is_writing = False
    return count


def _change_copy(graph: ClosedGraph, edges: ChangedEdges, threads: int) -> int:
    """Change C-contiguous copies, and copy the results back."""
    P = graph.predecessors
    copy = replace(graph, D=graph.D.copy("C"), A=graph.A.copy("C"), predecessors=None if P is None else P.copy("C"))
    count = change_edges(copy, edges, threads)
    graph.is_writing = True
    graph.D[...], graph.A[...] = copy.D, copy.A
    if P is not None:
        P[...] = copy.predecessors
    graph.adjacency, graph.is_writing = copy.adjacency, False
    return count


def _close_again(graph: ClosedGraph, edges: ChangedEdges, threads: int) -> int:
    """Close the matrix with the new weights. Return how many entries differ."""
    D, P, semiring = graph.D, graph.predecessors, graph.semiring
    A = graph.A.copy()
    _write(A, edges)
    with trust_zeros():
        if P is None:
            closed, trees = closure(A, semiring, threads=threads), None
        else:
            closed, trees = closure_with_predecessors(A, semiring, threads=threads)
    count = int((closed != D).sum())
    graph.is_writing, graph.adjacency = True, None
    _write(graph.A, edges)
    D[...] = closed
    if P is not None:
        P[...] = trees
    graph.is_writing = False
    return count


def _add_edges(graph: ClosedGraph, edges: ChangedEdges) -> int:
    """Add edges to a closure over a ⊕ that is idempotent: D ⊕ D[:, u] ⊗ s ⊗ D[v, :] for s = w ⊗ (D[v, u] ⊗ w)*."""
    D, semiring, xp = graph.D.copy(), graph.semiring, array_namespace(graph.D)
    weights = xp.asarray(edges.weights)
    for number, (u, v) in enumerate(zip(edges.tails.tolist(), edges.heads.tolist(), strict=True)):
        weight = weights[number : number + 1, None]
        loop = closure(xp.asarray(semiring.mul(D[v : v + 1, u : u + 1], weight)), semiring)
        column = semiring.mul(D[:, u : u + 1], xp.asarray(semiring.mul(weight, loop)))
        D = xp.asarray(semiring.add(D, semiring.mul(column, D[v : v + 1])), D.dtype)
    count = int((graph.D != D).sum())
    graph.is_writing = True
    _write(graph.A, edges)
    graph.D[...] = D
    graph.is_writing, graph.adjacency = False, None
    return count


# ------------------------------------------------------------------------------------------------- before a change


def _may_gain(graph: ClosedGraph, better: ChangedEdges) -> bool:
    """Return whether a cycle through better edges may improve on 1̄, so that a closure has to find and name it."""
    semiring, D, k = graph.semiring, graph.D, better.tails.size
    if semiring.absorptive or not k:
        return False
    if k > _MOST_CYCLE_EDGES:
        return True
    returns = _read(D, better.heads[:, None], better.tails)
    links = np.asarray(semiring.mul(better.weights[:, None], returns), D.dtype)
    zero, one = semiring.zero_for(D.dtype), semiring.one_for(D.dtype)
    links[returns == zero] = zero
    if bool((semiring.add(links, one) == one).all()):
        return False
    try:
        with trust_zeros():
            closure(links, semiring)
    except (DivergenceError, DomainError):
        return True
    return False


def _may_improve(semiring: Semiring, weights: Any) -> bool:
    """Return whether some weight (m,) is better than 1̄, for a ⊕ that selects."""
    if semiring.absorptive or not weights.size:
        return False
    best = fold_rows(weights[np.newaxis], semiring, worst=False)
    return not never_improves(semiring, to_host_array(best))


def _has_room(graph: ClosedGraph, edges: ChangedEdges) -> bool:
    """Return whether no sum of distances and new weights can leave the range of an integer dtype."""
    D, semiring = graph.D, graph.semiring
    if D.dtype.kind not in "iu" or semiring.tropical is None:
        return D.dtype.kind not in "iu" or semiring.absorptive
    zero = semiring.zero_for(D.dtype)

    def largest(values: Any) -> int:
        kept = array_namespace(values).where(values != zero, values, 0)
        return max(abs(int(kept.max())), abs(int(kept.min())))

    heaviest = max(largest(graph.A), largest(edges.weights))
    return len(D) * heaviest < np.iinfo(D.dtype).max // 4


def _tolerance(graph: ClosedGraph, plan: KernelPlan) -> tuple[float, float]:
    """Return the rounding error of a distance, (a, b) for a · |d| + b, below which a path may use an edge."""
    D = graph.D
    if graph.predecessors is not None or not is_floating(D.dtype):
        return 0.0, 0.0
    share = 2 * len(D) * float(np.finfo(D.dtype).eps)
    if graph.semiring.absorptive and graph.semiring.tropical is None:
        return share, 0.0
    xp = array_namespace(D)
    return share, share * float(xp.abs(xp.where(xp.isfinite(D), D, 0)).max())


def _repair_operations(pairs: int, graph: ClosedGraph, adjacency: Adjacency) -> float:
    """Predict the cost of a repair, in float64 pairs of a dense closure on the same device."""
    degree: float = adjacency.heads.size / max(1, adjacency.starts.size - 1)
    if is_device_array(graph.D):
        return _DEVICE_CALL + pairs * (_DEVICE_REPAIR_OPERATIONS + _DEVICE_EDGE_OPERATIONS * degree)
    return pairs * (_REPAIR_OPERATIONS + _EDGE_OPERATIONS * degree)


def _closing_operations(graph: ClosedGraph, adjacency: Adjacency) -> float:
    n = len(graph.D)
    dense = dense_operations(n, graph.D.itemsize)
    if graph.semiring.tropical and not is_device_array(graph.D):
        return min(dense, search_operations(n, adjacency.heads.size))
    return dense


# ------------------------------------------------------------------------------------------------------ adjacency


def _adjacency_without(graph: ClosedGraph, worse: ChangedEdges, kernels: UpdateKernels, plan: KernelPlan) -> Adjacency:
    """Return the edges with the new weights of the edges that become worse."""
    if is_device_array(graph.A):  # where a pass over the matrix takes less time than a change of the lists
        A = graph.A.copy()
        _write(A, worse)
        return kernels.list_edges(plan, A)
    adjacency = kernels.list_edges(plan, graph.A) if graph.adjacency is None else graph.adjacency
    return _replace_weights(adjacency, worse, plan.zero)


def _replace_weights(adjacency: Adjacency, edges: ChangedEdges, zero: Any) -> Adjacency:
    """Return the adjacency with new weights. Removed edges stay with the weight 0̄, and new edges are inserted."""
    n, proper = adjacency.starts.size - 1, edges.tails != edges.heads
    tails, heads, values = edges.tails[proper], edges.heads[proper], edges.weights[proper]
    parts: list[Array] = []
    for starts, ends, weights, rows, columns in (
        (adjacency.starts, adjacency.heads, adjacency.weights, tails, heads),
        (adjacency.first, adjacency.tails, adjacency.weights_in, heads, tails),
    ):
        places = np.empty(rows.size, np.int64)
        is_listed = np.zeros(rows.size, np.bool_)
        for e, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            place = int(starts[i]) + int(np.searchsorted(ends[starts[i] : starts[i + 1]], j))
            places[e] = place
            is_listed[e] = place < starts[i + 1] and ends[place] == j
        weights = weights.copy()
        weights[places[is_listed]] = values[is_listed]
        fresh = np.flatnonzero(~is_listed & (values != zero))
        fresh = fresh[np.lexsort((columns[fresh], rows[fresh]))]
        if not fresh.size:
            parts += [starts, ends, weights]
            continue
        added = np.bincount(rows[fresh], minlength=n)
        parts += [
            starts + np.concatenate([[0], np.cumsum(added)]),
            np.insert(ends, places[fresh], columns[fresh].astype(np.int32)),
            np.insert(weights, places[fresh], values[fresh]),
        ]
    return Adjacency(*parts)
