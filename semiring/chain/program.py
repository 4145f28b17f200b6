"""What was planned for one kind of call, without a matrix: small calls pay for nothing that they do not use.

A kind is a semiring, a dtype, a size, options and a backend. Its chain is planned once for each *promise* about the
entries (no weight below 0; entries of the domain, with or without sign bits), on a matrix without memory, never on the
first one that came. Where nothing is left of the chain but maps that do a whole array in one pass, and a method, it is
a *program*: a guard that finds out which promise the entries keep, encode, close, decode. Whatever is not that simple
goes through the chain itself, which gives the same bits. So does everything while a step is registered: it may look
at the entries.

Small matrices whose weights gain have a program too, where the backend has a loop for them (`GainingClosures`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algorithms.potentials.scales import gains
from semiring.algorithms.potentials.small import SMALL, small_potentials
from semiring.algorithms.predecessors import Inspection
from semiring.algorithms.stars import check_star
from semiring.arrays.device.memory import load_cupy
from semiring.arrays.entries import check_entries
from semiring.arrays.operands import adjacent
from semiring.arrays.other_zeros import warn_of_other_zeros
from semiring.chain.leaf import Leaf
from semiring.chain.maps import NEGATED, Shifted
from semiring.chain.matrix import Matrix
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Problem, Request, is_tropical, promises
from semiring.chain.steps import STEPS, registered_steps
from semiring.chain.steps.arrays import arrays
from semiring.errors import SemiringError
from semiring.kernels import backend_for, named_backend
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace
from semiring.threads import get_threads

__all__ = ["is_home", "program_for"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array

_least, _greatest = np.minimum.reduce, np.maximum.reduce


_NAMES = (str, Semiring)
Run: TypeAlias = Callable[..., Any]  # `Leaf.run`
Guard: TypeAlias = Callable[[Array], "Run | None"]


def program_for(
    A: Array, semiring: Any, method: Any, threads: Any, check: bool, structure: frozenset[str] = frozenset()
) -> Run | None:
    """The program of one matrix (n, n), None where it takes the chain.

    ``run(A)`` gives A* in a new array, ``run(A, out)`` in one that `is_home`. Raises `DomainError` as the chain does.
    """
    kind = type(A)
    if (kind is not np.ndarray and kind.__module__ != "cupy") or registered_steps() or profiling.active:
        return None
    shape = A.shape
    if len(shape) != 2 or shape[0] != shape[1] or type(semiring) not in _NAMES or method != "auto":
        return None
    if threads is None:
        threads = get_threads()
    elif type(threads) is not int or threads < 1:
        return None
    device = None
    if kind is not np.ndarray:
        device = A.device.id
        if device != array_namespace(A).cuda.runtime.getDevice():
            return None
    guard = _guard(semiring, A.dtype, shape[0], threads, bool(check), device, named_backend(), structure)
    return None if guard is None else guard(A)


def is_home(out: Any, A: Any) -> bool:
    """Whether a program can write A* into ``out``: A itself, or one of its kind apart from it, with adjacent rows."""
    if type(out) is not type(A) or getattr(out, "ndim", 0) != 2 or not adjacent(out):
        return False
    if type(out) is not np.ndarray:
        return out is A
    fits = out is A or (out.dtype == A.dtype and out.shape == A.shape and not np.may_share_memory(out, A))
    return bool(fits and out.flags.writeable)


@lru_cache(maxsize=4096)
def _guard(
    name: str | Semiring,
    dtype: np.dtype[Any],
    n: int,
    threads: int,
    check: bool,
    device: int | None,
    backend: str | None,
    structure: frozenset[str],
) -> Guard | None:
    """The guard of the programs of a kind; None where it has none."""
    if n == 0 or dtype.kind not in "fiub" or not dtype.isnative:
        return None
    on_device = device is not None
    programs = []
    try:
        semiring = as_semiring(name)
        check_star(semiring, dtype)
        request = Request(semiring, "auto", threads, check, structure=structure)
        for promise in promises(semiring, dtype, n, asks=check or not on_device):
            program = _planned(request, dtype, n, on_device, promise)
            if program is None:
                return None
            programs.append((*promise[:3], program))
    except SemiringError:  # the chain will say it
        return None
    tropical = is_tropical(semiring)
    if not check and (on_device or not tropical):
        unseen = programs[-1][-1].run
        return lambda A: unseen
    signs, dual = tropical and dtype.kind == "f" and not on_device, semiring.tropical == "max"
    host_checks, gaining = check and not on_device, None if on_device else _gaining(request, dtype, n, programs[0][-1])

    def guard(A: Array) -> Run | None:
        low, high, nonnegative = 0, 0, False
        if not signs:
            scan = check_entries(A, semiring)
            low, high, nonnegative = scan.low or 0, scan.high or 0, scan.nonnegative
        elif dual:
            high = _greatest(A, None)
        else:
            low = _least(A, None)
        if host_checks and not (signs and (low > 0 or high < 0)):  # else no entry is 0, nor an ∞ that is an edge
            warn_of_other_zeros(A, semiring)
        # Comparisons with NaN are false: no promise holds then, and the chain, which looks again, names the entry.
        for least, greatest, asked, program in programs:
            if low >= least and high <= greatest and nonnegative >= asked:
                return program.run
        gain = (0 < high < np.inf if dual else -np.inf < low < 0) if tropical else gains(semiring, low, high)
        return gaining if gain else None

    return guard


def _gaining(request: Request, dtype: np.dtype[Any], n: int, leaf: Leaf) -> Run | None:
    """The program of weights that gain, ``leaf`` being that of others; None where the backend has none for them."""
    semiring, plan = request.semiring, make_plan(request.semiring, dtype, threads=request.threads)
    closures = backend_for(np.empty((0, 0), dtype), semiring, dtype).capabilities.gaining
    if closures is None or n > SMALL:
        return None
    floats, dual = is_tropical(semiring) and dtype.kind == "f", semiring.tropical == "max"

    def run(A: Array, home: Array | None = None, inspect: Inspection | None = None) -> Array | None:
        if inspect is not None:  # who looks at the paths sees a component under its potentials
            h = small_potentials(np.negative(A, dtype=np.float64) if dual else A) if floats else None
            return (
                h if h is None else leaf.run_under((NEGATED, Shifted(h)) if dual else (Shifted(h),), A, home, inspect)
            )
        stack = A[np.newaxis]
        if n > closures.gaining_rows(plan) or (found := closures.look_gaining(plan, stack)) is None:
            return None
        D = np.empty(A.shape, dtype) if home is None else home
        closures.close_gaining(plan, stack, found, D[np.newaxis])
        return D

    return run


def _planned(request: Request, dtype: np.dtype[Any], n: int, on_device: bool, promise: Facts) -> Leaf | None:
    """The leaf of all matrices that keep a promise; None where the chain looks at more than that."""
    xp: Any = load_cupy() if on_device else np
    A = xp.broadcast_to(xp.zeros((), dtype), (n, n))  # it has no memory of its own, and nothing to look at
    matrix, waits = Matrix.of(A, request.semiring), request.check or not on_device
    problem = Problem(request, request.semiring, matrix=matrix, facts=promise, waits=waits, blank=True)
    return Node(problem, STEPS[STEPS.index(arrays) + 1 :]).program()
