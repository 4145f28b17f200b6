"""Test every kind of operand, results in the library of the caller's arrays, and threads."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import semiring as sr
from semiring.arrays.operands import as_array, as_matrix, as_output, operands, result_converter
from semiring.errors import DeviceError, DTypeError, NegativeCycleError, PositiveCycleError, ShapeError
from semiring.thread_counts import get_threads, set_threads, threads

INF = np.inf


def test_arrays_of_the_right_dtype_are_not_copied():
    A = np.zeros((3, 4), np.float32)
    for view in (A, A.T, A[::-1, ::2], A[:0]):
        assert as_array(view, sr.min_plus) is view
    A.flags.writeable = False
    assert as_matrix(A, sr.min_plus) is A


def test_lists_become_float64_or_bool():
    assert as_matrix([[1, 2], [3, 4]], sr.min_plus).dtype == np.float64
    assert as_matrix([[True, False]], sr.boolean).dtype == bool
    assert as_matrix([[True, False]], sr.min_plus).dtype == np.float64
    assert as_matrix([[1, 2]], sr.xor_and).dtype.kind in "bui"
    assert as_matrix([[]], sr.min_plus).shape == (1, 0)


def test_operands_meet_in_the_promoted_dtype():
    small, large = np.array([1, 2**15 - 1], np.int16), np.array([1, 7], np.int32)
    A, B = operands(sr.min_plus, A=small, B=large)
    assert A.dtype == B.dtype == np.int32
    assert A.tolist() == [1, 2**31 - 1], "no path is no number in the wider dtype"
    A, B = operands(sr.min_plus, A=small, B=[0.5, 1.0])
    assert (A.dtype, A.tolist()) == (np.float64, [1.0, INF])
    assert operands(sr.min_plus, A=small, B=3)[1].dtype == np.int16
    assert operands(sr.min_plus, "float32", A=small, B=large)[0].dtype == np.float32


def test_foreign_byte_order_becomes_native():
    A = as_matrix(np.array([[1.5, INF]], ">f4"), sr.min_plus)
    assert A.dtype.isnative
    assert A.tolist() == [[1.5, INF]]
    result = sr.matmul(np.array([[1, 2]], ">i4"), np.array([[3], [4]], ">i4"))
    assert (result.dtype.isnative, result.tolist()) == (True, [[4]])


@pytest.mark.full
def test_masked_entries_are_no_path():
    A = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    for dtype, top in (("float64", INF), ("int32", 2**31 - 1)):
        assert as_matrix(A.astype(dtype), sr.min_plus).tolist() == [[1, top], [3, 4]]
    assert sr.matmul(A.astype(float), A.astype(float)).tolist() == [[2, INF], [4, 8]]
    assert A.data.tolist() == [[1, 2], [3, 4]], "the caller's array is as it was"


@pytest.mark.parametrize(
    ("values", "options", "error", "message"),
    [
        (np.zeros((2, 2), complex), {}, DTypeError, "A holds complex128, not real numbers"),
        (np.zeros((2, 2), [("a", "f8")]), {}, DTypeError, "not real numbers"),
        (np.zeros((2, 2), "M8[s]"), {}, DTypeError, "not real numbers"),
        (np.array([[None]]), {}, DTypeError, r"A\[0, 0\] is None"),
        (np.zeros((2, 2), np.uint8), {}, DTypeError, "min_plus is not defined on uint8"),
        (pd.DataFrame({"a": ["text"]}), {}, DTypeError, None),
        ([1, 2, 3], {"name": "B"}, ShapeError, r"B has 1 dimensions, shape \(3,\)"),
        ([[1, 2], [3]], {"name": "B"}, ShapeError, "B is a list whose rows differ in length"),
        ([[1, 2]], {"square": True}, ShapeError, r"A is \(1, 2\): a square matrix is needed"),
        ([[1, 2.5]], {"dtype": "int32"}, DTypeError, r"A\[0, 1\] is 2.5, which int32 does not hold"),
    ],
)
def test_what_is_no_matrix_of_numbers(values, options, error, message):
    with pytest.raises(error, match=message):
        as_matrix(values, sr.min_plus, **options)


def test_results_are_not_written_into_a_copy():
    class ArrayByCopy:
        def __array__(self, dtype=None, copy=None):
            return np.zeros((1, 1), bool)

    for out in (ArrayByCopy(), sr.BitMatrix.zeros((1, 1))):
        with pytest.raises(TypeError, match=f"out is a {type(out).__name__}"):
            sr.matmul(np.ones((1, 1), bool), np.ones((1, 1), bool), "boolean", out=out)


def test_floats_of_sixteen_bytes():
    A = np.array([[0, 3], [INF, 1]], np.longdouble)
    result = sr.matmul(A, A)
    assert (result.dtype, result.tolist()) == (A.dtype, [[0, 3], [INF, 2]])


@pytest.mark.full
def test_closures_of_floats_of_sixteen_bytes(monkeypatch):
    heights = 0.75 * np.arange(5)
    A = heights - heights[:, None] + 0.25 * (1 - np.eye(5))  # a weight of 0 among them
    apart = np.where(np.arange(5)[:, None] > 2, np.triu(A, 1) + np.tril(np.full((5, 5), INF)), A)  # in three components
    for weights in (A, apart):
        np.testing.assert_array_equal(sr.closure(weights.astype(np.longdouble)), sr.closure(weights))
    monkeypatch.setattr(sys.modules["semiring.closures.problem"], "LEAST", 2)  # as if they were many
    _, why = sr.closure(np.abs(apart).astype(np.longdouble), explain=True)
    assert "floats of 16 bytes" in why.details


@pytest.mark.parametrize("n", [2, 200])
def test_a_cycle_of_floats_of_sixteen_bytes_that_gains_is_named(n):
    A = np.full((n, n), INF, np.longdouble)
    A[0, 1], A[1, 0] = 1, -1 - np.longdouble(2) ** -40
    with pytest.raises(NegativeCycleError, match=r"0 → 1 → 0 .* -9\.09495e-13, below 0") as caught:
        sr.closure(A)
    assert caught.value.cycle == (0, 1)
    with pytest.raises(PositiveCycleError, match=r"9\.09495e-13, above 0"):
        sr.best_paths(-A, "max_plus")


def test_output():
    out = np.zeros((2, 3))
    assert as_output(out, (2, 3), np.dtype(float)) is out
    with pytest.raises(ShapeError, match=r"out is \(2, 3\), the result is \(3, 2\)"):
        as_output(out, (3, 2), np.dtype(float))
    with pytest.raises(DTypeError, match="out has dtype float64, the result float32"):
        as_output(out, (2, 3), np.dtype("float32"))
    for wrong in ([[1.0]], pd.DataFrame([[1.0]]), np.ma.array([[1.0]], mask=[[True]]), sp.csr_array([[1.0]])):
        with pytest.raises(TypeError, match=type(wrong).__name__):
            as_output(wrong, (1, 1), np.dtype(float))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        as_output(out, (2, 3), np.dtype(float))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.csr_matrix, sp.dok_array])
def test_sparse_matrices(kind, rng):
    dense = rng.integers(1, 9, (6, 7)).astype(np.float32)
    dense[rng.random((6, 7)) < 0.6] = 0
    found = as_matrix(kind(dense), sr.min_plus)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.where(dense == 0, INF, dense))
    np.testing.assert_array_equal(as_matrix(kind(dense), sr.plus_times), dense)
    np.testing.assert_array_equal(as_matrix(kind(dense), sr.max_plus), np.where(dense == 0, -INF, dense))
    whole = as_matrix(kind(dense.astype(np.int32)), sr.min_plus)
    np.testing.assert_array_equal(whole, np.where(dense == 0, np.int64(2**31 - 1), dense.astype(int)))
    assert as_matrix(kind((0, 3)), sr.min_plus).shape == (0, 3)


def test_stored_zeros_stay_and_duplicates_are_added():
    rows, columns = [0, 0, 1, 0, 1], [1, 1, 0, 2, 0]
    A = sp.coo_array(([4.0, 3.0, 0.0, 5.0, 2.0], (rows, columns)), shape=(2, 3))
    with pytest.warns(sr.errors.SuspiciousWeightsWarning, match="stores some entries more than once"):
        assert as_matrix(A, sr.min_plus).tolist() == [[INF, 3, 5], [0, INF, INF]]
    with pytest.warns(sr.errors.SuspiciousWeightsWarning, match="⊕ of max_plus"):
        assert as_matrix(A, sr.max_plus).tolist() == [[-INF, 4, 5], [2, -INF, -INF]]
    assert as_matrix(A, sr.plus_times).tolist() == A.toarray().tolist()
    assert as_matrix(sp.csr_array(([0.0], ([1], [1])), shape=(2, 2)), sr.min_plus).tolist() == [[INF, INF], [INF, 0]]
    with pytest.warns(sr.errors.SuspiciousWeightsWarning):
        assert sr.matmul(A, [0, 0, 0]).tolist() == [3, 0]


def test_frames(rng):
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, dtype="int32", index=["x", "y"])
    found = as_matrix(frame, sr.min_plus)
    assert (found.dtype, found.tolist()) == (np.int32, [[1, 3], [2, 4]])
    assert sr.matmul(frame, frame.to_numpy()).to_numpy().tolist() == [[2, 4], [3, 5]]
    assert sr.matmul(frame, pd.Series([1.0, 2.0])).tolist() == [2, 3]


class Foreign:
    """A minimal array of another library, in host memory: DLPack out of a NumPy array."""

    def __init__(self, values, device=(1, 0)):
        self.values, self.device = values, device

    dtype = property(lambda self: f"foreign.{self.values.dtype}")
    shape = property(lambda self: self.values.shape)

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device

    def __array_namespace__(self):
        return types.SimpleNamespace(from_dlpack=lambda array: Foreign(np.from_dlpack(array)), asarray=Foreign)


def test_results_are_of_the_callers_own_kind(rng):
    values = rng.random((3, 3)).astype(np.float32)
    expected = sr.matmul(values, values)
    result = sr.matmul(Foreign(values), Foreign(values))
    assert isinstance(result, Foreign)
    assert result.values.dtype == np.float32
    np.testing.assert_array_equal(result.values, expected)
    assert isinstance(sr.matmul(values, Foreign(values)), Foreign)
    product, witness = sr.matmul(Foreign(values), values, return_witness=True)
    assert isinstance(product, Foreign)
    assert isinstance(witness, Foreign)
    assert isinstance(sr.add(Foreign(values), values), Foreign)
    assert isinstance(sr.power(Foreign(values), 2), Foreign)
    out = Foreign(np.zeros((3, 3), np.float32))
    assert sr.matmul(Foreign(values), values, out=out) is out
    np.testing.assert_array_equal(out.values, expected)
    assert result_converter([1], np.zeros(1))(expected) is expected


def test_foreign_arrays_are_not_copied():
    values = np.zeros((3, 3))
    assert np.shares_memory(as_matrix(Foreign(values), sr.min_plus), values)


def test_device_arrays_are_refused_by_name():
    class OnAGpu:
        __cuda_array_interface__ = types.MappingProxyType({})
        dtype = np.dtype(float)

    for array in (OnAGpu(), Foreign(np.zeros((2, 2)), device=(2, 0))):
        with pytest.raises(DeviceError, match=r"B is a .*(OnAGpu|Foreign) on a GPU"):
            sr.matmul(np.zeros((2, 2)), array)


def test_gradients_do_not_vanish_silently():
    array = Foreign(np.zeros((2, 2)))
    array.requires_grad = True
    with pytest.raises(TypeError, match=r"pass A.detach\(\)"):
        sr.matmul(array, array)


@pytest.mark.full
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_real_libraries(library):
    """The test runs in an interpreter of its own, because these libraries start threads and warn."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    program = f"""
import numpy as np, semiring as sr
values = np.random.default_rng(0).integers(0, 9, (5, 5)).astype(np.float32)
if {library!r} == "torch":
    import torch as xp
    A, kind = xp.from_numpy(values), xp.Tensor
else:
    import jax.numpy as xp
    A, kind = xp.asarray(values), xp.ndarray
C = sr.matmul(A, A)
assert isinstance(C, kind) and C.dtype == A.dtype, type(C)
assert (np.asarray(C) == sr.matmul(values, values)).all()
for dtype in (np.int32, np.bool_):
    B = xp.asarray(values.astype(dtype))
    D = sr.matmul(B, B, "max_min")
    assert isinstance(D, kind) and D.dtype == B.dtype, (type(D), D.dtype)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.fixture
def default_threads():
    yield
    set_threads(None)


def test_threads_nest(default_threads):
    start = get_threads()
    assert start >= 1
    set_threads(3)
    assert get_threads() == 3
    with threads(2):
        assert get_threads() == 2
        with threads(5):
            assert get_threads() == 5
        set_threads(4)
        assert get_threads() == 2, "the block decides inside it"
    assert get_threads() == 4
    set_threads(None)
    assert get_threads() == start
    with pytest.raises(RuntimeError), threads(7):
        raise RuntimeError
    assert get_threads() == start


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)])
def test_threads_are_counted_from_one(n, error):
    with pytest.raises(error):
        set_threads(n)
    with pytest.raises(error), threads(n):
        pass
    with pytest.raises(error):
        sr.matmul([[1.0]], [[1.0]], threads=n)


@pytest.mark.full
@pytest.mark.parametrize(("value", "expected"), [("3", "3"), ("", "cores"), ("many", "error"), ("0", "error")])
def test_the_environment_sets_the_default(value, expected):
    program = "from semiring.thread_counts import get_threads; print(get_threads())"
    environment = {"NUMBA_NUM_THREADS": value, "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    if expected == "error":
        assert "NUMBA_NUM_THREADS" in done.stderr
        assert repr(value) in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == (3 if expected == "3" else int(done.stdout)) >= 1
