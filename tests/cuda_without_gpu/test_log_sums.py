"""The sums of log_plus that the tensor cores leave open: the kernel for the GPU, compiled, and run on the host."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler

from semiring.kernels.cuda.closing.modules import compile_for

needs_nvrtc = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("cuda", "nvidia")),
    reason="NVRTC is not installed: pip install cuda-bindings nvidia-cuda-nvrtc",
)
INF = np.inf


def text(char):
    """The source without CuPy, which the module that launches it imports."""
    from pathlib import Path

    import semiring.kernels.cuda.product as folder

    source = (Path(folder.__file__).parent / "log_sums.cu").read_text("utf-8")
    return f"typedef {'float' if char == 'f' else 'double'} T;\n{source}"


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("char", ["f", "d"])
def test_it_compiles_with_few_spills(char):
    _, log = compile_for("sm_90a", text(char), ("--std=c++17",))
    (spilled,) = re.findall(r"(\d+) bytes spill stores", log)
    assert int(spilled) < 256


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return {char: HostKernels(text(char), tmp_path_factory.mktemp("log_sums") / char) for char in "fd"}


def normal(rng, m, k, n):
    return rng.normal(size=(m, k)), rng.normal(size=(k, n))


def hostile(rng, m, k, n):
    return rng.uniform(-4e5, 4e5, (m, k)), rng.uniform(-4e5, 4e5, (k, n))


def sparse(rng, m, k, n):
    def drawn(*shape):
        return np.where(rng.random(shape) < 0.15, rng.normal(size=shape), -INF)

    return drawn(m, k), drawn(k, n)


def huge(rng, m, k, n):
    A, B = normal(rng, m, k, n)
    A[m // 2, 1], B[2, n // 3], A[0, 0] = 3e8, 1e25, -1e30
    return A, B


def infinite(rng, m, k, n):
    A, B = normal(rng, m, k, n)
    A[0, 0], B[1, 0], A[1] = INF, -INF, -INF
    return A, B


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("char", ["f", "d"])
@pytest.mark.parametrize("kind", [normal, hostile, sparse, huge, infinite])
@pytest.mark.parametrize("order", ["C", "F"])
def test_open_entries_become_their_sums_and_others_stay(kernels, char, kind, order, rng):
    m, k, n = 131, 37, 67
    A, B = (np.asarray(X, char, order=order) for X in kind(rng, m, k, n))
    with np.errstate(invalid="ignore"):
        terms = A.astype(float)[:, :, None] + B.astype(float)
    terms = np.where(np.isnan(terms), -INF, terms)
    best = terms.max(1)
    with np.errstate(invalid="ignore"):
        exact = np.where(np.isfinite(best), best + np.log(np.exp(terms - best[:, None]).sum(1)), best)
    for reads in (0, 1):
        S = np.where(rng.random((m, n)) < 0.8, np.nan, 1.0)
        S[:, 64:] = 1.0  # one tile of them has nothing to do
        before = np.asarray(
            np.where(rng.random((m, n)) < 0.3, -INF, exact + rng.normal(size=(m, n))), char, order=order
        )
        C = before.copy(order)
        expected = np.logaddexp(exact, before.astype(float)) if reads else exact
        strides = [np.int64(stride // X.itemsize) for X in (A, B, C) for stride in X.strides]
        given = [
            S,
            np.int64(n),
            A,
            *strides[:2],
            B,
            *strides[2:4],
            C,
            *strides[4:],
            np.int64(m),
            np.int64(n),
            np.int64(k),
        ]
        marked = np.isnan(S)
        for backwards in (False, True):
            found, sums = C.copy(order), S.copy()
            given[0], given[8] = sums, found
            kernels[char].launch(
                "log_sums", (2, 2, 1), (256, 1, 1), [*given, np.int32(reads), np.int32(1 << 23)], backwards=backwards
            )
            np.testing.assert_array_equal(found[~marked], before[~marked])
            infinite = ~np.isfinite(expected) & marked
            np.testing.assert_array_equal(found[infinite], expected[infinite])
            rest = marked & np.isfinite(expected)
            scale = np.maximum(1, np.abs(expected[rest])) * np.finfo(char).eps
            assert (np.abs(found[rest] - expected[rest]) / scale).max() <= (2.5 if char == "f" else 8)
        single = marked & (np.isfinite(terms).sum(1) == 1) & (reads == 0)
        np.testing.assert_array_equal(found[single], best.astype(char)[single])
