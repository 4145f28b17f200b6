"""What was planned for one kind of call, without a matrix: small calls pay for nothing that they do not use.

A kind is a semiring, a dtype, a shape, A* or A⁺, a method, options and a backend. Its chain is planned once for each
*promise* about the entries (no weight below 0; entries of the domain, with or without sign bits), on a matrix without
memory, never on the first one that came. Where nothing is left of the chain but maps and a method, it is a *program*: a
guard that finds out which promise the entries keep, encode, close, decode. Whatever is not that simple goes through the
chain itself, which gives the same bits. So does everything while a step is registered: it may look at the entries.

Small matrices whose weights gain have a program too, where the backend has a loop for them (`GainingClosures`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from semiring import profiling
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.methods import method_named
from semiring.algorithms.potentials.small import SMALL, small_potentials
from semiring.algorithms.predecessors import Inspection
from semiring.algorithms.stars import check_star
from semiring.arrays.device.memory import load_cupy
from semiring.arrays.entries import check_entries
from semiring.arrays.operands import adjacent
from semiring.arrays.other_zeros import warn_of_other_zeros
from semiring.chain.gaining import gaining
from semiring.chain.maps import Shifted
from semiring.chain.matrix import Matrix
from semiring.chain.planner import OWN_STEPS, Node, program_of
from semiring.chain.problem import Facts, Options, Problem, Request, is_tropical, promises
from semiring.chain.steps import STEPS
from semiring.chain.steps.arrays import arrays
from semiring.errors import SemiringError
from semiring.kernels import named_backend
from semiring.namespaces import array_namespace

__all__ = ["program_for"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array
Run: TypeAlias = Callable[..., Any]  # `Node.work`
Guard: TypeAlias = Callable[[Array], "Run | None"]

_least, _greatest = np.minimum.reduce, np.maximum.reduce


def program_for(A: Array, options: Options, out: Any = None, *, plus: bool = False) -> Run | None:
    """The program of a matrix (n, n), or a stack (count, n, n), whose closure goes to ``out``; None for the chain.

    ``run(A)`` gives A*, or A⁺ where ``plus``, in a new array, ``run(A, out)`` in that one. Raises `DomainError` as the
    chain does.
    """
    kind = type(A)
    if (kind is not np.ndarray and kind.__module__ != "cupy") or OWN_STEPS or profiling.active:
        return None
    if A.ndim not in (2, 3) or A.shape[-2] != A.shape[-1] or not (out is None or _fits(out, A)):
        return None
    device = None if kind is np.ndarray else A.device.id
    if device is not None and device != array_namespace(A).cuda.runtime.getDevice():
        return None
    method = None if options.method == "auto" else method_named(options.method)  # a name may get another meaning
    guard = _guard(options, A.dtype, A.shape, plus, device, named_backend(), method)
    return None if guard is None else guard(A)


def _fits(out: Any, A: Any) -> bool:
    """Whether a program can write A* there: into A itself, or an array of its kind apart from it, of adjacent rows."""
    if out is A:
        return adjacent(A) and (type(A) is not np.ndarray or A.flags.writeable)
    fits = type(out) is type(A) is np.ndarray and out.dtype == A.dtype and out.shape == A.shape and adjacent(out)
    return fits and out.flags.writeable and not np.may_share_memory(out, A)


@lru_cache(maxsize=4096)
def _guard(
    options: Options, dtype: np.dtype[Any], shape: tuple[int, ...], plus: bool, device: int | None, *_: object
) -> Guard | None:
    """The guard of the programs of a kind, on a device of that number or the host; None where it has none.

    The names of backend and method may come to mean others: so these belong to the kind too.
    """
    if 0 in shape or dtype.kind not in "fiub" or not dtype.isnative or (device is None and is_half(dtype)):
        return None
    semiring, check, waits = options.semiring, options.check, options.check or device is None
    try:
        check_star(semiring, dtype)
        kept = promises(semiring, dtype, shape[-1], asks=waits)
        planned = [(promise, _planned(options, dtype, shape, plus, device is not None, promise)) for promise in kept]
    except SemiringError:  # the chain will say it
        return None
    programs = [(promise, program) for promise, program in planned if program is not None]
    if not programs:
        return None
    tropical, warns = is_tropical(semiring), check and device is None
    if not check and not (waits and tropical):
        unseen = planned[-1][1]
        return None if unseen is None else lambda A: unseen.work
    gains = device is None and options.method == "auto" and not plus
    otherwise = partial(_close_gaining, programs[0][1], options) if gains else None
    # Of floats of min-plus and max-plus one end of their range says all, and costs half as much as a look.
    ends, dual = device is None and tropical and dtype.kind == "f", semiring.tropical == "max"

    def guard(A: Array) -> Run | None:
        if ends:
            low, high, nonnegative = (0, _greatest(A, None), False) if dual else (_least(A, None), 0, False)
        else:
            low, high, _, nonnegative = check_entries(A, semiring)
            low, high = low or 0, high or 0
        if warns and not (ends and (low > 0 or high < 0)):  # else no entry is 0, nor an ∞ that is an edge
            warn_of_other_zeros(A, semiring)
        # Comparisons with NaN are false: no promise holds then, and the chain, which looks again, names the entry.
        for (least, greatest, asked, _), program in programs:
            if low >= least and high <= greatest and nonnegative >= asked:
                return program.work
        return None if low != low or high != high else otherwise

    return guard


def _close_gaining(
    program: Node, options: Options, A: Array, home: Any = None, inspect: Inspection | None = None
) -> Array | None:
    """As `Node.work`, of a matrix whose weights gain, ``program`` being that of others; None where it takes the chain.

    Who looks at the paths sees a component under its potentials; else the backend has a loop for all components.
    """
    if inspect is not None:
        floats = is_tropical(options.semiring) and A.dtype.kind == "f" and len(A) <= SMALL
        dual = options.semiring.tropical == "max"
        h = small_potentials(np.negative(A, dtype=np.float64) if dual else A) if floats else None
        return None if h is None else program.under(Shifted(h)).work(A, home, inspect)
    stack = (-1, *A.shape[-2:])
    close = gaining(A.reshape(stack), options.semiring, options.threads)
    if close is None:
        return None
    D = np.empty(A.shape, A.dtype) if home is None else home
    close(D.reshape(stack))
    return D


def _planned(
    options: Options, dtype: np.dtype[Any], shape: tuple[int, ...], plus: bool, on_device: bool, promise: Facts
) -> Node | None:
    """What the chain does to all matrices that keep a promise."""
    xp: Any = load_cupy() if on_device else np
    A = xp.broadcast_to(xp.zeros((), dtype), shape)  # it has no memory of its own, and nothing to look at
    matrix, waits = Matrix.of(A, options.semiring), options.check or not on_device
    blank = Problem(
        Request(*options), options.semiring, matrix=matrix, facts=promise, plus=plus, waits=waits, blank=True
    )
    return program_of(blank, STEPS[STEPS.index(arrays) + 1 :])
