"""A stack of matrices: all of them together where the values of all allow it, else one after the other.

Together they go through the steps as one problem with an axis more, and a backend closes them by one call. That takes
an idempotent ⊕ and A*, and of min-plus weights ≥ 0 (of floats on the host also such as have simple potentials), and of
integers sums that stay in half their range. Matrices so large that each keeps the machine busy by itself go alone.
The result of one never depends on the others; only where nobody may wait to see the weights, one below 0 makes all of
them NaN.

Cost: count · n³ pairs. The bits are those of the matrices closed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.scales import gains
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.small_potentials import SMALL, stack_potentials
from semiring.arrays.encoding import inner_zero
from semiring.chain.matrix import adjacent
from semiring.chain.problem import DATA, No, Problem, Reduction, is_tropical
from semiring.chain.steps.minplus import as_min_plus
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend, Plan
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["stacks"]


def stacks(p: Problem) -> No | Reduction:
    """All matrices as one problem, or each as its own."""
    m = p.matrix
    if m.storage == "bits" or len(m.shape) == 2:
        return No("one matrix")
    backend = backend_for(m.array, p.semiring, m.dtype)
    together = _together(p, backend)
    if isinstance(together, Reduction):
        return together
    return _each(p, together)


# ----------------------------------------------------------------------------------------------------- all at once


def _together(p: Problem, backend: Backend) -> Reduction | str:
    """All matrices as one problem, or why not."""
    m, request, semiring = p.matrix, p.request, p.semiring
    closures = backend.capabilities.stack_closures
    if request.method != "auto" or p.plus or p.progress is not None or not m.array.size:
        return "A* of the method that the library chooses, and nobody asks how far it is"
    if closures is None or not semiring.idempotent:
        return "the backend closes one matrix after the other"
    known = p.known
    plan = p.plan()
    if gains(semiring, known.least, known.greatest):
        return "weights that gain"
    if is_tropical(semiring):
        plan = make_plan(min_plus, m.dtype, nonnegative=True, threads=request.threads)
        least, greatest = as_min_plus(p)
        if least is not None and -np.inf < least < 0 and m.dtype.kind == "f" and semiring.tropical == "min":
            h = None
            if not m.there and p.n <= min(SMALL, closures.stack_rows(plan)):
                h = stack_potentials(m.array.reshape(-1, p.n, p.n), request.threads)
            if h is None:
                return "weights below 0"
            known = known._replace(potentials=h)
        elif least is None or not least >= 0:
            return "weights below 0"
        if m.dtype.kind == "i" and (p.n + 1) * int(greatest or 0) >= int(plan.zero):
            return "sums that may leave half the range of the integers"
    why = _how(p, plan, backend)
    if not why:
        return "matrices so large that each keeps the machine busy"
    flat = m.array.reshape(-1, p.n, p.n)
    q = p.but(known, matrix=replace(m, array=flat), home=None, in_place=False)
    return Reduction(why, p, [q], _close_together, in_home=True, quiet=known.potentials is not None)


def _close_together(node: Node, D: Any) -> Any:
    flat = D.reshape(-1, *D.shape[-2:])
    node.children[0].run(flat)
    if not array_namespace(flat).may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D


def _how(p: Problem, plan: Plan, backend: Backend) -> str:
    """How matrices of this size are closed together; empty where they are not."""
    n, closures = p.n, backend.capabilities.stack_closures
    assert closures is not None
    if n <= closures.stack_rows(plan):
        return "small matrices: closed side by side by one launch"
    least = schedule_for(backend.name, plan.dtype).together(n)
    if p.matrix.array.size // n**2 < least:
        return ""
    return f"{least} or more matrices of this size: closed together, the same pivots of all of them at a time"


# ----------------------------------------------------------------------------------------------------- one by one


def _each(p: Problem, why: str) -> Reduction:
    """Each matrix as a problem of its own.

    Where some weight is below 0, or an integer beyond half its range, all are looked at before the first is written;
    otherwise one when its turn comes.
    """
    m, known, tropical = p.matrix, p.known, is_tropical(p.semiring)
    shape = m.shape[:-2]
    count = prod(shape)
    least, greatest = as_min_plus(p) if tropical else (None, None)
    below = tropical and p.waits and least is not None and bool(least < 0)
    beyond = tropical and m.dtype.kind == "i" and int(greatest or 0) >= int(inner_zero(min_plus, m.dtype))
    first = below or beyond or gains(p.semiring, known.least, known.greatest)  # whether all looks come first
    shared = known if not first and (m.dtype.kind != "i" if tropical else known.signless) else None
    progress = p.progress

    def one(position: int, index: tuple[int, ...]) -> Problem:
        def report(done: int, total: int) -> None:
            assert progress is not None
            progress(position * total + done, count * total)

        q = p.but(shared, matrix=replace(m, array=m.array[index]), home=p.home[index])
        return q if progress is None or count == 1 else replace(q, progress=report)

    alike = shared is not None and progress is None and p.request.inspect is None
    problems = [one(k, index) for k, index in enumerate(np.ndindex(shape))] if first else []
    why = f"one matrix after the other: {why}"
    return Reduction(why, None, problems, partial(_close_each, one, alike), in_home=True, blame=p.blame)


def _close_each(one: Callable[[int, tuple[int, ...]], Problem], alike: bool, node: Node, D: Any) -> Any:
    p, same = node.inner, None
    for position, index in enumerate(np.ndindex(D.shape[:-2])):
        if same is not None:
            try:
                same.run(p.matrix.array[index], D[index])
            except DATA as error:
                raise p.blame(error, position) from None
            continue
        planned = node.children[position] if node.children else node.plan(one(position, index), position)
        planned.run(D[index])
        if alike and adjacent(D):
            same = planned.passes()
    return D
