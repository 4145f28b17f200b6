"""Test the structure of a factor against symbolic elimination on sets, one vertex after the other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from semiring.sparse.symbolic_factor import Pattern, analyse


def random_pattern(rng, n, edges):
    A = sp.coo_array((np.ones(edges), (rng.integers(0, n, edges), rng.integers(0, n, edges))), shape=(n, n)).tocsr()
    A.sum_duplicates()
    return Pattern(n, A.indptr.astype(np.int64), A.indices.astype(np.int32))


def eliminate(pattern, order):
    """Return the rows below every place by the definition: neighbours of an eliminated vertex become neighbours."""
    n = pattern.n
    place = np.empty(n, int)
    place[order] = range(n)
    neighbours = [set() for _ in range(n)]
    for i, j in zip(place[pattern.rows], place[pattern.indices], strict=True):
        if i != j:
            neighbours[i].add(int(j))
            neighbours[j].add(int(i))
    below = []
    for i in range(n):
        rows = {j for j in neighbours[i] if j > i}
        below.append(rows)
        for j in rows:
            neighbours[j] |= rows - {j}
    return below


@pytest.mark.parametrize("ordering", ["natural", "minimum_degree"])
@pytest.mark.parametrize("n", [1, 2, 5, 17, 60, 150])
def test_every_column_of_the_factor_is_inside_its_supernode(rng, n, ordering):
    for edges in (0, n // 2, n, 2 * n, 5 * n):
        a = analyse(random_pattern(rng, n, edges), ordering)
        assert sorted(a.order) == list(range(n))
        assert np.array_equal(a.place[a.order], np.arange(n))
        below = eliminate(a.pattern, a.order)
        holes = 0
        for s in range(a.count):
            pivots = range(a.pivot_starts[s], a.pivot_starts[s + 1])
            rows = a.rows[a.row_starts[s] : a.row_starts[s + 1]].tolist()
            assert rows == sorted(set(rows))
            assert rows == sorted(below[pivots[-1]])  # exact for the last pivot, a superset for earlier pivots
            assert all(a.supernode_of[p] == s for p in pivots)
            assert (a.parents[s] == a.supernode_of[rows[0]]) if rows else (a.parents[s] == -1)
            for p in pivots:
                assert below[p] <= {*pivots, *rows}
                holes += len({q for q in pivots if q > p} | set(rows)) - len(below[p])
        entries = sum(map(len, below)) + n
        assert holes <= 3 * entries
        roots, rest, need = a.tasks
        ranges = [p for root in roots for p in range(a.lows[root], root + 1)]
        assert sorted(ranges + rest) == list(range(a.count))
        assert (need[roots] >= a.depths[roots] ** 2).all()


def test_a_layout_has_a_place_for_every_edge(rng):
    for symmetric in (False, True):
        pattern = random_pattern(rng, 40, 120)
        if symmetric:
            A = sp.csr_array((np.ones(pattern.indices.size), pattern.indices, pattern.starts), shape=(40, 40))
            A = (A + A.T).tocsr()
            pattern = Pattern(40, A.indptr.astype(np.int64), A.indices.astype(np.int32))
        layout = analyse(pattern, "minimum_degree").layout(symmetric)
        there = layout.slots[layout.slots >= 0]
        assert there.size == np.unique(there).size
        assert there.max() < layout.size
        mirrored = (layout.slots < 0).sum()
        assert mirrored == 0 if not symmetric else mirrored > 0


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_columns_of_dense_and_sparse_rows(density, is_sorted, rng):
    """Denser matrices are transposed in strips of columns if their rows are sorted."""
    for n in (0, 1, 7, 130):
        rows, columns = np.nonzero(rng.random((n, n)) < density)
        order = np.arange(rows.size) if is_sorted else np.lexsort((rng.random(rows.size), rows))
        columns = columns[order].astype(np.int32)
        pattern = Pattern(n, np.searchsorted(rows, np.arange(n + 1)).astype(np.int64), columns)
        starts, tails, entries = pattern.columns
        expected = np.argsort(columns, kind="stable")
        np.testing.assert_array_equal(entries, expected)
        np.testing.assert_array_equal(tails, rows[expected])
        np.testing.assert_array_equal(starts, np.searchsorted(columns[expected], np.arange(n + 1)))
