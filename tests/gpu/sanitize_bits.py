"""Run packed truth values on a GPU for compute-sanitizer: tensor cores, components, edges.

    export PYTHONPATH=.:tests/support
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 python tests/gpu/sanitize_bits.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/gpu/sanitize_bits.py
    compute-sanitizer --tool synccheck --error-exitcode 1 python tests/gpu/sanitize_bits.py

Arguments are the parts to run: see `PARTS`. Without any, all of them run. Run it once without the sanitizer before. The
kernels then come from disk, and the sanitizer does not see their compilation.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from unittest.mock import patch

import cupy
import numpy as np

import semiring as sr
from semiring import BitMatrix, pack
from semiring.algorithms import schedule, triangular
from semiring.kernels import device_backend
from semiring.kernels.cuda.product import bit_kernels
from semiring.kernels.engine import make_plan

BOOL = np.dtype(bool)
#: m, k, n, and words before the rows of C: one, two and four slabs, two passes, ragged rows and words, odd places.
SHAPES = [
    (1, 1, 1, 0),
    (130, 500, 513, 1),
    (129, 1025, 1000, 0),
    (300, 2049, 96, 2),
    (257, 4097, 700, 3),
]


def products() -> None:
    """Multiply on the tensor cores, with C read or not, ⊕ or and xor, inside larger memory."""
    rng = np.random.default_rng(0)
    for m, k, n, before in SHAPES:
        a, b, c = (rng.random(shape) < 0.02 for shape in ((m, k), (k, n), (m, n)))
        counts = a.astype(np.float32) @ b.astype(np.float32)
        for name, product in (("boolean", counts > 0), ("xor_and", counts % 2 > 0)):
            semiring = sr.as_semiring(name)
            plan, backend = make_plan(semiring, BOOL, storage="bits"), device_backend(semiring, BOOL, "bits")
            A, B, words = (cupy.asarray(pack(x).words) for x in (a, b, c))
            C = cupy.zeros((m, words.shape[1] + before + 1), np.uint32)[:, before:-1]
            backend.multiply(plan, C, A, B)
            np.testing.assert_array_equal(C.get(), pack(product).words)
            C[...] = words
            backend.multiply_add(plan, C, A, B)
            both = c | product if name == "boolean" else c ^ product
            np.testing.assert_array_equal(C.get(), pack(both).words)


def graph(n: int, degree: float, seed: int) -> tuple[np.ndarray, BitMatrix]:
    """Return a random graph, and its closure by squares."""
    rng = np.random.default_rng(seed)
    a = np.zeros((n, n), bool)
    a[tuple(rng.integers(0, n, (2, int(degree * n))))] = True
    found = a | np.eye(n, dtype=bool)
    for _ in range(n.bit_length()):
        found = found.astype(np.float32) @ found.astype(np.float32) > 0
    return a, pack(found)


def closures() -> None:
    """Close by squares of one block, and by elimination of several blocks."""
    narrow = replace(schedule._TABLE["cuda, bits"], pivots=((0, 256),))
    with patch.dict(schedule._TABLE, {"cuda, bits": narrow}):
        for n in (130, 600, 1024):
            a, expected = graph(n, 1.2, n)
            for method in ("auto", "blocked_floyd_warshall"):
                A = pack(a).to_device()
                assert sr.closure(A, "boolean", method=method, out=A).to_host() == expected
                sr.closure(A, "boolean", method=method, reflexive=False)


def components() -> None:
    """Close graphs by lists of edges and by sweeps, with a block upper triangular elimination and a filled
    component."""
    step = import_module("semiring.algorithms.triangular")
    for few in (64, 0):
        with (
            patch.object(step, "_LEAST", 1),
            patch.object(triangular, "_FEW", few),
            patch.object(triangular, "_LISTED", 1),
            patch.object(triangular, "_SPLIT", 64),
            patch.object(triangular, "_SWEEPS", 1.0),
        ):
            for degree in (0.8, 1.5, 6):
                a, expected = graph(600, degree, int(10 * degree))
                assert sr.closure(pack(a).to_device(), "boolean").to_host() == expected


def edges() -> None:
    """Convert edges to a matrix and back, and transpose it."""
    rng = np.random.default_rng(1)
    tails, heads = rng.integers(0, 300, (2, 900))
    A = BitMatrix.from_edges(cupy.asarray(tails), cupy.asarray(heads), (300, 300))
    expected = BitMatrix.from_edges(tails, heads, (300, 300))
    assert A.to_host() == expected
    assert A.count() == expected.count()
    assert A.T.to_host() == expected.T
    assert sum(len(rows) for rows, _ in A.edges(1000)) == expected.count()


PARTS = {part.__name__: part for part in (products, closures, components, edges)}


def main() -> None:
    bit_kernels._PAIRS = 1  # small products on the tensor cores too
    chosen = sys.argv[1:] or list(PARTS)
    for part in chosen:
        PARTS[part]()
    cupy.cuda.Device().synchronize()
    print(f"{', '.join(chosen)} ran")


if __name__ == "__main__":
    main()
