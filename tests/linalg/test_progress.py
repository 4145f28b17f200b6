"""Test `progress=` of products, factors and searches: the parts of their work are reported, and may stop it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring.kernels.cpu import bit_matrices, thread_pool
from semiring.kernels.cpu import kernels as cpu_kernels

_N = 160


def _calls():
    rng = np.random.default_rng(0)
    A = rng.random((_N, _N))
    sparse = scipy.sparse.random(_N, _N, 0.1, "csr", random_state=0)
    packed = sr.BitMatrix(rng.integers(0, 1 << 32, (2048, 64), np.uint32))
    return {
        "product": lambda **o: sr.matmul(A, A, **o),
        "witness": lambda **o: sr.matmul(A, A, return_witness=True, **o),
        "rows that are not contiguous": lambda **o: sr.matmul(A.T, A.T, **o),
        "integers": lambda **o: sr.matmul((9 * A).astype(int), (9 * A).astype(int), **o),
        "explained": lambda **o: sr.matmul(A, A, explain=True, **o)[0],
        "stack": lambda **o: sr.matmul(A[None].repeat(9, 0), A, **o),
        "packed bits": lambda **o: sr.matmul(packed, packed, "boolean", **o),
        "sparse": lambda **o: sr.matmul(sparse, sparse, **o),
        "mask": lambda **o: sr.matmul(sparse, sparse, mask=sparse, **o),
        "mixed": lambda **o: sr.matmul(sparse, A, **o),
        "factor": lambda **o: sr.factor(sparse, **o).table(range(_N)),
        **{
            f"paths by {method}": lambda method=method, **o: (
                sr.shortest_paths(sparse, sources=range(_N - 9), method=method, **o).matrix
            )
            for method in ("johnson", "factor", "dense")
        },
        "paths within a limit": lambda **o: sr.shortest_paths(sparse, sources=range(99), limit=0.4, **o).matrix,
    }


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Let parts of a call be as small as those of a call of some seconds."""
    monkeypatch.setattr(thread_pool, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(bit_matrices, "_MAX_TASK_PAIRS", 1 << 18)
    monkeypatch.setattr(cpu_kernels, "_BLOCK_INSTRUCTIONS", 1 << 14)
    monkeypatch.setattr(cpu_kernels, "_kernels", {})


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", _calls())
def test_parts_of_the_work_are_reported(name, threads):
    """``done`` never falls, some part is reported before the end, and the result is that of a call without it."""
    call, reported = _calls()[name], []
    result = call(threads=threads, progress=lambda done, total: reported.append((done, total)))
    done, total = zip(*reported, strict=True)
    assert list(done) == sorted(done)
    assert set(total) == {done[-1]}
    # a helper may take all parts before a report, and the closure of a small matrix is one kernel
    assert threads > 1 or name == "paths by dense" or any(0 < part < done[-1] for part in done)
    for one, other in zip(*([x] if not isinstance(x, tuple) else x for x in (result, call(threads=1))), strict=True):
        arrays = [x.unpack() if isinstance(x, sr.BitMatrix) else x for x in (one, other)]
        arrays = [x.toarray() if scipy.sparse.issparse(x) else x for x in arrays]
        np.testing.assert_array_equal(*arrays)


@pytest.mark.parametrize("name", _calls())
def test_an_exception_of_the_callback_stops_the_call(name):
    call, calls = _calls()[name], []

    def stop(done, total):
        calls.append(done)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(threads=2, progress=stop)
    assert len(calls) == 1
    call(threads=2)  # no listener remains
    assert len(calls) == 1


def test_a_callback_may_call_functions_of_its_own():
    A, inner, outer = np.random.default_rng(0).random((_N, _N)), [], []

    def report(done, total):
        outer.append(total)
        sr.matmul(A, A)
        sr.closure(A[:99, :99], progress=lambda done, total: inner.append(total))

    sr.matmul(A, A, progress=report)
    assert set(inner) == {99**3}
    assert 99**3 not in outer
