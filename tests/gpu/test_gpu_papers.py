"""Test the methods of papers on a GPU, by name and device, against independent oracles at awkward sizes."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from matrices import matrix

import semiring as sr
from semiring.algorithms.methods import method_named, methods_for
from semiring.cli import main
from semiring.errors import AlgebraError, DeviceError, DivergenceError, UnknownNameError
from semiring.kernels.cuda.closing.paper_kernels import METHODS

pytestmark = pytest.mark.gpu

EVERY = [*METHODS, "rkleene_plain", "row_broadcast", "staged"]
CASES = [
    *(("min_plus", dtype) for dtype in ("float32", "float64", "int32", "int64")),
    *(("max_plus", "float32"), ("max_min", "float32"), ("max_min", "uint8"), ("min_max", "int16")),
    *(("max_times", "float64"), ("boolean", "bool"), ("lukasiewicz", "float32")),
]


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_closures(method, name, dtype, rng):
    """Closures of random graphs are right after a copy to the GPU and back."""
    for n in (0, 1, 31, 32, 33, 65, 130, 257):
        A = matrix(rng, n, name, dtype, density=min(1, 4 / max(n, 1)))
        for reflexive in (True, False):
            found = sr.closure(A, name, method=method, device="cuda", reflexive=reflexive)
            assert isinstance(found, np.ndarray)
            np.testing.assert_array_equal(found, oracles.closure(A, name, reflexive=reflexive), f"n = {n}")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *(
            (name, {option: value})
            for name in METHODS
            for option, v in method_named(name).options.items()
            for value in v
        ),
        ("lund_smith", {"slice": 16, "asynchronous": True, "wide": True, "paired": True}),
        *(("gaioso", {"threads": 256, "blocks": blocks}) for blocks in (1, 3)),
    ],
)
def test_options(method, options, rng):
    """Every value of every option gives the same closure."""
    A = matrix(rng, 257, "min_plus", "float32", density=0.1)
    found, said = sr.closure(A, method=method, method_options=options, device="cuda", explain=True)
    np.testing.assert_array_equal(found, oracles.closure(A, "min_plus"))
    assert ", ".join(f"{name}={value}" for name, value in sorted(options.items())) in said.reasons


@pytest.mark.parametrize("method", EVERY)
def test_weights_of_both_signs_stacks_paths_and_progress(method, rng):
    import cupy

    heights = rng.integers(0, 50, (70, 1))
    A = np.where(rng.random((70, 70)) < 0.2, rng.integers(1, 9, (70, 70)) + heights.T - heights, np.inf)
    expected, there, steps = oracles.closure(A, "min_plus"), cupy.asarray(A), []
    found, said = sr.closure(there, method=method, explain=True, progress=lambda *step: steps.append(step))
    np.testing.assert_array_equal(found.get(), expected)
    assert said.method == method
    assert steps[-1] == (70**3, 70**3)
    stack = sr.closure(cupy.stack([there, there.T]), method=method)
    np.testing.assert_array_equal(stack.get(), np.stack([expected, expected.T]))
    np.testing.assert_array_equal(sr.shortest_paths(there, method=method).matrix.get(), expected)


@pytest.mark.parametrize("method", EVERY)
def test_a_cycle_that_gains_is_named(method):
    A = np.zeros((200, 200), np.float32)
    A[150, 160] = A[160, 150] = 2
    with pytest.raises(DivergenceError) as caught:
        sr.closure(A, "max_times", method=method, device="cuda")
    assert caught.value.vertex in (150, 160)


def test_what_they_refuse(rng):
    import cupy

    there, bits = ", ".join(sorted(methods_for("cuda"))), sr.pack(cupy.asarray(rng.random((70, 70)) < 0.05))
    with pytest.raises(UnknownNameError, match=f"On a GPU: {there}\\.$"):
        sr.closure([[0.0]], method="magic", device="cuda")
    with pytest.raises(
        DeviceError, match=f"bertoldi_openmp runs on the CPU, .* pass device='cpu', or use one of {there}$"
    ):
        sr.closure([[0.0]], method="bertoldi_openmp", device="cuda")
    for method in (*METHODS, "row_broadcast"):
        assert method in there
        with pytest.raises(AlgebraError):
            sr.closure(rng.random((40, 40)) / 80, "plus_times", method=method, device="cuda")
        with pytest.raises(AlgebraError, match="does not close packed bits"):
            sr.closure(bits, "boolean", method=method)


def test_a_plain_recursion_closes_every_semiring(rng):
    for n in (1, 64, 65, 200):
        A = rng.random((n, n)) / (2 * n)
        found = sr.closure(A, "plus_times", method="rkleene_plain", device="cuda")
        np.testing.assert_allclose(found, np.linalg.inv(np.eye(n) - A), rtol=1e-12, atol=1e-14)


def test_the_device_of_a_call(rng):
    import cupy

    A = matrix(rng, 70, "min_plus", "float32")
    expected, out = sr.closure(A), cupy.empty(A.shape, A.dtype)
    for device in ("cuda", "cuda:0", "cpu", None):
        found, said = sr.closure(cupy.asarray(A), device=device, explain=True)
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_array_equal(found.get(), expected)
        assert ("on the CPU" in str(said)) == (device == "cpu")
        np.testing.assert_array_equal(sr.closure(A, device=device), expected)
    assert sr.closure(cupy.asarray(A), device="cpu", out=out, method="bertoldi_openmp") is out
    np.testing.assert_array_equal(out.get(), expected)
    words = sr.pack(cupy.asarray(np.inf > A))
    assert sr.closure(words, "boolean", device="cpu") == sr.closure(words, "boolean")


def test_the_command(rng, tmp_path):
    A = matrix(rng, 70, "min_plus", "float32")
    source, out = str(tmp_path / "A.npy"), str(tmp_path / "D.npy")
    np.save(source, A)
    for method in EVERY:
        assert main(["closure", source, "--method", method, "--device", "cuda", "-o", out]) == 0
        np.testing.assert_array_equal(np.load(out), sr.closure(A))
