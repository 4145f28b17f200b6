"""Run GPU products for compute-sanitizer: every way through the kernels, at sizes that tiles do not divide.

    export PYTHONPATH=.:tests/support
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 python tests/gpu/sanitize_cuda.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/gpu/sanitize_cuda.py

Errors of the API are not reported, because cuda-bindings requests functions that are newer than the driver. Run it once
without the sanitizer before. The kernels then come from disk, and the sanitizer does not see their compilation. The
argument ``sparse`` selects the products of sparse matrices.
"""

from __future__ import annotations

import sys

import cupy
import numpy as np
import oracles
from operands import entries, pack_words, to_caller_form, to_kernel_form, unpack_words
from sparse_cases import CONTRACT_CASES, FAULTS, check_contract, check_faults, check_functions, get, put

from semiring import CATALOGUE
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.cuda.product.scaled_entries import add_scaled_entries, add_scaled_rows
from semiring.kernels.engine import Engine, make_plan

#: Semiring, dtype, and whether no sign bit is set: one for each kind of word, of copy and of instruction.
CASES = [
    ("min_plus", "float32", False),
    ("min_plus", "float32", True),
    ("min_plus", "int32", False),
    ("min_plus", "int16", False),
    ("min_plus", "float16", False),
    ("max_min", "float32", False),
    ("max_min", "uint8", False),
    ("plus_times", "float64", False),
    ("log_plus", "float32", False),
    ("boolean", "bool", False),
]
SHAPES = [(65, 130, 67), (64, 16, 128), (3, 1100, 5)]


def device(array: np.ndarray, column_major: bool = False) -> cupy.ndarray:
    return cupy.asarray(np.asfortranarray(array) if column_major else array)


def products(name: str, dtype: str, nonnegative: bool, rng: np.random.Generator) -> None:
    """Compute products, sums and witnesses of two layouts, and a stack."""
    engine = Engine(CudaBackend(), make_plan(CATALOGUE[name], dtype, nonnegative=nonnegative))
    exact = name != "log_plus"
    for m, k, n in SHAPES:
        A, B, C = (entries(rng, name, dtype, shape, tame=nonnegative) for shape in ((m, k), (k, n), (m, n)))
        if nonnegative:
            A, B, C = abs(A), abs(B), abs(C)
        for column_major in (False, True):
            a, b, c = (device(to_kernel_form(array, name), column_major) for array in (A, B, C))
            product = cupy.empty_like(c)
            engine.multiply(product, a, b)
            engine.multiply_add(c, a, b)
            if exact:
                np.testing.assert_array_equal(to_caller_form(product.get(), name), oracles.product(A, B, name))
                np.testing.assert_array_equal(to_caller_form(c.get(), name), oracles.product(A, B, name, C))
        if oracles.ORACLES[name].selective:
            W = cupy.full((m, n), -1, np.int32)
            engine.multiply_add_witness(device(to_kernel_form(C, name)), W, a, b, 0)
    stack = device(to_kernel_form(entries(rng, name, dtype, (3, 66, 66)), name))
    engine.multiply(cupy.empty_like(stack), stack, cupy.broadcast_to(stack[:1], stack.shape))


def bits(rng: np.random.Generator) -> None:
    engine = Engine(CudaBackend(), make_plan(CATALOGUE["boolean"], "bool", storage="bits"))
    A, B = rng.random((67, 130)) < 0.1, rng.random((130, 97)) < 0.1
    words = cupy.empty((67, 4), np.uint32)
    engine.multiply(words, device(pack_words(A)), device(pack_words(B)))
    np.testing.assert_array_equal(unpack_words(words.get(), 97), oracles.product(A, B, "boolean"))


def sparse(rng: np.random.Generator) -> None:
    for name, dtype in CONTRACT_CASES:
        plan = make_plan(CATALOGUE[name], dtype)
        check_contract(CudaBackend(), plan, rng, cupy.asarray, lambda array: array.get())
    for fault in FAULTS:
        for index in (np.int32, np.int64):
            check_faults(CudaBackend(), make_plan(CATALOGUE["min_plus"], "float64"), rng, fault, index, put, get)
    for kind in ("csr", "csc", "coo"):  # index arrays are validated, sorted and transposed
        check_functions(kind, rng, put, get)
    for dtype in ("float32", "float64"):
        for width in (5, 8, 136):
            scaled_entries(dtype, width, rng)


def scaled_entries(dtype: str, width: int, rng: np.random.Generator) -> None:
    places = cupy.asarray(rng.integers(0, 12, (2, 300)))
    for scale in (1, 300):  # exponents within the range of products, and outside
        X, alpha, Y, beta, gamma = (
            cupy.asarray((scale * rng.normal(size=shape)).astype(dtype))
            for shape in ((300,), (300,), *[(3, 12, width)] * 3)
        )
        add_scaled_rows(X, alpha, places, Y, beta, gamma, (12, 12))
        add_scaled_entries(Y, beta, gamma, beta, alpha[None], places)


def main() -> None:
    rng = np.random.default_rng(0)
    if "sparse" not in sys.argv:
        for name, dtype, nonnegative in CASES:
            products(name, dtype, nonnegative, rng)
        bits(rng)
    sparse(rng)
    cupy.cuda.Device().synchronize()
    print("all products ran")


if __name__ == "__main__":
    main()
