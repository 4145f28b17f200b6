"""The chain of reductions: what its steps may do, and what they say, for every kind of problem.

The facts of every problem on the way are found again by brute force; the input and the result's memory are watched
while looks are taken; programs of small calls are held to the bits of the chain.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import oracles
import pytest
import scipy.sparse
from matrices import DTYPES, matrix
from strict_arrays import installed, on_device
from tiers import full

import semiring as sr
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.parts import on_host
from semiring.chain.leaf import Leaf
from semiring.chain.maps import Shifted
from semiring.chain.matrix import Matrix
from semiring.chain.planner import Node, name_of
from semiring.chain.problem import STRUCTURES, No, Options, Problem, Reduction, Request, promises
from semiring.chain.program import program_for
from semiring.chain.steps import STEPS
from semiring.closures import closure, closure_with_predecessors
from semiring.errors import (
    DivergenceError,
    DomainError,
    IntegerOverflowError,
    NegativeCycleError,
    SuspiciousWeightsWarning,
)
from semiring.kernels import get_backend
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.machines import h200

INF = float("inf")
PACKAGE = str(Path(sr.__file__).parent)
ERRORS = (DivergenceError, DomainError, IntegerOverflowError)


def planned(A, name, steps=STEPS, *, out=None, plus=False, method="auto"):
    """What a call of `closure` is planned as, before anything runs."""
    semiring = sr.as_semiring(name)
    return Node(Problem(Request(semiring, method, 1, out=out), semiring, A, plus=plus), steps)


# ------------------------------------------------------------------------------------------------- kinds of problems


def shuffled(rng, A):
    order = rng.permutation(A.shape[-1])
    return A[..., order, :][..., order]


def shifted(rng, A, name):
    """Weights of both signs, whose cycles weigh what they did."""
    zero, h = oracles.zero(name, A.dtype), rng.integers(0, 12, A.shape[-1])
    return np.where(zero == A, A, np.where(zero == A, 0, A) + (h[:, None] - h).astype(A.dtype))


def acyclic(rng, n, name, dtype):
    """A graph without cycles, of weights of both signs."""
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
    """(semiring, matrix) of every kind: dtypes, signs, -0.0, infinities, stacks, and such as have no closure."""
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
        A = shifted(rng, matrix(rng, n, name, dtype, 0.5), name)
        blocks = np.full((2 * n, 2 * n), zero, dtype)
        blocks[:n, :n], blocks[n:, n:], blocks[0, n:] = A, shifted(rng, A, name), 5
        yield name, A
        yield name, np.stack([A, A.T, matrix(rng, n, name, dtype)])
        yield name, shuffled(rng, blocks)
        yield name, shuffled(rng, acyclic(rng, n, name, dtype))
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
            yield name, shuffled(rng, with_gains)
            yield name, np.where(rng.random((n, n)) < 0.05, np.nan, A)
            yield name, np.where(rng.random((n, n)) < 0.05, -zero, A)
    for name in ("max_times", "min_times"):
        rates = np.exp(rng.normal(size=n))
        yield name, rates[:, None] / rates
        yield name, np.exp(rng.normal(size=(n, n)))
    if cases is DTYPES:
        yield "max_plus", matrix(rng, n, "max_plus", "float32").astype(ml_dtypes.bfloat16)
    yield "boolean", pack(matrix(rng, n, "boolean", "bool"))


def kept(A):
    """The bits of a matrix."""
    return A.words.tobytes() if isinstance(A, BitMatrix) else A.tobytes()


def poisoned(A):
    """Memory for the result, full of what no closure writes."""
    out = A.copy()
    (out.words if isinstance(A, BitMatrix) else out).view(np.uint8)[...] = 0x5A
    return out


# -------------------------------------------------------------------------------------------------------------- facts


def check_facts(p):
    """The facts of a problem bound its entries, as they are read through its maps."""
    m = p.matrix
    with np.errstate(over="ignore"):
        at = (*[slice(None)] * (len(m.shape) - 1),)
        rows = on_host(m.read(m.array[at], at)).astype(m.dtype)
    numbers = rows[rows != m.inner]
    facts = p.facts
    assert facts.least is None or (numbers >= facts.least).all()
    assert facts.greatest is None or (numbers <= facts.greatest).all()
    assert not facts.nonnegative or not np.signbit(rows).any()
    return facts.least is not None


def wrapped(step, tell):
    """The same step, which tells what it was asked and what it answered."""

    def look(p):
        found = step(p)
        tell(step, p, found)
        return found

    look.__name__ = name_of(step)
    return look


def checking(checked):
    """All steps; the problems are checked that they are given, and those that they make."""

    def check(_, p, found):
        made = [] if isinstance(found, No) else [found.mapped, *found.problems]
        for q in (p, *made):
            if q is not None and q.taken and q.facts is not None and q.matrix.storage == "elements":
                checked.append(check_facts(q))

    return [wrapped(step, check) for step in STEPS]


@pytest.mark.full
@pytest.mark.parametrize(
    ("plus", "cases"), full(lambda _, cases: cases is not DTYPES, product([False, True], [SIGNED_TOO, DTYPES]))
)
def test_facts_are_true_after_every_step(rng, plus, cases):
    """Of whole chains, with the problems that are made while they run."""
    checked = []
    steps = checking(checked)
    for n in (4, 9):
        for name, A in problems(rng, n, cases):
            with suppress(*ERRORS):
                planned(A, name, steps, plus=plus).solve(poisoned(A))
    assert sum(checked) > (1000 if cases is DTYPES else 400)


@pytest.mark.full
def test_facts_on_a_device(rng, monkeypatch):
    """There whole numbers are closed in narrower integers, and floats in their order as integers.

    Its looks write nothing either.
    """
    checked = []
    steps = checking(checked)
    with narrowing_device(monkeypatch):
        for dtype in ("float32", "float64", "int32", "int64"):
            A = matrix(rng, 20, "min_plus", dtype, 0.5)
            A[3, 4] = 9000  # beyond the bound of what a distance may be, and within the range of int16
            planned(on_device(A), "min_plus", steps).solve(on_device(A.copy()))
            planned(on_device(-A), "max_min", steps).solve(on_device(A.copy()))
        for name, A in problems(rng):
            if isinstance(A, BitMatrix) or A.dtype == ml_dtypes.bfloat16:
                continue
            given, out = on_device(A.copy()), on_device(poisoned(A))
            poison = kept(out.inner)
            with suppress(*ERRORS):
                node = planned(given, name, steps, out=out)
                assert kept(out.inner) == poison
                node.solve(out)
            assert kept(given.inner) == kept(A)
    assert sum(checked) > 500


@contextmanager
def narrowing_device(monkeypatch):
    """A stand-in for a device on which narrower integers are faster from the first vertex on."""
    with installed(monkeypatch), monkeypatch.context() as patch:
        for speed, dtypes in (("_CLOSURES", ["int16"]), ("_OF_8_BYTES", ["int16", "int32"])):
            always = tuple((name, 0) for name in dtypes)
            patch.setattr(h200, speed, replace(getattr(h200, speed), narrow=always))
        yield


def test_a_changed_matrix_knows_nothing_of_the_former_one():
    A = np.zeros((2, 2))
    m = Matrix(A, INF, A.dtype, INF)
    assert m.at_once
    request = Request(sr.min_plus, "auto", 1)
    q = Problem(request, sr.min_plus, matrix=m).mapped(Shifted(np.array([0.0, -1.0])), None)
    assert not q.matrix.at_once
    np.testing.assert_array_equal(q.matrix.read(q.matrix.array[1:2], (slice(1, 2),)), [[0, 0]])


# ---------------------------------------------------------------------------------------- all looks before any write


@pytest.mark.full
@every_dtype
@pytest.mark.parametrize("plus", [False, True])
def test_looks_write_nothing(rng, plus, cases):
    refused = 0
    for name, A in problems(rng, cases=cases):
        out, given = poisoned(A), kept(A)
        poison = kept(out)
        for target in (out, A):
            try:
                planned(A, name, out=target, plus=plus)
            except ERRORS:
                refused += 1
            assert kept(out) == poison
            assert kept(A) == given
    assert refused > (20 if cases is DTYPES else 8)


def stacks_with_one_in_error(cases):
    """(semiring, stack, error): matrices of a stack, of which the last has no closure, as a look at it shows."""
    cycle = np.array([[INF, 3, 8], [INF, INF, 2], [1, INF, INF]])
    for value, error in ((np.nan, DomainError), (-9.0, NegativeCycleError), (-INF, NegativeCycleError)):
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
def test_an_error_of_a_look_leaves_out_as_it_is(method, reflexive, cases):
    for name, stack, error in stacks_with_one_in_error(cases):
        for out in (poisoned(stack), stack.copy()):
            before = kept(out)
            given = stack if before != kept(stack) else out
            with pytest.raises(error):
                closure(given, name, out=out, method=method, reflexive=reflexive)
            assert kept(out) == before
            with pytest.raises(error):
                closure(given[-1], name, out=out[-1], method=method, reflexive=reflexive)
            assert kept(out) == before


# ---------------------------------------------------------------------------------------------------------- programs


def answer(work):
    """The bits of a result, or the error."""
    try:
        return kept(work())
    except ERRORS as error:
        return type(error), str(error)


def program(A, name, check=True, plus=False, method="auto"):
    return program_for(A, Options(sr.as_semiring(name), method, check=check), plus=plus)


@pytest.mark.full
@pytest.mark.parametrize(
    ("n", "cases"),
    full(
        lambda n, cases: (n == 4) if cases is DTYPES else n in (1, 33),
        [(n, cases) for cases in (COMMON, DTYPES) for n in (1, 4, 33, 150)],
    ),
    ids=[f"{n}-{dtypes}" for dtypes in ("common dtypes", "every dtype") for n in (1, 4, 33, 150)],
)
def test_programs_give_the_bits_of_the_chain(rng, n, cases):
    ran = set()
    for name, A in problems(rng, n, cases):
        for check, plus in ((True, False), (False, False), (True, True)):
            if not check and np.asarray(A).dtype.kind == "f" and not (A == A).all():
                continue  # NaN that nobody looks for gives any result
            if same_by_program(A, name, check, plus):
                ran.add((name, A.dtype.name, plus))
    every = {(name, dtype) for name, dtypes in cases.items() for dtype in dtypes}
    assert ran == {(*kind, plus) for kind in every for plus in (False, True)}


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "plus"),
    full(
        lambda method, plus: plus == (method in ("rkleene", "squaring")),
        product(["rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring"], [False, True]),
    ),
)
def test_programs_of_a_method_give_the_bits_of_the_chain(rng, method, plus):
    cases = {name: COMMON[name] for name in COMMON if method != "squaring" or sr.as_semiring(name).idempotent}
    kinds = [(name, A) for name, A in problems(rng, 9, cases) if not isinstance(A, BitMatrix)]
    assert {name for name, A in kinds if same_by_program(A, name, True, plus, method)} == set(cases)


def same_by_program(A, name, *kind):
    """Whether there is a program; its answer is that of the chain, an error too, and it leaves the matrix alone."""
    check, plus, *method = kind
    options = {"method": method[0]} if method else {}
    expected = answer(lambda: closure(A, name, check=check, reflexive=not plus, explain=True, **options)[0])
    given, closed = kept(A), []

    def short():
        run = program(A, name, *kind)
        closed.append(None if run is None else run(A))
        return A if closed[0] is None else closed[0]

    found = answer(short)
    assert kept(A) == given
    if closed and closed[0] is None:
        return False
    assert found == expected  # also where a guard has raised
    return True


def kinds_of_call(rng):
    """(name, A, options): calls of every kind that has a program, but for arrays as they are."""
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
@pytest.mark.parametrize("told", [None, lambda done, total: None])
def test_nothing_is_planned_for_a_kind_of_call_that_was_seen_before(rng, monkeypatch, plus, told):
    """And the bits are those of the chain. A second leaf would be a second plan."""
    leaves, make = [], Leaf.__init__
    monkeypatch.setattr(Leaf, "__init__", lambda self, p: (leaves.append(p), make(self, p))[1])
    planned_again = []
    for kind, A, options in kinds_of_call(rng):
        options = {"reflexive": not plus, "progress": told} | options

        def closed(A=A, options=options, **more):
            if "out" in options:
                A = A.copy(order="K") if isinstance(A, np.ndarray) else A
                A = A.copy() if isinstance(A, BitMatrix) else A
                options = options | {"out": A if options["out"] is ... else poisoned(options["out"])}
            found = closure(A, **options, **more)
            return found[0] if more else found

        expected = kept(closed(explain=True))
        assert kept(closed()) == expected, kind
        leaves.clear()
        assert kept(closed()) == expected, kind
        if leaves:
            planned_again.append(kind)
    assert planned_again == []


def test_what_looks_like_another_convention_is_told_once():
    """Also where the program that has looked leaves the matrix to the chain."""
    A = np.zeros((5, 5))
    A[0, 1], A[1, 2] = 3, np.nan
    with pytest.warns(SuspiciousWeightsWarning) as told, pytest.raises(DomainError):
        closure(A)
    assert len(told) == 1


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{"reflexive": False}, {"method": "rkleene"}, {"method": "floyd_warshall"}])
def test_weights_of_both_signs_have_a_program_of_each_method(rng, name, dtype, options):
    sign, h = 1 if name == "min_plus" else -1, rng.integers(0, 9, 12)
    A = (sign * (rng.integers(1, 9, (12, 12)) + h[:, None] - h)).astype(dtype)
    method, plus = options.get("method", "auto"), not options.get("reflexive", True)
    run = program(A, name, plus=plus, method=method)
    assert kept(run(A)) == kept(closure(A, name, explain=True, **options)[0])
    A[3, 4] = -99 * sign  # a cycle that gains: the chain names it
    assert program(A, name, plus=plus, method=method) is None
    with pytest.raises(NegativeCycleError):
        closure(A, name, **options)


@pytest.mark.full
@pytest.mark.parametrize(("name", "sign"), [("min_plus", 1), ("max_plus", -1)])
def test_one_strong_component_of_both_signs_has_a_program_of_any_size(rng, name, sign):
    h = rng.integers(0, 9, 170)
    A = sign * (rng.integers(1, 9, (170, 170)) + h[:, None] - h + 0.5)
    assert kept(program(A, name)(A)) == kept(closure(A, name, explain=True)[0])
    A[3, 4] = sign * -99
    with pytest.raises(NegativeCycleError) as named:
        closure(A, name)
    with pytest.raises(NegativeCycleError, match=str(named.value)[:20]):
        closure(A, name, explain=True)
    A[3, 4] = sign * -INF  # an edge of unbounded gain, and two components: the chain's
    assert program(A, name) is None
    A[3, 4], A[:9, 9:] = 1, sign * INF
    assert program(A, name) is None


@pytest.mark.parametrize("plus", [False, True])
def test_a_program_says_in_which_matrix_of_a_stack_a_pivot_has_no_star(plus):
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
    """Whether a program closes them or the chain."""
    h = rng.normal(size=n)
    A = (rng.random((n, n)) + h[:, None] - h).astype(dtype)
    expected = kept(0 - closure(A))
    assert program(-A, "max_plus") is not None
    assert kept(closure(-A, "max_plus")) == expected
    assert kept(closure(-A, "max_plus", explain=True)[0]) == expected


@pytest.mark.parametrize(
    ("name", "dtype", "n", "value"),
    [
        ("min_plus", "float64", 161, -INF),
        ("min_plus", "float32", 161, np.nan),
        ("min_plus", "float32", 20, -INF),
        ("min_plus", "float32", 20, np.nan),
        ("max_plus", "float64", 20, INF),
        ("max_plus", "float64", 20, np.nan),
        ("min_plus", "int16", 20, 16_383 // 4 + 1),
        ("min_plus", "int64", 20, 1 << 62),
        ("max_plus", "int32", 20, -(1 << 30)),
    ],
)
def test_a_program_refuses_what_breaks_its_promise(rng, name, dtype, n, value):
    A = matrix(rng, n, name, dtype)
    assert program(A, name) is not None
    A[2, 3] = value
    run, given = program(A, name), kept(A)
    assert run is None or run(A) is None
    assert kept(A) == given


@pytest.mark.parametrize("options", [{}, {"reflexive": False}, {"method": "floyd_warshall"}, {"check": False}])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [3, 200])
def test_a_program_keeps_to_the_domain_of_a_users_min_plus(rng, options, dtype, n):
    near = sr.Semiring("near", "min(x, y)", "x + y", INF, 0, domain=(0, INF))
    A = rng.integers(5, 9, (n, n)).astype(dtype)
    assert closure(A, near, **options).dtype == dtype
    A[0, 1] = -1  # on no negative cycle
    for explain in (False, True):
        with pytest.raises(DomainError, match=r"A\[0, 1\] is -1.* outside the domain"):
            closure(A, near, explain=explain, **options)


def test_nothing_is_asked_of_integers_on_a_device_that_nobody_waits_for():
    """Without the look, the caller promises that no path comes near "no path"."""
    dtype, none = np.dtype(np.int32), (1 << 30) - 1
    (alone,) = promises(sr.min_plus, dtype, 64, asks=False)
    assert 65 * alone.greatest < none
    first, second = promises(sr.min_plus, dtype, 64, asks=True)
    assert first == alone
    assert 65 * second.greatest > none


# --------------------------------------------------------------------------------------------------------- the stack


@pytest.mark.parametrize("threads", [1, 2])
def test_few_frames_between_a_call_and_its_kernels(rng, threads):
    """At the first kernel of a closure, the backend's own frame among them."""
    cpu = type(get_backend("cpu"))
    kernels = {getattr(cpu, name).__code__ for name in ("close_block", "multiply", "multiply_add")}
    A, counts = rng.random((1000, 1000), np.float32), []

    def at_call(frame, event, _):
        if event == "call" and frame.f_code in kernels and not counts:
            count = 0
            while frame is not None:
                count += frame.f_code.co_filename.startswith(PACKAGE)
                frame = frame.f_back
            counts.append(count)

    former = sys.getprofile()
    sys.setprofile(at_call)
    try:
        closure(A, threads=threads)
    finally:
        sys.setprofile(former)
    assert counts
    assert counts[0] <= 8


# -------------------------------------------------------------------------------- what the interface must be able to do


@pytest.mark.full
def test_bfloat16_of_both_signs_in_place_with_predecessors(rng):
    """Closed in float32 and rounded once; the predecessors are those before rounding."""
    A = shifted(rng, matrix(rng, 12, "max_plus", "float32", 0.5), "max_plus").astype(ml_dtypes.bfloat16)
    assert (A > 0).any()
    assert (A < 0).any()
    wide, expected = closure_with_predecessors(A.astype(np.float32), sr.max_plus)
    D, pred = closure_with_predecessors(A, sr.max_plus)
    assert D.dtype == A.dtype
    assert kept(D) == kept(wide.astype(A.dtype))
    np.testing.assert_array_equal(pred, expected)
    assert closure(A, "max_plus", out=A) is A
    assert kept(A) == kept(D)


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_a_stack_of_which_one_matrix_overflows(rng, name):
    """It alone is closed in a wider dtype, and it alone is named where its distances do not fit."""
    sign = 1 if name == "min_plus" else -1
    stack = np.stack([matrix(rng, 9, name, "int32") for _ in range(3)])
    stack[1] = oracles.zero(name, np.dtype(np.int32))
    stack[1, 0, 1], stack[1, 1, 2] = sign * 800_000_000, sign * 900_000_000
    expected = np.stack([closure(A, name) for A in stack])
    assert expected[1, 0, 2] == sign * 1_700_000_000
    result, said = closure(stack, name, explain=True)
    assert kept(result) == kept(expected)
    assert "computed in int64" in str(said)
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
    assert kept(result.get()) == kept(expected)
    assert ran_last(said) == "blocked_floyd_warshall closes 40 × 40 int16, cuda"


@pytest.mark.parametrize(("name", "sign"), [("min_plus", 1), ("max_plus", -1)])
@pytest.mark.parametrize("reflexive", [True, False])
def test_edges_of_unbounded_gain(rng, name, sign, reflexive):
    """Every path over one is unbounded, and all others are as long as they were."""
    A = shuffled(rng, acyclic(rng, 30, "min_plus", "float64"))
    tail, head = np.argwhere(np.isfinite(A))[0]
    without, A[tail, head] = A.copy(), -INF
    without[tail, head] = INF
    expected = closure(without, reflexive=reflexive)
    reach = oracles.reachable(np.isfinite(without))
    expected[np.ix_(reach[:, tail], reach[head])] = -INF
    result = closure(sign * A, name, reflexive=reflexive)
    np.testing.assert_array_equal(result, sign * expected)


@pytest.mark.full
def test_single_components_are_no_problems_of_their_own(rng):
    """An acyclic graph of both signs, whatever its size, is planned as few Python objects."""
    kinds, nodes, counts = (Node, Problem, Reduction, Leaf), [], []
    for n in (60, 2000):
        A = shuffled(rng, acyclic(rng, n, "min_plus", "float64"))
        gc.collect()
        before = sum(issubclass(type(x), kinds) for x in gc.get_objects())
        nodes.append(planned(A, "min_plus"))
        gc.collect()
        counts.append(sum(issubclass(type(x), kinds) for x in gc.get_objects()) - before)
        if n == 60:
            expected = oracles.exact_distances(A)
    assert 0 < counts[0] == counts[1] < 50
    np.testing.assert_array_equal(nodes[0].solve(None), expected)


# ------------------------------------------------------------------------------- equal calls, and what is said of them


@pytest.mark.full
def test_sparse_graphs_take_one_way_whatever_the_threads(rng):
    """Dijkstra and a dense closure add in another order, so that their bits differ."""
    from scipy.sparse import random_array

    A = random_array((2000, 2000), density=1.3 / 2000, rng=rng, format="csr")
    (one, said), (two, also) = (closure(A, threads=threads, explain=True) for threads in (1, 2))
    assert said.method == also.method
    assert [link[:3] for link in said.chain] == [link[:3] for link in also.chain]
    assert kept(one) == kept(two)


def ran_last(said):
    """What the last link of a chain says that closes the matrix."""
    return [link.why for link in said.chain if link.step == "method"][-1]


@every_dtype
def test_an_explanation_lists_every_step_with_its_verdict(rng, cases):
    verdicts, names = [], [name_of(step) for step in STEPS]
    steps = [wrapped(step, lambda step, _, found: verdicts.append((name_of(step), found))) for step in STEPS]
    complete = 0
    for name, A in problems(rng, cases=cases):
        if len(A.shape) == 3:
            continue  # of a stack, the first matrix is explained for all
        verdicts.clear()
        request = Request(sr.as_semiring(name), "auto", 1, structure=frozenset(STRUCTURES))
        with suppress(*ERRORS):
            Node(Problem(request, request.semiring, A), steps)
            said = [link[1:4] for link in request.explanation.chain]
            expected = [(step, isinstance(found, Reduction), found.why) for step, found in verdicts]
            unasked = [link for link in said if link[2] == "structure analysis was not run"]
            assert [link for link in said if link not in unasked][: len(expected)] == expected
            assert all(why for _, _, why in said)
            asked = [step for step, *_ in said]
            others = asked == names[: len(asked)] and said[-1][1]  # the last step asks for other problems
            assert asked == [*names, "method"] or others
            complete += asked[-1] == "method" and len(asked) > len(names)
    assert complete > (60 if cases is DTYPES else 20)


@pytest.mark.parametrize(
    ("shape", "options", "why"),
    [
        ((2, 5, 5), {"reflexive": False}, "A⁺ of each matrix needs its own A*"),
        ((2, 5, 5), {"method": "squaring"}, "squaring was named, and a named method closes one matrix at a time"),
        ((2, 5, 5), {"progress": lambda done, total: None}, "progress is reported for each matrix"),
        ((0, 5, 5), {}, "there is nothing to close"),
        ((2, 0, 0), {"reflexive": False}, "there is nothing to close"),
    ],
)
def test_an_explanation_says_why_the_matrices_of_a_stack_go_alone(shape, options, why):
    A = np.ones(shape)
    D, said = closure(A, explain=True, **options)
    (link,) = [link for link in said.chain if link.step == "stacks"]
    assert link.applies
    assert link.why == f"one matrix after the other: {why}"
    expected = A if not options.get("reflexive", True) else np.where(np.eye(shape[-1], dtype=bool), 0, A)
    np.testing.assert_array_equal(D, expected)


@pytest.mark.full
def test_an_explanation_is_of_the_method_that_ran(rng, monkeypatch):
    step = sys.modules["semiring.chain.steps.sparse"]
    ran, dijkstra, look = [], step._dijkstra, CpuBackend.look_gaining

    def told(close):
        def closing(leaf, *arguments):
            ran.append((leaf.method.name, str(leaf)))
            close(leaf, *arguments)

        return closing

    def by_edges(graph, h, node, D):
        ran.append((node.inner.method, None))
        return dijkstra(graph, h, node, D)

    for name in ("close", "close_block"):
        monkeypatch.setattr(Leaf, name, told(getattr(Leaf, name)))
    monkeypatch.setattr(CpuBackend, "look_gaining", lambda *asked: ran.append(("rkleene", None)) or look(*asked))
    monkeypatch.setattr(step, "_dijkstra", by_edges)
    seen = set()
    for n in (1, 9, 70, 300):
        for method in ("auto", "rkleene", "squaring", "blocked_floyd_warshall", "johnson"):
            A = shifted(rng, matrix(rng, n, "min_plus", "float64"), "min_plus")
            whole = np.where(np.isfinite(A), A, 99).astype(np.int32) + 20
            for given in (A, abs(A), np.stack([A, A]), whole):
                if method == "johnson" and (given.ndim == 3 or given.dtype.kind == "i"):
                    continue
                ran.clear()
                with np.errstate(invalid="ignore"):
                    _, said = closure(given, method=method, explain=True)
                assert {name for name, _ in ran} == {said.method}
                assert ran[0][1] is None or ran_last(said) == ran[0][1]
                seen.add(said.method)
    assert len(seen) == 4
