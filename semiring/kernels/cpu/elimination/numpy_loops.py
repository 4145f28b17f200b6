"""Factorize sparse matrices and solve by their factors in NumPy, for first calls.

The functions have the names, the arguments and the results of those in `fronts`, `triangular_solve` and `hub_labels`,
with a plan in the place of a semiring and of the native functions (`operands`). They need neither Numba nor a compiler.
Whole fronts are computed at once. The same candidates are added to each entry, so results are bitwise identical if ⊕
selects, ⊗ commutes, and no entry is -0.0. `semiring.kernels.cpu.first_calls.factor_loops` checks this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.numpy_kernels import compile_expression, multiply
from semiring.kernels.definition import define

Tree = tuple[Array, Array, Array, Array]
Fronts = tuple[Array, Array, Array, bool]


def operands(plan: KernelPlan, rows: int, **options: bool) -> tuple[Any, ...]:
    """Return what takes the place of a semiring, and of the addresses and indices of the native functions."""
    return plan, plan, plan, None


class _Front(NamedTuple):
    """The blocks of one supernode, which are views of the memory of a factor: see `fronts`."""

    S: Array  # (k, k)
    R: Array  # (k, m)
    T: Array  # (k, m), the transpose of the block below S; R for a symmetric matrix
    first: int  # pivot
    rows: Array  # (m,)


def _front(memory: Array, node: int, tree: Tree, fronts: Fronts) -> _Front:
    (pivot_starts, row_starts, rows, _), (blocks, right_panels, below_panels, _) = tree, fronts
    first, k = int(pivot_starts[node]), int(pivot_starts[node + 1] - pivot_starts[node])
    own = rows[row_starts[node] : row_starts[node + 1]]
    m = own.size
    S = memory[blocks[node] : blocks[node] + k * k].reshape(k, k)
    R, T = (memory[begin : begin + k * m].reshape(k, m) for begin in (right_panels[node], below_panels[node]))
    return _Front(S, R, T, first, own)


def _operations(plan: KernelPlan) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Return ⊕ and ⊗ of arrays."""
    definition = define(plan)
    add, mul = compile_expression(definition.add, plan.dtype), compile_expression(definition.mul, plan.dtype)

    def times(x: Any, y: Any) -> Array:
        product: Array = mul(x, y, out=np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), plan.dtype))
        return product

    def plus(x: Array, y: Any) -> Array:
        total: Array = add(x, y, out=np.empty_like(x))
        return total

    return plus, times


def scatter_values(values: Array, slots: Array, memory: Array) -> None:
    """Compute `fronts.scatter_values`."""
    memory[slots[slots >= 0]] = values[slots >= 0]


def _close(plan: KernelPlan, S: Array) -> int:
    """Close S (k, k) in place, and return the first pivot without a star, or -1."""
    (plus, times), definition = _operations(plan), define(plan, closing=True)
    assert definition.star is not None
    for p in range(len(S)):
        pivot = S[p, p : p + 1].copy()
        if definition.divergence is not None and np.any(definition.divergence.evaluate({"x": pivot}, plan.dtype)):
            return p
        closed = np.empty(1, plan.dtype)
        closed[...] = definition.star.evaluate({"x": pivot}, plan.dtype)
        row, column = times(closed, S[p]), S[:, p].copy()
        S[...] = plus(S, times(column[:, None], row))
        S[:, p], S[p] = times(column, closed), row
        S[p, p] = closed[0]
    return -1


def _eliminate(plan: KernelPlan, front: _Front, is_symmetric: bool, update: Array) -> int:
    """Compute `fronts.reduce_front`, and return the pivot of the front without a star, or -1."""
    with np.errstate(all="ignore"):
        failed = _close(plan, front.S)
    if failed >= 0 or not front.rows.size:
        return failed
    right = front.R.copy()
    below = right
    multiply(plan, front.R, front.S, right, False)
    if not is_symmetric:
        below = front.T.copy()
        multiply(plan, front.T.T, below.T, front.S, False)
    multiply(plan, update, below.T, front.R, True)  # of a symmetric update the upper triangle is read
    return -1


def _extend(plan: KernelPlan, front: _Front, is_symmetric: bool, update: Array, rows: Array, child: Array) -> None:
    """Add the update (m, m) of a child, whose places are ``rows`` (m,), to the front of its parent."""
    plus, _ = _operations(plan)
    own = int(np.searchsorted(rows, front.first + len(front.S)))
    x, y = rows[:own] - front.first, np.searchsorted(front.rows, rows[own:])
    block = child[:own, :own]
    if is_symmetric:
        block = np.where(np.tri(own, dtype=np.bool_), block.T, block)
    parts = [(front.S, x, x, block), (front.R, x, y, child[:own, own:]), (update, y, y, child[own:, own:])]
    if not is_symmetric:
        parts.append((front.T, x, y, child[own:, :own].T))
    for target, i, j, values in parts:
        if values.size:
            cells = i[:, None], j
            with np.errstate(all="ignore"):
                target[cells] = plus(target[cells], values)


def extend(
    plan: KernelPlan,
    memory: Array,
    node: int,
    tree: Tree,
    fronts: Fronts,
    update: Array,
    child_node: int,
    child: Array,
    place: Array,
) -> None:
    """Compute `fronts.extend`."""
    front, rows = _front(memory, node, tree, fronts), tree[2][tree[1][child_node] : tree[1][child_node + 1]]
    m, count = front.rows.size, rows.size
    _extend(plan, front, fronts[3], update.reshape(m, m), rows, child.reshape(count, count))


def reduce_front(
    plan: KernelPlan, folds: Any, memory: Array, node: int, tree: Tree, fronts: Fronts, zero: Any, update: Array
) -> int:
    """Compute `fronts.reduce_front`."""
    front = _front(memory, node, tree, fronts)
    failed = _eliminate(plan, front, fronts[3], update.reshape(front.rows.size, front.rows.size))
    return failed if failed < 0 else front.first + failed


def _eliminate_open(plan: KernelPlan, front: _Front, is_symmetric: bool, update: Array) -> int:
    """Eliminate a front without closing its block, and return the first pivot without a star, or -1."""
    (plus, times), divergence = _operations(plan), define(plan, closing=True).divergence
    S, R, T, _, _ = front
    for p in range(len(S)):
        if divergence is not None and np.any(divergence.evaluate({"x": S[p, p : p + 1]}, plan.dtype)):
            return p
        later, factors = slice(p + 1, None), S[p + 1 :, p : p + 1]
        S[later, later] = plus(S[later, later], times(factors, S[p, later]))
        R[later] = plus(R[later], times(factors, R[p]))
        if not is_symmetric:
            T[later] = plus(T[later], times(T[p], S[p, later, None]))
        update[...] = plus(update, times(T[p, :, None], R[p]))
    return -1


def _eliminate_supernodes(
    plan: KernelPlan,
    eliminate: Callable[..., int],
    memory: Array,
    nodes: range,
    tree: Tree,
    fronts: Fronts,
) -> tuple[int, Array | None]:
    """Eliminate supernodes, which are whole subtrees. Return the place without a star or -1, and the last update."""
    _, row_starts, rows, parents = tree
    waiting: dict[int, list[tuple[int, Array]]] = {}
    update = None
    for node in nodes:
        front = _front(memory, node, tree, fronts)
        update = np.full((front.rows.size, front.rows.size), plan.zero, plan.dtype)
        for kid, child in waiting.pop(node, []):
            _extend(plan, front, fronts[3], update, rows[row_starts[kid] : row_starts[kid + 1]], child)
        failed = eliminate(plan, front, fronts[3], update)
        if failed >= 0:
            return front.first + failed, None
        waiting.setdefault(int(parents[node]), []).append((node, update))
    return -1, update


def reduce_subtree(
    plan: KernelPlan,
    folds: Any,
    memory: Array,
    start: int,
    end: int,
    tree: Tree,
    fronts: Fronts,
    zero: Any,
    place: Array,
    stack: Array,
    work: Array,
    out: Array,
) -> int:
    """Compute `fronts.reduce_subtree`."""
    failed, update = _eliminate_supernodes(plan, _eliminate, memory, range(start, end), tree, fronts)
    if update is not None:
        out[...] = update.ravel()
    return failed


def reduce_open(
    plan: KernelPlan, memory: Array, tree: Tree, fronts: Fronts, zero: Any, place: Array, stack: Array
) -> int:
    """Compute `fronts.reduce_open`."""
    with np.errstate(all="ignore"):
        return _eliminate_supernodes(plan, _eliminate_open, memory, range(tree[0].size - 1), tree, fronts)[0]


def _panels(
    nodes: Any, pivot_starts: Array, row_starts: Array, rows: Array, memory: Array, panels: Array
) -> Iterator[tuple[int, slice, Array, Array]]:
    """Yield each node with its pivots (k), its rows (m,), and its panel (k, m)."""
    for s in nodes:
        own, below = slice(int(pivot_starts[s]), int(pivot_starts[s + 1])), rows[row_starts[s] : row_starts[s + 1]]
        k = own.stop - own.start
        yield int(s), own, below, memory[panels[s] : panels[s] + k * below.size].reshape(k, below.size)


def ascend(
    plan: KernelPlan,
    ordinals: Any,
    x: Array,
    source: int,
    supernode_of: Array,
    parents: Array,
    pivot_starts: Array,
    row_starts: Array,
    rows: Array,
    memory: Array,
    up_panels: Array,
    zero: Any,
    depth: int,
) -> None:
    """Compute `triangular_solve.ascend`."""
    nodes: list[int] = [] if source >= 0 else [*range(pivot_starts.size - 1)]
    s = int(supernode_of[source]) if source >= 0 else -1
    while s >= 0:
        nodes.append(s)
        s = int(parents[s])
    for _, own, below, panel in _panels(nodes, pivot_starts, row_starts, rows, memory, up_panels):
        if (x[own] != zero).any() and below.size:
            work = x[below]
            multiply(plan, work[None], x[None, own], panel, True)
            x[below] = work


def descend(
    plan: KernelPlan,
    x: Array,
    nodes: Array,
    pivot_starts: Array,
    row_starts: Array,
    rows: Array,
    memory: Array,
    blocks: Array,
    down_panels: Array,
    is_transposed: bool,
    zero: Any,
    depth: int,
    width: int,
) -> None:
    """Compute `triangular_solve.descend`."""
    for s, own, below, panel in _panels(nodes, pivot_starts, row_starts, rows, memory, down_panels):
        k = own.stop - own.start
        if (x[own] != zero).any():
            S = memory[blocks[s] : blocks[s] + k * k].reshape(k, k)
            multiply(plan, x[None, own], x[None, own].copy(), S.T if is_transposed else S, False)
        if below.size:
            multiply(plan, x[own, None], panel, x[below, None], True)


def solve_vectors(
    plan: KernelPlan,
    ordinals: Any,
    X: Array,
    is_active: Array,
    pivot_starts: Array,
    row_starts: Array,
    rows: Array,
    memory: Array,
    blocks: Array,
    up_panels: Array,
    down_panels: Array,
    is_transposed: bool,
    zero: Any,
    max_pivots: int,
) -> None:
    """Compute `triangular_solve.solve_vectors`."""
    tree = pivot_starts, row_starts, rows, memory
    for _, own, below, panel in _panels(np.flatnonzero(is_active), *tree, up_panels):
        if below.size:
            work = X[below]
            multiply(plan, work, panel.T, X[own], True)
            X[below] = work
    for s, own, below, panel in _panels(range(pivot_starts.size - 2, -1, -1), *tree, down_panels):
        k = own.stop - own.start
        if is_active[s]:
            S = memory[blocks[s] : blocks[s] + k * k].reshape(k, k)
            multiply(plan, X[own], S if is_transposed else S.T, X[own].copy(), False)
        else:
            X[own] = zero
        if below.size:
            multiply(plan, X[own], panel, X[below], True)


def set_unit_vectors(
    X: Array,
    places: Array,
    is_active: Array,
    supernode_of: Array,
    parents: Array,
    pivot_starts: Array,
    zero: Any,
    one: Any,
) -> None:
    """Compute `triangular_solve.set_unit_vectors`."""
    for s in supernode_of[places].tolist():
        while s >= 0 and not is_active[s]:
            is_active[s] = True
            X[pivot_starts[s] : pivot_starts[s + 1]] = zero
            s = int(parents[s])
    X[places, np.arange(places.size)] = one


def worst_of_rows(plan: KernelPlan, X: Array, out: Array) -> None:
    """Compute `triangular_solve.worst_of_rows`."""
    plus, _ = _operations(plan)
    out[...] = X[0]
    for row in X[1:]:
        out[...] = np.where(plus(out, row) == out, row, out)


def scatter_rows(X: Array, place: Array, output_rows: Array, out: Array) -> None:
    """Compute `triangular_solve.scatter_rows`."""
    out[output_rows] = X[place].T


def gather_columns(B: Array, order: Array, X: Array) -> None:
    """Compute `triangular_solve.gather_columns`."""
    X[...] = B[order]


def compute_labels(
    plan: KernelPlan,
    ordinals: Any,
    places: Array,
    low: Array,
    supernode_of: Array,
    pivot_starts: Array,
    row_starts: Array,
    rows: Array,
    memory: Array,
    up_panels: Array,
    label_starts: Array,
    counts: Array,
    zero: Any,
    one: Any,
    label: Array,
) -> None:
    """Compute `triangular_solve.compute_labels`."""
    label[...] = zero
    columns, own = np.arange(places.size), supernode_of[places]
    label[label_starts[own] + (places - pivot_starts[own]) * counts[own] + columns - low[own]] = one
    for s, pivots, below, panel in _panels(np.flatnonzero(counts), pivot_starts, row_starts, rows, memory, up_panels):
        if not below.size:
            continue
        width, k = int(counts[s]), pivots.stop - pivots.start
        above = supernode_of[below]
        cells = label_starts[above] + (below - pivot_starts[above]) * counts[above] + low[s] - low[above]
        places_above = cells[:, None] + np.arange(width)
        work, begin = label[places_above], int(label_starts[s])
        multiply(plan, work, panel.T, label[begin : begin + k * width].reshape(k, width), True)
        label[places_above] = work


def add_joined_labels(plan: KernelPlan, X: Array, S: Array, Y: Array, zero: Any, work: Array, out: Array) -> None:
    """Compute `triangular_solve.add_joined_labels`."""
    multiply(plan, work, S, Y, False)
    multiply(plan, out, X.T, work, True)


def find_lowest_common(tails: Array, heads: Array, supernode_of: Array, parents: Array) -> Array:
    """Compute `hub_labels.find_lowest_common`."""
    s, t = supernode_of[tails], supernode_of[heads]
    while (going := (s != t) & (s >= 0) & (t >= 0)).any():
        is_lower = going & (s < t)
        s, t = np.where(is_lower, parents[s], s), np.where(going & ~is_lower, parents[t], t)
    return np.where(s == t, s, -1).astype(np.int32)


def climb(
    fold_across: KernelPlan,
    fold_along: KernelPlan,
    ordinals: Any,
    places: Array,
    limits: Array,
    is_closed: bool,
    tree: tuple[Array, ...],
    memory: Array,
    up_panels: Array,
    blocks: Array,
    heights: Array,
    zero: Any,
    one: Any,
    label_starts: Array,
    label: Array,
) -> None:
    """Compute `hub_labels.climb`: the label of one place after the other."""
    plan, (supernode_of, parents, pivot_starts, row_starts, rows) = fold_across, tree
    x = np.full(supernode_of.size, zero, label.dtype)
    for c, place in enumerate(places.tolist()):
        x[...] = zero
        x[place] = one
        s, nodes = int(supernode_of[place]), []
        while s >= 0:
            nodes.append(s)
            s = int(parents[s])
        for s, own, below, panel in _panels(nodes, pivot_starts, row_starts, rows, memory, up_panels):
            k, values = own.stop - own.start, x[None, own]
            if below.size:
                work = x[below]
                multiply(plan, work[None], values, panel, True)
                x[below] = work
            if limits[c] <= s:
                if is_closed:
                    S = memory[blocks[s] : blocks[s] + k * k].reshape(k, k)
                    values = np.empty((1, k), label.dtype)
                    multiply(plan, values, x[None, own], S, False)
                begin = int(label_starts[c] + heights[s])
                label[begin : begin + k] = values[0]


def join_labels(
    plan: KernelPlan, x: Array, x_at: Array, y: Array, y_at: Array, lengths: Array, zero: Any, out: Array
) -> None:
    """Compute `hub_labels.join_labels`."""
    for e, (i, j, length) in enumerate(zip(x_at.tolist(), y_at.tolist(), lengths.tolist(), strict=True)):
        out[e] = zero
        multiply(plan, out[e : e + 1, None], x[None, i : i + length], y[j : j + length, None], True)
