"""Test that every function rejects SciPy sparse matrices whose index arrays were changed, with the array and entry."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tiers import quick

import semiring as sr
from semiring.arrays import operands
from semiring.arrays.sparse import check_sparse, is_ascending, stored_entries
from semiring.compat import csgraph
from semiring.errors import DTypeError, ShapeError, SuspiciousWeightsWarning, TooLargeError
from semiring.testing import check_closure

INF = np.inf
FORMATS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
TRIANGLE = np.array([[0, 2.0, 9.0], [0, 0, 3.0], [1.0, 0, 0]])


def damage(format_="csr", array="indices", index=0, value=3):
    A = sp.csr_array(TRIANGLE).asformat(format_)
    getattr(A, array)[index] = value
    return A


def with_keys(*keys):
    A = sp.dok_array((3, 3))
    for key in keys:
        A._dict[key] = 1.0  # SciPy checks assignments, but not a pickle, nor code like this
    return A


def with_columns(row, columns):
    A = sp.lil_array(TRIANGLE)
    A.rows[row] = columns
    return A


def exchange(format_, **arrays):
    A = sp.csr_array(TRIANGLE).asformat(format_)
    for name, array in arrays.items():
        setattr(A, name, array)
    return A


WRONG = [
    (lambda: damage(), r"A\.indices\[0\] is 3, outside a matrix of shape \(3, 3\), whose columns are 0 … 2"),
    (lambda: damage(value=-1), r"A\.indices\[0\] is -1"),
    (lambda: damage(value=2**31 - 1), r"A\.indices\[0\] is 2147483647"),
    (lambda: damage("csc", index=3), r"A\.indices\[3\] is 3, .* whose rows are 0 … 2"),
    (lambda: damage(array="indptr", index=1, value=10**6), r"A\.indptr\[1\] is 1000000, beyond the 4 ent"),
    (lambda: damage(array="indptr", index=1, value=-1), r"A\.indptr\[1\] is -1, less than the entry before, 0"),
    (lambda: damage(array="indptr", value=1), r"A\.indptr\[0\] is 1, and 0 is expected"),
    (lambda: damage(array="indptr", index=-1, value=10**6), r"A\.indptr\[3\] is 1000000, beyond the 4 entries"),
    (lambda: damage("bsr"), r"A\.indices\[0\] is 3, .* whose columns of blocks are 0 … "),
    (lambda: damage("coo", "row"), r"A\.row\[0\] is 3, .* whose rows are 0 … 2"),
    (lambda: damage("coo", "col", 2, -7), r"A\.col\[2\] is -7, .* whose columns are 0 … 2"),
    (lambda: with_columns(1, [3]), r"A\.rows\[1\]\[0\] is 3, outside"),
    (lambda: with_columns(1, [-1]), r"A\.rows\[1\]\[0\] is -1, outside"),
    (lambda: with_columns(1, [0, 1]), r"A\.rows\[1\] and A\.data\[1\] are not lists of one length"),
    (lambda: with_columns(1, ["x"]), r"A\.rows holds 'x', and integers are expected"),
    (lambda: with_columns(1, [10**30]), r"A\.rows holds 10+, which is no index"),
    (lambda: with_keys((0, 3)), r"the key \(0, 3\) of A has 3, outside a matrix"),
    (lambda: with_keys((0, 1), (-1, 0)), r"the key \(-1, 0\) of A has -1, outside a matrix"),
    (lambda: with_keys((0, 0.5)), r"the keys of A holds 0\.5, and integers"),
    (lambda: with_keys(7), r"A has the key 7, and a pair"),
    (lambda: exchange("csr", indptr=np.array([0, 4], np.int32)), r"A\.indptr has 2 entries, and a matrix .* has 4"),
    (lambda: exchange("csr", indices=np.zeros(2, np.int32)), r"A\.indices has 2 entries, and A\.data has 4"),
    (lambda: exchange("csr", data=np.zeros(3)), r"A\.indices has 4 entries, and A\.data has 3"),
    (lambda: exchange("csr", indices=np.zeros(4)), r"A\.indices has dtype float64, and int32 or int64 is expected"),
    (lambda: exchange("csr", indices=[0, 0, 0, 0]), r"A\.indices is list, and an array of 1 dimensions is expected"),
    (lambda: exchange("csr", data=np.zeros((4, 1))), r"A\.data is \(4, 1\), and an array of 1 dimensions"),
    (lambda: exchange("bsr", data=np.zeros((4, 2, 2))), r"A\.data has blocks of 2 × 2, which do not divide 3 × 3"),
    (lambda: exchange("coo", data=np.zeros(3)), r"A\.row has 4 entries, and A\.data has 3"),
    (lambda: exchange("dia", offsets=np.zeros(7, np.int32)), r"A\.data has 3 diagonals, and A\.offsets has 7 entries"),
    (lambda: exchange("lil", rows=np.zeros(2, object)), r"A has 3 rows, A\.rows has 2 and A\.data has 3"),
    (lambda: sp.coo_array(np.ones(3)), "A is a sparse array of 1 dimensions: only matrices"),
]


def test_invalid_index_arrays_are_named():
    for make, message in WRONG:  # no parameters, for pytest would print the matrices
        with pytest.raises(ShapeError, match=message):
            check_sparse(make())


def calls():
    """Yield every public function that takes a sparse matrix."""
    eye, b = np.zeros((3, 3)), np.zeros(3)
    factor = sr.factor(sp.csr_array(TRIANGLE))
    return {
        "closure": sr.closure,
        "closure by edges": lambda A: sr.closure(A, method="johnson"),
        "closure by rkleene": lambda A: sr.closure(A, method="rkleene"),
        "closure undirected": lambda A: sr.closure(A, directed=False),
        "explained closure": lambda A: sr.closure(A, explain=True),
        "best_paths": lambda A: sr.best_paths(A, "max_min"),
        "shortest_paths": sr.shortest_paths,
        "shortest_paths without predecessors": lambda A: sr.shortest_paths(A, predecessors=False),
        "some paths": lambda A: sr.shortest_paths(A, sources=[0]),
        "some paths undirected": lambda A: sr.shortest_paths(A, sources=[0], directed=False),
        "paths within a limit": lambda A: sr.shortest_paths(A, limit=4.0),
        "widest_paths": sr.widest_paths,
        "longest_paths": sr.longest_paths,
        "most_reliable_paths": sr.most_reliable_paths,
        "transitive_closure": sr.transitive_closure,
        "some of the transitive closure": lambda A: sr.transitive_closure(A, sources=[0]),
        "transitive_reduction": sr.transitive_reduction,
        "condensation": sr.condensation,
        "pack": sr.pack,
        "as_network": sr.as_network,
        "write": lambda A: sr.write("never.csv", A),
        "write npz": lambda A: sr.write("never.npz", A),
        "factor": sr.factor,
        "refactor": factor.refactor,
        "solve": lambda A: factor.solve(A),
        "fixed_point": lambda A: sr.fixed_point(A, b),
        "right-hand side": lambda A: sr.fixed_point(eye, A),
        "matmul": lambda A: sr.matmul(A, eye),
        "matmul from the right": lambda A: sr.matmul(eye, A),
        "witness": lambda A: sr.matmul(A, eye, return_witness=True),
        "power": lambda A: sr.power(A, 3),
        "add": lambda A: sr.add(A, eye),
        "axpy": lambda A: sr.blas.axpy(2.0, A, eye),
        "ger": lambda A: sr.blas.ger(b, b, A),
        "multiply": lambda A: sr.multiply(eye, A),
        "gemm": lambda A: sr.blas.gemm(A, eye),
        "gemv": lambda A: sr.blas.gemv(A, b),
        "reduce": sr.reduce,
        "check_closure": lambda A: check_closure(A, eye),
        "csgraph.floyd_warshall": csgraph.floyd_warshall,
        "csgraph.johnson": csgraph.johnson,
        "csgraph.shortest_path": csgraph.shortest_path,
        "csgraph.shortest_path by D": lambda A: csgraph.shortest_path(A, method="D"),
    }


@pytest.mark.parametrize("where", [("csr", "indices"), ("coo", "col")])
def test_every_function_validates_its_sparse_operand(where, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    A = damage(*where)
    for name, call in calls().items():
        try:
            call(A)
        except ShapeError as error:
            assert "[0] is 3, outside a matrix" in str(error), name  # noqa: PT017
        else:
            pytest.fail(f"{name} accepts an index outside the matrix")


def test_a_valid_matrix_in_every_format():
    for format_ in FORMATS:
        A = sp.csr_array(TRIANGLE).asformat(format_)
        check_sparse(A)
        assert sr.closure(A).tolist() == [[0, 2, 5], [4, 0, 3], [1, 3, 0]], format_
        assert sr.factor(A).distance(1, 0) == 4, format_
    check_sparse(sp.csr_array((0, 0)))
    check_sparse(sp.csr_array((2, 0)))


@pytest.mark.full
@pytest.mark.parametrize("format_", ["csr", "csc", "bsr"])
def test_room_behind_the_entries_is_no_entry(format_):
    A = sp.csr_array(TRIANGLE).asformat(format_)
    blocks = A.data.shape[1:]
    A.indices = np.append(A.indices, np.array([2, 7], A.indices.dtype))
    A.data = np.concatenate([A.data, np.full((2, *blocks), -50.0)])
    assert stored_entries(A)[2].size == sp.csr_array(TRIANGLE).asformat(format_).tocoo().data.size
    assert sr.closure(A).tolist() == [[0, 2, 5], [4, 0, 3], [1, 3, 0]]
    assert sr.closure(A, method="johnson").tolist() == [[0, 2, 5], [4, 0, 3], [1, 3, 0]]
    assert sr.factor(A).distance(1, 0) == 4
    assert sr.condensation(A).component.tolist() == [0, 0, 0]
    assert sr.transitive_closure(A, sources=[1]).matrix.all()


def test_flags_of_scipy_are_not_trusted():
    """SciPy's flags still say "sorted and without duplicates" after the indices of a matrix have changed."""
    A = sp.csr_array(np.array([[0, 5.0, 1.0], [0, 0, 0], [0, 0, 0]]))
    assert A.has_canonical_format
    A.indices[:] = [2, 1]
    assert sr.factor(A).distance(0, 1) == 1
    assert sr.closure(A)[0].tolist() == [0, 1, 5]
    A.indices[:] = [1, 1]
    with pytest.warns(SuspiciousWeightsWarning, match="stores some entries more than once"):
        assert sr.factor(A).distance(0, 1) == 1


def test_is_ascending():
    def ascends(*rows):
        return is_ascending(np.cumsum([0, *map(len, rows)]), np.array([j for row in rows for j in row], np.int32))

    assert ascends()
    assert ascends([], [0, 1], [], [], [0, 2, 5], [1])
    assert ascends([0], [], [0])
    assert not ascends([1, 1])
    assert not ascends([], [0, 1], [2, 1], [])
    assert not ascends([0, 3], [3, 3])


@pytest.mark.full
@pytest.mark.parametrize(
    "call",
    [
        sr.closure,
        lambda A: sr.closure(A, method="johnson"),
        sr.factor,
        lambda A: sr.shortest_paths(A, sources=[0]),
        lambda A: sr.matmul(A, np.zeros((3, 3))),
        sr.as_network,
    ],
)
def test_duplicates_are_added_by_plus_of_the_semiring_with_a_warning(call):
    twice = sp.coo_array(([4.0, 3.0, 1.0], ([0, 0, 1], [1, 1, 2])), shape=(3, 3))
    with pytest.warns(SuspiciousWeightsWarning, match=r"⊕ of min_plus, but by \+ in SciPy's .* A\.sum_duplicates\(\)"):
        call(twice)
    call(twice.tocsr())  # where SciPy has added them nothing is left to be said


def test_duplicates_without_a_difference_are_no_reason_to_warn():
    twice = sp.coo_array(([4.0, 3.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert sr.matmul(twice, np.eye(2), "plus_times").tolist() == [[0, 7], [0, 0]]
    assert sr.matmul(twice != 0, np.eye(2, dtype=bool), "boolean").tolist() == [[False, True], [False, False]]
    loops = sp.coo_array(([1.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert sr.shortest_paths(loops, sources=[0], directed=False).matrix.tolist() == [[0, 1]]


def test_sparse_matrices_too_large_for_what_is_asked():
    huge = sp.coo_array(([1.0], ([0], [5])), shape=(2**40, 2**40))
    calls = (sr.closure, sr.factor, lambda A: sr.pack(A.astype(bool)), lambda A: sr.matmul(A, A))
    for call in (*calls, lambda A: sr.shortest_paths(A, sources=[0])):
        with pytest.raises(TooLargeError):
            call(huge)


def reachable(x):
    return np.asarray(x.unpack() if hasattr(x, "unpack") else x.toarray() if sp.issparse(x) else x).tolist()


FORMS = {
    "list": lambda A: A.tolist(),
    "int64": lambda A: A,
    "uint8": lambda A: A.astype(np.uint8),
    "fortran": np.asfortranarray,
    "masked": np.ma.array,
    "frame": pd.DataFrame,
    "csr": sp.csr_array,
    "coo": sp.coo_array,
    "lil": sp.lil_array,
}
ONES = np.eye(3, k=1, dtype=np.int64)
REACHED = [[False, True, True], [False, False, True], [False, False, False]]
TRUTHS = {
    "closure": (lambda A: sr.closure(A, "boolean", reflexive=False), REACHED),
    "transitive_closure": (lambda A: sr.transitive_closure(A, reflexive=False).matrix, REACHED),
    "transitive_reduction": (lambda A: sr.transitive_reduction(A), ONES.astype(bool).tolist()),
    "condensation": (lambda A: sr.condensation(A).reaches(range(3), range(3)), np.triu(np.ones((3, 3), bool)).tolist()),
    "matmul": (lambda A: sr.matmul(A, np.eye(3, dtype=bool), "boolean"), ONES.astype(bool).tolist()),
    "power": (lambda A: sr.power(A, 1, "boolean"), ONES.astype(bool).tolist()),
    "add": (lambda A: sr.add(A, np.zeros((3, 3), bool), "boolean"), ONES.astype(bool).tolist()),
    "fixed_point": (lambda A: sr.fixed_point(A, [False, False, True], "boolean"), [True, True, True]),
    "factor": (lambda A: sr.factor(A, "boolean").table(range(3)), np.triu(np.ones((3, 3), bool)).tolist()),
}
LISTS_EDGES = ("csr", "coo", "lil")  # of which these functions take each stored entry for an edge


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", quick(lambda name: name not in ("factor", "fixed_point"), TRUTHS))
def test_zeros_and_ones_are_truth_values_everywhere(form, name):
    call, expected = TRUTHS[name]
    if name == "add" and form == "frame":
        pytest.skip("frames are no operands of add")
    given = FORMS[form](ONES)
    assert reachable(call(given)) == expected
    if form in LISTS_EDGES and name in ("transitive_closure", "condensation"):
        return
    with pytest.raises(DTypeError, match=r"\] is 2, which bool does not hold: .* integers that are all 0 or 1"):
        call(FORMS[form](2 * ONES))


@pytest.mark.parametrize("name", quick(lambda name: name not in ("factor", "fixed_point"), TRUTHS))
def test_floats_are_no_truth_values(name):
    call, _ = TRUTHS[name]
    for given in (ONES.astype(float), ONES.astype(np.float32).tolist()):
        with pytest.raises(DTypeError, match=r"float64.*say which entries are edges, by A != 0"):
            call(given)


def test_packed_truths():
    for form in ("list", "uint8", "csr", "coo"):
        assert sr.pack(FORMS[form](ONES)) == sr.pack(ONES != 0)
        with pytest.raises(DTypeError, match=r"array(\.data)?\[.*\] is 2, which bool does not hold"):
            sr.pack(FORMS[form](2 * ONES))
    assert sr.matmul(sr.pack(ONES != 0), ONES, "boolean").count() == 1


def test_of_a_semiring_of_more_dtypes_integers_stay_what_they_are():
    assert sr.matmul(ONES, ONES, "xor_and").dtype == np.int64
    assert sr.matmul(ONES, ONES, "max_min").dtype == np.int64


@pytest.mark.parametrize("structure", [True, False])
def test_complex_numbers_are_refused(structure):
    A = sp.coo_array(([1 + 2j], ([0], [1])), (6, 6))
    with pytest.raises(DTypeError, match="min_plus is not defined on complex128"):
        sr.closure(A, structure=structure)


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_sparse_arrays_on_a_gpu_raise_one_error(library, monkeypatch):
    module = pytest.importorskip(library)
    dense = np.array([[0, 3, 0], [0, 0, 2], [1, 0, 0]], np.float32)
    if library == "jax":
        sparse = pytest.importorskip("jax.experimental.sparse")
        given, copy = [sparse.BCOO.fromdense(module.numpy.asarray(dense))], "jax.device_put"
    else:
        tensor = module.tensor(dense)
        given, copy = [tensor.to_sparse()], r"A\.cpu\(\)"
    monkeypatch.setattr(operands, "is_device_array", lambda x: type(x).__module__.startswith((library, "jaxlib")))
    monkeypatch.setattr(operands, "device_context", lambda *_: contextlib.nullcontext())
    for A in given:
        for call in (
            sr.closure,
            sr.shortest_paths,
            sr.transitive_closure,
            sr.condensation,
            lambda A: sr.shortest_paths(A, sources=[0]),
            lambda A: sr.closure(A, "boolean"),
        ):
            with pytest.raises(sr.DeviceError, match=f"A is a sparse matrix on a GPU.*{copy}"):
                call(A)
