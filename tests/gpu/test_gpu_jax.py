"""Test `semiring.jax` on a GPU: arrays stay there, and results are those of CuPy arrays."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest

cupy = pytest.importorskip("cupy", reason="a GPU needs CuPy: pip install '.[cuda]'")  # first: it is found sooner
jax = pytest.importorskip("jax", reason="semiring.jax needs JAX: pip install '.[jax]'")

import semiring as sr  # noqa: E402
import semiring.jax as differentiable  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True, scope="module")
def _memory_for_others():
    """Let JAX take memory on demand instead of three quarters of the GPU, because other tests run there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        yield


@pytest.fixture(autouse=True)
def _jax_on_a_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")


def copies_to_the_host(function, folder, *, sizes=False):
    """Return the names, or the ``sizes``, of the copies from a GPU to the host by a function: by JAX's profiler."""
    function().block_until_ready()
    with jax.profiler.trace(str(folder)):
        function().block_until_ready()
    (path,) = folder.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    copies = [event for event in events if "D2H" in event.get("name", "")]
    if sizes:
        return [int(size) for event in copies for size in re.findall(r"size:(\d+)", str(event.get("args")))]
    return [event["name"] for event in copies]


@pytest.mark.parametrize("name", ["min_plus", "max_min", "log_plus", "plus_times"])
@pytest.mark.parametrize("n", [1, 33, 300])
def test_results_are_those_of_cupy(rng, name, n):
    A = rng.random((n, n), np.float32)
    G = cupy.asarray(A)
    found = jax.jit(differentiable.matmul, static_argnums=2)(A, A, name)
    np.testing.assert_array_equal(found, cupy.asnumpy(sr.matmul(G, G, name)))
    if name != "plus_times":
        A = A - 8 if name == "log_plus" else A
        found = jax.jit(differentiable.closure, static_argnums=1)(A, name)
        np.testing.assert_array_equal(found, cupy.asnumpy(sr.closure(cupy.asarray(A), name, check=False)))


def test_no_entry_of_a_sparse_matrix_crosses_to_the_host(rng, tmp_path):
    """The host reads numbers of entries and whether indices are valid, of a few bytes each."""
    from jax.experimental.sparse import BCOO

    places = np.unique(rng.integers(0, 3000, (20_000, 2)), axis=0).astype(np.int32)
    A = BCOO((jax.device_put(rng.random(len(places), np.float32)), jax.device_put(places)), shape=(3000, 3000))
    X = jax.device_put(rng.random((3000, 8), np.float32))

    def loss(data, X, semiring):
        C = differentiable.matmul(BCOO((data, A.indices), shape=A.shape), X, semiring)
        return jax.numpy.where(jax.numpy.isfinite(C), C, 0).sum()

    for name in ("min_plus", "log_plus"):
        slope = jax.jit(jax.grad(loss), static_argnums=2)
        calls = {
            "gradient": lambda slope=slope, name=name: slope(A.data, X, name),
            "mask": lambda name=name: differentiable.matmul(A, A, name, mask=A).data,
            "product": lambda name=name: sr.matmul(A, X, name),
            "sparse product": lambda name=name: sr.matmul(A, A, name, mask=A).data,
        }
        for call, function in calls.items():
            sizes = copies_to_the_host(function, tmp_path / f"{call} {name}", sizes=True)
            assert sizes, call
            assert max(sizes) <= 256, (call, sizes)


def test_nothing_crosses_to_the_host(rng, tmp_path):
    A = jax.device_put(rng.random((512, 512), np.float32))
    product = jax.jit(lambda A: differentiable.matmul(A, A))
    assert copies_to_the_host(lambda: product(A), tmp_path / "call") == []
    loop = jax.jit(lambda A: jax.lax.scan(lambda X, _: (differentiable.matmul(X, A), None), A, None, length=5)[0])
    assert copies_to_the_host(lambda: loop(A), tmp_path / "loop") == []


def test_the_copies_of_a_callback_are_seen(rng, tmp_path):
    A = jax.device_put(rng.random((512, 512), np.float32))

    def by_callback(A):
        return jax.pure_callback(lambda A: sr.matmul(np.asarray(A), np.asarray(A)), A, A)

    assert copies_to_the_host(lambda: jax.jit(by_callback)(A), tmp_path)


def test_batches_gradients_and_sequences(rng):
    A = rng.random((3, 20, 20), np.float32)
    np.testing.assert_array_equal(jax.vmap(differentiable.matmul)(A, A), sr.matmul(A, A))
    slope = jax.grad(lambda A: differentiable.closure(A)[0, 0, 7])(A)
    assert np.asarray(slope).sum() > 0
    found = jax.jit(lambda A: differentiable.scan(A, A[0], "max_plus", steps=9))(A[0])
    np.testing.assert_allclose(found, sr.scan(A[0], A[0, 0], "max_plus", steps=9), rtol=1e-6)
    np.testing.assert_array_equal(differentiable.reduce(A, "max_plus", axis=1), A.max(1))


def test_checks_are_made_where_they_are_asked_for(rng):
    A = rng.random((40, 40), np.float32)
    A[3, 4] = np.nan
    assert np.isnan(differentiable.matmul(A, A, "plus_times")).any()
    with pytest.raises(Exception, match="DomainError"):
        differentiable.matmul(A, A, check=True).block_until_ready()
