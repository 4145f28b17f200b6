"""Test the methods of papers: their entries in the registry, their errors, and the device that a call names."""

from __future__ import annotations

import re

import numpy as np
import oracles
import pytest
from matrices import matrix

import semiring as sr
from semiring.algorithms.methods import METHODS, method_named, methods_for
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.errors import AlgebraError, DeviceError, MethodError, UnknownNameError
from semiring.kernels import get_backend
from semiring.kernels.contract import Capabilities
from semiring.kernels.definition import has_unit_star
from semiring.kernels.engine import Engine, make_plan

ON_GPU = [
    *("harish_narayanan", "katz_kider", "lund_smith_unrolled", "lund_smith_registers", "lund_smith", "gaioso"),
    *("buluc_iterative", "bertoldi_cuda_shared", "bertoldi_cuda"),
]
INF = np.inf
ON_CPU = ["bertoldi_openmp", "bertoldi_openmp_static"]
ON_BOTH = ["rkleene_plain", "row_broadcast"]


def test_every_paper_has_its_methods():
    for name in (*ON_GPU, *ON_CPU, *ON_BOTH):
        method = method_named(name)
        assert name in METHODS
        assert method.close.__name__ == name
        assert method.close.__module__.startswith("semiring.algorithms.papers.")
        assert method.pairs is None  # n³
    assert [name for name in ON_GPU if method_named(name).devices != ("cuda",)] == []
    assert [name for name in ON_CPU if method_named(name).devices != ("cpu",)] == []
    references = {name: method_named(name).reference for name in METHODS if name != "auto"}
    assert {name: text for name, text in references.items() if text} == {
        "harish_narayanan": "doi:10.1007/978-3-540-77220-0_21",
        **dict.fromkeys(("lund_smith_unrolled", "lund_smith_registers", "lund_smith"), "arXiv:1001.4108"),
        "gaioso": "doi:10.5753/wscad.2013.16769",
    }
    assert "our own" in method_named("staged").source


def test_an_error_lists_the_methods_for_this_device():
    here = ", ".join(sorted(methods_for("cpu")))
    assert "bertoldi_openmp" in here
    assert "gaioso" not in here
    with pytest.raises(UnknownNameError, match=rf"On the CPU: {here}\. On a GPU: .*lund_smith, .*\.$"):
        sr.closure([[0.0]], method="gaioso_512")
    for name in (*ON_GPU, "staged"):
        with pytest.raises(DeviceError, match=f"{name} runs on a GPU, .* pass device='cuda', or use one of {here}$"):
            sr.closure([[0.0]], method=name)


def test_options_of_a_method(rng):
    """Options reach the method by name, also for its parts; any other option, value or method is an error."""
    A, given = 3 + rng.random((70, 70)), []
    A[:40, 40:], A[3, 4], A[4, 3] = INF, 9, -2  # two components, with potentials for each

    def close(engine, A, depth=1):
        given.append((depth, len(A)))
        engine.close_block(A, 0)

    sr.extend.register_method("mine", close, options={"depth": range(1, 9), "order": ("up", "down")})
    try:
        found, said = sr.closure(A, method="mine", method_options={"depth": np.int64(7)}, explain=True)
        np.testing.assert_allclose(found, sr.closure(A))
        assert {depth for depth, _ in given} == {7}
        assert len(given) == 2
        assert "depth=7" in str(said)
        given.clear()
        sr.shortest_paths(np.stack([A, A])[0], method="mine", method_options={"depth": 3})
        sr.closure(np.abs(A), method="mine")
        assert given[-1] == (1, 70)
        assert {depth for depth, _ in given[:-1]} == {3}
        with pytest.raises(UnknownNameError, match=r"option of mine.*depth, order"):
            sr.closure(A, method="mine", method_options={"dept": 7})
        for value in (0, 9, True, 1.0, "up", None, [1]):
            with pytest.raises(ValueError, match=r"'depth' of mine is .*: give an integer from 1 to 8$"):
                sr.closure(A, method="mine", method_options={"depth": value})
    finally:
        sr.extend.unregister_method("mine")
    with pytest.raises(ValueError, match="'threads' of gaioso is 512: give 1024 or 256"):
        sr.closure(A, method="gaioso", method_options={"threads": 512})
    with pytest.raises(DeviceError, match="gaioso runs on a GPU"):
        sr.closure(A, method="gaioso", method_options={"threads": 256})
    for method in ("auto", "dense", "squaring", "johnson"):
        with pytest.raises(MethodError, match=rf"method='{method}' has no options, .*gaioso \(threads, blocks\)"):
            sr.closure(A, method=method, method_options={"threads": 256})
    with pytest.raises(MethodError, match="has no options"):
        sr.shortest_paths(A, method="factor", sources=[0], method_options={"threads": 256})
    with pytest.raises(TypeError, match="method_options is 'threads'"):
        sr.closure(A, method="gaioso", method_options="threads")
    narrow = sr.closure(A, method="blocked_floyd_warshall", method_options={"width": 32})
    np.testing.assert_allclose(narrow, sr.closure(A, method="rkleene", method_options={"leaf": 32}))


@pytest.mark.parametrize("method", [*ON_CPU, *ON_BOTH])
def test_weights_of_both_signs_stacks_paths_and_progress(method, rng):
    heights = rng.integers(0, 50, (40, 1))
    A = np.where(rng.random((40, 40)) < 0.2, rng.integers(1, 9, (40, 40)) + heights.T - heights, np.inf)
    expected = oracles.closure(A, "min_plus")
    steps = []
    found, said = sr.closure(A, method=method, explain=True, progress=lambda *step: steps.append(step))
    np.testing.assert_array_equal(found, expected)
    assert said.method == method
    assert said.answers[-1].why == "closes 40 × 40 float64, cpu"
    (because,) = said.reasons
    assert because.startswith(("Bertoldi, section", "Buluç, Gilbert and Budak 2010, section"))
    assert re.search(r"; (barriers: 40|products with one pivot: 40|launches without copies: 1); tile: \w", because)
    assert steps[-1] == (40**3, 40**3)
    np.testing.assert_array_equal(sr.closure(np.stack([A, A.T]), method=method), np.stack([expected, expected.T]))
    paths = sr.shortest_paths(A, method=method)
    np.testing.assert_array_equal(paths.matrix, expected)
    assert A[paths.predecessors[0, 1], 1] + expected[0, paths.predecessors[0, 1]] == expected[0, 1]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("method", [*ON_CPU, "rkleene_plain"])
def test_threads_change_no_bit(method, threads, rng):
    A = rng.random((97, 97)).astype(np.float32)
    expected = sr.closure(A, method=method, threads=3).tobytes()
    options = [{}, {"copied_row": False}] if method in ON_CPU else [{}]
    for given in options:
        assert sr.closure(A, method=method, method_options=given, threads=threads).tobytes() == expected
        sums = sr.closure(A / 200, "plus_times", method=method, method_options=given, threads=threads)
        assert sums.tobytes() == sr.closure(A / 200, "plus_times", method=method, threads=3).tobytes()


@pytest.mark.full
@pytest.mark.parametrize("method", [*ON_CPU, "rkleene_plain"])
def test_semirings_with_other_stars(method, rng):
    for n in (1, 2, 33, 70):
        A = rng.random((n, n)) / (2 * n)
        expected = np.linalg.inv(np.eye(n) - A)
        for order in ("C", "F"):
            found = sr.closure(np.asarray(A, order=order), "plus_times", method=method)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        logs = sr.closure(np.log(A), "log_plus", method=method)
        np.testing.assert_allclose(np.exp(logs), expected, rtol=1e-10, atol=1e-14)
        narrow = sr.closure(np.log(A).astype(np.float32), "log_plus", method=method)
        np.testing.assert_allclose(np.exp(narrow), expected, rtol=1e-4, atol=1e-6)
        bits = np.triu(rng.integers(0, 256, (n, n), np.uint8), 1)
        np.testing.assert_array_equal(sr.closure(bits, "xor_and", method=method), oracles.gf2_closure(bits))


@pytest.mark.parametrize("method", [*ON_CPU, *ON_BOTH])
def test_a_cycle_that_gains_is_named(method):
    A = np.zeros((40, 40))
    A[20, 30] = A[30, 20] = 2
    with pytest.raises(sr.errors.DivergenceError) as caught:
        sr.closure(A, "max_times", method=method)
    assert caught.value.vertex in (20, 30)


class Counter:
    """The part of a backend that `rkleene` uses, which counts calls and computes nothing."""

    name, stacks, capabilities, calls = "cuda", False, Capabilities(), 0

    def close_block(self, plan, A):
        self.calls += 1

    def multiply(self, plan, C, A, B):
        self.calls += 1

    multiply_add = multiply


@pytest.mark.parametrize("n", [1, 64, 65, 512, 1000, 1024, 2050])
def test_launches_of_the_recursion(n):
    """An explanation counts the products and blocks of the recursion without running it."""
    counter, plan = Counter(), make_plan(sr.min_plus, np.float32, nonnegative=True)
    engine = Engine(get_backend("cpu"), plan, n).with_backend(counter)  # its panel holds every operand
    rkleene(engine, np.empty((n, n), np.float32), leaf=64)
    assert counter.calls == method_named("rkleene_plain").steps(n, schedule_for("cuda", plan.dtype).grain)


def test_row_broadcast_closes_what_needs_no_star():
    unbounded = sr.Semiring("unbounded", "min(x, y)", "x + y", np.inf, 0, "where(x >= 0, 0, -inf)")
    for semiring in ("plus_times", unbounded):
        with pytest.raises(
            AlgebraError,
            match=r"star is 1̄ wherever it exists, which .* is not: pass method='rkleene' or method='bertoldi_openmp'$",
        ):
            sr.closure(np.ones((3, 3)), semiring, method="row_broadcast")
    with pytest.raises(AlgebraError, match="packed bits"):
        sr.closure(sr.pack(np.eye(3, dtype=bool)), "boolean", method="row_broadcast")


def test_which_stars_are_one():
    """A star must be 1̄ at 1̄ itself too, because kernels without stars begin with 1̄ on the diagonal."""
    strict = sr.Semiring("strict", "min(x, y)", "x + y", "inf", 0, star="where(x > 0, 0, nan)")
    float64 = np.dtype(np.float64)
    assert all(has_unit_star(sr.as_semiring(name), float64) for name in ("min_plus", "max_min", "max_times"))
    assert not any(has_unit_star(semiring, float64) for semiring in (strict, sr.plus_times, sr.log_plus))


def test_the_host_is_a_device_too(rng):
    A = matrix(rng, 40, "min_plus", "float32")
    expected, out = sr.closure(A), np.empty_like(A)
    np.testing.assert_array_equal(sr.closure(A, device="cpu"), expected)
    assert sr.closure(A, device="cpu", out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert sr.closure(A, device="cpu", explain=True)[1].method == "rkleene"
    with pytest.raises(ValueError, match="device is 'tpu'"):
        sr.closure(A, device="tpu")
