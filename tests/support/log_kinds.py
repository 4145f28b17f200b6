"""Draw operands of log_plus of every kind: ordinary, sparse, and hostile, as float64 (m, k) and (k, n)."""

from __future__ import annotations

import numpy as np

INF = np.inf
KINDS = {}


def exactly(A, B, C=None):
    """Return all a + b, their maxima and log Σ exp, of (…, m, k) and (…, k, n), in extended precision.

    ∞ less ∞ is no path. C is one more term of each sum.
    """
    with np.errstate(invalid="ignore"):
        terms = A.astype(np.longdouble)[..., None] + B.astype(np.longdouble)[..., None, :, :]
        terms = np.where(np.isnan(terms), -INF, terms)
        terms = terms if C is None else np.concatenate([terms, C.astype(np.longdouble)[..., None, :]], axis=-2)
        best = terms.max(-2, initial=-INF)
        sums = np.exp(terms - best[..., None, :]).sum(-2)
        return terms, best, np.where(np.isfinite(best), best + np.log(np.where(sums > 0, sums, 1)), best)


def kind(function):
    KINDS[function.__name__] = function
    return function


def normal(rng, *shape, scale=1.0):
    return rng.normal(0, scale, shape)


@kind
def scores(rng, m, k, n):
    return normal(rng, m, k), normal(rng, k, n)


@kind
def scores_to_1000(rng, m, k, n):
    return rng.uniform(-1000, 1000, (m, k)), rng.uniform(-1000, 1000, (k, n))


@kind
def huge_lines(rng, m, k, n):
    A, B = scores_to_1000(rng, m, k, n)
    B[:, 7], B[:, 13], A[5] = 1e30, -1e30, -3e30
    return A, B


@kind
def hidden_markov_models(rng, m, k, n):
    def sparse(*shape):
        return np.where(rng.random(shape) < 0.05, np.log(rng.random(shape)), -INF)

    return sparse(m, k), sparse(k, n)


@kind
def probabilities(rng, m, k, n):
    A, B = normal(rng, m, k, scale=3), normal(rng, k, n, scale=3)
    A -= np.log(np.exp(A).sum(1))[:, None]
    return A, B - np.log(np.exp(B).sum(0)) + np.log(k)


@kind
def equal_terms(rng, m, k, n):
    return np.full((m, k), 0.3), np.full((k, n), -0.7)


@kind
def cancelling(rng, m, k, n):
    A = rng.uniform(0, 2e4, (n, k))
    return A, -A.T


@kind
def of_rows_and_columns(rng, m, k, n):
    inner = normal(rng, k, scale=1e4)
    A = normal(rng, m, 1, scale=1e4) + inner + normal(rng, m, k)
    return A, normal(rng, n, scale=1e4) - inner[:, None] + normal(rng, k, n)


@kind
def masks(rng, m, k, n):
    A, B = scores(rng, m, k, n)
    A[3, 5], A[9], B[:50] = -1e30, -1e9, -1e9
    B[:, 7] = -INF
    return A, B


@kind
def maxima_that_never_meet(rng, m, k, n):
    A, B = scores(rng, m, k, n)
    A[:, 1::2] -= 4000
    B[::2] -= 4000
    A[:9, ::3] -= 9000
    return A, B


@kind
def one_huge_entry(rng, m, k, n):
    A, B = scores(rng, m, k, n)
    A[3, 5], A[7, 8], B[11, 13] = 1e6, 4e5, 1e25
    return A, B


@kind
def ranges_of_400000(rng, m, k, n):
    return rng.uniform(-4e5, 4e5, (m, k)), rng.uniform(-4e5, 4e5, (k, n))


@kind
def one_path(rng, m, k, n):
    A = np.full((m, k), -INF)
    A[np.arange(m), rng.integers(0, k, m)] = normal(rng, m)
    A[5], A[6, ::2] = -INF, 3.0
    return A, normal(rng, k, n)


@kind
def subnormal_sums(rng, m, k, n):
    A, B = scores(rng, m, k, n)
    A[:, 1:], B[0] = A[:, 1:] - 705, B[0] - 705
    A[:, 0], B[1:, 0] = 0, 0
    return A, B


@kind
def barely_lost(rng, m, k, n):
    A, B = scores(rng, m, k, n)
    A[:, 1::2] -= 300
    B[::2] -= np.linspace(100, 400, n)
    return A, B
