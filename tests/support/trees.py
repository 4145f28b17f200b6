"""Whether predecessors are trees of paths that add up to their distances."""

from __future__ import annotations

import operator
from itertools import pairwise

import numpy as np
from oracles import ORACLES

TIMES = {
    "min_plus": operator.add,
    "max_plus": operator.add,
    "max_min": min,
    "min_max": max,
    "max_times": operator.mul,
    "min_times": operator.mul,
    "boolean": operator.and_,
    "lukasiewicz": lambda x, y: max(0.0, x + y - 1),
}


def zero_of(name, dtype):
    return ORACLES[name].zero(np.dtype(dtype))


def walk(pred, i, j):
    """Return the path to j in row i, and fail on a cycle."""
    path = [j]
    while path[-1] != i:
        before = int(pred[i, path[-1]])
        assert 0 <= before < len(pred), f"row {i}: {path[::-1]} begins nowhere"
        assert len(path) < len(pred), f"row {i}: a cycle on the way back from {j}: {path[:9]}"
        path.append(before)
    return path[::-1]


def check(name, A, D, pred, *, absolute=0.0):
    """Check that every path is simple, follows edges, and adds up to D: exactly, or within n·ε (plus ``absolute``)."""
    n, zero = len(A), zero_of(name, A.dtype)
    number = float if A.dtype.kind == "f" else bool if A.dtype.kind == "b" else int
    epsilon = float(np.finfo(A.dtype).eps) if A.dtype.kind == "f" else 0.0
    assert pred.dtype == np.int32
    assert pred.shape == D.shape == (n, n)
    weights, distances = A.tolist(), D.tolist()
    none = number(zero)
    for i in range(n):
        total = {i: None}
        for j in range(n):
            if i == j or distances[i][j] == none:
                assert pred[i, j] == -9999, f"({i}, {j}) has no path, or is on the diagonal"
                continue
            path = walk(pred, i, j)
            for a, b in pairwise(path):
                if b not in total:
                    assert weights[a][b] != none, f"{a} → {b} is no edge"
                    before = total[a]
                    total[b] = weights[a][b] if before is None else TIMES[name](before, weights[a][b])
            found, stated = total[j], distances[i][j]
            allowed = n * epsilon * abs(stated) + absolute
            assert found == stated or abs(found - stated) <= allowed, f"{path} adds up to {found}, not {stated}"
