"""Test linear algebra on `BitMatrix`, against the results on arrays of truth values."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.arrays.bits import BitMatrix, pack
from semiring.errors import AlgebraError, DTypeError, ShapeError

NAMES = ["boolean", "xor_and", "max_min", "min_max"]


def truths(rng, shape):
    return rng.random(shape) < 0.2


def unpack(matrix):
    assert isinstance(matrix, BitMatrix)
    tail = matrix.shape[1] % 32
    if tail and matrix.words.size:
        assert not (matrix.words[:, -1] >> np.uint32(tail)).any(), "tail bits are set"
    return matrix.unpack()


@pytest.mark.parametrize("name", NAMES)
def test_matmul(name, rng):
    for m, k, n in [(0, 2, 3), (2, 0, 33), (3, 2, 0), (1, 1, 1), (5, 33, 31), (33, 64, 65), (65, 97, 130)]:
        A, B = truths(rng, (m, k)), truths(rng, (k, n))
        expected = oracles.product(A, B, name)
        np.testing.assert_array_equal(unpack(sr.matmul(pack(A), pack(B), name)), expected)
        np.testing.assert_array_equal(unpack(sr.matmul(pack(A), B, name)), expected)
        np.testing.assert_array_equal(unpack(sr.matmul(A, pack(B), name, threads=1)), expected)
        out = BitMatrix.zeros((m, n))
        assert sr.matmul(pack(A), pack(B), name, out=out) is out
        np.testing.assert_array_equal(unpack(out), expected)


@pytest.mark.parametrize("name", NAMES)
def test_gemm(name, rng):
    semiring = oracles.ORACLES[name]
    A, B, C = truths(rng, (5, 40)), truths(rng, (40, 33)), truths(rng, (5, 33))
    zero = bool(semiring.zero(np.dtype(bool)))
    for alpha, beta, flip_a, flip_b in itertools.product(
        (None, False, True), (None, False, True), *[(False, True)] * 2
    ):
        product = np.full_like(C, zero) if alpha is not None and alpha == zero else oracles.product(A, B, name)
        expected = semiring.add(product, C) if beta is not None and beta != zero else product
        first, second = pack(A.T if flip_a else A), pack(B.T if flip_b else B)
        options = {"alpha": alpha, "beta": beta, "transpose": (flip_a, flip_b)}
        result = sr.blas.gemm(first, second, None if beta is None else pack(C), name, **options)
        np.testing.assert_array_equal(unpack(result), expected)
    out = pack(C)
    assert sr.blas.gemm(pack(A), pack(B), out, name, beta=not zero, out=out) is out
    np.testing.assert_array_equal(unpack(out), semiring.add(oracles.product(A, B, name), C))


@pytest.mark.parametrize("name", NAMES)
def test_powers_sums_and_products(name, rng):
    semiring = oracles.ORACLES[name]
    A, B = truths(rng, (37, 37)), truths(rng, (37, 37))
    expected = oracles.identity(37, name, bool)
    for k in range(5):
        np.testing.assert_array_equal(unpack(sr.power(pack(A), k, name)), expected)
        expected = oracles.product(expected, A, name)
    np.testing.assert_array_equal(unpack(sr.add(pack(A), pack(B), name)), semiring.add(A, B))
    np.testing.assert_array_equal(unpack(sr.multiply(pack(A), B, name)), semiring.mul(A, B))
    assert sr.reduce(pack(A), name) == sr.reduce(A, name)


def test_tail_bits_stay_zero_whatever_the_sum(rng):
    """The zero of the mirror image of GF(2) is True, and 0 ⊕ 0 flips the bits beyond the last column."""
    mirror = sr.Semiring("mirror", "~(x ^ y)", "x | y", True, False, dtypes=["bool"])
    A, B = truths(rng, (5, 33)), truths(rng, (5, 33))
    np.testing.assert_array_equal(unpack(sr.add(pack(A), pack(B), mirror)), A == B)
    expected = (A[:, :, None] | B.T[None]).sum(axis=1) % 2 == 33 % 2  # True where an even number of terms is False
    np.testing.assert_array_equal(unpack(sr.matmul(pack(A), pack(B.T), mirror)), expected)


def test_witness(rng):
    A, B = truths(rng, (5, 70)), truths(rng, (70, 33))
    for name in ("boolean", "max_min", "min_max"):
        product, witness = sr.matmul(pack(A), pack(B), name, return_witness=True)
        np.testing.assert_array_equal(unpack(product), oracles.product(A, B, name))
        np.testing.assert_array_equal(witness, oracles.witness(A, B, name))


def test_out_may_be_an_operand(rng):
    A, B = truths(rng, (40, 40)), truths(rng, (40, 40))
    for left in (True, False):
        operands = pack(A), pack(B)
        out = operands[0] if left else operands[1]
        assert sr.matmul(*operands, "boolean", out=out) is out
        np.testing.assert_array_equal(unpack(out), oracles.product(A, B, "boolean"))


def test_views(rng):
    A, B = truths(rng, (70, 128)), truths(rng, (128, 96))
    P, Q = pack(A)[3:40, 32:96], pack(B)[32:96, 64:96]
    np.testing.assert_array_equal(
        unpack(sr.matmul(P, Q, "boolean")), oracles.product(A[3:40, 32:96], B[32:96, 64:96], "boolean")
    )


BITS = pack(np.zeros((2, 3), bool))


@pytest.mark.parametrize(
    ("function", "arguments", "options", "error", "message"),
    [
        (
            sr.matmul,
            (BITS, BITS, "boolean"),
            {},
            ShapeError,
            r"A is \(2, 3\), B is \(2, 3\): inner sizes 3 and 2 differ",
        ),
        (sr.power, (BITS, 2, "boolean"), {}, ShapeError, "square"),
        (sr.add, (BITS, pack(np.zeros((1, 3), bool)), "boolean"), {}, ShapeError, "do not broadcast"),
        (sr.matmul, (BITS, BITS.T, "boolean"), {"out": BitMatrix.zeros((1, 1))}, ShapeError, r"out is \(1, 1\)"),
        (sr.matmul, (BITS, BITS.T, "boolean"), {"out": np.zeros((2, 2), bool)}, TypeError, "ndarray"),
        (sr.matmul, (BITS, BITS.T, "min_plus"), {}, DTypeError, "min_plus is not defined on bool"),
        (sr.matmul, (BITS, [[0.5], [1.0], [0.0]], "boolean"), {}, DTypeError, "does not hold"),
        *(
            (sr.blas.gemm, (BITS, BITS.T, None, "boolean"), {"alpha": wrong}, DTypeError, "which bool does not hold")
            for wrong in (5, np.nan, 0.5)
        ),
        (
            sr.blas.gemm,
            (BITS, BITS.T, BITS, "boolean"),
            {"beta": [True, False]},
            ShapeError,
            r"beta is \(2,\): it must",
        ),
        (sr.blas.gemm, (BITS, BITS.T, BITS, "boolean"), {}, ValueError, "C is given, but no beta: pass beta=True"),
        (sr.matmul, (BITS, BITS.T, "xor_and"), {"return_witness": True}, AlgebraError, "xor_and has no witnesses"),
    ],
)
def test_what_bits_cannot_do(function, arguments, options, error, message):
    with pytest.raises(error, match=message):
        function(*arguments, **options)
