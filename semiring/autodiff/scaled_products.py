"""Multiply matrices whose entries are mantissas with exponents, without overflow or underflow of the sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.catalogue import plus_times
from semiring.linalg import matmul
from semiring.namespaces import Array, array_namespace

__all__ = ["MAX_SCALE_EXPONENT", "ScaledOperand", "largest", "scaled_product"]


# Terms below e⁻⁷⁴⁵ vanish in float64. If an entry is scaled by at most e⁶⁰⁰ afterwards, the lost terms are below e⁻¹⁴⁵
# of a mantissa, which is negligible. Entries that are scaled by more are summed term by term.
MAX_SCALE_EXPONENT = 600.0
_CHUNK_TERMS = 1 << 20  # the terms that are summed at a time


def scaled_product(X: Array, alpha: Array, Y: Array, beta: Array, gamma: Array) -> Any:
    """Return R[p, q] = Σᵣ X[p, r] · Y[r, q] · exp(alpha[p, r] + beta[r, q] + gamma[p, q]).

    The operands X, alpha (..., m, k), Y, beta (..., k, n) and gamma (..., m, n) are arrays of NumPy or CuPy, with the
    same leading dimensions. Exponents are below ∞; -∞ makes a term 0 for any mantissa. The result has the dtype of X,
    and the computation is in float64. A term is accurate if exp of the sum of its exponents is in range, however large
    the single exponents are.

    Cost: one product of matrices and an exp for each entry of the operands. Entries whose exponents spread further than
    the range of float64 cost an exp for each term.
    """
    xp = array_namespace(X)
    wide = [xp.asarray(operand, dtype=xp.float64) for operand in (X, alpha, Y, beta, gamma)]
    shape = wide[4].shape
    if not wide[4].size or not wide[0].shape[-1]:
        return xp.zeros(shape, X.dtype)
    stacked = [operand.reshape(-1, *operand.shape[-2:]) for operand in wide]
    result = xp.stack(
        [ScaledOperand(xp, Y, beta).product(X, alpha, gamma) for X, alpha, Y, beta, gamma in zip(*stacked, strict=True)]
    )
    return result.reshape(shape).astype(X.dtype, copy=False)


class ScaledOperand:
    """The right operand of several products: a matrix Y with exponents beta (k, n), prepared once."""

    def __init__(self, xp: Any, Y: Array, beta: Array) -> None:
        self.xp, self.Y, self.beta = xp, Y, beta
        self.columns = largest(xp, beta, 0)
        self.mantissas = _mantissas(xp, Y, beta - self.columns)

    def product(self, X: Array, alpha: Array, gamma: Array) -> Any:
        """Return Σᵣ X[p, r] · Y[r, q] · exp(alpha[p, r] + beta[r, q] + gamma[p, q]) in float64."""
        xp, rows = self.xp, largest(self.xp, alpha, 1)
        P = _mantissas(xp, X, alpha - rows)
        exponent = gamma + rows + self.columns
        far = exponent > MAX_SCALE_EXPONENT
        # On the host this package's kernel multiplies, because threads of two libraries would wait for each other.
        product = matmul(P, self.mantissas, plus_times, check=False) if xp is np else P @ self.mantissas
        R = product * xp.exp(xp.where(far, 0.0, exponent))
        if bool(far.any()):
            _add_terms(xp, R, X, alpha, self.Y, self.beta, gamma, xp.argwhere(far))
        return R


def largest(xp: Any, exponents: Array, axis: int) -> Any:
    """Return the largest exponents along an axis, which is kept, with 0 in place of -∞."""
    largest = exponents.max(axis=axis, keepdims=True)
    return xp.where(largest == -xp.inf, 0.0, largest)


def _mantissas(xp: Any, X: Array, exponents: Array) -> Any:
    return xp.where(exponents == -xp.inf, 0.0, X * xp.exp(exponents))


def _add_terms(xp: Any, R: Array, X: Array, alpha: Array, Y: Array, beta: Array, gamma: Array, far: Array) -> None:
    """Compute the entries of R at the indices ``far`` (count, 2), term by term."""
    step = max(1, _CHUNK_TERMS // X.shape[1])
    Y, beta = Y.T, beta.T
    for start in range(0, far.shape[0], step):
        p, q = far[start : start + step, 0], far[start : start + step, 1]
        exponents = alpha[p] + beta[q] + gamma[p, q][:, None]
        terms = X[p] * Y[q]
        R[p, q] = _mantissas(xp, terms, exponents).sum(axis=1)
