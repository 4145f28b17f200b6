"""Test centrality on a GPU against the CPU and NetworkX: every kind of graph, of weights and of operand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import semiring as sr
from semiring import centrality

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning"),
]
WEIGHTS = {
    "hops": lambda rng, m: np.full(m, 2.5),
    "ties": lambda rng, m: rng.integers(1, 4, m),
    "floats": lambda rng, m: rng.random(m) + 0.01,
    "large": lambda rng, m: rng.integers(1, 4, m) * 2**49,
}


def random_graph(rng, n, m, kind):
    """Return a sparse matrix of about m edges, with loops, several components and vertices without edges."""
    ends, weights = rng.integers(0, max(1, n - 2), (2, m)), WEIGHTS[kind](rng, m)
    first = np.unique(ends[0] * n + ends[1], return_index=True)[1]
    return sp.csr_array((weights[first], ends[:, first]), shape=(n, n))


def values_of(found):
    return found.data if isinstance(found, sp.csr_array) else found


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (33, 70), (300, 900), (700, 40_000)])
def test_values_are_those_of_the_cpu(kind, n, m, rng, monkeypatch):
    monkeypatch.setattr("semiring.kernels.cuda.centrality_kernels._BATCH", 40 * n)  # several batches
    A = random_graph(rng, n, m, kind)
    some = rng.permutation(n)[: n // 2 + 1]
    for gain in (0, 1 << 30):  # without and with a closure first
        monkeypatch.setattr(centrality, "_DEVICE_DENSE_GAIN", gain)
        for name, options in (
            ("betweenness", {}),
            ("betweenness", {"endpoints": True, "sources": some}),
            ("edge_betweenness", {"directed": False, "normalized": False}),
            *((name, {}) for name in ("closeness", "harmonic", "efficiency")),
        ):
            call = getattr(sr.centrality, name)
            found, expected = (values_of(call(A, device=device, **options)) for device in ("cuda", None))
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
            again = values_of(call(A, device="cuda", **options))
            np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("seed", range(20))
def test_small_graphs_of_networkx(seed):
    rng = np.random.default_rng([57, seed])
    G = nx.gnp_random_graph(int(rng.integers(1, 30)), 0.2, seed=seed, directed=bool(seed % 2))
    for _, _, values in G.edges(data=True):
        values["weight"] = int(rng.integers(1, 4))
    found, theirs = sr.centrality.betweenness(G, device="cuda"), nx.betweenness_centrality(G, weight="weight")
    np.testing.assert_allclose(found, [theirs[v] for v in G], rtol=1e-11, atol=1e-13)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyTorch's own, of its sparse tensors
def test_operands_on_a_gpu(cupy, rng):
    A = random_graph(rng, 60, 150, "floats")
    dense = A.toarray()
    dense[dense == 0] = np.inf
    expected = sr.centrality.betweenness(A)
    from cupyx.scipy.sparse import csr_matrix

    for given in (cupy.asarray(dense), csr_matrix(sp.csr_matrix(A))):
        found = sr.centrality.betweenness(given)
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-11, atol=1e-13)
    assert sr.centrality.efficiency(cupy.asarray(dense)) == pytest.approx(sr.centrality.efficiency(A), rel=1e-11)
    half = dense.astype(np.float16)
    found = sr.centrality.harmonic(cupy.asarray(half)).get()
    np.testing.assert_allclose(found, sr.centrality.harmonic(half.astype(np.float32)), rtol=1e-6)
    with pytest.raises(sr.DomainError, match="is nan"):
        sr.centrality.harmonic(cupy.full((2, 2), np.nan))
    torch = pytest.importorskip("torch")
    tensor = torch.asarray(dense, device="cuda")
    found = sr.centrality.closeness(tensor)
    assert found.device.type == "cuda"
    np.testing.assert_allclose(found.cpu(), sr.centrality.closeness(A), rtol=1e-11)
    sparse = torch.sparse_csr_tensor(*map(torch.asarray, (A.indptr, A.indices, A.data)), A.shape).cuda()
    found = sr.centrality.betweenness(sparse)
    np.testing.assert_allclose(found.cpu(), expected, rtol=1e-11, atol=1e-13)


def test_arrays_of_jax(rng, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    BCOO = pytest.importorskip("jax.experimental.sparse").BCOO
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    A = random_graph(rng, 60, 150, "ties").astype(np.float32)
    dense = A.toarray()
    edges = BCOO.fromdense(jax.numpy.asarray(dense), nse=A.nnz + 3)
    dense[dense == 0] = np.inf
    expected = sr.centrality.betweenness(A)
    for given in (jax.numpy.asarray(dense), edges):
        found = sr.centrality.betweenness(given)
        assert isinstance(found, jax.Array)
        assert next(iter(found.devices())).platform == "gpu"
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)
    for call in (sr.closure, sr.shortest_paths, sr.transitive_closure):
        with pytest.raises(sr.DeviceError, match="sparse matrix on a GPU"):
            call(edges)
    on_host = jax.device_put(edges, jax.devices("cpu")[0])
    np.testing.assert_array_equal(np.asarray(sr.closure(on_host)), sr.closure(A))


def test_counts_of_paths_beyond_the_floats():
    count = 1200
    first = 3 * np.arange(count)
    tails = np.concatenate([first, first, first + 1, first + 2])
    heads = np.concatenate([first + 1, first + 2, first + 3, first + 3])
    for weights in (np.ones(tails.size), np.where(heads % 3 == 0, 1.0, 2.0)):
        A = sp.csr_array((weights, (tails, heads)), shape=(3 * count + 1,) * 2)
        sources = np.arange(0, 3 * count, 300)
        found, expected = (sr.centrality.betweenness(A, sources=sources, device=device) for device in ("cuda", None))
        np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_errors_and_progress(rng):
    chain = np.full((3, 3), np.inf)
    chain[0, 1], chain[1, 2] = 2.0**60, 1.0
    with pytest.raises(sr.DomainError, match="absorb"):
        sr.centrality.betweenness(chain, device="cuda")
    with pytest.raises(sr.DomainError, match="has the weight 0"):
        sr.centrality.betweenness([[np.inf, 0.0], [0.0, np.inf]], device="cuda", check=False)
    with pytest.raises(sr.DeviceError, match="one GPU"):
        sr.centrality.betweenness([[np.inf]], device=("cuda:0", "cuda:1"))
    reports = []
    A = random_graph(rng, 300, 900, "floats")
    for call in (sr.centrality.betweenness, sr.centrality.harmonic):
        call(A, device="cuda", progress=lambda *done: reports.append(done))
        assert reports[-1] == (10_000, 10_000)
