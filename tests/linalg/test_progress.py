"""Test `progress=` of products, factors and searches: the parts of their work are reported, and may stop it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring import terminal
from semiring.algorithms.reporting_engine import ReportingEngine
from semiring.kernels import get_backend
from semiring.kernels.cpu import bit_matrices, thread_pool
from semiring.kernels.cpu import kernels as cpu_kernels
from semiring.kernels.engine import make_plan
from semiring.progress import Meter, current_listener, report_progress

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


@pytest.mark.parametrize("name", ["product", "closure", "sparse closure", "paths", "closed paths", "file", "write"])
def test_a_bar_is_erased_when_a_call_is_interrupted(name, monkeypatch, tmp_path):
    class Bar:
        n, is_open = 0, True

        def update(self, _):
            raise KeyboardInterrupt

        def close(self):
            self.is_open = False

    A, source = np.random.default_rng(0).random((_N, _N)), str(tmp_path / "A.npy")
    np.save(source, A)
    call = {
        "product": lambda: sr.matmul(A, A, progress=True),
        "closure": lambda: sr.closure(A, progress=True),
        "sparse closure": lambda: sr.closure(scipy.sparse.csr_array(A), progress=True),
        "paths": lambda: sr.shortest_paths(A, sources=range(9), progress=True),
        "closed paths": lambda: sr.shortest_paths(A, progress=True),
        "file": lambda: sr.closure(source, out=str(tmp_path / "D.npy"), progress=True),
        "write": lambda: sr.write(tmp_path / "A.csv", A, progress=True),
    }[name]
    bar = Bar()
    monkeypatch.setattr(terminal, "_is_watched", lambda: True)
    monkeypatch.setattr(terminal, "_new_bar", lambda *_: bar)
    with pytest.raises(KeyboardInterrupt):  # whose traceback keeps the frames of the call alive
        call()
    assert not bar.is_open


@pytest.mark.parametrize("storage", ["elements", "bits"])
def test_engines_count_the_pairs_of_packed_bits_and_triangular_products(storage):
    n, reported = 64, []
    plan = make_plan(sr.boolean, np.dtype(bool), storage=storage)
    engine = ReportingEngine(get_backend("cpu"), plan, lambda done, _: reported.append(done), 1 << 40, 64)
    shape, dtype = ((n, n), bool) if storage == "elements" else ((n, n // 32), np.uint32)
    A, B, C = (np.zeros(shape, dtype) for _ in range(3))
    for call, pairs in (
        (lambda: engine.multiply(C, A, B), n**3),
        (lambda: engine.multiply_add(C, A, B), n**3),
        (lambda: engine.multiply_add_upper(C, A, B), n**3 // 2),
        (lambda: engine.multiply_left(A, B, subdiagonals=0), n**3),
        (lambda: engine.multiply_right(B, A, subdiagonals=0), n**3),
        (lambda: engine.close_block(A), n**3),
    ):
        before = max(reported, default=0)
        call()
        assert max(reported) - before == pairs
    with report_progress(lambda *_: None, "outer"):  # the last report of inner work belongs to no other work
        listeners = []
        Meter(lambda *_: listeners.append(current_listener()), 0, None).finish()
    assert listeners == [None]
