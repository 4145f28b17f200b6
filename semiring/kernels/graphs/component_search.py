"""Strong and weak components of packed edges, a word of 32 edges at a time.

Sources: M. Sharir, "A strong-connectivity algorithm and its applications in data flow analysis", Comput. Math. Appl. 7
(1981), after R. Kosaraju. For edges in lists, R. E. Tarjan, "Depth-first search and linear graph algorithms", SIAM J.
Comput. 1 (1972).

Words are uint32 (n, ⌈n/32⌉), bit b of word w is column 32·w + b, and tail bits are clear. The cost is O(n² / 32),
because a search never reads a word again that has no unseen vertex. For m edges in lists it is O(n + m).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import trailing_zeros


@kernel
def _finish_order(words, n):
    """Return the vertices in the order in which a depth-first search finishes them."""
    width = words.shape[1]
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    path, word, order = np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64)
    count = 0
    for root in range(n):
        if not unseen[root >> 5] >> np.uint32(root & 31) & np.uint32(1):
            continue
        unseen[root >> 5] &= ~(np.uint32(1) << np.uint32(root & 31))
        path[0], depth = root, 1
        while depth:
            v = path[depth - 1]
            w = word[v]
            while w < width and words[v, w] & unseen[w] == 0:
                w += 1
            word[v] = w
            if w == width:
                order[count] = v
                count += 1
                depth -= 1
                continue
            bit = trailing_zeros(words[v, w] & unseen[w])
            unseen[w] &= ~(np.uint32(1) << np.uint32(bit))
            path[depth] = 32 * w + bit
            depth += 1
    return order


@kernel
def _number_component(rows, transposed, root, count, unseen, unnumbered_count, numbers, stack):
    """Give the number ``count`` to the unseen vertices that edges of either matrix reach from a root.

    Return how many vertices these are. ``unseen`` has the bits of the vertices without a number. Their number is at
    most ``unnumbered_count``, after which the search ends. ``stack`` (n,) is workspace.
    """
    if not unseen[root >> 5] >> np.uint32(root & 31) & np.uint32(1):
        return 0
    unseen[root >> 5] &= ~(np.uint32(1) << np.uint32(root & 31))
    stack[0], depth, size = root, 1, 1
    while depth:
        depth -= 1
        v = stack[depth]
        numbers[v] = count
        if size == unnumbered_count:
            continue
        for w in range(unseen.size):
            heads = (rows[v, w] | transposed[v, w]) & unseen[w]
            unseen[w] &= ~heads
            while heads:
                bit = trailing_zeros(heads)
                heads &= ~(np.uint32(1) << np.uint32(bit))
                stack[depth] = 32 * w + bit
                depth += 1
                size += 1
    return size


@kernel
def components_of_words(words, transposed, n):
    """Return the strong and the weak component of every vertex, both (n,) int64, and the counts of both.

    Strong components are numbered in topological order. Weak components are numbered by their first vertex.
    ``transposed`` are the words of the transpose.
    """
    width = words.shape[1]
    order = _finish_order(words, n)
    number, weak, stack = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    count, unnumbered = 0, n
    for root in order[::-1]:
        size = _number_component(transposed, transposed, root, count, unseen, unnumbered, number, stack)
        count += size > 0
        unnumbered -= size
    unseen[:] = np.uint32(0xFFFFFFFF)
    weak_count, unnumbered = 0, n
    for root in range(n):
        size = _number_component(words, transposed, root, weak_count, unseen, unnumbered, weak, stack)
        weak_count += size > 0
        unnumbered -= size
    return number, weak, count, weak_count


@kernel
def _find_root(weak, v):
    """Return the representative of a weak component by union-find, with path halving."""
    while weak[v] != v:
        weak[v] = weak[weak[v]]
        v = weak[v]
    return v


@kernel
def components_of_lists(starts, heads):
    """Return the strong and the weak component of every vertex, both (n,) int64, and the count of strong components.

    The edges are compressed rows: vertex v has the heads ``heads[starts[v]:starts[v + 1]]``. Strong components are
    numbered in topological order. The number of a weak component is its first vertex, so that numbers are not
    consecutive. The search is Tarjan's, with explicit stacks: ``path`` is the path from the root, and ``stack`` has the
    visited vertices without a component.
    """
    n = starts.size - 1
    number, weak, visit = np.full(n, -1, np.int64), np.arange(n), np.full(n, -1, np.int64)
    edge, low_link = starts[:n].copy(), np.empty(n, np.int64)
    path, stack = np.empty(n, np.int64), np.empty(n, np.int64)
    count = clock = height = 0
    for root in range(n):
        if visit[root] >= 0:
            continue
        v, depth = root, 0
        while True:
            if visit[v] < 0:
                visit[v] = low_link[v] = clock
                clock += 1
                path[depth], stack[height] = v, v
                depth += 1
                height += 1
            if edge[v] < starts[v + 1]:
                u = heads[edge[v]]
                edge[v] += 1
                if visit[u] < 0:
                    v = int(u)
                elif number[u] < 0:
                    low_link[v] = min(low_link[v], visit[u])
                continue
            depth -= 1
            # The stack from v on is a component, because all other vertices that v reaches have a number.
            if low_link[v] == visit[v]:
                while number[v] < 0:
                    height -= 1
                    number[stack[height]] = count
                count += 1
            if depth == 0:
                break
            parent = path[depth - 1]
            low_link[parent] = min(low_link[parent], low_link[v])
            v = parent
    if count == 1:
        weak[:] = 0
        return number, weak, count
    for v in range(n):
        number[v] = count - 1 - number[v]
        for e in range(starts[v], starts[v + 1]):
            a, b = _find_root(weak, v), _find_root(weak, np.int64(heads[e]))
            weak[max(a, b)] = min(a, b)
    for v in range(n):
        weak[v] = _find_root(weak, v)
    return number, weak, count


@kernel
def is_strongly_connected(words, n, rounds):
    """Return True if two searches prove that the graph of packed edges, with n > 0 vertices, is strongly connected.

    The forward search finds the vertices that vertex 0 reaches. The backward search finds the vertices that reach
    vertex 0, by at most ``rounds`` sweeps through all rows, so that no transpose is needed. If more sweeps were
    necessary, the result is False although the graph may be strongly connected.
    """
    width = words.shape[1]
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    if n & 31:
        unseen[width - 1] = np.uint32((1 << (n & 31)) - 1)
    if _number_component(words, words, 0, 0, unseen, n, np.empty(n, np.int64), np.empty(n, np.int64)) < n:
        return False
    reaching = np.zeros(width, np.uint32)
    reaching[0] = np.uint32(1)
    size = 1
    for _ in range(rounds):
        previous = size
        for v in range(n):
            if reaching[v >> 5] >> np.uint32(v & 31) & np.uint32(1):
                continue
            for w in range(width):
                if words[v, w] & reaching[w]:
                    reaching[v >> 5] |= np.uint32(1) << np.uint32(v & 31)
                    size += 1
                    break
        if size == n:
            return True
        if size == previous:
            return False
    return False
