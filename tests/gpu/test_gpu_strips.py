"""Test matrices of the host and of files, closed by strips on a GPU, against the closure in its memory, bit by bit."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from strips import METHOD, least_memory, make_small, rounding_matrix, same_bits

import semiring as sr
from semiring.out_of_core import buffer_pools, strip_layout

pytestmark = pytest.mark.gpu

CASES = [
    *[("min_plus", dtype) for dtype in ("float16", "float32", "float64", "int16", "int32", "int64")],
    *[("max_plus", dtype) for dtype in ("float32", "int32")],
    *[("max_min", dtype) for dtype in ("float16", "float32", "int16", "uint8")],
    ("max_times", "float32"),
    ("boolean", "bool"),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    pytest.importorskip("cupy")
    make_small(monkeypatch)
    monkeypatch.setattr("semiring.closures.pieces._MAPPED", 1 << 14)
    # Products of so few rows are joined of several parts.
    monkeypatch.setattr(strip_layout, "DEVICE", replace(strip_layout.DEVICE, overhead=64 << 20))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_strips_have_the_bits_of_the_closure_in_memory(monkeypatch, rng, tmp_path, name, dtype):
    path = tmp_path / "A.npy"
    pools = []
    entered = buffer_pools.DeviceBufferPool.__enter__
    monkeypatch.setattr(buffer_pools.DeviceBufferPool, "__enter__", lambda room: pools.append(room) or entered(room))
    asked = {"device": "cuda"} | ({"compute_dtype": dtype} if (name, dtype) == ("min_plus", "float16") else {})
    for n in (1000, 1537):
        A = rounding_matrix(rng, n, name, dtype)
        expected = sr.closure(A, name, method=METHOD, **asked)
        for share in (2, 3):
            memory = least_memory(A, name) * share >> 1
            found, why = sr.closure(A, name, memory=memory, explain=True, **asked)
            assert "read and written in" in str(why)
            assert why.backend == "cuda"
            assert same_bits(found, expected)
            assert pools[-1].pool.total_bytes() <= memory
        np.save(path, A)
        (tmp_path / "run").unlink(missing_ok=True)
        found = sr.closure(path, name, out=path, memory=memory, journal=tmp_path / "run", **asked)
        assert same_bits(found, expected)


@pytest.mark.parametrize("name", ["plus_times", "log_plus"])
def test_sums_of_floats_are_those_of_memory_but_for_rounding(rng, name):
    A = rounding_matrix(rng, 1000, name, "float64")
    found = sr.closure(A, name, device="cuda", memory=least_memory(A, name))
    np.testing.assert_allclose(found, sr.closure(A, name, method=METHOD, device="cuda"), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_weights_of_both_signs(rng, dtype):
    h = rng.integers(0, 500, 1000)
    A = (rng.integers(0, 1000, (1000, 1000)) + h[:, None] - h).astype(dtype)
    A[rng.random(A.shape) < 0.4] = sr.min_plus.zero_for(A.dtype)
    found, why = sr.closure(A, device="cuda", memory=least_memory(A, "min_plus"), explain=True)
    assert "potentials" in str(why)
    assert same_bits(found, sr.closure(A, method=METHOD))


@pytest.mark.parametrize(
    ("name", "dtype"), [("min_plus", "float32"), ("min_plus", "int64"), ("max_min", "uint8"), ("boolean", "bool")]
)
def test_paths_of_files(rng, tmp_path, name, dtype):
    A, path = rounding_matrix(rng, 1000, name, dtype), tmp_path / "A.npy"
    semiring = sr.as_semiring(name)
    zero = semiring.zero_for(A.dtype)
    A[rng.random(A.shape) < 0.98] = zero
    np.save(path, A)
    options = {"out": tmp_path / "D.npy", "device": "cuda", "journal": tmp_path / "run"}
    D = sr.closure(path, name, memory=least_memory(path, name, **options), **options)
    np.testing.assert_allclose(np.float64(D), np.float64(sr.closure(A, name, method=METHOD)), rtol=1e-6)
    found = sr.Paths(D, semiring, weights=path)
    for i, j in rng.integers(0, 1000, (200, 2)):
        if i == j or D[i, j] == zero:
            continue
        vertices = found.path(i, j)
        edges = A[vertices[:-1], vertices[1:]]
        assert (vertices[0], vertices[-1]) == (i, j)
        assert (edges != zero).all()
        total = edges[0]
        for edge in edges[1:]:
            total = min(total, edge) if name != "min_plus" else total + edge
        np.testing.assert_allclose(float(total), float(D[i, j]), rtol=1e-5)


def test_a_run_that_was_stopped_goes_on(rng, tmp_path):
    A, path = rounding_matrix(rng, 1000, "min_plus", "float32"), tmp_path / "A.npy"
    np.save(path, A)
    expected = sr.closure(A, method=METHOD, device="cuda")
    options = {"out": path, "device": "cuda", "memory": least_memory(A, "min_plus"), "journal": tmp_path / "run"}

    def stop(done, total):
        time.sleep(0.01)
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sr.closure(path, progress=stop, **options)
    found, why = sr.closure(path, explain=True, **options)
    assert "going on in round" in why.reasons[0]
    assert same_bits(found, expected)
