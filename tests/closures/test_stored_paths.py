"""Test the paths of a closed matrix in a file, found from the file and that of the edges."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from strips import rounding_matrix
from tiers import full

import semiring as sr
from semiring.errors import NoPathError, ShapeError

CASES = [
    ("min_plus", "float64"),
    ("min_plus", "float16"),
    ("max_plus", "int32"),
    ("max_min", "uint8"),
    ("max_times", "float32"),
    ("boolean", "bool"),
]


@pytest.fixture
def store(tmp_path):
    """Return a function that closes a matrix, and returns its paths, of which both matrices are in files."""

    def close(A, name="min_plus", **options):
        np.save(tmp_path / "A.npy", A)
        sr.closure(tmp_path / "A.npy", name, out=tmp_path / "D.npy", **options)
        return sr.Paths(tmp_path / "D.npy", sr.as_semiring(name), weights=str(tmp_path / "A.npy"))

    return close


def check_paths(paths, A, *, is_exact=True):
    """Check that every path follows edges of A and is as long as its distance."""
    semiring, n, D = paths.semiring, len(A), paths.matrix
    zero = semiring.zero_for(A.dtype)
    for i, j in np.ndindex(n, n):
        if i != j and D[i, j] == zero:
            with pytest.raises(NoPathError):
                paths.path(i, j)
            continue
        path = paths.path(i, j)
        assert (path[0], path[-1]) == (i, j)
        assert len(set(path)) == len(path)
        edges = A[path[:-1], path[1:]]
        assert (edges != zero).all()
        if i != j:
            total = edges[:1].astype(np.float64 if edges.dtype.kind == "f" else edges.dtype)
            for edge in edges[1:]:
                total = semiring.mul.expression.evaluate({"x": total, "y": edge[np.newaxis]}, total.dtype)
            if is_exact:
                assert total[0] == D[i, j]
            else:
                np.testing.assert_allclose(float(total[0]), float(D[i, j]), rtol=n * np.finfo(D.dtype).eps)


@pytest.mark.parametrize(("name", "dtype"), full(lambda name, dtype: CASES.index((name, dtype)) in (0, 2, 5), CASES))
@pytest.mark.parametrize("order", ["C", "F"])
def test_paths_of_every_kind(rng, store, name, dtype, order):
    for n, share in ((1, 0), (2, 0), (33, 0.6), (33, 0.95), (90, 0.1)):
        A = rounding_matrix(rng, n, name, dtype)
        if name == "max_plus":
            A[sr.max_plus.zero_for(A.dtype) != A] %= 100
            A = -np.abs(A)
        A[rng.random(A.shape) < share] = sr.as_semiring(name).zero_for(A.dtype)
        check_paths(store(np.asarray(A, order=order), name), A, is_exact=A.dtype.kind != "f" or name == "max_min")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_weights_of_both_signs(rng, store, dtype):
    n = 40
    h = rng.integers(0, 500, n)
    A = (rng.integers(0, 1000, (n, n)) + h[:, None] - h).astype(dtype)
    A[rng.random(A.shape) < 0.7] = sr.min_plus.zero_for(A.dtype)
    check_paths(store(A), A)


@pytest.mark.parametrize("is_found", [True, False])
def test_ties_and_cycles_of_weight_0(monkeypatch, rng, store, is_found):
    """Ties are searched without the whole row. The row is searched if the steps find no path."""
    trees = []
    nearest_tree = import_module("semiring.paths.result").nearest_tree
    monkeypatch.setattr("semiring.paths.result.nearest_tree", lambda *given: trees.append(1) or nearest_tree(*given))
    if not is_found:
        monkeypatch.setattr("semiring.paths.result.follow_edges", lambda *arguments: None)
    for dtype in ("int32", "float32"):
        A = rng.integers(0, 3, (45, 45)).astype(dtype)
        A[rng.random(A.shape) < 0.9] = sr.min_plus.zero_for(A.dtype)
        check_paths(store(A), A)
    assert bool(trees) != is_found


def test_a_path_reads_a_row_for_each_edge(store):
    n = 400
    A = np.full((n, n), np.inf)
    A[np.arange(n - 1), np.arange(1, n)] = 1
    found = store(A)

    class CountingArray(np.ndarray):
        reads = 0

        def __getitem__(self, key):
            part = super().__getitem__(key)
            CountingArray.reads += np.size(part)
            return np.asarray(part)[()]

    found._distances = np.asarray(found._distances).view(CountingArray)
    assert found.path(3, 390) == list(range(3, 391))
    assert CountingArray.reads < 387 * 4 + n  # a column of D, and entries
    assert found.paths_from(395) == {j: list(range(395, j + 1)) for j in range(395, 400)}
    assert repr(found) == "<Paths of 400 vertices in min_plus, float64: of files>"


def test_matrices_of_two_shapes_are_refused(rng, store, tmp_path):
    store(rng.random((9, 9)))
    np.save(tmp_path / "other.npy", np.zeros((8, 8)))
    with pytest.raises(ShapeError, match=r"the matrix is \(9, 9\), and its weights are \(8, 8\)"):
        sr.Paths(tmp_path / "D.npy", sr.min_plus, weights=tmp_path / "other.npy")
