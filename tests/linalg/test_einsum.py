"""Test `einsum`, its plan and its witness, against loops over all index values and against `numpy.einsum`."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from itertools import combinations, pairwise

import expressions
import numpy as np
import oracles
import pytest
from scipy import sparse

import semiring as sr
from semiring.testing.strategies import relations

INF = np.inf


def semiring_of(name):
    return relations if name == "relations" else sr.CATALOGUE[name]


def assert_same(actual, expected, name, message=""):
    assert np.shape(actual) == np.shape(expected), message
    assert actual.dtype == expected.dtype, message
    if name in ("log_plus", "max_times"):  # the order of the operations shows in the last digits
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12, err_msg=message)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=message)


def random_case(rng, place, **options):
    name, dtype = expressions.KINDS[place % len(expressions.KINDS)]
    one = expressions.expression(rng, **options)
    arrays = [expressions.laid_out(rng, expressions.entries(rng, name, dtype, shape)) for shape in one.shapes]
    return name, one.subscripts, arrays, f"{one} {name} {dtype}"


# ------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    "count", [60, pytest.param(500, marks=pytest.mark.full), pytest.param(5000, marks=pytest.mark.exhaustive)]
)
def test_random_expressions_equal_a_loop_over_all_indices(count):
    rng = np.random.default_rng(count)
    for place in range(count):
        name, subscripts, arrays, message = random_case(rng, place)
        found = sr.einsum(subscripts, *arrays, semiring=semiring_of(name))
        assert_same(found, expressions.value(name, subscripts, arrays), name, message)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.full)])
def test_random_expressions_in_parts_are_the_same(count):
    rng = np.random.default_rng(count + 1)
    cut = 0
    for place in range(count):
        name, subscripts, arrays, message = random_case(rng, place)
        semiring = semiring_of(name)
        whole = sr.einsum_path(subscripts, *arrays, semiring=semiring)
        assert not whole.slices
        for limit in (whole.memory, int(whole.memory * 0.8), whole.memory // 2):
            try:
                plan = sr.einsum_path(subscripts, *arrays, semiring=semiring, memory=limit)
            except sr.TooLargeError:
                continue
            assert plan.memory <= limit, message
            cut += bool(plan.slices)
            found = sr.einsum(subscripts, *arrays, semiring=semiring, memory=limit)
            assert_same(found, expressions.value(name, subscripts, arrays), name, message)
    assert cut


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iij->j", [(3, 3, 2)]),
        ("Aba", [(3, 2, 3)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("...ij,...jk", [(5, 2, 3), (1, 3, 4)]),
        ("...i,...j", [(2, 3), (4, 1, 3)]),
        ("i...->...", [(2, 3, 4)]),
        ("...,...", [(2, 3), (3,)]),
        ("i,i->i", [(1,), (3,)]),
        ("ij,ij->j", [(2, 1), (1, 3)]),
        (",->", [(), ()]),
        ("", [()]),
        ("i,i,i->", [(3,), (3,), (3,)]),
        ("ij,ik,il->jkl", [(2, 3), (2, 4), (2, 2)]),
        ("ab,cd->dbac", [(2, 3), (4, 2)]),
        ("ij->", [(0, 3)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
        ("ij,jk->ik", [(0, 2), (2, 3)]),
        ("iij,jkk,kl->il", [(2, 2, 3), (3, 2, 2), (2, 4)]),
    ],
)
def test_the_notation_is_that_of_numpy(subscripts, shapes, rng):
    arrays = [rng.integers(0, 5, shape).astype(float) for shape in shapes]
    found = sr.einsum(subscripts, *arrays, semiring="plus_times")
    expected = np.einsum(subscripts, *arrays)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_array_equal(found, expected)
    assert isinstance(found, np.ndarray) == bool(np.ndim(expected))


def test_labels_may_be_given_as_lists(rng):
    A, B = rng.integers(0, 5, (2, 3)).astype(float), rng.integers(0, 5, (3, 4)).astype(float)
    for arguments in [
        (A, [0, 1], B, [1, 2], [2, 0]),
        (A, [0, 1], B, [1, 2]),
        (A, [1, 0]),
        (A, [Ellipsis, 0], [Ellipsis]),
        (A, [30, 2], B, [2, 51]),
    ]:
        np.testing.assert_array_equal(sr.einsum(*arguments, semiring="plus_times"), np.einsum(*arguments))
    found = sr.einsum(A, [1000, 60], B, [60, 2000], [1000, 2000], semiring="plus_times")  # beyond NumPy's 52
    np.testing.assert_array_equal(found, A @ B)
    np.testing.assert_array_equal(sr.einsum("αβ,βж->αж", A, B, semiring="plus_times"), A @ B)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("ij", np.ones(3)), sr.ShapeError, r"operand 0 is \(3,\), and its term 'ij' names 2 axes"),
        (("i", np.ones((3, 3))), sr.ShapeError, "stands for further axes"),
        (("i,j", np.ones(3)), ValueError, "has 2 terms, 1 operands are given"),
        (("i->ii", np.ones(3)), ValueError, "'i' more than once"),
        (("i->ij", np.ones(3)), ValueError, "has 'j', which no operand has"),
        (("a..b", np.ones((3, 3))), ValueError, "a term consists of letters"),
        (("......a", np.ones((3, 3))), ValueError, "at most one stands in a term"),
        (("...i->i", np.ones((3, 3))), ValueError, "write '...i'"),
        (("ii", np.ones((1, 3))), sr.ShapeError, "no common diagonal"),
        (("i,i", np.ones(2), np.ones(3)), sr.ShapeError, "'i' has the size 2 in operand 0, and 3 in operand 1"),
        (("...,...", np.ones(2), np.ones(3)), sr.ShapeError, r"'\[0\]' has the size 2"),
        ((), TypeError, "subscripts"),
        ((np.ones(3), "i"), TypeError, "not text"),
        ((np.ones(3), [0.5]), TypeError, "neither a whole number nor Ellipsis"),
        ((np.ones(3), [-1]), ValueError, "the label -1 is outside"),
        (("ij,jk,kl", *[np.ones((2, 2))] * 3), None, ""),
    ],
)
def test_errors_name_what_was_given(arguments, error, text):
    if error is None:
        assert sr.einsum(*arguments).shape == (2, 2)
        return
    with pytest.raises(error, match=text):
        sr.einsum(*arguments)
    with pytest.raises(error, match=text):
        sr.einsum_path(*arguments)


def test_two_operands_are_a_product_bit_for_bit(rng):
    A, B = rng.standard_normal((3, 20, 30)), rng.standard_normal((3, 30, 25))
    for name in ("min_plus", "plus_times", "log_plus"):
        np.testing.assert_array_equal(sr.einsum("bij,bjk->bik", A, B, semiring=name), sr.matmul(A, B, name))
        np.testing.assert_array_equal(sr.einsum("ij,jk->ik", A[0], B[0], semiring=name), sr.matmul(A[0], B[0], name))


def test_one_operand_is_a_view(rng):
    A = rng.random((3, 3, 4))
    for subscripts in ("ijk->kji", "iik->ki", "ijk->ijk"):
        assert np.shares_memory(sr.einsum(subscripts, A), A)


# ------------------------------------------------------------------------------------------------- operands


def test_float16_is_computed_in_float32_and_rounded_once(rng):
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in ((5, 40), (40, 30), (30, 7))]
    for name in ("min_plus", "log_plus", "plus_times"):
        found = sr.einsum("ij,jk,kl->il", *arrays, semiring=name)
        wide = sr.einsum("ij,jk,kl->il", *(array.astype(np.float32) for array in arrays), semiring=name)
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, wide.astype(np.float16))
    assert sr.einsum("ij->ji", arrays[0]).dtype == np.float16


def test_integers_keep_no_path_and_never_wrap():
    none = np.iinfo(np.int16).max
    A = np.array([[0, none], [none, none]], np.int16)
    found = sr.einsum("ij,jk,kl->il", A, A, A)
    np.testing.assert_array_equal(found, A)
    assert found.dtype == np.int16
    with pytest.raises(sr.IntegerOverflowError):
        sr.einsum("i,i,i->i", *[np.array([20_000], np.int16)] * 3)
    with pytest.raises(sr.IntegerOverflowError):
        sr.einsum("ij,jk->ik", *[np.array([[2**40]])] * 2, semiring="plus_times")


def test_a_number_that_wraps_raises_no_warning():
    """NumPy warns of the arithmetic of numbers, not of arrays, and the scan of a number is arithmetic."""
    lowest = np.iinfo(np.int16).min
    assert sr.multiply(np.int16(lowest), np.int16(3), "max_plus") == lowest
    assert sr.einsum(",->", np.int16(lowest), np.int16(3), semiring="max_plus") == lowest


def test_dtypes_are_promoted_and_lists_taken():
    found = sr.einsum("ij,j->i", np.array([[1, 2]], np.int32), [0.5, 4])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.5])
    np.testing.assert_array_equal(sr.einsum("ij,jk->ik", [[1, 0]], [[1], [0]], semiring="boolean"), [[True]])


def test_sparse_matrices_and_labels_are_refused():
    pandas = pytest.importorskip("pandas")
    S = sparse.coo_array(([2.0, 3.0], ([0, 1], [1, 0])), shape=(2, 2))
    with pytest.raises(sr.DTypeError, match=r"operand 0 is a sparse matrix, .* use matmul"):
        sr.einsum("ij,jk->ik", S, S)
    frame = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]])
    for labelled in (frame, frame[0]):
        with pytest.raises(sr.DTypeError, match=r"operand 1 is a .*: pass its to_numpy\(\)"):
            sr.einsum("ij,...->", np.ones((2, 2)), labelled)
    with pytest.raises(sr.DTypeError, match=r"operand 0 is a BitMatrix: .* unpack\(\)"):
        sr.einsum("ij->ji", sr.pack(np.eye(2, dtype=bool)), semiring="boolean")


def test_entries_outside_the_domain_are_named():
    A, B = np.ones((2, 3)), np.ones((3, 4))
    B[2, 1] = np.nan
    for subscripts in ("ij,jk->ik", "ij,jk->ki", "ij,jk->"):
        with pytest.raises(sr.DomainError, match=r"operand 1\[2, 1\]"):
            sr.einsum(subscripts, A, B)
    with pytest.raises(sr.DomainError, match=r"operand 0\[2, 1\]"):
        sr.einsum("ij->ji", B)
    with pytest.raises(sr.DomainError, match=r"operand 2\[2, 1\]"):
        sr.einsum("i,j,ji->ij", np.ones(4), np.ones(3), B)
    sr.einsum("ij,jk->ik", A, B, check=False)
    np.testing.assert_array_equal(sr.einsum("ii->i", [[1, np.nan], [np.nan, 2]]), [1, 2])  # others take no part


def test_results_of_steps_are_not_scanned():
    """An intermediate result that overflows is ∞, as the result of one product is, and is not scanned as an operand."""
    A = np.array([[1e200]])
    given = {"semiring": "plus_times", "optimize": [(0, 1), (0, 1)]}
    np.testing.assert_array_equal(sr.einsum("ij,jk,kl->il", A, A, np.ones((1, 1)), **given), [[INF]])
    np.testing.assert_array_equal(sr.einsum("ij,jk->ik", A, A, semiring="plus_times"), sr.matmul(A, A, "plus_times"))


def test_results_do_not_depend_on_threads(rng):
    arrays = [rng.standard_normal(shape) for shape in ((60, 70), (70, 50), (50, 40))]
    one, two = (sr.einsum("ij,jk,kl->il", *arrays, semiring="plus_times", threads=count) for count in (1, 2))
    np.testing.assert_array_equal(one, two)


# ------------------------------------------------------------------------------------------------- orders


def test_operands_of_a_product_that_does_not_commute_keep_their_order(rng):
    arrays = [rng.integers(0, 16, (3, 3)).astype(np.uint8) for _ in range(4)]
    subscripts = "ab,cd,bc,da->bd"
    expected = expressions.value("relations", subscripts, arrays)
    np.testing.assert_array_equal(sr.einsum(subscripts, *arrays, semiring=relations), expected)
    for path in ([(0, 1), (0, 1), (0, 1)], [(2, 3), (1, 2), (0, 1)], [(1, 2), (0, 2), (0, 1)], [(0, 1, 2, 3)]):
        found = sr.einsum(subscripts, *arrays, semiring=relations, optimize=path)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(sr.AlgebraError, match="contracts operands 0 and 2, and operand 1 stands between"):
        sr.einsum(subscripts, *arrays, semiring=relations, optimize=[(0, 2), (0, 1), (0, 1)])
    assert sr.einsum(subscripts, *arrays, semiring="max_min", optimize=[(0, 2), (0, 1), (0, 1)]).shape == (3, 3)


def test_neighbours_are_bracketed_at_the_least_cost():
    sizes = [10, 100, 5, 50, 1, 20]
    labels = "abcdef"
    arrays = [np.zeros(pair, np.uint8) for pair in pairwise(sizes)]
    subscripts = ",".join(a + b for a, b in pairwise(labels)) + "->af"
    plan = sr.einsum_path(subscripts, *arrays, semiring=relations)

    def least_cost(first, last):
        if first == last:
            return 0
        return min(
            least_cost(first, cut) + least_cost(cut + 1, last) + sizes[first] * sizes[cut + 1] * sizes[last + 1]
            for cut in range(first, last)
        )

    assert plan.pairs == least_cost(0, 4)


@pytest.mark.parametrize(
    ("optimize", "text"),
    [
        ([(0, 1)], "leaves 2 terms"),
        ([(0, 3), (0, 1)], "places from 0 to 2"),
        ([(0, 0), (0, 1)], "each once"),
        (True, "optimize is True"),
        ([], "a path"),
        ("best of all", "no strategy of this name"),
    ],
)
def test_paths_are_validated(optimize, text):
    with pytest.raises(ValueError, match=text):
        sr.einsum("ij,jk,kl->il", *[np.ones((2, 2))] * 3, optimize=optimize)


def test_paths_of_numpy_and_of_plans_are_taken(rng):
    arrays = [rng.integers(0, 9, shape).astype(float) for shape in ((3, 4), (4, 5), (5, 2))]
    expected = sr.einsum("ij,jk,kl->il", *arrays)
    for optimize in (
        np.einsum_path("ij,jk,kl->il", *arrays)[0],
        sr.einsum_path("ij,jk,kl->il", *arrays),
        sr.einsum_path("ij,jk,kl->il", *arrays, optimize="optimal").path,
        "greedy",
    ):
        np.testing.assert_array_equal(sr.einsum("ij,jk,kl->il", *arrays, optimize=optimize), expected)


def test_three_operands_need_opt_einsum_and_two_do_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "opt_einsum", None)
    A = np.ones((7, 7))
    with pytest.raises(sr.MissingExtraError, match=r"pip install '.\[einsum\]'"):
        sr.einsum("pq,qr,rs->ps", A, A, A)
    assert sr.einsum("pq,qr->pr", A, A).shape == (7, 7)
    assert sr.einsum("pq,qr,rs->ps", A, A, A, optimize=[(0, 1), (0, 1)]).shape == (7, 7)
    B = A.astype(np.uint8)
    assert sr.einsum("pq,qr,rs->ps", B, B, B, semiring=relations).shape == (7, 7)


# ------------------------------------------------------------------------------------------------- plans and memory


def test_a_plan_is_a_table():
    plan = sr.einsum_path("ij,jk,k->i", np.ones((100, 1000)), np.ones((1000, 1000)), np.ones(1000))
    assert [step.subscripts for step in plan.steps] == ["jk,k->j", "ij,j->i"]
    assert [step.shape for step in plan.steps] == [(1, 1000, 1000, 1), (1, 100, 1000, 1)]
    assert (plan.pairs, plan.memory, plan.slices) == (1_100_000, 8800, {})
    lines = str(plan).splitlines()
    assert lines[0] == "ij,jk,k->i"
    assert lines[-1] == "1,100,000 pairs, 9 KiB of memory"
    shown = str(sr.einsum_path("...i,...j->...", np.ones((2, 3)), np.ones((2, 4))))
    assert shown.splitlines()[0] == "[0]i,[0]j->[0]"


def test_the_pairs_of_a_plan_are_those_that_a_profile_counts(rng):
    arrays = [rng.random(shape) for shape in ((4, 20, 30), (4, 30, 25), (25, 10))]
    plan = sr.einsum_path("bij,bjk,kl->bil", *arrays)
    with sr.profile() as ran:
        sr.einsum("bij,bjk,kl->bil", *arrays)
    call = ran.children[0]
    assert (call.kind, call.name, call.details["semiring"]) == ("call", "einsum", "")
    products = [span for span in ran.walk() if span.kind == "product"]
    assert len(products) == len(plan.steps) == 2
    assert ran.pairs == plan.pairs
    with sr.profile() as ran:
        sr.einsum("bij,bjk,kl->bil", *arrays, semiring="max_plus")
    assert ran.children[0].details["semiring"] == "max_plus"


def peak(subscripts, arrays, **options):
    """Return the bytes that a call holds at its peak beside the operands."""
    for _ in range(2):
        sr.einsum(subscripts, *arrays, threads=1, **options)
    gc.collect()
    tracemalloc.start()
    try:
        result = sr.einsum(subscripts, *arrays, threads=1, **options)
        del result
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        result = sr.einsum(subscripts, *arrays, threads=1, **options)
        assert result is not None
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


CONTRACTIONS = [
    ("ij,jk->ik", [(300, 300)] * 2),
    ("ij,jk,kl->li", [(300, 300)] * 3),
    ("abc,cde,ea->bd", [(60, 50, 40), (40, 30, 60), (60, 60)]),
    ("abc,bcd->ad", [(60, 50, 40), (50, 40, 60)]),
    ("abc,cbd->ad", [(60, 50, 40), (40, 50, 60)]),
    ("bij,i->bj", [(50, 40, 80), (40,)]),
    ("ai,bi,ci->abc", [(90, 90)] * 3),
    ("ijk->j", [(70, 80, 90)]),
    ("ij,ij->ji", [(700, 700)] * 2),
    ("i,j,k->ijk", [(90,)] * 3),
    ("bij,bjk,bkl->bil", [(20, 90, 90)] * 3),
    ("iij,jk->ik", [(200, 200, 20), (20, 500)]),
]


@pytest.mark.full
@pytest.mark.parametrize("name", ["min_plus", "plus_times", "log_plus"])
@pytest.mark.parametrize(("subscripts", "shapes"), CONTRACTIONS)
def test_a_call_takes_the_memory_of_its_plan(name, subscripts, shapes, rng):
    arrays = [rng.random(shape) for shape in shapes]
    plan = sr.einsum_path(subscripts, *arrays, semiring=name)
    taken = peak(subscripts, arrays, semiring=name)
    slack = 1 << 17  # buffers of NumPy
    assert taken <= 1.02 * plan.memory + slack
    if name != "log_plus":  # where it is a bound
        assert plan.memory <= 1.02 * taken


@pytest.mark.full
def test_operands_in_other_orders_and_halves_take_the_memory_of_their_plan(rng):
    A, B = rng.random((300, 400)), rng.random((400, 300))
    arrays = [A.T.copy().T, B.T.copy().T]  # Fortran order: no copy
    assert sr.einsum_path("ij,jk->ik", *arrays).memory == 300 * 300 * 8
    assert peak("ij,jk->ik", arrays) <= 300 * 300 * 8 + (1 << 17)
    halves = [A.astype(np.float16), B.astype(np.float16)]
    plan = sr.einsum_path("ij,jk->ik", *halves)
    assert plan.memory == (A.size + B.size) * 4 + 300 * 300 * 4
    assert abs(peak("ij,jk->ik", halves) - plan.memory) <= 0.02 * plan.memory + (1 << 17)


@pytest.mark.full
def test_a_limit_of_memory_holds(rng):
    arrays = [rng.random((80, 80))] * 3 + [rng.random((80, 80, 80))]
    subscripts = "ab,ac,ad,bcd->a"
    whole = sr.einsum_path(subscripts, *arrays, semiring="plus_times")
    expected = sr.einsum(subscripts, *arrays, semiring="plus_times")
    for limit in ("2 MiB", 1_000_000, "400 KiB"):
        options = {"semiring": "plus_times", "memory": limit}
        plan = sr.einsum_path(subscripts, *arrays, **options)
        assert plan.slices
        assert plan.memory < whole.memory
        assert peak(subscripts, arrays, **options) <= 1.02 * plan.memory + (1 << 17)
        np.testing.assert_allclose(sr.einsum(subscripts, *arrays, **options), expected, rtol=1e-12)
    assert "in " in str(plan)
    assert "parts" in str(plan)


def test_a_limit_that_nothing_holds_is_refused():
    A = np.ones((50, 50))
    with pytest.raises(sr.TooLargeError, match=r"memory is 100 bytes, and the contraction takes .* for the result"):
        sr.einsum("ij,jk->ik", A, A, memory=100)
    with pytest.raises(sr.StorageError, match="memory is 'lots'"):
        sr.einsum("ij,jk->ik", A, A, memory="lots")


def test_more_than_the_machine_has_is_refused_before_work_begins():
    A = np.broadcast_to(np.float64(1), (1 << 15, 1 << 15))  # one number: the operands take no memory
    with pytest.raises(sr.TooLargeError, match="memory="):
        sr.einsum("ab,cd->abcd", A, A)
    assert sr.einsum_path("ab,cd->abcd", A, A).memory == 8 << 60


# ------------------------------------------------------------------------------------------------- witnesses


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.full)])
def test_a_witness_attains_every_entry(count):
    rng = np.random.default_rng(count)
    kinds = [("min_plus", "float64"), ("max_plus", "int32"), ("max_min", "float64"), ("boolean", "bool")]
    for place in range(count):
        name, dtype = kinds[place % len(kinds)]
        one = expressions.expression(rng)
        arrays = [expressions.laid_out(rng, expressions.entries(rng, name, dtype, shape)) for shape in one.shapes]
        C, where = sr.einsum(one.subscripts, *arrays, semiring=name, return_witness=True)
        assert_same(C, expressions.value(name, one.subscripts, arrays), name, str(one))
        terms, output = expressions.read(one.subscripts, arrays)
        letters = {label for term in terms for label in term} - set(output)
        assert set(where) == letters, one
        semiring, zero = expressions.oracle_of(name), oracles.zero(name, dtype)
        for index in np.ndindex(np.shape(C)):
            chosen = {label: int(np.asarray(where[label])[index]) for label in where}
            if np.asarray(C)[index] == zero:
                assert set(chosen.values()) <= {-1}, one
                continue
            places = chosen | dict(zip(output, index, strict=True))
            total = None
            for term, array in zip(terms, arrays, strict=True):
                entry = array[tuple(0 if n == 1 else places[one] for one, n in zip(term, array.shape, strict=True))]
                total = entry if total is None else array.dtype.type(semiring.mul(total, entry))
            assert total == np.asarray(C)[index], one


def test_a_witness_along_a_chain_is_the_path_of_viterbi(rng):
    start, change = rng.standard_normal(4), rng.standard_normal((4, 4))
    score, where = sr.einsum("a,ab,bc,cd->d", start, change, change, change, semiring="max_plus", return_witness=True)
    expected, states = sr.multi_dot(change, start, "max_plus", steps=3, return_witness=True)
    np.testing.assert_allclose(score, expected, rtol=1e-12)
    np.testing.assert_array_equal([where["a"], where["b"], where["c"]], states)
    assert all(places.dtype == np.int32 for places in where.values())


def test_a_witness_needs_a_selective_sum():
    with pytest.raises(sr.AlgebraError, match="plus_times has no witnesses"):
        sr.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)), semiring="plus_times", return_witness=True)


# ------------------------------------------------------------------------------------------------- networks


def regular(vertices, seed):
    """Return the edges of a random graph in which each vertex has three neighbours."""
    rng = np.random.default_rng(seed)
    while True:
        ends = np.sort(rng.permutation(np.repeat(np.arange(vertices), 3)).reshape(-1, 2), axis=1)
        edges = {tuple(map(int, pair)) for pair in ends}
        if len(edges) == len(ends) and all(i != j for i, j in edges):
            return sorted(edges)


def network(edges, vertices, one, both_members, weights):
    arrays = [np.array([[one, one], [one, both_members]])] * len(edges) + [
        np.array([one, weight]) for weight in weights
    ]
    labels = [*map(list, edges), *([vertex] for vertex in range(vertices))]
    return [part for pair in zip(arrays, labels, strict=True) for part in pair]


def independent_sets(edges, vertices):
    """Yield every independent set, by choosing vertices in turn."""
    neighbours = [0] * vertices
    for i, j in edges:
        neighbours[i] |= 1 << j
        neighbours[j] |= 1 << i
    stack = [(0, 0, 0)]
    while stack:
        vertex, chosen, banned = stack.pop()
        if vertex == vertices:
            yield chosen
            continue
        stack.append((vertex + 1, chosen, banned))
        if not banned >> vertex & 1:
            stack.append((vertex + 1, chosen | 1 << vertex, banned | neighbours[vertex]))


@pytest.mark.parametrize(("vertices", "seed"), [(10, 0), (12, 1), pytest.param(30, 2, marks=pytest.mark.full)])
def test_independent_sets_of_regular_graphs(vertices, seed):
    edges = regular(vertices, seed)
    weights = np.random.default_rng(seed).integers(1, 6, vertices)
    best = count = largest = 0
    for chosen in independent_sets(edges, vertices):
        count += 1
        largest = max(largest, chosen.bit_count())
        best = max(best, sum(int(weights[vertex]) for vertex in range(vertices) if chosen >> vertex & 1))
    sizes = network(edges, vertices, 0.0, -INF, [1.0] * vertices)
    assert sr.einsum(*sizes, [], semiring="max_plus") == largest
    weighted = network(edges, vertices, 0.0, -INF, weights.astype(float))
    score, where = sr.einsum(*weighted, [], semiring="max_plus", return_witness=True)
    assert score == best
    assert set(where) == set(range(vertices))
    assert not any(where[i] and where[j] for i, j in edges)
    assert weights @ [where[vertex] for vertex in range(vertices)] == best
    counts = network(edges, vertices, 1, 0, [1] * vertices)
    assert sr.einsum(*counts, [], semiring="plus_times") == count


def test_colourings_of_a_complete_graph_are_counted():
    """The label of each vertex stands in three operands, which is a hyperedge."""
    pairs = list(combinations(range(4), 2))
    apart = 1 - np.eye(5, dtype=np.int64)
    given = [part for pair in pairs for part in (apart, list(pair))]
    assert sr.einsum(*given, [], semiring="plus_times") == 5 * 4 * 3 * 2
