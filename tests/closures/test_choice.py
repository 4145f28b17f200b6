"""Test the choice of an algorithm: what encodings state, that choosing writes nothing, and that equal calls are equal.

Brute force verifies what encodings state of the entries. Calls of every kind must have one choice and bitwise identical
results, however they are made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from threading import Barrier

import ml_dtypes
import numpy as np
import oracles
import pytest
import scipy.sparse
from matrices import DTYPES, matrix
from strict_arrays import install_stand_in, on_device
from tiers import full

import semiring as sr
import semiring.closures.choose as choosing
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import Scan
from semiring.closures import closure, closure_with_predecessors
from semiring.closures.choose import Choice, choose, encode
from semiring.closures.problem import STRUCTURES, Facts, Options, Problem, _changed
from semiring.errors import (
    DivergenceError,
    DomainError,
    IntegerOverflowError,
    NegativeCycleError,
    SuspiciousWeightsWarning,
)
from semiring.kernels import get_backend
from semiring.kernels.machines import tables

INF = float("inf")
PACKAGE = str(Path(sr.__file__).parent)
ERRORS = (DivergenceError, DomainError, IntegerOverflowError)


def problem_of(A, name, *, method="auto", check=True, structure=frozenset(), **fields):
    """Return the problem of a closure."""
    facts = Facts(A, Options(sr.as_semiring(name), method, check=check, structure=structure))
    return Problem(facts, stack=A.shape[:-2], **fields)


@pytest.fixture
def choices(monkeypatch):
    """Return a list of the choices that run, in the order in which they begin."""
    ran, run = [], Choice.run
    monkeypatch.setattr(Choice, "run", lambda self, *given: (ran.append(self), run(self, *given))[1])
    return ran


# ------------------------------------------------------------------------------------------------- kinds of problems


def shuffle(rng, A):
    order = rng.permutation(A.shape[-1])
    return A[..., order, :][..., order]


def shift_by_potentials(rng, A, name):
    """Return weights of both signs, whose cycles weigh as before."""
    zero, h = oracles.zero(name, A.dtype), rng.integers(0, 12, A.shape[-1])
    return np.where(zero == A, A, np.where(zero == A, 0, A) + (h[:, None] - h).astype(A.dtype))


def acyclic(rng, n, name, dtype):
    """Return a graph without cycles, of weights of both signs."""
    A = np.full((n, n), oracles.zero(name, np.dtype(dtype)), dtype)
    above = np.triu(rng.random((n, n)) < 0.4, 1)
    A[above] = rng.integers(-9, 10, int(above.sum()))
    return A


#: Of every kind of number, one dtype for which the quick tier compiles loops, and log_plus in the one it is for.
COMMON = {name: [dtype for dtype in dtypes if dtype in ("float64", "int32")] for name, dtypes in DTYPES.items()}
COMMON.update(boolean=["bool"], log_plus=["float32"])

#: The same, and lengths of every dtype.
SIGNED_TOO = COMMON | {name: DTYPES[name] for name in ("min_plus", "max_plus")}

every_dtype = pytest.mark.parametrize(
    "cases", [COMMON, pytest.param(DTYPES, marks=pytest.mark.full)], ids=["common dtypes", "every dtype"]
)


def problems(rng, n=9, cases=DTYPES):
    """Yield (semiring, matrix) of every kind: dtypes, signs, -0.0, infinities, stacks, matrices without closure."""
    for name, dtypes in cases.items():
        for dtype in dtypes:
            if name in ("plus_times", "log_plus"):
                yield name, (rng.random((n, n)) / n - (2 * n if name == "log_plus" else 0)).astype(dtype)
                continue
            A = matrix(rng, n, name, dtype, 0.4)
            yield name, A
            yield name, np.stack([A, A.T])
            if np.dtype(dtype).kind == "f" and name not in ("max_times", "min_times", "lukasiewicz"):
                yield name, np.where(A == 0, np.asarray(-0.0, dtype), A)
    for name, dtype in product(("min_plus", "max_plus"), cases["min_plus"]):
        sign, zero, kind = (1 if name == "min_plus" else -1), oracles.zero(name, np.dtype(dtype)), np.dtype(dtype).kind
        A = shift_by_potentials(rng, matrix(rng, n, name, dtype, 0.5), name)
        blocks = np.full((2 * n, 2 * n), zero, dtype)
        blocks[:n, :n], blocks[n:, n:], blocks[0, n:] = A, shift_by_potentials(rng, A, name), 5
        yield name, A
        yield name, np.stack([A, A.T, matrix(rng, n, name, dtype)])
        yield name, shuffle(rng, blocks)
        yield name, shuffle(rng, acyclic(rng, n, name, dtype))
        yield name, np.full((n, n), zero, dtype)
        yield name, np.full((n, n), sign, dtype)
        yield name, np.full((n, n), -sign, dtype)
        if kind == "i":
            yield name, np.where(zero == A, A, A * (np.iinfo(dtype).max // 40)).astype(dtype)
            yield name, np.where(rng.random((n, n)) < 0.1, -np.iinfo(dtype).max if sign > 0 else 7, A).astype(dtype)
        else:
            yield name, (A * 10.0 ** rng.integers(-3, 18, (n, n))).astype(dtype)
            with_gains = acyclic(rng, n, name, dtype)
            with_gains[0, n // 2] = with_gains[n // 3, n - 1] = -zero
            yield name, with_gains
            yield name, shuffle(rng, with_gains)
            yield name, np.where(rng.random((n, n)) < 0.05, np.nan, A)
            yield name, np.where(rng.random((n, n)) < 0.05, -zero, A)
    for name in ("max_times", "min_times"):
        rates = np.exp(rng.normal(size=n))
        yield name, rates[:, None] / rates
        yield name, np.exp(rng.normal(size=(n, n)))
    if cases is DTYPES:
        yield "max_plus", matrix(rng, n, "max_plus", "float32").astype(ml_dtypes.bfloat16)
    yield "boolean", pack(matrix(rng, n, "boolean", "bool"))


def bits_of(A):
    """Return the bits of a matrix."""
    return A.words.tobytes() if isinstance(A, BitMatrix) else A.tobytes()


def poisoned_copy(A):
    """Return memory for the result, full of a value that no closure writes."""
    out = A.copy()
    (out.words if isinstance(A, BitMatrix) else out).view(np.uint8)[...] = 0x5A
    return out


# --------------------------------------------------------------------------------- what encodings state of the entries


def check_statements(p) -> bool:
    """Check what an encoded problem states of its entries, as they are read. Return whether it states anything."""
    m = p.bound_matrix
    if m.storage != "elements" or p.facts.storage != "elements":
        return False
    with np.errstate(over="ignore"):
        at = (*[slice(None)] * (len(p.facts.shape) - 1),)
        rows = to_host_array(m.read(p.facts.A[at], at))
    assert rows.dtype == m.dtype == p.dtype
    if m.is_unchanged:
        assert (rows == to_host_array(p.facts.A)).all()
    numbers = rows[rows != m.inner]
    if p.kernel_plan.facts.nonnegative:
        assert not np.signbit(rows).any()
    if p.signs in ("clear", "zero", "shifted"):
        assert not (numbers < 0).any()
    if p.semiring is sr.min_plus and p.dtype.kind == "f" and p.signs == "below":
        assert (numbers < 0).any()
    return p.signs != "below"


@pytest.fixture
def checked(monkeypatch) -> Iterator[list[str]]:
    """Yield the signs that encoded problems have stated, each of which is checked, also those of parts."""
    stated: list[str] = []

    def check(p, answers):
        q = encode(p, answers)
        with suppress(*ERRORS):
            is_divided = q.is_shifted and (not q.facts.is_strongly_connected or q.facts.needs_exact_potentials)
            if not is_divided and check_statements(q):
                stated.append(q.signs)
        return q

    monkeypatch.setattr("semiring.closures.choose.encode", check)
    return stated


@pytest.mark.full
@pytest.mark.parametrize(
    ("plus", "cases"), full(lambda _, cases: cases is not DTYPES, product([False, True], [SIGNED_TOO, DTYPES]))
)
def test_what_encodings_state_is_true(rng, checked, plus, cases):
    for n in (4, 9):
        for name, A in problems(rng, n, cases):
            with suppress(*ERRORS):
                closure(A, name, reflexive=not plus, method="dense", out=poisoned_copy(A))
    assert len(checked) > 100
    assert {"clear", "shifted"} <= set(checked)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning")
def test_what_encodings_state_on_a_device(rng, monkeypatch, checked):
    """On a device whole numbers are closed in narrower integers, and floats as integers in their order."""
    with narrowing_device(monkeypatch):
        for dtype in ("float32", "float64", "int32", "int64"):
            A = matrix(rng, 20, "min_plus", dtype, 0.5)
            A[3, 4] = 9000  # beyond the bound of what a distance may be, and within the range of int16
            closure(on_device(A), out=on_device(A.copy()))
            closure(on_device(-A), "max_min", out=on_device(A.copy()))
        for name, A in problems(rng):
            if isinstance(A, BitMatrix) or A.dtype == ml_dtypes.bfloat16:
                continue
            given, out = on_device(A.copy()), on_device(poisoned_copy(A))
            poison = bits_of(out.inner)
            with suppress(*ERRORS):
                choose(problem_of(given, name))
                assert bits_of(out.inner) == poison
                closure(given, name, out=out)
            assert bits_of(given.inner) == bits_of(A)
    assert len(checked) > 100


@contextmanager
def narrowing_device(monkeypatch):
    """Install a stand-in for a device on which narrower integers are faster from the first vertex on."""
    with install_stand_in(monkeypatch), monkeypatch.context() as patch:
        for speed, dtypes in (("_CLOSURES", ["int16"]), ("_OF_8_BYTES", ["int16", "int32"])):
            always = tuple((name, 0) for name in dtypes)
            patch.setattr(tables, speed, replace(getattr(tables, speed), narrow=always))
        yield


@pytest.mark.parametrize(("name", "gain"), [("max_times", np.greater), ("min_times", np.less)])
def test_products_under_factors_gain_nowhere(rng, name, gain):
    rates = np.exp(rng.normal(size=200))
    A = rates[:, None] / rates * (0.9 if name == "max_times" else 1.1)
    m = choose(problem_of(A, name, plus=True)).problem.bound_matrix
    assert gain(A, 1).any()
    assert not gain(m.read(A, (slice(None),)), 1).any()


# ---------------------------------------------------------------------------------------- all scans before any write


@pytest.mark.full
@every_dtype
@pytest.mark.parametrize("plus", [False, True])
def test_choosing_writes_nothing(rng, plus, cases):
    refused = 0
    for name, A in problems(rng, cases=cases):
        given = bits_of(A)
        try:
            choose(problem_of(A, name, plus=plus))
        except ERRORS:
            refused += 1
        assert bits_of(A) == given
    assert refused > (15 if cases is DTYPES else 4)


def stacks_with_one_in_error(cases):
    """Yield (semiring, stack, error): stacks whose last matrix has no closure, as a scan of it shows."""
    cycle = np.array([[INF, 3, 8], [INF, INF, 2], [1, INF, INF]])
    for value, error in ((np.nan, DomainError), (-9.0, NegativeCycleError), (-INF, DomainError)):
        wrong = cycle.copy()
        wrong[2, 0] = value
        for dtype in (np.float64, np.float32, ml_dtypes.bfloat16)[: None if cases is DTYPES else 1]:
            yield "min_plus", np.stack([cycle, cycle, wrong]).astype(dtype), error
            yield "max_plus", -np.stack([cycle, cycle, wrong]).astype(dtype), error
    none = np.iinfo(np.int64).max
    whole = np.where(cycle == INF, none, np.where(cycle == INF, 0, cycle).astype(np.int64))
    for value, error in ((-9, NegativeCycleError), (1 << 62, IntegerOverflowError)):
        wrong = whole.copy()
        wrong[2, 0] = value
        yield "min_plus", np.stack([whole, wrong]), error
    rates = np.array([[1, 0.5], [0.5, 1]])
    for value, error in ((4.0, DivergenceError), (-1.0, DomainError)):
        wrong = rates.copy()
        wrong[0, 1] = value
        yield "max_times", np.stack([rates, wrong]), error
    far = np.where(np.eye(3) > 0, 0, [[0, -1.7e308, 0], [0, 0, -1.7e308], [1.7e308, 1.7e308, 0]])
    yield "min_plus", np.stack([cycle, far]), DomainError


@pytest.mark.full
@pytest.mark.parametrize(
    "cases", full(lambda cases: cases is COMMON, [COMMON, DTYPES]), ids=["common dtypes", "every dtype"]
)
@pytest.mark.parametrize("method", ["auto", "rkleene", "squaring"])
@pytest.mark.parametrize("reflexive", [True, False])
def test_an_error_of_a_scan_leaves_out_as_it_is(method, reflexive, cases):
    for name, stack, error in stacks_with_one_in_error(cases):
        for out in (poisoned_copy(stack), stack.copy()):
            before = bits_of(out)
            given = stack if before != bits_of(stack) else out
            with pytest.raises(error):
                closure(given, name, out=out, method=method, reflexive=reflexive)
            assert bits_of(out) == before
            with pytest.raises(error):
                closure(given[-1], name, out=out[-1], method=method, reflexive=reflexive)
            assert bits_of(out) == before


# ------------------------------------------------------------------------------------------------------- equal calls


def outcome(work):
    """Return the bits of a result, or the error."""
    try:
        return bits_of(work())
    except ERRORS as error:
        return type(error), str(error)


def same_however_called(A, name, choices, **options):
    """Hold first, repeated, explained and profiled calls to one result and one choice; return whether they chose."""
    given, runs = bits_of(A), []

    def run(call):
        choices.clear()
        found = outcome(call)
        assert bits_of(A) == given
        runs.append([(each.algorithm.name, each.method_name, each.problem.matrix.dtype) for each in choices])
        return found

    def close_with_profile():
        with sr.profile():
            return closure(A, name, **options)

    expected = run(lambda: closure(A, name, **options))
    assert run(lambda: closure(A, name, **options)) == expected
    assert run(lambda: closure(A, name, explain=True, **options)[0]) == expected
    assert run(close_with_profile) == expected
    first, again, explained, profiled = runs
    assert first == again
    assert explained == profiled
    assert first in (explained, [])  # the smallest plain arrays go straight to the kernel
    if isinstance(expected, bytes) and not first and explained:
        assert [name for name, *_ in explained] == ["dense"]
    return bool(explained)


@pytest.mark.full
@pytest.mark.parametrize(
    ("n", "cases"),
    full(
        lambda n, cases: (n == 4) if cases is DTYPES else n in (1, 33),
        [(n, cases) for cases in (COMMON, DTYPES) for n in (1, 4, 33, 150)],
    ),
    ids=[f"{n}-{dtypes}" for dtypes in ("common dtypes", "every dtype") for n in (1, 4, 33, 150)],
)
def test_equal_calls_have_one_choice_and_equal_bits(rng, choices, n, cases):
    """What `explain` and `profile` show is the run that happens without them."""
    ran = set()
    for name, A in problems(rng, n, cases):
        for check, plus in ((True, False), (False, False), (True, True)):
            if not check and np.asarray(A).dtype.kind == "f" and not (A == A).all():
                continue  # unchecked NaN gives any result
            if same_however_called(A, name, choices, check=check, reflexive=not plus):
                ran.add((name, A.dtype.name, plus))
    every = {(name, dtype) for name, dtypes in cases.items() for dtype in dtypes}
    assert ran >= {(*kind, plus) for kind in every for plus in (False, True)}


def kinds_of_call(rng):
    """Yield (name, A, options): calls of every kind, except for plain arrays."""
    n = 9
    W = matrix(rng, n, "min_plus", "float64")
    h = rng.integers(0, 500, n)
    signed = rng.integers(1, 99, (n, n)) + h[:, None] - h.astype(float)
    truths = rng.random((n, n)) < 0.3
    stack = np.stack([W, W.T.copy()] * 3)
    yield "list", W.tolist(), {}
    yield "another order of bytes", W.astype(W.dtype.newbyteorder()), {}
    yield "columns in out", W, {"out": np.empty_like(W, order="F")}
    yield "columns in place", np.asfortranarray(W), {"out": ...}
    yield "sparse", scipy.sparse.csr_array(np.where(W < INF, W, 0)), {}
    yield "words", pack(truths), {"semiring": "boolean"}
    yield "words in place", pack(truths), {"semiring": "boolean", "out": ...}
    yield "two axes of matrices", stack.reshape(2, 3, n, n), {}
    yield "two axes of truths", np.stack([truths] * 6).reshape(2, 3, n, n), {"semiring": "boolean"}
    yield "a stack by a method", stack, {"method": "rkleene"}
    yield "a stack of sums", rng.random((6, n, n)) / n, {"semiring": "plus_times"}
    yield "both signs by a method", signed, {"method": "squaring"}
    yield "both signs by columns", signed, {"out": np.empty_like(signed, order="F")}
    yield "a stack of both signs by a method", np.stack([signed, W]), {"method": "rkleene"}


@pytest.mark.full
@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("progress", [None, lambda done, total: None])
def test_calls_of_every_form_are_equal_when_repeated_and_explained(rng, plus, progress):
    for kind, A, options in kinds_of_call(rng):
        options = {"reflexive": not plus, "progress": progress} | options

        def close(A=A, options=options, **changes):
            if "out" in options:
                A = A.copy(order="K") if isinstance(A, np.ndarray) else A
                A = A.copy() if isinstance(A, BitMatrix) else A
                options = options | {"out": A if options["out"] is ... else poisoned_copy(options["out"])}
            found = closure(A, **options, **changes)
            return found[0] if changes else found

        expected = bits_of(close())
        assert bits_of(close()) == expected, kind
        assert bits_of(close(explain=True)) == expected, kind


@pytest.mark.parametrize("threads", [None, 2])
def test_calls_of_many_threads_give_equal_bits(rng, threads):
    h = 16 * rng.integers(0, 9, 40)  # so that no weight is 0
    graphs = [rng.integers(1, 9, (40, 40)) + h[:, None] - h + 0.5 * number for number in range(4)]
    calls = [(A, "min_plus") for A in graphs] + [(-A, "max_plus") for A in graphs]
    calls += [(abs(A), "min_plus") for A in graphs]
    calls += [(A.astype(np.int32), "min_plus") for A in graphs]
    calls += [(np.where(A > 4, 2.0**20, INF), "min_plus") for A in graphs]
    expected = [bits_of(closure(A, name)) for A, name in calls]
    many = 8
    barrier = Barrier(many)

    def all_of_them(first):
        barrier.wait()
        order = [*range(first, len(calls)), *range(first)]
        found = {number: bits_of(closure(*calls[number], threads=threads)) for number in order}
        return [found[number] for number in range(len(calls))]

    with ThreadPoolExecutor(many) as pool:
        for found in pool.map(all_of_them, [0] * (many // 2) + list(range(many // 2))):
            assert found == expected


def test_what_looks_like_another_convention_is_told_once():
    """The warning appears also if a scan raises, and in a repeated call."""
    A = np.zeros((5, 5))
    A[0, 1], A[1, 2] = 3, np.nan
    for _ in range(2):
        with pytest.warns(SuspiciousWeightsWarning) as told, pytest.raises(DomainError):
            closure(A)
        assert len(told) == 1
        with pytest.warns(SuspiciousWeightsWarning) as told:
            closure(np.where(np.isnan(A), 0, A))
        assert len(told) == 1


@pytest.mark.parametrize("plus", [False, True])
def test_an_error_says_in_which_matrix_of_a_stack_a_pivot_has_no_star(plus):
    stack = np.full((40, 3, 3), 0.5)
    stack[30, 1, 1] = 2.0
    with pytest.raises(DivergenceError, match=r"A\[30\] of the stack") as told:
        closure(stack, "max_times", reflexive=not plus)
    assert told.value.matrix == (30,)
    with pytest.raises(DivergenceError, match=r"A\[3, 0\] of the stack"):
        closure(stack.reshape(4, 10, 3, 3), "max_times", reflexive=not plus)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 33, 160])
def test_small_matrices_of_max_plus_have_the_bits_of_min_plus(rng, n, dtype):
    """The bits are identical in the first call, in a repeated one and in an explained one."""
    h = rng.normal(size=n)
    A = (rng.random((n, n)) + h[:, None] - h).astype(dtype)
    expected = bits_of(0 - closure(A))
    for _ in range(2):
        assert bits_of(closure(-A, "max_plus")) == expected
    assert bits_of(closure(-A, "max_plus", explain=True)[0]) == expected


@pytest.mark.parametrize("options", [{}, {"reflexive": False}, {"method": "floyd_warshall"}, {"check": False}])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [3, 200])
def test_the_domain_of_a_users_min_plus_is_kept(rng, options, dtype, n):
    near = sr.Semiring("near", "min(x, y)", "x + y", INF, 0, domain=(0, INF))
    A = rng.integers(5, 9, (n, n)).astype(dtype)
    assert closure(A, near, **options).dtype == dtype
    A[0, 1] = -1  # on no negative cycle
    for explain in (False, True):
        with pytest.raises(DomainError, match=r"A\[0, 1\] is -1.* outside the domain"):
            closure(A, near, explain=explain, **options)


# ------------------------------------------------------------------------------------------------------------- devices


def test_nothing_is_read_of_integers_on_a_device_that_nobody_waits_for(monkeypatch):
    """The caller promises by ``check=False`` that no path comes near "no path"."""
    A = np.full((64, 64), ((1 << 30) - 1) // 60, np.int32)
    with install_stand_in(monkeypatch):
        p = choose(problem_of(on_device(A), "min_plus", check=False)).problem
        assert p.largest is None
        assert p.dtype == np.int32
        assert choose(problem_of(on_device(A), "min_plus")).problem.largest == A[0, 0]


@pytest.mark.full
def test_no_entry_is_read_where_nobody_may_wait(monkeypatch):
    everything = frozenset(STRUCTURES)
    with narrowing_device(monkeypatch):
        for name, dtypes in DTYPES.items():
            for dtype, shape in product(dtypes, [(9, 9), (3, 9, 9), (1600, 1600), (9000, 9000)]):
                A = on_device(np.empty(shape, dtype))
                for plus, method in product((False, True), ("auto", "rkleene", "blocked_floyd_warshall")):
                    p = problem_of(A, name, check=False, plus=plus, method=method, structure=everything)
                    found = vars(choose(p).problem.facts)
                    assert not {"structure", "components", "potentials", "factors", "weights"} & set(found)
                    assert found.get("scan", Scan()) in (Scan(), Scan(0, 0))


# --------------------------------------------------------------------------------------------------------- the stack


def test_calls_of_a_kind_keep_no_more_encodings(rng, monkeypatch):
    """The cached encodings hold nothing of a call, so later calls with other entries add none."""
    kept = []
    with narrowing_device(monkeypatch):
        for _ in range(3):
            for name in ("min_plus", "max_plus", "max_min", "min_max"):
                sign = -1 if name == "max_plus" else 1
                low = 1 if name.endswith("plus") else -9  # floats of both signs are closed as integers in their order
                closure(on_device(sign * rng.integers(low, 99, (20, 20)).astype(np.float32)), name)
            kept.append(_changed.cache_info().currsize)
    assert kept == kept[:1] * 3


@contextmanager
def profiled_until(kernels, tell):
    """Call ``tell(frame)`` at the first call of one of the functions, of which the code objects are given."""

    def at_call(frame, event, _):
        if event == "call":
            tell(frame, frame.f_code in kernels)

    former = sys.getprofile()
    sys.setprofile(at_call)
    try:
        yield
    finally:
        sys.setprofile(former)


@pytest.mark.parametrize("threads", [1, 2])
def test_few_frames_and_files_between_a_call_and_its_kernels(rng, threads):
    """The stack at the first kernel holds few frames, in every call, because nothing is kept between calls."""
    cpu = type(get_backend("cpu"))
    kernels = {getattr(cpu, name).__code__ for name in ("close_block", "multiply", "multiply_add")}
    A = rng.random((1000, 1000), np.float32)
    closure(A, threads=threads)  # compiles
    depth, files, frames = [], set(), []

    def tell(frame, is_kernel):
        if depth:
            return
        if frame.f_code.co_filename.startswith(PACKAGE):
            files.add(frame.f_code.co_filename)
            frames.append(frame.f_code.co_qualname)
        if is_kernel:
            while frame is not None:
                depth.extend([frame.f_code.co_qualname] * frame.f_code.co_filename.startswith(PACKAGE))
                frame = frame.f_back

    with profiled_until(kernels, tell):
        closure(A, threads=threads)
    assert 1 <= len(depth) <= 10, depth
    assert len(frames) <= 170
    assert len(files) <= 26, sorted(files)


# -------------------------------------------------------------------------------- what the interface must be able to do


@pytest.mark.full
def test_bfloat16_of_both_signs_in_place_with_predecessors(rng):
    """Matrices of bfloat16 are closed in float32 and rounded once. Predecessors are those before rounding."""
    A = shift_by_potentials(rng, matrix(rng, 12, "max_plus", "float32", 0.5), "max_plus").astype(ml_dtypes.bfloat16)
    assert (A > 0).any()
    assert (A < 0).any()
    wide, expected = closure_with_predecessors(A.astype(np.float32), sr.max_plus)
    D, pred = closure_with_predecessors(A, sr.max_plus)
    assert D.dtype == A.dtype
    assert bits_of(D) == bits_of(wide.astype(A.dtype))
    np.testing.assert_array_equal(pred, expected)
    assert closure(A, "max_plus", out=A) is A
    assert bits_of(A) == bits_of(D)


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_a_stack_of_which_one_matrix_overflows(rng, name):
    """Only the matrix that overflows is closed in a wider dtype, and only it is named if its distances do not fit."""
    sign = 1 if name == "min_plus" else -1
    stack = np.stack([matrix(rng, 9, name, "int32") for _ in range(3)])
    stack[1] = oracles.zero(name, np.dtype(np.int32))
    stack[1, 0, 1], stack[1, 1, 2] = sign * 800_000_000, sign * 900_000_000
    expected = np.stack([closure(A, name) for A in stack])
    assert expected[1, 0, 2] == sign * 1_700_000_000
    result, said = closure(stack, name, explain=True)
    assert bits_of(result) == bits_of(expected)
    assert said.reasons[0] == "one matrix after the other"
    assert said.reasons[-1] == "distances come near “no path” of int32: closed again in int64"
    stack[1, 2, 3] = sign * 900_000_000
    with pytest.raises(IntegerOverflowError, match=r"A\[1\]"):
        closure(stack, name)


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_stacks_of_single_vertices_in_place_with_strides(name, dtype):
    """NumPy 2.4 negates integers wrongly in place where their stride is the square of their size in bytes."""
    for step in (2, 4, 8):
        memory = np.full((3, step), 77, dtype)
        A = memory[:, :1, None]
        A[...] = 4 if name == "min_plus" else -4
        closure(A, name, out=A)
        assert (A == 0).all()
        assert (memory[:, 1:] == 77).all()


@pytest.mark.parametrize("reflexive", [True, False])
def test_truth_values_are_closed_packed(rng, reflexive):
    A = rng.random((100, 100)) < 0.02
    expected = oracles.reachable(A, reflexive=reflexive)
    result, said = closure(A, "boolean", reflexive=reflexive, explain=True)
    assert said.storage == "packed bits"
    np.testing.assert_array_equal(result, expected)
    assert closure(A, "boolean", out=A, reflexive=reflexive) is A
    np.testing.assert_array_equal(A, expected)


@pytest.mark.parametrize("reflexive", [True, False])
def test_whole_numbers_in_narrow_integers_on_a_device(rng, monkeypatch, reflexive):
    A = matrix(rng, 40, "min_plus", "float64")
    expected = closure(A, reflexive=reflexive)
    with narrowing_device(monkeypatch):
        given = on_device(A)
        result, said = closure(given, reflexive=reflexive, explain=True, out=given)
    assert result is given
    assert bits_of(result.get()) == bits_of(expected)
    assert said.answers[-1][1:3] == ("blocked_floyd_warshall", "closes 40 × 40 int16, cuda")


@pytest.mark.parametrize(("name", "sign"), [("min_plus", 1), ("max_plus", -1)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
@pytest.mark.parametrize("n", [3, 30, 300])
def test_edges_of_unbounded_gain_are_refused(rng, tmp_path, name, sign, dtype, n):
    """The error names the edge, whatever holds the matrix, and comes before the first write."""
    from scipy.sparse import csr_array

    A = np.triu(sign * rng.random((n, n)), 1).astype(dtype)
    A[A == 0] = sign * INF
    A[1, 2] = A[n - 1, 0] = -sign * INF
    calls = [partial(closure, A, name), partial(closure, A.T, name), partial(closure, A[None], name)]
    calls += [partial(closure, A, name, method=method, out=A) for method in ("rkleene", "squaring")]
    calls.append(partial(sr.shortest_paths if sign > 0 else sr.longest_paths, A))
    if dtype in ("float32", "float64"):
        calls.append(partial(closure, A, name, method="johnson"))
        edges = csr_array((A[sign * INF != A], np.nonzero(sign * INF != A)), shape=A.shape)
        calls += [partial(closure, edges, name), partial(sr.factor, edges, name), partial(sr.best_paths, edges, name)]
        calls += [partial(sr.best_paths, each, name, sources=[0]) for each in (edges, A)]
        np.save(tmp_path / "A.npy", A)
        calls.append(partial(closure, tmp_path / "A.npy", name, out=tmp_path / "A.npy", journal=tmp_path / "run"))
    kept = A.copy()
    for call in calls:
        with pytest.raises(sr.errors.DomainError, match=rf"is {-sign * INF}, an edge of unbounded gain") as caught:
            call()
        assert caught.value.position[-2:] == ((0, n - 1) if call is calls[1] else (1, 2))
        np.testing.assert_array_equal(A, kept)
    assert not (tmp_path / "run").exists()


@pytest.mark.full
def test_single_components_are_no_problems_of_their_own(rng, choices):
    """An acyclic graph of both signs, whatever its size, is closed by one choice."""
    for n in (60, 2000):
        A = shuffle(rng, acyclic(rng, n, "min_plus", "float64"))
        choices.clear()
        D = closure(A, structure=False)
        assert len(choices) == 1
        if n == 60:
            np.testing.assert_array_equal(D, oracles.exact_distances(A))


# ------------------------------------------------------------------------------------------------- what explain prints


@pytest.mark.full
def test_sparse_graphs_take_one_way_whatever_the_threads(rng):
    """Dijkstra and a dense closure add in another order, so that their bits differ."""
    from scipy.sparse import random_array

    A = random_array((2000, 2000), density=1.3 / 2000, rng=rng, format="csr")
    (one, said), (two, also) = (closure(A, threads=threads, explain=True) for threads in (1, 2))
    assert said.method == also.method
    assert said.answers == also.answers
    assert bits_of(one) == bits_of(two)


@every_dtype
def test_an_explanation_has_the_answer_of_every_candidate(rng, choices, cases):
    for name, A in problems(rng, cases=cases):
        choices.clear()
        with suppress(*ERRORS):
            _, said = closure(A, name, explain=True)
            asked = [answer for answer in said.answers if answer.depth == 0 and answer.kind == "algorithm"][:14]
            assert [answer for answer in choices[0].answers if answer.kind == "algorithm"] == asked
            assert len({id(answer) for answer in asked}) == 14
            assert all(answer.why or answer.cost is not None for answer in asked)
            assert said.method == choices[0].method_name or choices[0].algorithm.divides
            assert len(str(said).splitlines()) <= 8


@pytest.mark.parametrize(
    ("shape", "options", "reason"),
    [
        ((2, 5, 5), {"reflexive": False}, "A⁺ of each matrix needs its own A*"),
        ((2, 5, 5), {"method": "squaring"}, "another method was named"),
        ((2, 5, 5), {"progress": lambda done, total: None}, "progress is reported for each matrix"),
        ((0, 5, 5), {}, "there is nothing to close"),
        ((2, 0, 0), {"reflexive": False}, "there is nothing to close"),
    ],
)
def test_an_explanation_says_why_the_matrices_of_a_stack_go_alone(shape, options, reason):
    A = np.ones(shape)
    D, said = closure(A, explain=True, **options)
    assert "one matrix after the other" in said.reasons
    assert next(answer.why for answer in said.answers if answer.name == "stack_together") == reason
    expected = A if not options.get("reflexive", True) else np.where(np.eye(shape[-1], dtype=bool), 0, A)
    np.testing.assert_array_equal(D, expected)


def test_an_explanation_says_why_the_named_method_did_not_run(monkeypatch):
    A = scipy.sparse.csr_array(([np.inf, 1.0], ([0, 1], [1, 0])), shape=(2, 2))
    _, said = closure(A, method="johnson", explain=True)
    answers = [answer for answer in said.answers if answer.kind == "algorithm"]
    assert "no finite weight" in next(answer.why for answer in answers if answer.name == "johnson")
    assert any(answer.applies for answer in answers)
    for count, text in enumerate(("method='auto'", "method='auto' or a", "method='auto', a or b")):
        monkeypatch.setattr(choosing, "matrix_methods", lambda count=count: ("auto", *"ab"[:count]))
        monkeypatch.setattr(choosing, "check_method", lambda *_: None)
        assert (
            choosing._list_alternatives(problem_of(np.ones((2, 2)), "min_plus"), get_backend("cpu"), "elements") == text
        )


def test_a_stack_of_which_one_matrix_lacks_a_structure_is_left_alone(rng):
    A = rng.integers(1, 9, (6, 6)).astype(float)
    stack = np.stack([np.minimum(A, A.T), A])
    kept = stack.copy()
    with pytest.raises(sr.errors.AlgebraError, match="not known to be undirected"):
        closure(stack, method="undirected", out=stack)
    np.testing.assert_array_equal(stack, kept)
