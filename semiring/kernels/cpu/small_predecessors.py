"""Find the predecessors of small matrices, one after the other, by one call of a compiled loop.

`semiring.algorithms.predecessors` states and proves the method. A matrix of at most `MAX_DIRECT_EDGES` rows needs no
bounds of edges and no intermediate vertices. All of its work then stays in the first caches: the distances by columns,
the direct edges into each vertex, and the tails that were chosen. The tail of the last edge is chosen for `LANES` rows
at a time, whose best values stay in registers while the edges into a vertex are tried.

The results are bitwise identical to those of `semiring.kernels.cpu.predecessor_search` for larger matrices.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.extending import intrinsic

from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.lowering import Operand
from semiring.kernels.cpu.codegen.memory_intrinsics import address, load, store, trailing_zeros
from semiring.kernels.cpu.codegen.numba_internals import alloca_once_value, for_range, void
from semiring.kernels.cpu.codegen.scalars import SemiringType, lower_comparison, lower_operation, plus
from semiring.kernels.cpu.codegen.vector import I1, I32, I64, ElementType, Value, Vectors, constant_vector, splat
from semiring.kernels.cpu.direct_edges import DOUBT, UNDECIDED, are_doubts_resolved, edges_from
from semiring.kernels.cpu.predecessor_trees import grow_trees

LANES = 32  # rows whose last edges are chosen together; also the entries of a row that are compared together
_TAIL = 8  # the last rows are processed together if there are at most so many
_ALL_LANES, _TAIL_LANES = (0,) * LANES, (0,) * _TAIL
_SIDE = 8  # rows and columns of a block that is transposed in registers


def _meets(v: Vectors, x: Value, y: Value, limits: tuple[Value, Value] | None) -> Value:
    """Return the lanes where x is y within limits[0]·|y| + limits[1], or equal to y without limits."""
    equal = v.compare("==", x, y)
    if limits is None:
        return equal
    b = v.builder
    bound = b.fadd(b.fmul(v.splat(limits[0]), v.call("fabs", y)), v.splat(limits[1]))
    return b.or_(equal, v.compare("<", v.call("fabs", b.fsub(x, y)), bound))


def _limits(sr: SemiringType, builder: Any, pair: Value) -> tuple[Value, Value] | None:
    """Return the two numbers of a tolerance, or None for a dtype on which nothing is rounded."""
    if sr.dtype.kind != "f":
        return None
    return builder.extract_value(pair, 0), builder.extract_value(pair, 1)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def direct_edges(typing: Any, sr: Any, weights: Any, distances: Any, zero: Any, tight: Any) -> Any:
    """Return a 64-bit integer whose bit c is set if entry c of ``LANES`` weights, at an address, is a direct edge.

    ``distances`` is the address of the entries of the closure.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v = Vectors(builder, ElementType(sr.dtype), LANES)
        _, w_address, d_address, none, pair = args
        w, d = load(builder, v.type, w_address), load(builder, v.type, d_address)
        none = builder.zext(none, ir.IntType(8)) if none.type == I1 else none
        is_edge = v.compare("!=", w, v.splat(none))
        mask = builder.and_(_meets(v, w, d, _limits(sr, builder, pair)), is_edge)
        return builder.zext(builder.bitcast(mask, ir.IntType(LANES)), I64)

    return types.uint64(sr, types.intp, types.intp, zero, tight), code


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def choose_tails(
    typing: Any,
    sr: Any,
    lanes: Any,
    rows: Any,
    row_bytes: Any,
    goals: Any,
    tails: Any,
    weights: Any,
    count: Any,
    zero: Any,
    tight: Any,
    loose: Any,
    out: Any,
) -> Any:
    """Write the tails of the best of ``count`` edges into a vertex for some sources, int32, to ``out``.

    Return a 64-bit integer: bit c is set if lane c is UNDECIDED, bit 32 + c if its tail has DOUBT.

    ``lanes`` is a tuple with an element for each source. All arrays are given by their addresses. ``rows``:
    D[sources, 0]; the distances of the next vertex begin ``row_bytes`` later. ``goals``: the distances of the vertex
    itself. tails (count,) int32, weights (count,). A lane becomes UNDECIDED, NO_PREDECESSOR, or a tail; DOUBT is added
    to a tail that is met only loosely.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = lanes.count
        v = Vectors(builder, ElementType(sr.dtype), size)
        _, _, first, row, goal, tail_list, weight_list, number, none, tight_pair, loose_pair, target = args
        none = v.splat(builder.zext(none, ir.IntType(8)) if none.type == I1 else none)
        undecided = constant_vector(I32, UNDECIDED, size)
        d, may_be_nan = load(builder, v.type, goal), v.element.is_floating
        best, arg = alloca_once_value(builder, none), alloca_once_value(builder, undecided)
        with for_range(builder, number) as loop:
            tail = load(builder, I32, builder.add(tail_list, builder.mul(loop.index, ir.Constant(I64, 4))))
            place = builder.mul(loop.index, ir.Constant(I64, v.element.size))
            w = v.splat(load(builder, v.element.ir, builder.add(weight_list, place)))
            x = load(builder, v.type, builder.add(first, builder.mul(builder.sext(tail, I64), row)))
            s = lower_operation(sr, v, "mul", x=Operand(x, may_be_nan), y=Operand(w, may_be_nan)).value
            replaces = builder.and_(lower_comparison(sr, v, x, d), lower_comparison(sr, v, s, builder.load(best)))
            builder.store(builder.select(replaces, s, builder.load(best)), best)
            builder.store(builder.select(replaces, splat(builder, tail, size), builder.load(arg)), arg)
        s, chosen = builder.load(best), builder.load(arg)
        is_found = builder.icmp_signed(">=", chosen, constant_vector(I32, 0, size))
        met = _meets(v, s, d, _limits(sr, builder, loose_pair))
        met_tightly = _meets(v, s, d, _limits(sr, builder, tight_pair))
        doubtful = builder.and_(builder.and_(is_found, met), builder.not_(met_tightly))
        doubt = builder.add(chosen, constant_vector(I32, DOUBT, size))
        chosen = builder.select(met, builder.select(doubtful, doubt, chosen), undecided)
        absent, has_path = constant_vector(I32, NO_PREDECESSOR, size), v.compare("!=", d, none)
        store(builder, builder.select(has_path, chosen, absent), target)
        is_open = builder.and_(has_path, builder.icmp_signed("==", chosen, undecided))
        flags = [builder.zext(builder.bitcast(mask, ir.IntType(size)), I64) for mask in (is_open, doubtful)]
        return builder.or_(flags[0], builder.shl(flags[1], ir.Constant(I64, 32)))

    places = (types.intp,) * 6
    return types.uint64(sr, lanes, *places, zero, tight, loose, types.intp), code


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def transpose_block(typing: Any, like: Any, source: Any, source_row: Any, target: Any, target_row: Any) -> Any:
    """Copy the transpose of a block of 8 × 8 elements of the type of ``like``. Rows are strides in bytes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = context.get_abi_sizeof(context.get_data_type(like))
        _, start, stride, end, end_stride = args
        kind = ir.VectorType(ir.IntType(8 * size), _SIDE)
        rows = [load(builder, kind, builder.add(start, builder.mul(stride, ir.Constant(I64, i)))) for i in range(_SIDE)]
        for step in (4, 2, 1):  # swap the blocks of ``step`` beside the diagonal
            low = [c if not c & step else c - step + _SIDE for c in range(_SIDE)]
            high = [c + step if not c & step else c + _SIDE for c in range(_SIDE)]
            for i in range(_SIDE):
                if not i & step:
                    x, y = rows[i], rows[i + step]
                    rows[i], rows[i + step] = (
                        builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, _SIDE), which))
                        for which in (low, high)
                    )
        for i, row in enumerate(rows):
            store(builder, row, builder.add(end, builder.mul(end_stride, ir.Constant(I64, i))))
        return void(context)

    return types.void(like, *(types.intp,) * 4), code


@inner
def _list_edges(sr, D, A, zero, one, tight, rows, edges, columns, tails, weights, counts):
    """Write the distances by columns, and the direct edges into each vertex. Return whether none improves on 1̄.

    columns[j, i] becomes D[i, j]. tails (n, n) int32, weights (n, n) and counts (n) int32 receive the edges, in the
    order of their tails. rows (8, …) and edges (…) are workspace of padded rows, with 0̄ in all columns beyond n.
    """
    n, size, line = D.shape[0], rows.itemsize, rows.strides[0]
    counts[:] = 0
    is_monotone = True
    for start in range(0, n, _SIDE):
        stop = min(n, start + _SIDE)
        rows[stop - start :, :] = zero
        for i in range(start, stop):
            row, target_row = D[i], rows[i - start]
            for j in range(n):
                target_row[j] = row[j]
        for j in range(0, n, _SIDE):
            target = address(columns) + j * columns.strides[0] + start * size
            transpose_block(zero, address(rows) + j * size, line, target, columns.strides[0])
        for p in range(start, stop):
            row = A[p]
            for j in range(n):
                edges[j] = row[j]
            for first in range(0, n, 2 * LANES):
                distances = address(rows) + (p - start) * line + first * size
                weight = address(edges) + first * size
                bits = direct_edges(sr, weight, distances, zero, tight)
                if first + LANES < n:
                    more = direct_edges(sr, weight + LANES * size, distances + LANES * size, zero, tight)
                    bits |= more << np.uint64(LANES)
                if first <= p < first + 2 * LANES:
                    bits &= ~(np.uint64(1) << np.uint64(p - first))
                while bits:  # two vectors at a time, because the end of each loop is mispredicted
                    j = first + trailing_zeros(bits)
                    bits &= bits - np.uint64(1)
                    w = edges[j]
                    c = counts[j]
                    counts[j] = c + 1
                    tails[j, c] = p
                    weights[j, c] = w
                    if plus(sr, one, w) != one:
                        is_monotone = False
    return is_monotone


@inner
def _choose_all(sr, columns, zero, tight, loose, is_monotone, n, tails, weights, counts, chosen, flags):
    """Write the tail of the best edge into vertex j from every source to chosen[j], as `choose_tails` does.

    flags (…) uint64: what it returns for the sources from each multiple of `LANES` on, of all vertices together.
    """
    size, stride, line = columns.itemsize, columns.strides[0], chosen.strides[0]
    start, tail, weight, target = address(columns), address(tails), address(weights), address(chosen)
    flags[:] = 0
    wide = n - n % LANES if n % LANES <= _TAIL else n
    for j in range(n):
        edges = tail + j * tails.strides[0], weight + j * weights.strides[0], counts[j] if is_monotone else 0
        others = ~(np.uint64(1) << np.uint64(j % LANES))  # the diagonal is never decided
        for first in range(0, n, LANES):
            rows, out = start + first * size, target + j * line + 4 * first
            goals = rows + j * stride
            if first < wide:
                bits = choose_tails(sr, _ALL_LANES, rows, stride, goals, *edges, zero, tight, loose, out)
            else:
                bits = choose_tails(sr, _TAIL_LANES, rows, stride, goals, *edges, zero, tight, loose, out)
            flags[first // LANES] |= bits & others if first // LANES == j // LANES else bits


@inner
def _write_rows(chosen, lines, pred, tails, counts, flags, has_doubts):
    """Write the chosen tails, and prefer the source itself if its edge is direct.

    chosen[j, i] is the tail for the path from i to j, with DOUBT. flags are those of `_choose_all`. has_doubts (n) bool
    marks the rows with a doubtful tail. lines (8, …) int32 is workspace.
    """
    n, line, like = pred.shape[0], lines.strides[0], np.int32(0)
    for start in range(0, n, _SIDE):
        for j in range(0, n, _SIDE):
            source = address(chosen) + j * chosen.strides[0] + 4 * start
            transpose_block(like, source, chosen.strides[0], address(lines) + 4 * j, line)
        for i in range(start, min(n, start + _SIDE)):
            row, pred_row = lines[i - start], pred[i]
            row[i] = NO_PREDECESSOR
            has_doubts[i] = (flags[i // LANES] >> np.uint64(LANES + i % LANES)) & np.uint64(1) != 0
            if has_doubts[i]:
                for j in range(n):
                    v = row[j]
                    pred_row[j] = v - (np.int32(DOUBT) if v >= DOUBT else np.int32(0))
            else:
                for j in range(n):
                    pred_row[j] = row[j]
    for j in range(n):
        for c in range(counts[j]):
            p = tails[j, c]
            if pred[p, j] != NO_PREDECESSOR:
                pred[p, j] = p


@inner
def _grow(sr, D, A, pred, zero, tight, is_monotone, tails, weights, counts, flagged_rows):
    """Decide the undecided entries by `grow_trees`, and flag the rows in which some remain."""
    n = D.shape[0]
    heads, lengths, outdegree = np.empty((n, n), np.int32), np.empty((n, n), D.dtype), np.empty(n, np.int32)
    open_rows = np.empty(n, np.bool_)
    for i in range(n):
        open_rows[i] = np.any(pred[i] == UNDECIDED)
    edges_from(D, A, zero, tight, 0, n, heads, lengths, outdegree)
    grow_trees(
        sr,
        D,
        A,
        pred,
        zero,
        is_monotone,
        tails,
        weights,
        counts,
        heads,
        lengths,
        outdegree,
        tight,
        0,
        n,
        open_rows,
    )
    for i in range(n):
        flagged_rows[i] |= open_rows[i]


@kernel
def search_each(sr, sums, Ds, As, preds, zero, one, wide_one, tight, loose, absolutes, start, stop, flagged_rows):
    """Write the predecessors of the closures Ds[start:stop] (…, n, n) of As to preds, n at most `MAX_DIRECT_EDGES`.

    All three are C-contiguous. flagged_rows (…, n) bool marks the rows that `predecessor_trees.settle_rows` must
    validate. wide_one: 1̄ in the type in which paths are added up. absolutes (…, 2): the absolute parts of ``tight`` and
    ``loose`` for each matrix, or (0, 2) if these hold for all.
    """
    n = Ds.shape[1]
    width = (n + LANES - 1) // LANES * LANES + 16  # rows of a power of two would share cache sets
    height = (n + _SIDE - 1) // _SIDE * _SIDE
    rows, edges, columns = np.full((_SIDE, width), zero), np.full(width, zero), np.full((height, width), zero)
    chosen, lines = np.empty((height, width), np.int32), np.empty((_SIDE, width), np.int32)
    tails, weights, counts = np.empty((n, n), np.int32), np.empty((n, n), Ds.dtype), np.empty(n, np.int32)
    chain, total, flags = np.empty(n, np.int64), np.full(2, wide_one), np.empty(width // LANES + 1, np.uint64)
    for b in range(start, stop):
        D, A, pred, flagged = Ds[b], As[b], preds[b], flagged_rows[b]
        if absolutes.shape[0]:
            tight, loose = (tight[0], absolutes[b, 0]), (loose[0], absolutes[b, 1])
        is_monotone = _list_edges(sr, D, A, zero, one, tight, rows, edges, columns, tails, weights, counts)
        _choose_all(sr, columns, zero, tight, loose, is_monotone, n, tails, weights, counts, chosen, flags)
        _write_rows(chosen, lines, pred, tails, counts, flags, flagged)
        is_open = False
        for bits in flags:
            is_open |= bits & np.uint64(0xFFFFFFFF) != 0
        for i in range(n):
            if flagged[i]:
                flagged[i] = not are_doubts_resolved(
                    sums, D, A, pred, i, columns, chosen, i, n, wide_one, tight, total, chain
                )
        if is_open:
            _grow(sr, D, A, pred, zero, tight, is_monotone, tails, weights, counts, flagged)
