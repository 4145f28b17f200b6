"""What was planned for one kind of call, without a matrix: small calls pay for nothing that they do not use.

A kind is a semiring, a dtype, a size, options and a backend. Its chain is planned once for each *promise* about the
entries (no weight below 0; entries of the domain, with or without sign bits), on a matrix without memory, never on the
first one that came. Where nothing is left of the chain but maps that do a whole array in one pass, and a method, it is
a *program*: a guard that finds out which promise the entries keep, encode, close, decode. Whatever is not that simple
goes through the chain itself, which gives the same bits. So does everything while a step is registered: it may look
at the entries.

Small float matrices of min-plus with weights below 0 have a program too: the potentials of one elimination are a map,
where that elimination shows one strong component.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, min_plus
from semiring.algorithms.scales import gains
from semiring.algorithms.small_potentials import SMALL, small_potentials
from semiring.arrays.encoding import inner_zero
from semiring.arrays.entries import check_entries
from semiring.chain.leaf import Leaf
from semiring.chain.maps import Shifted
from semiring.chain.matrix import Matrix, adjacent
from semiring.chain.planner import Node, Passes
from semiring.chain.problem import Facts, Inspection, Problem, Request, is_tropical
from semiring.chain.steps import STEPS, registered_steps
from semiring.chain.steps.arrays import arrays, check_star
from semiring.errors import SemiringError
from semiring.kernels import named_backend
from semiring.namespaces import array_namespace
from semiring.threads import get_threads

__all__ = ["is_home", "program_for"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array

_least, _greatest = np.minimum.reduce, np.maximum.reduce


class _Shifting(NamedTuple):
    """The program of a matrix under potentials."""

    leaf: Leaf
    map: Shifted

    def run(self, A: Array, out: Array | None = None, inspect: Inspection | None = None) -> Array:
        """A* in ``out``, or in a new array."""
        D = self.map.encode(A, (), np.empty(A.shape, A.dtype) if out is None else out)
        self.leaf.close(D, inspect)
        return self.map.decode(D, (), D)


_NAMES = (str, Semiring)
Guard: TypeAlias = Callable[[Array], "Passes | _Shifting | None"]


def program_for(A: Array, semiring: Any, method: Any, threads: Any, check: bool) -> Passes | _Shifting | None:
    """The program of one matrix (n, n), None where it takes the chain.

    Its ``run(A)`` gives A* in a new array, ``run(A, out)`` in one that `is_home`.
    Raises `DomainError` as the chain does.
    """
    kind = type(A)
    if (kind is not np.ndarray and kind.__module__ != "cupy") or registered_steps():
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
    guard = _guard(semiring, A.dtype, shape[0], threads, bool(check), device, named_backend())
    return None if guard is None else guard(A)


def is_home(out: Any, A: Any) -> bool:
    """Whether a program can write A* into ``out``: A itself, or one of its kind apart from it, with adjacent rows."""
    if type(out) is not type(A) or getattr(out, "ndim", 0) != 2 or not adjacent(out):
        return False
    if out is not A:
        if type(out) is not np.ndarray or out.dtype != A.dtype or out.shape != A.shape:
            return False
        if np.may_share_memory(out, A):
            return False
    return type(out) is not np.ndarray or bool(out.flags.writeable)


@lru_cache(maxsize=4096)
def _guard(
    name: str | Semiring,
    dtype: np.dtype[Any],
    n: int,
    threads: int,
    check: bool,
    device: int | None,
    backend: str | None,
) -> Guard | None:
    """The guard of the programs of a kind; None where it has none."""
    if n == 0 or dtype.kind not in "fiub" or not dtype.isnative:
        return None
    try:
        semiring = as_semiring(name)
        semiring.check_dtype(dtype)
        check_star(semiring, dtype)
        request = Request(semiring, "auto", threads, check)
        tropical = is_tropical(semiring)
        there = device is not None
        if tropical and dtype.kind == "f":
            return _of_floats(request, dtype, n, there)
        if tropical:
            return _of_integers(request, dtype, n, there)
        return _of_others(request, dtype, n, there)
    except SemiringError:  # the chain will say it
        return None


def _of_floats(request: Request, dtype: np.dtype[Any], n: int, there: bool) -> Guard | None:
    semiring, dual = request.semiring, request.semiring.tropical == "max"
    program = _planned(request, dtype, n, there, Facts(None, 0) if dual else Facts(0))
    if program is None:
        return None
    if there:
        if not request.check:
            return lambda A: program

        def looked(A: Array) -> Passes | None:
            scan = check_entries(A, semiring)
            end = scan.high if dual else scan.low
            return program if end is None or (end <= 0 if dual else end >= 0) else None

        return looked
    if dual:
        return lambda A: program if _greatest(A, None) <= 0 else None
    if n > SMALL:
        return lambda A: program if _least(A, None) >= 0 else None
    leaf = program.leaf

    def any_signs(A: Array) -> Passes | _Shifting | None:
        low = _least(A, None)
        if low >= 0:  # and no NaN
            return program
        h = small_potentials(A) if low > -np.inf else None
        return None if h is None else _Shifting(leaf, Shifted(h))

    return any_signs


def _of_integers(request: Request, dtype: np.dtype[Any], n: int, there: bool) -> Guard | None:
    semiring, dual = request.semiring, request.semiring.tropical == "max"
    largest = (int(inner_zero(min_plus, dtype)) - 1) // (n + 1)  # so that no sum comes near "no path"
    unseen = there and not request.check
    promise = Facts(0, 0) if unseen else Facts(-largest, 0) if dual else Facts(0, largest)
    program = _planned(request, dtype, n, there, promise)
    if program is None or unseen:
        return None if program is None else lambda A: program

    def looked(A: Array) -> Passes | None:
        scan = check_entries(A, semiring)
        low, high = (0, 0) if scan.low is None else (scan.low, scan.high)
        return program if (-largest <= low and high <= 0 if dual else low >= 0 and high <= largest) else None

    return looked


def _of_others(request: Request, dtype: np.dtype[Any], n: int, there: bool) -> Guard | None:
    semiring = request.semiring
    programs = [_planned(request, dtype, n, there, Facts(signless=signless)) for signless in (False, True)]
    if None in programs:
        return None
    if not request.check:
        return lambda A: programs[False]

    def looked(A: Array) -> Passes | None:
        scan = check_entries(A, semiring)
        return None if gains(semiring, scan.low, scan.high) else programs[scan.nonnegative]

    return looked


def _planned(request: Request, dtype: np.dtype[Any], n: int, there: bool, promise: Facts) -> Passes | None:
    """The program of all matrices that keep a promise; None where the chain looks at more than that."""
    xp: Any = np
    if there:
        from semiring.arrays.device.memory import load_cupy

        xp = load_cupy()
    A = xp.broadcast_to(xp.zeros((), dtype), (n, n))  # it has no memory of its own, and nothing to look at
    semiring = request.semiring
    zero = semiring.zero_for(dtype)
    matrix, waits = Matrix(A, zero, dtype, zero), request.check or not there
    problem = Problem(request, semiring, matrix=matrix, facts=promise, waits=waits, blank=True)
    return Node(problem, STEPS[STEPS.index(arrays) + 1 :]).passes()
