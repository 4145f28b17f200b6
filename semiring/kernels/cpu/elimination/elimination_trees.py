"""Symbolic factorization for a sparse elimination: the elimination tree, the fill, and the supernodes.

Vertices are *places* here, 0 … n - 1 in the order of elimination. Patterns are compressed rows without the diagonal,
equal to their transposes, with sorted int32 indices.

Sources: J. W. H. Liu, "The role of elimination trees in sparse factorization", SIAM J. Matrix Anal. Appl. 11 (1990); C.
Ashcraft, R. Grimes, "The influence of relaxed supernode partitions on the multifrontal method", ACM TOMS 15 (1989).
Cost: nearly O(edges) for the tree, and O(entries of the factor) for the supernodes and their rows.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.loops import kernel

_STRIP = 8  # entries of a row that are transposed at a time if the matrix is dense enough: 26 ms become 10 (n = 2,048)
_PLACES = 32  # the most places for each entry of such a matrix


@kernel
def rows_of(starts, count):
    """Return the row of each of the ``count`` entries of compressed rows, int32."""
    rows = np.empty(count, np.int32)
    for i in range(starts.size - 1):
        for e in range(starts[i], starts[i + 1]):
            rows[e] = i
    return rows


@kernel
def compress_rows(n, rows, columns):
    """Return the starts of the rows of listed entries, (n + 1,) int64, and the stable order that sorts the entries."""
    starts, next_slot = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for e in range(rows.size):
        starts[rows[e] + 1] += 1
        next_slot[columns[e] + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
        next_slot[i + 1] += next_slot[i]
    by_column, order = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    for e in range(rows.size):
        by_column[next_slot[columns[e]]] = e
        next_slot[columns[e]] += 1
    next_slot[:] = starts
    for e in by_column:
        order[next_slot[rows[e]]] = e
        next_slot[rows[e]] += 1
    return starts, order


@kernel
def transpose_rows(starts, indices):
    """Return the compressed columns of compressed rows: starts of columns, rows of their entries, and their order.

    The rows of a column are sorted.
    """
    n = starts.size - 1
    first, width = column_starts(n, indices), strip_width(n, indices.size)
    for i in range(n if width < n else 0):
        for e in range(starts[i] + 1, starts[i + 1]):
            if indices[e - 1] > indices[e]:  # strips would change the order of the rows of a column
                width = n
    rows, entries, next_slot = np.empty(indices.size, np.int32), np.empty(indices.size, np.int64), first[:n].copy()
    next_entry = starts[:n].copy()
    for end in range(width, n + width, width):
        for i in range(n):
            e = next_entry[i]
            while e < starts[i + 1] and indices[e] < end:
                j = indices[e]
                rows[next_slot[j]], entries[next_slot[j]] = i, e
                next_slot[j] += 1
                e += 1
            next_entry[i] = e
    return first, rows, entries


@kernel
def column_starts(n, indices):
    """Return the starts of the compressed columns (n + 1,) of the columns of entries."""
    first = np.zeros(n + 1, np.int64)
    for e in range(indices.size):
        first[indices[e] + 1] += 1
    for j in range(n):
        first[j + 1] += first[j]
    return first


@kernel
def strip_width(n, count):
    """Return how many columns are transposed at a time, so that the ends of these columns stay in the cache."""
    if count == 0 or n * n > _PLACES * count:
        return max(1, n)
    return max(1, min(n, _STRIP * (n * n // count)))


@kernel
def symmetric_pattern(starts, indices, first, rows):
    """Return the pattern of A ∪ Aᵀ without its diagonal, from sorted compressed rows and columns of A."""
    n = starts.size - 1
    begins = np.zeros(n + 1, np.int64)
    heads = np.empty(2 * indices.size, np.int32)
    count = 0
    for i in range(n):
        a, b, c, d = starts[i], starts[i + 1], first[i], first[i + 1]
        while a < b or c < d:
            x = indices[a] if a < b else n
            y = rows[c] if c < d else n
            j = min(x, y)
            a += x == j
            c += y == j
            if j != i:
                heads[count] = j
                count += 1
        begins[i + 1] = count
    return begins, heads[:count].copy()


@kernel
def elimination_tree(starts, indices, order):
    """Return the parent of every place in the elimination tree (-1 at a root), and the places in postorder.

    ``order`` (n,): the vertex at each place. The parent of a place is the next place that its elimination touches.
    """
    n = order.size
    place = np.empty(n, np.int32)
    for j in range(n):
        place[order[j]] = j
    parent, ancestor = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    for j in range(n):
        vertex = order[j]
        for e in range(starts[vertex], starts[vertex + 1]):
            i = place[indices[e]]
            while i != -1 and i < j:
                following = ancestor[i]
                ancestor[i] = j
                if following == -1:
                    parent[i] = j
                i = following
    head, sibling = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            sibling[j] = head[parent[j]]
            head[parent[j]] = j
    post, stack, count = np.empty(n, np.int32), np.empty(n, np.int32), 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        top = 0
        stack[0] = root
        while top >= 0:
            j = stack[top]
            child = head[j]
            if child == -1:
                post[count] = j
                count += 1
                top -= 1
            else:
                head[j] = sibling[child]
                top += 1
                stack[top] = child
    return parent, post


@kernel
def column_counts(starts, indices, order, parent):
    """Return how many entries every column of the factor has, its diagonal included, int64; parents in postorder."""
    n = order.size
    place = np.empty(n, np.int32)
    for j in range(n):
        place[order[j]] = j
    counts, marks = np.ones(n, np.int64), np.full(n, -1, np.int32)
    for i in range(n):
        marks[i] = i
        vertex = order[i]
        for e in range(starts[vertex], starts[vertex + 1]):
            j = place[indices[e]]
            while j < i and marks[j] != i:
                counts[j] += 1
                marks[j] = i
                j = parent[j]
    return counts


@kernel
def find_supernodes(parent, counts, leaf_size, small_size, zero_share):
    """Return the starts of supernodes, (count + 1,) int64: runs of places that are eliminated as one dense block.

    A subtree of at most ``leaf_size`` places is one supernode. A larger supernode is merged with the supernode before
    it only if that is its last child. One of three conditions must hold:

    - At most the share ``zero_share`` of the entries are explicit zeros.
    - Both supernodes have at most ``small_size`` places together.
    - There are no explicit zeros.
    """
    n = parent.size
    size = np.ones(n, np.int64)
    for j in range(n):
        if parent[j] >= 0:
            size[parent[j]] += size[j]
    first, last, empty = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    count, j = 0, 0
    while j < n:
        root = j
        while parent[root] >= 0 and size[parent[root]] <= leaf_size and parent[root] - size[parent[root]] + 1 == j:
            root = parent[root]
        first[count], last[count], empty[count] = j, root, 0
        for i in range(j, root + 1):
            empty[count] += root - i + counts[root] - counts[i]
        while count > 0 and parent[last[count - 1]] == first[count]:
            low, high = last[count - 1] - first[count - 1] + 1, last[count] - first[count] + 1
            below, above = counts[last[count - 1]] - 1, counts[last[count]] - 1
            holes = empty[count - 1] + empty[count] + low * (high + above - below)
            entries = (low + high) * (low + high + 1) // 2 + (low + high) * above
            if holes > empty[count - 1] + empty[count] and low + high > small_size and holes > zero_share * entries:
                break
            count -= 1
            last[count], empty[count] = last[count + 1], holes
        count += 1
        j = root + 1
    starts = np.empty(count + 1, np.int64)
    starts[:count] = first[:count]
    starts[count] = n
    return starts


@kernel
def find_structures(starts, indices, order, parent, counts, pivot_starts):
    """Return the supernodes, their tree, and the rows below every supernode.

    The results are the supernode of every place, the parent of every supernode (-1 at a root), the starts of its rows,
    int64 (count + 1,), and the rows, sorted places int32.
    """
    n, count = order.size, pivot_starts.size - 1
    place, supernode_of = np.empty(n, np.int32), np.empty(n, np.int32)
    parents, row_starts = np.full(count, -1, np.int32), np.zeros(count + 1, np.int64)
    for j in range(n):
        place[order[j]] = j
    for s in range(count):
        for j in range(pivot_starts[s], pivot_starts[s + 1]):
            supernode_of[j] = s
        row_starts[s + 1] = row_starts[s] + counts[pivot_starts[s + 1] - 1] - 1
    for s in range(count):
        ancestor = parent[pivot_starts[s + 1] - 1]
        if ancestor >= 0:
            parents[s] = supernode_of[ancestor]
    rows, next_slot = np.empty(row_starts[count], np.int32), row_starts[:count].copy()
    marks = np.full(count, -1, np.int32)
    for i in range(n):  # in this order the rows of every supernode come sorted
        own, vertex = supernode_of[i], order[i]
        for e in range(starts[vertex], starts[vertex + 1]):
            j = place[indices[e]]
            if j < i:
                s = supernode_of[j]
                while s != own and marks[s] != i:
                    rows[next_slot[s]] = i
                    next_slot[s] += 1
                    marks[s] = i
                    s = parents[s]
    return supernode_of, parents, row_starts, rows


@kernel
def find_slots(
    starts,
    indices,
    place,
    supernode_of,
    pivot_starts,
    row_starts,
    rows,
    blocks,
    right_panels,
    below_panels,
    is_symmetric,
):
    """Return the position of each entry of A (compressed rows) in the memory of a factor, int64.

    The position -1 means that the mirrored entry is stored instead. ``blocks``, ``right_panels``, ``below_panels``
    (count,) are the starts of three blocks of each supernode. These are the pivot block, the entries right of it, and
    the transposed entries below it.
    """
    result = np.empty(indices.size, np.int64)
    for vertex in range(starts.size - 1):
        i = place[vertex]
        for e in range(starts[vertex], starts[vertex + 1]):
            j = place[indices[e]]
            s = supernode_of[min(i, j)]
            first, width = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s]
            low, high = min(i, j) - first, max(i, j)
            if high < first + width:
                result[e] = blocks[s] + (i - first) * width + (j - first)
                continue
            a, b = row_starts[s], row_starts[s + 1]
            depth = b - a
            while b - a > 1:
                middle = (a + b) // 2
                if rows[middle] <= high:
                    a = middle
                else:
                    b = middle
            column = low * depth + a - row_starts[s]
            if i < j:
                result[e] = right_panels[s] + column
            else:
                result[e] = -1 if is_symmetric else below_panels[s] + column
    return result


@kernel
def mark_ancestors(places, supernode_of, parents, is_marked):
    """Set is_marked[s] for the supernodes of the places, and for all their ancestors."""
    for i in range(places.size):
        s = supernode_of[places[i]]
        while s >= 0 and not is_marked[s]:
            is_marked[s] = True
            s = parents[s]


@kernel
def topological_order(starts, indices):
    """Return the vertices of compressed rows, heads before tails, int64 (n,), or fewer than n if there is a cycle."""
    n = starts.size - 1
    waits, order, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    first, tails, _ = transpose_rows(starts, indices)
    for i in range(n):
        waits[i] = starts[i + 1] - starts[i]
        if waits[i] == 0:
            order[count] = i
            count += 1
    position = 0
    while position < count:
        j = order[position]
        position += 1
        for e in range(first[j], first[j + 1]):
            i = tails[e]
            waits[i] -= 1
            if waits[i] == 0:
                order[count] = i
                count += 1
    return order[:count]


@kernel
def widest_level(starts, indices):
    """Return the most vertices at one distance, counted in edges, from a pseudo-peripheral vertex.

    The component is that of a vertex with the most edges. Such a level separates the vertices on both sides of it.
    """
    n = starts.size - 1
    order, turns, widest = np.empty(n, np.int32), np.zeros(n, np.int8), 0
    root = 0
    for i in range(n):
        if starts[i + 1] - starts[i] > starts[root + 1] - starts[root]:
            root = i
    for turn in range(1, 3 if n else 1):
        order[0], turns[root] = root, turn
        begin, end, widest = 0, 1, 1
        while begin < end:
            widest, last = max(widest, end - begin), end
            for position in range(begin, last):
                for e in range(starts[order[position]], starts[order[position] + 1]):
                    if turns[indices[e]] != turn:
                        turns[indices[e]] = turn
                        order[end] = indices[e]
                        end += 1
            begin = last
        root = order[end - 1]
    return widest


@kernel
def sums_from_roots(parents, values):
    """Return the sum of the values (count,) of each supernode and of all its ancestors, int64."""
    sums = values.astype(np.int64)
    for s in range(parents.size - 1, -1, -1):
        if parents[s] >= 0:
            sums[s] += sums[parents[s]]
    return sums
