"""What was planned for one kind of call, without a matrix: small calls pay for nothing that they do not use.

A kind is a semiring, a dtype, a shape, A* or A⁺, a method, options and a backend. Its chain is planned once for each
*promise* about the entries (no weight below 0; entries of the domain, with or without sign bits), on a matrix without
memory, never on the first one that came. Where no step has to see the entries, the plan is a *program*. A guard finds
out which promise a matrix keeps, and so which program closes it. Whatever keeps none goes through the chain itself,
which gives the same bits. So does everything while a step is registered: it may look at the entries.

There is one entrance, `program_for`. A public call asks it for the program of an array as it is; the planner, of a
problem whose matrix is `alone`: an array which the intake has made of a list, of sparse entries and the like, or one
matrix of a stack, which is closed as it is by itself.

Matrices whose weights gain keep no promise. Small ones are closed by the backend's loop for them (`GainingClosures`);
floats in one strong component, where there is no such loop, as the others, under potentials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from semiring import profiling
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.methods import method_named
from semiring.algorithms.potentials.exact import Exact
from semiring.algorithms.potentials.reweighting import reweighting
from semiring.algorithms.potentials.small import SMALL, small_potentials
from semiring.algorithms.potentials.weights import Weights, finite_range
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.arrays.device.memory import are_apart, load_cupy
from semiring.arrays.encoding import decode
from semiring.arrays.entries import check_entries
from semiring.arrays.operands import adjacent, memory_of
from semiring.arrays.other_zeros import warn_of_other_zeros, warn_of_other_zeros_on_device
from semiring.chain.explanation import Explanation
from semiring.chain.gaining import gaining
from semiring.chain.maps import Shifted
from semiring.chain.matrix import Matrix
from semiring.chain.planner import OWN_STEPS, Node
from semiring.chain.problem import Facts, Options, Problem, Program, Request, UndecidedError, is_tropical, promises
from semiring.chain.steps import STEPS
from semiring.chain.steps.half import half, stays_float16
from semiring.errors import SemiringError
from semiring.graphs.components import strong_components
from semiring.kernels import named_backend
from semiring.namespaces import array_namespace

__all__ = ["program_for", "program_of"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array; or a `BitMatrix`
#: From a matrix, what is known of it, and whether to warn of other conventions, to what closes it; None is the chain.
Guard: TypeAlias = Callable[[Array, "Facts | None", bool], "Program | None"]

_STEPS = STEPS[STEPS.index(half) :]  # those behind the intake
_least, _greatest = np.minimum.reduce, np.maximum.reduce


def program_for(
    A: Array,
    options: Options,
    out: Any = None,
    *,
    plus: bool = False,
    traced: bool = False,
    reports: bool = False,
    facts: Facts | None = None,
    warns: bool = True,
) -> Program | None:
    """The program of a matrix (n, n), packed or not, or a stack (..., n, n), whose closure goes to ``out``.

    ``program(A, out, inspect, progress)`` gives A*, or A⁺ where ``plus``, in a new array where ``out`` is None. It is
    None where the chain must solve it, and so may be what it gives. ``traced``, ``reports``: whether it is given an
    inspection, a progress. ``facts``: what is known of A; None is nothing. Raises `DomainError` as the chain does.
    """
    memory = memory_of(A)
    kind = type(memory)
    if (kind is not np.ndarray and kind.__module__ != "cupy") or OWN_STEPS or profiling.active:
        return None
    if A.ndim < 2 or A.shape[-2] != A.shape[-1] or not (out is None or _fits(out, A)):
        return None
    device = None if kind is np.ndarray else memory.device.id
    if device is not None and device != array_namespace(memory).cuda.runtime.getDevice():
        return None
    named = None if options.method == "auto" else method_named(options.method)
    form = A.dtype, A.shape, memory is not A, out is not None and not adjacent(out)
    widens = (
        device is not None and is_half(A.dtype) and not stays_float16(options.semiring, A.dtype, options.compute_dtype)
    )
    if widens and not traced and options.compute_dtype is None:
        return _of_half(A, options, plus, reports, warns)
    # Names may get another meaning, and errors name the semiring: equal ones may be called differently.
    meant = options.semiring.name, named_backend(), named
    guard = _guard(options, form, (plus, traced, reports), device, *meant)
    program = None if guard is None else guard(A, facts, warns)
    return partial(_turned, program) if program is not None and form[-1] else program


def _of_half(A: Array, options: Options, plus: bool, reports: bool, warns: bool) -> Program | None:
    """Return the program of a float16 or bfloat16 array on a GPU: that of its copy in float32, and one rounding."""
    semiring = options.semiring
    if not semiring.supports(np.float32):
        return None
    wide = A.astype(np.float32, order="C")
    program = program_for(wide, options, wide, plus=plus, reports=reports, warns=warns)
    if program is None:
        return None

    def close(A: Array, out: Any = None, inspect: Any = None, progress: Any = None) -> Array | None:
        if program(wide, wide, inspect, progress) is None:
            return None
        return decode(wide, semiring, A.dtype) if out is None else decode(wide, semiring, out=out)

    return close


def program_of(p: Problem) -> Program | None:
    """The program of a problem whose matrix is `alone`, in its home."""
    wanted = {"plus": p.plus, "traced": p.inspect is not None, "reports": p.progress is not None}
    return program_for(p.matrix.array, p.request.options, p.home, facts=p.facts, warns=False, **wanted)


def _fits(out: Any, A: Any) -> bool:
    """Whether a program can write A* there: into A itself, or memory of its kind apart from it.

    The entries of a row are adjacent, or of one matrix those of a column; all of a stack of more than three axes, and
    of another array on a GPU.
    """
    if type(out) is not type(A) or out.dtype != A.dtype or out.shape != A.shape:
        return False
    there, memory = memory_of(out), memory_of(A)
    if type(there) is not np.ndarray:
        if out is A:
            return adjacent(A)
        return bool(there.flags.c_contiguous and there.device == memory.device and are_apart(there, memory))
    if not (there.flags.writeable and (out is A or not np.may_share_memory(there, memory))):
        return False
    return bool(there.flags.c_contiguous or (adjacent(out) and A.ndim < 4) or (A.ndim == 2 and adjacent(there.T)))


def _turned(program: Program, A: Array, out: Array, *more: Any) -> Array | None:
    """The closure by columns: that of the transpose, as the step `transposed` makes it."""
    return None if program(A.T, out.T, *more) is None else out


@lru_cache(maxsize=4096)
def _guard(
    options: Options,
    form: tuple[np.dtype[Any], tuple[int, ...], bool, bool],
    wanted: tuple[bool, bool, bool],
    device: int | None,
    *_: object,
) -> Guard | None:
    """The guard of the programs of a kind, on a device of that number or the host; None where it has none.

    ``form``: dtype and shape, whether it is packed, and whether columns are closed for rows. What the names of backend
    and method mean, and what the semiring is called, belongs to the kind too.
    """
    (dtype, shape, packed, turned), (plus, traced, reports), semiring = form, wanted, options.semiring
    if 0 in shape or dtype.kind not in "fiub" or not dtype.isnative or (device is None and is_half(dtype)):
        return None
    if (turned and not semiring.commutative) or (packed and device is not None):
        return None
    xp: Any = np if device is None else load_cupy()
    A = BitMatrix.zeros(shape) if packed else xp.broadcast_to(xp.zeros((), dtype), shape)  # it has no memory of its own
    blank = Problem(
        Request(*options, Explanation(told=False), programs=program_of),
        semiring,
        matrix=Matrix.of(A, semiring, storage="bits" if packed else "elements", turned=turned),
        plus=plus,
        waits=options.check or device is None,
        progress=_nobody if reports else None,
        blank=True,
    )
    looks = not packed and (options.check or (blank.waits and is_tropical(semiring)))
    try:
        check_star(semiring, dtype)
        kept = promises(semiring, dtype, shape[-1], asks=blank.waits)
        planned = [(promise, _planned(blank.but(promise))) for promise in (kept if looks else kept[-1:])]
    except SemiringError:  # the chain will say it
        return None
    programs = [(promise, program) for promise, program in planned if program is not None]
    if not programs:
        return None
    return _guard_of(blank, programs, traced) if looks else lambda A, facts, warns: programs[0][1].close


def _nobody(done: int, total: int) -> None:
    """In the place of whom a program reports to."""


def _planned(blank: Problem) -> Node | None:
    """What the steps do to all matrices that keep a promise; None where one must see the entries."""
    try:
        node = Node(blank, _STEPS)
    except UndecidedError:
        return None
    return node if _closes_any(node) else None


def _closes_any(node: Node) -> bool:
    """Whether it closes the matrix that it is given: a reduction which is not in place has read the one of the plan."""
    return node.reduction is None or (node.reduction.in_home and all(map(_closes_any, node.children)))


def _guard_of(blank: Problem, programs: list[tuple[Facts, Node]], traced: bool) -> Guard:
    """It looks which promise a matrix keeps."""
    semiring, m, dual = blank.semiring, blank.matrix, blank.semiring.tropical == "max"
    otherwise, warning = _of_gaining(blank, programs[0][1], traced), blank.request.check
    # Of floats of min-plus and max-plus one end of their range says all, and costs half as much as a look: but for NaN
    # all of them are in the domain, if it is not a user's.
    ends = not m.on_device and is_tropical(semiring) and m.dtype.kind == "f" and semiring.domain.everything

    def guard(A: Array, facts: Facts | None, warns: bool) -> Program | None:
        seen = None
        if facts is not None:
            low, high, nonnegative = facts.least, facts.greatest, facts.nonnegative
        elif ends:
            low, high, nonnegative = (0, _greatest(A, None), False) if dual else (_least(A, None), 0, False)
        else:
            seen = check_entries(A, semiring)
            low, high, nonnegative = seen.low, seen.high, seen.nonnegative
        low, high, found = low or 0, high or 0, None  # None: there are none, or nobody asked
        # Comparisons with NaN are false: no promise holds then, and the chain, which looks again, names the entry.
        for promise, program in programs:
            if low >= promise.least and high <= promise.greatest and nonnegative >= promise.nonnegative:
                found = program.close
                break
        else:
            if otherwise is not None and low == low and high == high:
                found = otherwise(A.T if m.turned else A)
        if warns and warning and found is not None:
            if m.on_device:
                if seen is not None:
                    warn_of_other_zeros_on_device(A, semiring, seen)
            elif not (ends and (low > 0 or high < 0)):  # no 0, no ∞ of an edge
                warn_of_other_zeros(A, semiring)
        return found

    return guard


def _of_gaining(blank: Problem, program: Node, traced: bool) -> Callable[[Array], Program | None] | None:
    """How a matrix is closed whose weights gain, after a look; ``program``: that of others. None: by the chain."""
    m, request = blank.matrix, blank.request
    if m.on_device:
        return None
    if request.method == "auto" and not (blank.plus or traced or blank.progress) and blank.n <= SMALL:
        return partial(gaining, blank.semiring, request.threads)
    floats = is_tropical(blank.semiring) and m.dtype.kind == "f" and len(m.shape) == 2
    return partial(_under_potentials, program) if floats else None


def _under_potentials(program: Node, A: Array) -> Program | None:
    """The program of a matrix of one strong component, read under the potentials that the chain finds for it."""
    m, threads = program.inner.matrix, program.inner.request.threads
    if len(A) <= SMALL:
        h = small_potentials(A if m.sign > 0 else np.subtract(0, A, dtype=np.float64))
    else:
        unbounded = m.sign * float((_least if m.sign > 0 else _greatest)(A, None)) == -np.inf
        if unbounded or len(strong_components(A, m.none, threads)) > 1:
            return None
        h = reweighting(Weights.of(A, m.sign, m.none, *finite_range(A, m.sign), turned=m.turned), threads)
    return None if h is None or isinstance(h, Exact) else program.under(Shifted(h)).close
