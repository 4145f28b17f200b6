"""Products of sparse matrices, row by row (Gustavson), with an accumulator for each row by its size.

A product has two passes. The first one finds the pattern of the result. It depends on no semiring, so it is compiled
once. The second one computes the terms at the positions of a pattern. With a mask it runs alone, and its pattern is the
mask. It finds the place of a column in a row of the pattern by one of these accumulators:

* ``bitmap``, the dense one: a bit for each column, and for each word of 64 bits the place of its first column. They
  take 0.2 bytes a column, a fifth of a cache line for 64 columns, where a dense vector of values takes eight lines.
  Bits are read in order, so rows are sorted without a sort.
* ``hash``, for short rows of wide matrices, whose bitmap would leave the cache: open addressing.
* ``list``, for rows of a mask with up to eight columns, and short rows of wide matrices: each column of B is compared
  with all eight at once, by vector instructions.

The first pass joins the sorted rows of B by merges where the second one takes ``hash``. If a row of B is much longer
than the row of a mask, the columns of the mask are searched in the row of B instead. The rows of B lie anywhere in
memory, so they are prefetched. Of a longer row of B the entries whose column is in the pattern are collected first,
without a branch.

Threads take ranges of rows with about equal numbers of pairs. A row is computed by one thread in the order of k, so
results are bitwise identical for any number of threads. Workspace: 0.2 bytes a column for each thread, a copy of the
columns of the result, and four bytes for each pair of a task.

Sources: F. G. Gustavson, ACM TOMS 4 (1978); Y. Nagasaka and others, Parallel Computing 90 (2019), for the accumulators;
S. Milaković and others, arXiv 2111.09947, for masks.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numba import njit

from semiring.kernels.contract import Array, CompressedRows, KernelPlan
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import (
    count_bits,
    match_eight,
    prefetch_element,
    trailing_zeros,
)
from semiring.kernels.cpu.codegen.numba_internals import INLINED
from semiring.kernels.cpu.codegen.scalars import accumulate, better, scalars_of, times
from semiring.kernels.cpu.sparse_scans import INVALID, NEGATIVE, VALID, scan_part, scan_values, split_entries
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.progress import portion

_TASKS_PER_THREAD = 8  # so that threads end at about the same time
_MIN_TASK, _MAX_TASK = 1 << 15, 1 << 22  # pairs: a task takes 50 µs to 20 ms, and Ctrl-C waits for running tasks
_MAX_SHARED = 1 << 26  # pairs up to which the tasks of one call share one buffer of columns
_CACHED_WIDTH = 1 << 21  # columns: the bitmap of a narrower matrix stays in the second-level cache
_SPARSENESS = 1 << 12  # in a wider matrix, columns for each pair from which on a row needs another accumulator
_MAX_BITMAP = 1 << 33  # columns: wider matrices have no bitmap
_UNEVEN = 4  # how many times as long the longest row of B may be as the mean if its length bounds the work of a task
_AHEAD = 6  # entries of A by which rows of B are prefetched: 5.7 ms instead of 12 (n = 100,000, 8 a row, EPYC 9005)
_AHEAD_OF_ROWS = 8  # entries of A by which rows of a dense B are prefetched
_FETCHED, _LINE = 2048, 64  # bytes of a dense row that are prefetched, and of a cache line
_SCREENED = 64  # entries of a row of B that is screened: 0.24 s instead of 0.41 (triangles of an R-MAT, scale 17)
_BLOCK = 1024  # entries that are screened at a time
_LIST = 8  # entries of the longest row of a pattern that is compared: see `match_eight`
_LONG = 32  # how many times as long a row of B is as a row of a mask whose columns are searched in it
_SCANNED = 4  # entries that are scanned in the time of a pair
_ACCUMULATORS = ("list", "bitmap", "hash")

_inlined = njit(**INLINED)


# ---------------------------------------------------------------------------------------------------- the pattern


@kernel
def _count_pairs(a_starts, a_columns, b_starts, first, last, out):
    """Write to out[i + 1] how many pairs row i of A ⊗ B has, and one more for the row itself."""
    for i in range(first, last):
        count = 1
        for p in range(a_starts[i], a_starts[i + 1]):
            k = a_columns[p]
            count += b_starts[k + 1] - b_starts[k]
        out[i + 1] = count


@_inlined
def _needs_bitmap(size, width):
    """Return whether a row of at most ``size`` entries is accumulated in a bitmap."""
    return width <= _CACHED_WIDTH or (width <= _MAX_BITMAP and size > width // _SPARSENESS)


@inner
def _emit_bits(words, summary, uses_summary, out, count):
    """Append the columns whose bits are set to out[count:], in order, and clear the bits. Return the new count."""
    if uses_summary:
        for s in range(summary.size):
            group = summary[s]
            if group == 0:
                continue
            summary[s] = 0
            while group != 0:
                w = (s << 6) + trailing_zeros(group)
                group &= group - np.uint64(1)
                word = words[w]
                words[w] = 0
                while word != 0:
                    out[count] = (w << 6) + trailing_zeros(word)
                    count += 1
                    word &= word - np.uint64(1)
        return count
    for w in range(words.size):
        word = words[w]
        if word == 0:
            continue
        words[w] = 0
        while word != 0:
            out[count] = (w << 6) + trailing_zeros(word)
            count += 1
            word &= word - np.uint64(1)
    return count


@inner
def _merge(a, a_first, a_last, b, b_first, b_last, out, count):
    """Append the union of two ascending lists to out[count:], and return the new count."""
    while a_first < a_last and b_first < b_last:
        x, y = a[a_first], b[b_first]
        out[count] = min(x, y)
        a_first += x <= y
        b_first += y <= x
        count += 1
    while a_first < a_last:
        out[count] = a[a_first]
        a_first += 1
        count += 1
    while b_first < b_last:
        out[count] = b[b_first]
        b_first += 1
        count += 1
    return count


@inner
def _merge_rows(a_columns, first, last, b_starts, b_columns, lists, others, ends):
    """Write the union of the rows a_columns[first:last] of B to ``lists``, and return its size.

    Neighbouring rows are merged, then neighbouring unions, and so on.
    """
    count = size = 0
    for p in range(first, last):
        for q in range(b_starts[a_columns[p]], b_starts[a_columns[p] + 1]):
            lists[size] = b_columns[q]
            size += 1
        ends[count] = size
        count += 1
    while count > 1:
        size = start = 0
        half = (count + 1) // 2
        for pair in range(half):
            middle = ends[2 * pair]
            end = ends[2 * pair + 1] if 2 * pair + 1 < count else middle
            size = _merge(lists, start, middle, lists, middle, end, others, size)
            start = end
            ends[pair] = size
        for e in range(size):
            lists[e] = others[e]
        count = half
    return size


@inner
def _remove_columns(columns, first, count, excluded, e, e_end):
    """Remove the columns excluded[e:e_end] from columns[first:count], both ascending, and return the new count."""
    kept = first
    for p in range(first, count):
        while e < e_end and excluded[e] < columns[p]:
            e += 1
        if e == e_end or excluded[e] != columns[p]:
            columns[kept] = columns[p]
            kept += 1
    return kept


@kernel
def _find_columns(
    a_starts, a_columns, b_starts, b_columns, width, m_starts, m_columns, pairs, first, last, workspace, out, counts
):
    """Write the columns of the rows of A ⊗ B outside the excluded pattern to ``out``, and return how many they are.

    ``counts`` receives the number of each row. ``m_starts`` is empty if no position is excluded.
    """
    words, summary, _ = workspace
    longest, widest = 0, 0  # of the rows that are merged
    for i in range(first, last):
        size = pairs[i + 1] - pairs[i] - 1
        if a_starts[i + 1] - a_starts[i] > 1 and not _needs_bitmap(size, width):
            longest, widest = max(longest, size), max(widest, a_starts[i + 1] - a_starts[i])
    lists, others, ends = np.empty(longest, out.dtype), np.empty(longest, out.dtype), np.empty(widest, np.int64)
    count = 0
    for i in range(first, last):
        begin, size = count, pairs[i + 1] - pairs[i] - 1
        p, p_end = a_starts[i], a_starts[i + 1]
        e, e_end = (m_starts[i], m_starts[i + 1]) if m_starts.size else (0, 0)
        if size == 0:
            pass
        elif p_end - p == 1:
            for q in range(b_starts[a_columns[p]], b_starts[a_columns[p] + 1]):
                out[count] = b_columns[q]
                count += 1
            count = _remove_columns(out, begin, count, m_columns, e, e_end)
        elif _needs_bitmap(size, width):
            uses_summary = size < words.size
            while p < p_end:
                q, q_end = b_starts[a_columns[p]], b_starts[a_columns[p] + 1]
                if uses_summary:
                    for entry in range(q, q_end):
                        j = np.uint64(b_columns[entry])
                        w = np.int64(j >> np.uint64(6))
                        words[w] |= np.uint64(1) << (j & np.uint64(63))
                        summary[w >> 6] |= np.uint64(1) << np.uint64(w & 63)
                else:
                    for entry in range(q, q_end):
                        j = np.uint64(b_columns[entry])
                        words[np.int64(j >> np.uint64(6))] |= np.uint64(1) << (j & np.uint64(63))
                p += 1
            for entry in range(e, e_end):
                j = np.uint64(m_columns[entry])
                words[np.int64(j >> np.uint64(6))] &= ~(np.uint64(1) << (j & np.uint64(63)))
            count = _emit_bits(words, summary, uses_summary, out, count)
        else:
            found = _merge_rows(a_columns, p, p_end, b_starts, b_columns, lists, others, ends)
            for entry in range(found):
                out[count + entry] = lists[entry]
            count = _remove_columns(out, begin, count + found, m_columns, e, e_end)
        counts[i] = count - begin
    return count


# --------------------------------------------------------------------------------------- the terms at a pattern


@_inlined
def _add_term(sr, values, reached, witness, place, a, b, k):
    """Add a ⊗ b to an entry, and note its witness, without a branch, which would be mispredicted."""
    if witness is None:
        values[place] = accumulate(sr, values[place], a, b)
    else:
        term = times(sr, a, b)
        is_better = better(sr, term, values[place])
        values[place] = term if is_better else values[place]
        witness[place] = k if is_better else witness[place]
    if reached is not None:
        reached[place] = True


@inner
def _search(columns, first, last, column):
    """Return the place of a column in the ascending columns[first:last], or -1."""
    end = last
    while first < last:
        middle = (first + last) // 2
        if columns[middle] < column:
            first = middle + 1
        else:
            last = middle
    return first if first < end and columns[first] == column else -1


@_inlined
def _slot(column, shift):
    """Return the first slot of a hash table of 2^(64 - shift) slots that may hold a column."""
    return np.int64((np.uint64(column) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))


@inner
def _fill_table(columns, first, last, table):
    """Enter the places of columns[first:last] into a hash table of places, and return its shift."""
    shift = 63
    while (1 << (64 - shift)) < 2 * (last - first):
        shift -= 1
    size = 1 << (64 - shift)
    for slot in range(size):
        table[slot] = -1
    for p in range(first, last):
        slot = _slot(columns[p], shift)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = p
    return shift


@inner
def _fill_bitmap(columns, first, last, words, ranks):
    """Set the bits of columns[first:last], and write the place of the first column of each word, counted from first."""
    for p in range(first, last):
        j = np.uint64(columns[p])
        w = np.int64(j >> np.uint64(6))
        if words[w] == 0:
            ranks[w] = p - first
        words[w] |= np.uint64(1) << (j & np.uint64(63))


@_inlined
def _has_bit(words, j):
    """Return 1 if the bit of a column is set, else 0."""
    return (words[j >> np.uint64(6)] >> (j & np.uint64(63))) & np.uint64(1)


@_inlined
def _rank(words, ranks, j):
    """Return how many columns of a row of the pattern lie before column j, whose bit is set."""
    w = j >> np.uint64(6)
    below = (np.uint64(1) << (j & np.uint64(63))) - np.uint64(1)
    return ranks[w] + count_bits(words[w] & below)


@_inlined
def _prefetch_row(a_columns, b_starts, b_columns, p):
    """Start to load both ends of a row of B that is needed some entries of A after entry p."""
    last, near, far = np.uint64(a_columns.size - 1), np.uint64(_AHEAD), np.uint64(2 * _AHEAD)
    prefetch_element(b_starts, np.int64(a_columns[min(np.uint64(p) + far, last)]))
    k = np.uint64(a_columns[min(np.uint64(p) + near, last)])
    prefetch_element(b_columns, b_starts[k])
    prefetch_element(b_columns, b_starts[k + np.uint64(1)] - 1)


@_inlined
def _clear_row(zero, values, reached, witness, first, size):
    """Set entries that have no term yet."""
    values[first : first + size] = zero
    if reached is not None:
        reached[first : first + size] = False
        if witness is not None:
            witness[first : first + size] = -1


@_inlined
def _append_reached(columns, begin, end, values, reached, witness, found, count):
    """Append the reached entries of a row of a mask to ``found`` from ``count`` on, and return the new count."""
    found_columns, found_values, found_witness = found
    for place in range(begin, end):
        found_columns[count], found_values[count] = columns[place], values[place - begin]
        if witness is not None:
            found_witness[count] = witness[place - begin]
        count += reached[place - begin]
    return count


@_inlined
def _match_block(numbers, first, last, wanted):
    """Return a word whose bit l tells whether numbers[first + l] is ``wanted``, for at most eight numbers."""
    if first + _LIST <= numbers.size:
        return match_eight(numbers, first, wanted) & ((np.uint64(1) << np.uint64(last - first)) - np.uint64(1))
    matches = np.uint64(0)
    for place in range(first, last):
        for number in wanted:
            if numbers[place] == number:
                matches |= np.uint64(1) << np.uint64(place - first)
    return matches


@inner
def _compare_rows(sr, zero, A, B, pattern, values, reached, witness, found, counts, first, last, count, numbers):
    """Compute rows from ``first`` on, up to the first row of the pattern that has more than eight columns.

    The arguments are those of `_multiply_rows`. Return the last of these rows, and the number of entries found.
    """
    a_starts, a_columns, a_values = A
    b_starts, b_columns, b_values = B
    starts, columns, _ = pattern
    one, wanted = np.uint64(1), np.empty(_LIST, b_columns.dtype)
    for i in range(np.uint64(first), np.uint64(last)):
        begin, end = np.uint64(starts[i]), np.uint64(starts[i + one])
        size = end - begin
        if size > _LIST:
            return np.int64(i) - 1, count
        if size == 0 or a_starts[i] == a_starts[i + one]:
            continue
        numbers[0] += 1
        offset = begin if found is None else np.uint64(0)
        for number in range(np.uint64(_LIST)):
            wanted[number] = columns[min(begin + number, end - one)]
        is_clear = False
        for p in range(np.uint64(a_starts[i]), np.uint64(a_starts[i + one])):
            _prefetch_row(a_columns, b_starts, b_columns, p)
            k = np.uint64(a_columns[p])
            block, q_end = b_starts[k], b_starts[k + one]
            while block < q_end:
                matches = _match_block(b_columns, block, min(q_end, block + _LIST), wanted)
                if matches != 0 and not is_clear:
                    is_clear = True
                    _clear_row(zero, values, reached, witness, offset, size)
                while matches != 0:
                    entry = np.uint64(block + trailing_zeros(matches))
                    matches &= matches - one
                    place = offset
                    while columns[place - offset + begin] != b_columns[entry]:
                        place += one
                    _add_term(sr, values, reached, witness, place, a_values[p], b_values[entry], k)
                block += _LIST
        if found is not None and is_clear:
            before = count
            count = _append_reached(columns, begin, end, values, reached, witness, found, count)
            counts[i] = count - before
    return np.int64(last) - 1, count


@kernel
def _multiply_rows(
    sr, zero, A, B, pattern, values, reached, witness, found, counts, first, last, workspace, table, numbers
):
    """Compute the rows first … last - 1 of A ⊗ B at the positions of a pattern.

    ``found`` is None for a pattern whose positions are all reached. ``values`` and ``witness`` then hold all of them.
    For a mask ``values``, ``reached`` and ``witness`` hold one row. ``found`` (columns, values, witness) receives the
    entries that a term reaches, from the first position of these rows on, and ``counts`` their number in each row.
    ``numbers`` (3,) receives the number of rows by accumulator.
    """
    a_starts, a_columns, a_values = A
    b_starts, b_columns, b_values = B
    starts, columns, width = pattern
    words, _, ranks = workspace
    hits = np.empty(_BLOCK, np.uint64)
    count, i = starts[first], first - 1
    while i + 1 < last:
        i += 1
        begin, end = starts[i], starts[i + 1]
        size = end - begin
        if size == 0 or a_starts[i] == a_starts[i + 1]:
            continue
        offset = begin if found is None else 0  # of the row in ``values``
        kind = 1 if _needs_bitmap(size, width) else 2
        if size <= _LIST and (found is not None or kind == 2):
            i, count = _compare_rows(
                sr, zero, A, B, pattern, values, reached, witness, found, counts, i, last, count, numbers
            )
            continue
        _clear_row(zero, values, reached, witness, offset, size)
        shift = 0
        if kind == 1:
            _fill_bitmap(columns, begin, end, words, ranks)
        elif kind == 2:
            shift = _fill_table(columns, begin, end, table)
        numbers[kind] += 1
        short = min(_SCREENED, _LONG * size + 1) if kind == 1 else 0
        last_slot = (1 << (64 - shift)) - 1 if kind == 2 else 0
        for p in range(np.uint64(a_starts[i]), np.uint64(a_starts[i + 1])):
            _prefetch_row(a_columns, b_starts, b_columns, p)
            k, a = np.uint64(a_columns[p]), a_values[p]
            q, q_end = b_starts[k], b_starts[k + np.uint64(1)]
            if q_end - q < short:
                for entry in range(np.uint64(q), np.uint64(q_end)):
                    j = np.uint64(b_columns[entry])
                    if _has_bit(words, j):
                        target = np.uint64(offset + _rank(words, ranks, j))
                        _add_term(sr, values, reached, witness, target, a, b_values[entry], k)
            elif q_end - q > _LONG * size:
                for place in range(begin, end):
                    entry = _search(b_columns, q, q_end, columns[place])
                    if entry >= 0:
                        _add_term(sr, values, reached, witness, place - begin + offset, a, b_values[entry], k)
            elif kind == 1:
                for block in range(q, q_end, _BLOCK):
                    block_end, hit_count = np.uint64(min(q_end, block + _BLOCK)), np.uint64(0)
                    for entry in range(np.uint64(block), block_end):
                        hits[hit_count] = entry
                        hit_count += _has_bit(words, np.uint64(b_columns[entry]))
                    for hit in range(hit_count):
                        source = hits[hit]
                        target = np.uint64(offset + _rank(words, ranks, np.uint64(b_columns[source])))
                        _add_term(sr, values, reached, witness, target, a, b_values[source], k)
            else:
                for entry in range(q, q_end):
                    j = b_columns[entry]
                    slot = _slot(j, shift)
                    while table[slot] >= 0 and columns[table[slot]] != j:
                        slot = (slot + 1) & last_slot
                    if table[slot] >= 0:
                        _add_term(sr, values, reached, witness, table[slot] - begin + offset, a, b_values[entry], k)
        if kind == 1:
            for place in range(begin, end):
                words[np.uint64(columns[place]) >> np.uint64(6)] = 0
        if found is not None:
            counts[i] = count
            count = _append_reached(columns, begin, end, values, reached, witness, found, count)
            counts[i] = count - counts[i]


@kernel
def _sample_rows(sr, zero, A, B, mask, values, reached, witness, found, counts, first, last):
    """Compute the rows first … last - 1 of `SparseKernels.multiply_masked` for a dense B, as `_multiply_rows` does."""
    a_starts, a_columns, a_values = A
    starts, columns = mask
    count = starts[first]
    for i in range(first, last):
        begin, end = starts[i], starts[i + 1]
        if begin == end or a_starts[i] == a_starts[i + 1]:
            continue
        _clear_row(zero, values, reached, witness, 0, end - begin)
        for p in range(a_starts[i], a_starts[i + 1]):
            k, a = a_columns[p], a_values[p]
            for place in range(begin, end):
                _add_term(sr, values, reached, witness, place - begin, a, B[k, columns[place]], k)
        counts[i] = end - begin
        count = _append_reached(columns, begin, end, values, reached, witness, found, count)


# ------------------------------------------------------------------------------------------ one dense operand


@kernel
def _sparse_by_vector(sr, zero, A, x, y, first, last):
    """Compute the entries first … last - 1 of y ← A ⊗ x."""
    starts, columns, values = A
    one = np.uint64(1)
    for i in range(np.uint64(first), np.uint64(last)):
        total = zero
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + one])):
            total = accumulate(sr, total, values[p], x[np.uint64(columns[p])])
        y[i] = total


@_inlined
def _prefetch_factor(flat, columns, p, n, fetched, line):
    """Start to load the row of a dense B of n columns that belongs to an entry of A some entries after entry p.

    ``fetched`` of its elements are loaded, ``line`` of which lie in a cache line.
    """
    k = np.int64(columns[min(p + np.uint64(_AHEAD_OF_ROWS), np.uint64(columns.size - 1))])
    for j in range(0, fetched, line):
        prefetch_element(flat, k * n + j)


@kernel
def _sparse_by_dense(sr, zero, A, B, C, witness, of_entries, first, last):
    """Compute the rows first … last - 1 of A ⊗ B for a dense B.

    Four entries of A at a time, a row of C is loaded and stored once for them: 5.4 ms instead of 9.3 (n = 20,000, 32 a
    row, 64 columns, EPYC 9005), half of it by the prefetch.
    """
    starts, columns, a_values = A
    n, flat, line = C.shape[1], B.reshape(-1), max(1, _LINE // B.itemsize)
    fetched = min(n, _FETCHED // B.itemsize)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for i in range(np.uint64(first), np.uint64(last)):
        c, witness_row = C[i], None if witness is None else witness[i]
        c[:] = zero
        p, end = np.uint64(starts[i]), np.uint64(starts[i + one])
        if witness is None:
            while p + three < end:
                for number in range(4):
                    _prefetch_factor(flat, columns, p + np.uint64(number), n, fetched, line)
                w, x, y, z = a_values[p], a_values[p + one], a_values[p + two], a_values[p + three]
                b, d = B[np.uint64(columns[p])], B[np.uint64(columns[p + one])]
                e, f = B[np.uint64(columns[p + two])], B[np.uint64(columns[p + three])]
                for j in range(n):
                    total = accumulate(sr, accumulate(sr, c[j], w, b[j]), x, d[j])
                    c[j] = accumulate(sr, accumulate(sr, total, y, e[j]), z, f[j])
                p += three + one
        while p < end:
            _prefetch_factor(flat, columns, p, n, fetched, line)
            k, a = np.uint64(columns[p]), a_values[p]
            b, note = B[k], np.int64(p) if of_entries else np.int64(k)
            for j in range(n):
                _add_term(sr, c, None, witness_row, j, a, b[j], note)
            p += one


@kernel
def _dense_by_sparse(sr, zero, A, B, C, witness, first, last):
    """Compute the rows first … last - 1 of A ⊗ B for a dense A, whose entries 0̄ are skipped."""
    starts, columns, b_values = B
    for i in range(first, last):
        c, witness_row = C[i], None if witness is None else witness[i]
        c[:] = zero
        for k in range(A.shape[1]):
            a = A[i, k]
            if a == zero:
                continue
            for q in range(starts[k], starts[k + 1]):
                _add_term(sr, c, None, witness_row, columns[q], a, b_values[q], k)


# -------------------------------------------------------------------------------------------------- the calls


class _Workspaces:
    """The bitmaps of the threads of one call, made when a task needs one and then kept for the next task."""

    def __init__(self, width: int) -> None:
        self.words = -(-width // 64) if width <= _MAX_BITMAP else 0
        self.free: list[tuple[Array, Array, Array]] = []

    @contextmanager
    def borrow(self) -> Any:
        try:
            workspace = self.free.pop()
        except IndexError:  # pages of NumPy's zeros take memory when they are first written
            groups = -(-self.words // 64)
            workspace = np.zeros(self.words, np.uint64), np.zeros(groups, np.uint64), np.zeros(self.words, np.int32)
        yield workspace
        self.free.append(workspace)


def _work_of_rows(A: CompressedRows, B: CompressedRows, threads: int) -> Array:
    """Return the sums (m + 1,) of one and the number of pairs over the rows of A ⊗ B."""
    m = A.starts.size - 1
    work = np.zeros(m + 1, np.int64)
    step = max(1, -(-m // threads)) if A.columns.size > _MIN_TASK else max(1, m)
    parts = [(first, min(m, first + step)) for first in range(0, m, step)]
    run_tasks(lambda first, last: _count_pairs(A.starts, A.columns, B.starts, first, last, work), parts, threads)
    return np.cumsum(work, out=work)


def _bound_work(A: CompressedRows, B: CompressedRows, threads: int) -> Array:
    """Return upper bounds of `_work_of_rows`, without its random access to memory if the rows of B are about equal."""
    longest = int((B.starts[1:] - B.starts[:-1]).max(initial=0))
    if longest * (B.starts.size - 1) > _UNEVEN * B.columns.size:
        return _work_of_rows(A, B, threads)
    bounds: Array = A.starts * longest + np.arange(A.starts.size)
    return bounds


def _task_size(pairs: int, threads: int) -> int:
    """Return the pairs of each task of a call."""
    return min(_MAX_TASK, max(_MIN_TASK, pairs // (threads * _TASKS_PER_THREAD)))


def _split_rows(work: Array, threads: int) -> list[tuple[int, int]]:
    """Return ranges of rows of about equal work, from the sums of the work of all rows."""
    total = int(work[-1])
    size = _task_size(total, threads)
    ends = np.unique(np.searchsorted(work, np.arange(size, total + size, size)).clip(max=work.size - 1))
    ends = ends[ends > 0]
    return [(int(a), int(b)) for a, b in zip([0, *ends], ends, strict=False)]


def multiply_sparse(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows,
    excluded: CompressedRows | None,
    demand: Callable[[int], None],
    witness_dtype: np.dtype[Any] | None,
) -> tuple[CompressedRows, Array | None, dict[str, int]]:
    """Compute `SparseKernels.multiply_sparse` of the contract: the pattern, and then the terms at its positions."""
    pattern = _find_pattern(plan, A, B, excluded, demand)
    size = pattern.columns.size
    demand(size)
    values = np.empty(size, plan.dtype)
    witness = None if witness_dtype is None else np.full(size, -1, witness_dtype)
    row, nothing = (values, None, witness), np.empty(0, np.int64)
    tasks = _split_rows(_bound_work(A, B, plan.threads), plan.threads)
    with portion(1, 2, 2):
        used = _multiply_at(plan, A, B, pattern, lambda longest: row, None, nothing, tasks)
    return pattern._replace(values=values), witness, used


def _find_pattern(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows,
    excluded: CompressedRows | None,
    demand: Callable[[int], None],
) -> CompressedRows:
    """Return the pattern of A ⊗ B without the positions of ``excluded``."""
    m, width = A.starts.size - 1, B.width
    work, workspaces = _work_of_rows(A, B, plan.threads), _Workspaces(width)
    m_starts, m_columns = (np.empty(0, np.int64), B.columns) if excluded is None else excluded[:2]
    tasks, parts, counts = _split_rows(work, plan.threads), {}, np.zeros(m + 1, np.int64)
    memory = np.empty(int(work[-1]) if work[-1] <= _MAX_SHARED else 0, B.columns.dtype)

    def find(first: int, last: int) -> None:
        a, b = int(work[first]), int(work[last])
        out = memory[a:b] if memory.size else np.empty(b - a, memory.dtype)
        with workspaces.borrow() as workspace:
            size = _find_columns(
                *(A.starts, A.columns, B.starts, B.columns, width, m_starts, m_columns),
                *(work, first, last, workspace, out, counts[1:]),
            )
        parts[first] = out[:size] if memory.size else out[:size].copy()
        found.append(size)
        demand(sum(found))

    found: list[int] = []
    with portion(0, 1, 2):
        run_tasks(find, tasks, plan.threads, reports=True)
    starts = np.cumsum(counts, out=counts)
    columns = np.empty(int(starts[-1]), memory.dtype)

    def gather(first: int, last: int) -> None:
        columns[starts[first] : starts[last]] = parts.pop(first)

    run_tasks(gather, tasks, plan.threads)
    return CompressedRows(starts, columns, None, width)


def multiply_masked(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows | Array,
    mask: CompressedRows,
    witness_dtype: np.dtype[Any] | None,
) -> tuple[CompressedRows, Array | None, dict[str, int]]:
    """Compute `SparseKernels.multiply_masked` of the contract."""
    size, counts = mask.columns.size, np.zeros(mask.starts.size, np.int64)

    def make(size: int) -> Any:
        return np.empty(size, plan.dtype), np.empty(size, np.bool_), witness_dtype and np.empty(size, witness_dtype)

    values, _, witness = make(size)
    found: Any = np.empty(size, mask.columns.dtype), values, witness  # pages without an entry take no memory
    if isinstance(B, CompressedRows):
        work = _bound_work(A, B, plan.threads) + mask.starts
    else:
        work = np.append(0, np.cumsum(np.diff(A.starts) * np.diff(mask.starts) + 1))
    tasks = _split_rows(work, plan.threads)
    used = _multiply_at(plan, A, B, mask, make, found, counts[1:], tasks)
    starts = np.cumsum(counts, out=counts)
    if starts[-1] < size:  # in place, because a copy would take the memory of the mask once more
        arrays = [entries for entries in found if entries is not None]
        for first, last in tasks:
            source = int(mask.starts[first])
            for entries in arrays:
                moved = entries[source : source + int(starts[last] - starts[first])]
                entries[starts[first] : starts[last]] = moved
        for entries in arrays:
            entries.resize(int(starts[-1]), refcheck=False)
    columns, values, witness = found
    return CompressedRows(starts, columns, values, mask.width), witness, used


def _multiply_at(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows | Array,
    pattern: CompressedRows,
    make_row: Callable[[int], Any],
    found: tuple[Array, Array, Array | None] | None,
    counts: Array,
    tasks: list[tuple[int, int]],
) -> dict[str, int]:
    """Run `_multiply_rows` or `_sample_rows`, and return how many rows each accumulator computed.

    ``make_row`` receives the length of the longest row of a task, and returns the arrays of a row.
    """
    sr, workspaces, numbers = scalars_of(plan), _Workspaces(pattern.width), []
    lengths = np.diff(pattern.starts)

    def multiply(first: int, last: int) -> None:
        longest, count = int(lengths[first:last].max(initial=0)), np.zeros(len(_ACCUMULATORS), np.int64)
        if isinstance(B, CompressedRows):
            table = np.empty(4 * longest if pattern.width > _CACHED_WIDTH else 0, np.int64)
            with workspaces.borrow() as workspace:
                _multiply_rows(
                    *(sr, plan.zero, A[:3], B[:3], (*pattern[:2], B.width), *make_row(longest), found, counts),
                    *(first, last, workspace, table, count),
                )
        else:
            _sample_rows(sr, plan.zero, A[:3], B, pattern[:2], *make_row(longest), found, counts, first, last)
            count[0] = last - first
        numbers.append(count)

    run_tasks(multiply, tasks, plan.threads, reports=True)
    totals = sum(numbers, np.zeros(len(_ACCUMULATORS), np.int64))
    return {name: int(rows) for name, rows in zip(_ACCUMULATORS, totals, strict=True) if rows}


def multiply_mixed(
    plan: KernelPlan,
    C: Array,
    A: CompressedRows | Array,
    B: CompressedRows | Array,
    witness: Array | None,
    of_entries: bool = False,
) -> None:
    """Compute `SparseKernels.multiply_mixed` of the contract."""
    if isinstance(A, CompressedRows):
        work = A.starts * C.shape[1] + np.arange(A.starts.size)
    else:
        assert isinstance(B, CompressedRows)
        work = np.arange(C.shape[0] + 1) * (B.columns.size + C.shape[1])
    if C.size:
        multiply = _mixed_rows(plan, C, A, B, witness, of_entries)
        run_tasks(multiply, _split_rows(work, plan.threads), plan.threads, reports=True)


def _mixed_rows(
    plan: KernelPlan,
    C: Array,
    A: CompressedRows | Array,
    B: CompressedRows | Array,
    witness: Array | None,
    of_entries: bool,
) -> Callable[[int, int], None]:
    """Return the function that computes a range of the rows of `multiply_mixed`."""
    sr = scalars_of(plan)
    if isinstance(A, CompressedRows) and C.shape[1] == 1 and witness is None:
        x, y = B.reshape(-1), C.reshape(-1)  # type: ignore[union-attr]  # B is dense
        return lambda first, last: _sparse_by_vector(sr, plan.zero, A[:3], x, y, first, last)
    if isinstance(A, CompressedRows):
        return lambda first, last: _sparse_by_dense(sr, plan.zero, A[:3], B, C, witness, of_entries, first, last)
    return lambda first, last: _dense_by_sparse(sr, plan.zero, A, B[:3], C, witness, first, last)


# -------------------------------------------------------------------------------------------- unvalidated operands


def scan_rows(plan: KernelPlan, A: CompressedRows, bounds: tuple[Any, Any] | None) -> tuple[bool, bool]:
    """Compute `SparseKernels.scan_rows` of the contract."""
    results = [VALID if A.starts[0] == 0 else INVALID]

    def scan(first: int, last: int) -> None:
        results.append(scan_part(A, bounds, first, last))

    run_tasks(scan, split_entries(A, _SCANNED * _task_size(A.columns.size // _SCANNED, plan.threads)), plan.threads)
    bits = reduce(or_, results)
    return not bits & INVALID, not bits & NEGATIVE


def multiply_unvalidated(
    plan: KernelPlan, C: Array, A: CompressedRows, B: Array, bounds: tuple[Any, Any] | None
) -> bool:
    """Compute `SparseKernels.multiply_unvalidated` of the contract: a task validates its rows, and multiplies them."""
    entries, n = B.reshape(-1), C.shape[1]
    multiply = _mixed_rows(plan, C, A, B, None, False)
    faults = [] if A.starts[0] == 0 else [INVALID]  # threads append, which is atomic

    def run(first: int, last: int, is_dense: bool) -> None:
        if faults:
            return
        if is_dense:
            assert bounds is not None
            bits = scan_values(entries, bounds, first, last)
        else:
            bits = scan_part(A, bounds, first, last)
        if bits & INVALID:
            faults.append(bits)
        elif not is_dense:
            multiply(first, last)

    tasks = [(*rows, False) for rows in split_entries(A, _task_size(A.columns.size * n, plan.threads) // n + 1)]
    if bounds is not None:
        size = _SCANNED * _task_size(entries.size // _SCANNED, plan.threads)
        tasks += [(first, min(entries.size, first + size), True) for first in range(0, entries.size, size)]
    run_tasks(run, tasks, plan.threads, reports=True)
    return not faults
