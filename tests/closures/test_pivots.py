"""Test pivots of a matrix in a file, in a file of their own, and the paths that are found from them on demand."""

from __future__ import annotations

import numpy as np
import pytest
from strips import METHOD, close_with_pivots, least_memory, make_small, rounding_matrix, same_bits
from tiers import full

import semiring as sr
from semiring.algorithms import expansion
from semiring.errors import AlgebraError, NoPathError, ShapeError, StorageError
from semiring.kernels.engine import engine_of, make_plan

CASES = [
    ("min_plus", "float64"),
    ("min_plus", "float16"),
    ("max_plus", "int32"),
    ("max_min", "uint8"),
    ("max_times", "float32"),
    ("boolean", "bool"),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture
def close_by_strips(tmp_path):
    """Return a function that closes a matrix by strips, and returns its closure and its pivots."""

    def close(A, name="min_plus", **options):
        path, pivots = tmp_path / "A.npy", tmp_path / "P.npy"
        np.save(path, A)
        options = {"pivots": pivots, **({"compute_dtype": "float16"} if A.dtype == np.float16 else {}), **options}
        without_journal = {option: value for option, value in options.items() if option != "journal"}
        given = {"out": tmp_path / "D.npy", "memory": least_memory(path, name, **without_journal), **options}
        return sr.closure(path, name, **given), np.load(pivots, mmap_mode="r")

    return close


def weights(rng, n, name, dtype):
    """Return weights, which need no shift in max_plus, where their pivots are those of the negated weights."""
    A = rounding_matrix(rng, n, name, dtype)
    if name == "max_plus":
        present = sr.max_plus.zero_for(A.dtype) != A
        A[present] = -np.abs(A[present]) // 4
    return A


def check_paths(D, P, A, name, *, exact=True):
    """Check that every path follows edges of A and is as long as its distance, in a sample for large matrices."""
    semiring, n = sr.as_semiring(name), len(A)
    zero, found = semiring.zero_for(A.dtype), sr.Paths(D, sr.as_semiring(name), pivots=P)
    for i in range(n) if n < 34 else range(0, n, 6):
        for j in range(n):
            if i != j and D[i, j] == zero:
                with pytest.raises(NoPathError):
                    found.path(i, j)
                continue
            path = found.path(i, j)
            assert (path[0], path[-1]) == (i, j)
            assert len(set(path)) == len(path)
            edges = A[path[:-1], path[1:]]
            assert (edges != zero).all()
            if i != j:
                total = edges[:1].astype(np.float64 if edges.dtype.kind == "f" else edges.dtype)
                for edge in edges[1:]:
                    total = semiring.mul.expression.evaluate({"x": total, "y": edge[np.newaxis]}, total.dtype)
                if exact:
                    assert total[0] == D[i, j]
                else:
                    np.testing.assert_allclose(float(total[0]), float(D[i, j]), rtol=n * np.finfo(D.dtype).eps)


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), full(lambda name, dtype: CASES.index((name, dtype)) in (0, 2, 5), CASES))
def test_values_and_pivots_are_those_of_memory(rng, close_by_strips, tmp_path, name, dtype):
    A = weights(rng, 97, name, dtype)
    semiring, inside = sr.as_semiring(name), A.copy()
    if name == "max_plus":
        none = np.iinfo(A.dtype)
        semiring, inside = sr.min_plus, np.where(none.min == A, none.max // 2, -A).astype(dtype)
    pivots = close_with_pivots(engine_of(make_plan(semiring, A.dtype, threads=1), inside), inside)
    for journal in (None, tmp_path / "run"):
        D, P = close_by_strips(A, name, journal=journal)
        assert np.array_equal(P, pivots)
        assert same_bits(D, sr.closure(A, name, method=METHOD)) or (A.dtype.kind == "f" and same_bits(D, inside))


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), full(lambda name, dtype: CASES.index((name, dtype)) in (0, 2, 5), CASES))
def test_paths_are_found_from_pivots(rng, close_by_strips, name, dtype):
    for n in (1, 2, 33, 65):
        A = weights(rng, n, name, dtype)
        A[rng.random(A.shape) < 0.6] = sr.as_semiring(name).zero_for(A.dtype)  # paths of many edges
        check_paths(*close_by_strips(A, name), A, name, exact=A.dtype.kind != "f" or name == "max_min")


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_weights_of_both_signs(rng, close_by_strips, dtype):
    n = 40
    h = rng.integers(0, 500, n)
    A = (rng.integers(0, 1000, (n, n)) + h[:, None] - h).astype(dtype)
    A[rng.random(A.shape) < 0.7] = sr.min_plus.zero_for(A.dtype)
    check_paths(*close_by_strips(A), A, "min_plus")


@pytest.mark.full
def test_ties_and_circles_of_weight_0(monkeypatch, rng, close_by_strips):
    """A search finds the path if the pivots lead in a circle. The test needs both ways."""
    counted, whole = [], expansion.expand_path

    def counting(*arguments):
        counted.append(whole(*arguments))
        return counted[-1]

    monkeypatch.setattr("semiring.paths.result.expand_path", counting)
    for low, dtype in ((0, "int32"), (0, "float32")):
        A = rng.integers(low, 3, (45, 45)).astype(dtype)
        A[rng.random(A.shape) < 0.9] = sr.min_plus.zero_for(A.dtype)
        check_paths(*close_by_strips(A), A, "min_plus")
    assert any(found is not None and len(found) > 3 for found in counted)
    monkeypatch.setattr("semiring.paths.result.expand_path", lambda *arguments: None)
    check_paths(*close_by_strips(A), A, "min_plus")


@pytest.mark.full
def test_columns_side_by_side(rng, close_by_strips, tmp_path):
    A = rounding_matrix(rng, 50, "min_plus", "float64")
    D, P = close_by_strips(np.asfortranarray(A))
    assert P.flags.f_contiguous
    check_paths(D, P, A, "min_plus", exact=False)


@pytest.mark.full
def test_a_path_reads_as_many_entries_as_it_has_edges(rng, close_by_strips):
    n = 400
    A = np.full((n, n), np.inf)
    A[np.arange(n - 1), np.arange(1, n)] = 1
    D, P = close_by_strips(A)

    class CountingArray(np.ndarray):
        reads = 0

        def __getitem__(self, key):
            found = super().__getitem__(key)
            CountingArray.reads += np.size(found)
            return np.asarray(found)[()]

    found = sr.Paths(D, sr.min_plus, pivots=np.asarray(P).view(CountingArray))
    assert found.path(3, 390) == list(range(3, 391))
    assert CountingArray.reads < 400 * 140
    assert found.paths_from(395) == {j: list(range(395, j + 1)) for j in range(395, 400)}
    assert repr(found) == "<Paths of 400 vertices in min_plus, float64: with pivots>"


@pytest.mark.full
def test_a_run_goes_on_with_its_pivots(rng, close_by_strips, tmp_path):
    A = rounding_matrix(rng, 97, "min_plus", "float64")
    D, P = close_by_strips(A)
    expected = np.array(D), np.array(P)

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    options = {"journal": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        close_by_strips(A, progress=stop, **options)
    with pytest.raises(StorageError, match=r"the file of the pivots was .*P\.npy, and is None"):
        close_by_strips(A, pivots=None, **options)
    for _ in range(2):  # the second time it has ended
        found = close_by_strips(A, **options)
        assert same_bits(found[0], expected[0])
        assert same_bits(found[1], expected[1])
    whole = (tmp_path / "P.npy").read_bytes()
    (tmp_path / "P.npy").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StorageError, match=r"P\.npy has been changed since"):
        close_by_strips(A, **options)


def test_what_keeps_no_pivots(rng, close_by_strips, tmp_path):
    A = rng.random((9, 9))
    for error, match, name, options in (
        (AlgebraError, "selective", "plus_times", {}),
        (AlgebraError, "reflexive=False", "min_plus", {"reflexive": False}),
        (StorageError, "give the name of an .npy file", "min_plus", {"pivots": 7}),
        (
            StorageError,
            "is the file of the matrix: give another name for pivots=",
            "min_plus",
            {"pivots": tmp_path / "D.npy"},
        ),
        (
            StorageError,
            "is the file of the matrix: give another name for the journal",
            "min_plus",
            {"journal": tmp_path / "P.npy"},
        ),
    ):
        np.save(tmp_path / "A.npy", A)
        given = {"out": tmp_path / "D.npy", "memory": "1 GiB", "pivots": tmp_path / "P.npy", **options}
        with pytest.raises(error, match=match):
            sr.closure(tmp_path / "A.npy", name, **given)
        assert not (tmp_path / "P.npy").exists()
    with pytest.raises(StorageError, match="shortest_paths"):
        sr.closure(A, pivots=tmp_path / "P.npy")
    A[2, 3] = -np.inf
    A[3:, :3] = np.inf
    with pytest.raises(AlgebraError, match="unbounded gain"):
        close_by_strips(np.triu(A, 1) + np.where(np.tri(9, dtype=bool), np.inf, 0))
    assert not (tmp_path / "P.npy").exists()
    with pytest.raises(ShapeError, match="pivots are"):
        sr.Paths(rng.random((9, 9)), sr.min_plus, pivots=np.zeros((8, 8), np.int32))


def test_a_matrix_without_vertices(tmp_path):
    np.save(tmp_path / "A.npy", np.empty((0, 0)))
    sr.closure(tmp_path / "A.npy", out=tmp_path / "D.npy", pivots=tmp_path / "P.npy")
    assert np.load(tmp_path / "P.npy").shape == (0, 0)
