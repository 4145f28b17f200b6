"""Draw operands of the kernel contract: entries of every semiring and dtype, as callers and as kernels hold them."""

from __future__ import annotations

import numpy as np
import oracles
import pytest

from semiring import CATALOGUE
from semiring.errors import DTypeError
from semiring.kernels.engine import Engine, make_plan

CASES = [(name, dtype) for name, semiring in CATALOGUE.items() for dtype in semiring.dtypes]
SELECTIVE = [(name, dtype) for name, dtype in CASES if oracles.ORACLES[name].selective]

# Half the range of each integer dtype, which is "no path" of min-plus inside a call. That of max-plus is minus one
# more.
HALF = {"int16": 16_383, "int32": 1_073_741_823, "int64": 4_611_686_018_427_387_903}


def bind(backend, name, dtype, **options):
    plan = make_plan(CATALOGUE[name], dtype, **options)
    if not backend.supports(plan.semiring, plan.dtype, plan.storage):
        pytest.skip(f"{backend.name} leaves {name} on {dtype} as {plan.storage} to another backend")
    return Engine(backend, plan)


def entries(rng, name, dtype, shape, *, tame=False):
    """Draw elements as the caller sees them: zeros, ones, ties, infinities. ``tame``: no cycle improves on the one."""
    dtype = np.dtype(dtype)
    zero, one = oracles.zero(name, dtype), oracles.one(name, dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    if name in ("min_plus", "max_plus", "log_plus"):
        sign = {"min_plus": 1, "max_plus": -1, "log_plus": -1}[name]
        values = sign * rng.integers(0 if tame else -9, 10, shape)
        if name == "log_plus" and tame:
            values = values - 6
    elif name in ("max_min", "min_max"):
        values = rng.integers(0, 12, shape) if dtype.kind == "u" else rng.integers(-9, 10, shape)
    elif name in ("max_times", "min_times"):
        values = np.exp2(rng.integers(0 if tame and name == "min_times" else -2, 1 if tame else 3, shape))
    elif name == "lukasiewicz":
        values = rng.integers(0, 9, shape) / 8
    elif name == "xor_and" or (name == "plus_times" and dtype.kind == "i"):
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, shape, dtype, endpoint=True)  # their sums wrap around
    else:
        values = rng.integers(-9, 10, shape)
    values = values.astype(dtype)
    values[rng.random(shape) < 0.25] = zero
    values[rng.random(shape) < 0.1] = one
    if name in ("min_plus", "max_plus", "max_min", "min_max") and dtype.kind == "f" and not tame:
        values[rng.random(shape) < 0.05] = -zero
    return values


def to_kernel_form(values, name):
    """Return values as the kernels hold them: "no path" of integers is half the range."""
    if name not in ("min_plus", "max_plus") or values.dtype.kind != "i":
        return values.copy()
    half = HALF[values.dtype.name]
    inner = half if name == "min_plus" else -half - 1
    return np.where(values == oracles.zero(name, values.dtype), values.dtype.type(inner), values)


def to_caller_form(values, name):
    """Return values as the caller sees them. A sentinel plus a number of at most 100 is still a sentinel."""
    if name not in ("min_plus", "max_plus") or values.dtype.kind != "i":
        return values
    half, zero = HALF[values.dtype.name], oracles.zero(name, values.dtype)
    absent = values >= half - 100 if name == "min_plus" else values <= -half + 100
    return np.where(absent, zero, values)


LAYOUTS = ("rows", "columns", "strided", "reversed")


def laid_out(values, layout):
    """Return the same matrix in another memory order, as a view of a larger array."""
    m, n = values.shape
    if layout == "columns":
        view = np.zeros((n + 2, m + 3), values.dtype).T[1 : m + 1, 2 : n + 2]
    elif layout == "strided":
        view = np.zeros((2 * m, 3 * n), values.dtype)[::2, ::3]
    elif layout == "reversed":
        view = np.zeros((m, n + 1), values.dtype)[::-1, :0:-1]
    else:
        view = np.zeros((m, n), values.dtype)
    view[...] = values
    return view


def nilpotent(rng, name, dtype, n):
    """Return an acyclic matrix with vertices in random order, whose closure is a finite sum in every semiring."""
    A = entries(rng, name, dtype, (n, n))
    A[np.abs(A.astype(float)) == np.inf] = oracles.zero(name, dtype)
    if name == "plus_times":
        # few paths exist, so that their number is exact
        A = np.sign(A) * (rng.random((n, n)) < min(1.0, 3 / max(1, n)))
    order = rng.permutation(n)
    A = np.where(np.triu(np.ones((n, n), bool), 1), A, oracles.zero(name, dtype)).astype(dtype)
    return A[np.ix_(order, order)]


def closable(name, dtype):
    star = CATALOGUE[name].star_expression
    if star is None:
        return False
    try:
        star.check_dtype(np.dtype(dtype))
    except DTypeError:
        return False
    return True


def pack_words(values, spare=0):
    """Return uint32 words, a view of wider rows: bit b of word w is column 32·w + b."""
    m, n = values.shape
    words = np.zeros((m, -(-n // 32) + spare), np.uint32)[:, : -(-n // 32)]
    for j in range(n):
        words[:, j // 32] |= values[:, j].astype(np.uint32) << np.uint32(j % 32)
    return words


def unpack_words(words, n):
    """Return the first n columns, and assert that the tail bits are zero."""
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    flat = bits.reshape(len(words), 32 * words.shape[1]).astype(bool)
    assert not flat[:, n:].any(), "tail bits are set"
    return flat[:, :n]
