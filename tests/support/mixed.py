"""Make matrices whose weights differ by many orders of magnitude, and judge their closures in exact arithmetic.

The judge checks what docs/rounding.md states, which is written down again here. Weights are whole numbers of a common
unit, and distances are pairs (length, Σ |w| of the best path). So nothing is rounded but the closure under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

FLOAT64 = Fraction(2) ** -52
Lengths = list[list[tuple[int, int] | None]]


def mixed_matrix(rng: np.random.Generator, dtype: type, sizes: tuple[int, int] = (3, 8)) -> np.ndarray:
    """Return a min-plus matrix: random weights, heights and weights, or decimals, on some scales, with ∞ for no
    edge."""
    n = int(rng.integers(sizes[0], sizes[1] + 1))
    span = float(rng.choice([20, 40, 60, 100, 900] if dtype is np.float64 else [10, 30, 60, 100]))
    kind = rng.integers(5)

    def scale(shape: Sequence[int]) -> np.ndarray:
        choices = [
            np.zeros(shape),
            span * (rng.random(shape) - 0.5),
            np.full(shape, span / 2),
            np.full(shape, -span / 2),
        ]
        return np.choose(rng.integers(0, 4, shape), choices)

    heights = rng.choice([-1, 1], n) * rng.random(n) * 2.0 ** scale((n,)) * (rng.random(n) < 0.7)
    lengths, climbs = rng.random((n, n)) * 2.0 ** scale((n, n)), heights - heights[:, np.newaxis]
    if kind == 0:
        A = rng.choice([-1, 1, 1], (n, n)) * lengths
    elif kind == 1:
        A = lengths + climbs
    elif kind == 2:
        A = rng.integers(0, 9, (n, n)) * 2.0 ** np.rint(scale((n, n))) + climbs
    elif kind == 3:
        A = np.where(rng.random((n, n)) < 0.7, climbs, lengths)
    else:
        A = np.round(rng.choice([-1, 1, 1, 1], (n, n)) * rng.random((n, n)) * 2, 1)
        A *= 10.0 ** rng.choice([0, 0, 0, 8, 17], (n, n))
    return np.where(rng.random((n, n)) < rng.choice([0.2, 0.3, 0.5, 0.8, 1]), A, np.inf).astype(dtype)


def judgement(A: np.ndarray, D: np.ndarray | None, cycle: Sequence[int] = ()) -> str:
    """Return the error of the closure D of a min-plus matrix, or of a negative cycle if D is None, or "" if it is
    right.

    Within a component of m vertices whose least distance is -R, a distance may err by

        2 m ε (|D[i, j]| + |D[j, i]| + ε' S) + ε' S + 16 m 2⁻⁵² R,

    where S is Σ |w| of a best path and ε' the rounding of a weight. If the last term is not below every weight, it may
    err by m (2⁻³² + ε) (|D[i, j]| + ε' S) + ε' S. Between components, it may err by 4 n ε (|D[i, k]| + |D[k, j]|) for
    some vertex k of the path.
    """
    n, epsilon = len(A), Fraction(float(np.finfo(A.dtype).eps))
    finite = A[np.isfinite(A)]
    whole = bool((finite == np.rint(finite)).all()) and float(np.abs(finite).max(initial=0)) * (n + 1) < 2**49
    own = Fraction(0) if whole else epsilon * (2 if A.dtype == np.float64 else 1)
    weights, unit = whole_weights(A)
    if D is None:
        terms = [weights[u][v] for u, v in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True)]
        if None in terms or not cycle or not sum(terms) < -own * sum(map(abs, terms)):
            return f"{list(cycle)} is no negative cycle"
        return ""
    reach = np.isfinite(A) | np.eye(n, dtype=bool)
    for _ in range(n.bit_length()):
        reach = reach @ reach
    if not np.array_equal(reach, np.isfinite(D)):
        return "a distance where there is no path, or none where there is one"
    lengths = shortest(weights)
    if lengths is None:
        return _judge_cycles(A, weights, unit, own, reach & reach.T)
    d = [[0 if pair is None else pair[0] for pair in row] for row in lengths]
    for i in range(n):
        part = np.flatnonzero(reach[i] & reach[:, i])
        m, last = len(part), 16 * len(part) * FLOAT64 * -min(d[a][b] for a in part for b in part)
        for j in np.flatnonzero(reach[i]):
            error, rounded = abs(Fraction(float(D[i, j])) / unit - d[i][j]), own * lengths[i][j][1]
            if not reach[j, i]:
                bound = (
                    4 * n * epsilon * max(abs(d[i][k]) + abs(d[k][j]) for k in range(n) if reach[i, k] and reach[k, j])
                )
            elif whole or last <= 4 * _least_size(A, part) / unit:
                bound = 2 * m * epsilon * (abs(d[i][j]) + abs(d[j][i]) + rounded) + rounded + last
            else:
                bound = m * (Fraction(2) ** -32 + epsilon) * (abs(d[i][j]) + rounded) + rounded
            if error > bound:
                return f"D[{i}, {j}] = {D[i, j]} is {float(error * unit)} off, the bound being {float(bound * unit)}"
    return ""


def _judge_cycles(
    A: np.ndarray, weights: list, unit: Fraction, weight_error: Fraction, same_component: np.ndarray
) -> str:
    """Return the error if an unreported cycle weighs less than the rounding of weights and potentials explains."""
    for i in range(len(A)):
        part = np.flatnonzero(same_component[i])
        # the rounding of potentials that may hide the least weight, for each edge
        hidden = _least_size(A, part) / unit / len(part)
        raised = [
            [None if (w := weights[u][v]) is None else w + weight_error * abs(w) + hidden for v in part] for u in part
        ]
        if shortest(raised) is None:
            return f"a negative cycle among {part.tolist()} is not reported"
    return ""


def _least_size(A: np.ndarray, part: np.ndarray) -> Fraction:
    sizes = np.abs(A[np.ix_(part, part)])
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return Fraction(float(sizes.min())) if sizes.size else Fraction(0)


def whole_weights(A: np.ndarray) -> tuple[list[list[int | None]], Fraction]:
    """Return the weights as whole numbers of a common unit, None for no edge, and the unit."""
    exact = [[None if w == np.inf else Fraction(w) for w in row] for row in A.astype(float).tolist()]
    scale = max((w.denominator for row in exact for w in row if w is not None), default=1)
    return [[None if w is None else int(w * scale) for w in row] for row in exact], Fraction(1, scale)


def shortest(weights: list) -> Lengths | None:
    """Return (length, least Σ |w| of such a path) of all pairs by Floyd's algorithm, or None with a negative cycle."""
    n = len(weights)
    D: list = [[None if w is None else (w, abs(w)) for w in row] for row in weights]
    for i in range(n):
        D[i][i] = min(D[i][i] or (0, 0), (0, 0))
    for k in range(n):
        for i in range(n):
            if (there := D[i][k]) is None:
                continue
            for j in range(n):
                if (on := D[k][j]) is not None:
                    both = (there[0] + on[0], there[1] + on[1])
                    if D[i][j] is None or both < D[i][j]:
                        D[i][j] = both
        if any(D[i][i] is not None and D[i][i][0] < 0 for i in range(n)):
            return None
    return D
