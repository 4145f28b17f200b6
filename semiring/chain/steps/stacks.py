"""A stack of matrices: all of them together where the values of all allow it, else one after the other.

Together they go through the steps as one problem with an axis more, and a backend closes them by one call. That takes
A*, not A⁺, and an idempotent ⊕. Of min-plus it takes weights ≥ 0, of integers sums that stay in half their range. Small
matrices some of whose weights gain are closed together where the backend has a loop for them (`GainingClosures`).
Matrices so large that each keeps the machine busy by itself go alone. The result of one never depends on the others;
only where nobody may wait to see the weights, one below 0 makes all of them NaN.

Cost: count · n³ pairs. The bits are those of the matrices closed alone.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.methods import Method
from semiring.algorithms.schedule import schedule_for
from semiring.chain.gaining import gaining
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Look, Problem, Reduction, is_tropical, of_matrix, promises, step
from semiring.errors import SemiringError
from semiring.kernels.engine import Engine, make_plan
from semiring.namespaces import array_namespace

__all__ = ["stacks"]


@step
def stacks(p: Problem) -> Look:
    """All matrices as one problem, or each as its own."""
    m, known = p.matrix, p.known
    yield m.storage == "bits" or len(m.shape) == 2, "one matrix"
    alike = any(map(known.keep, promises(p.semiring, m.dtype, p.n, asks=False)))
    found = _together(p, alike)
    return found if isinstance(found, Reduction) else _each(p, alike, found.why)


@step
def _together(p: Problem, alike: bool) -> Look:
    """All matrices by one call; ``alike``: whether what is known of all of them spares a look at each."""
    m, n, method, backend = p.matrix, p.n, p.request.method, p.backend
    closures: Any = backend.capabilities.stack_closures
    yield not m.array.size, "there is nothing to close"
    yield method != "auto", f"{method} was named, and a named method closes one matrix at a time"
    yield p.plus, "A⁺ of each matrix needs its own A*"
    yield p.progress is not None, "progress is reported for each matrix"
    yield closures is None or not p.semiring.idempotent, "the backend closes one matrix at a time"
    if not alike:
        own = m.as_it_is and m.rounded_to is None
        program: Any = gaining(p.semiring, p.request.threads, p.entries) if own else None
        yield program is None, "the weights of each matrix need a validation of their own"
        p.request.explanation.closed_by(str(p.method), backend.name, m)
        why = "small matrices with weights that gain: potentials for all, then closed by one launch"
        return Reduction(why, p, close=lambda node, D: program(m.array, D), in_home=True)
    plan = make_plan(min_plus, m.dtype, nonnegative=True) if is_tropical(p.semiring) else p.kernel_plan()
    flat = m.array.reshape(-1, n, n)
    least, why = schedule_for(backend.name, m.dtype).together(n), "small matrices: closed side by side by one launch"
    if n > closures.stack_rows(plan):
        yield len(flat) < least, "each matrix is large enough to use the whole machine"
        why = f"{least} or more matrices of this size: closed together, pivot by pivot"
    q = p.but(p.facts, stack=m.shape[:-2], method=Method(str(p.method), _close_stack))
    if len(m.shape) == 3:
        return Reduction(why, q)
    return Reduction(why, p, [q.but(p.facts, array=flat, home=None)], close=_close_flat, in_home=True)


def _close_stack(engine: Engine, A: Any) -> None:
    closures: Any = engine.capabilities.stack_closures
    closures.close_stack(engine.plan, A)


def _close_flat(node: Node, D: Any) -> Any:
    flat = D.reshape(-1, *D.shape[-2:])
    node.children[0].close(node.inner.matrix.array.reshape(flat.shape), flat)
    if not array_namespace(flat).may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D


def _of_stack(p: Problem, error: SemiringError, which: int) -> SemiringError:
    """An error of the matrix of that number."""
    return of_matrix(error, np.unravel_index(which, p.matrix.shape[:-2]))


def _each(p: Problem, alike: bool, why: str) -> Reduction:
    """Each matrix as a problem of its own. All are looked at before the first is written, unless they are alike."""
    indices = np.ndindex(p.matrix.shape[:-2])
    problems = [] if alike else [_one(p, None, k, index) for k, index in enumerate(indices)]
    why = f"one matrix after the other: {why}"
    return Reduction(why, None, problems, close=_close_each, in_home=True, blame=partial(_of_stack, p))


def _one(p: Problem, facts: Facts | None, position: int, index: tuple[int, ...]) -> Problem:
    report = p.progress and partial(_report, p.progress, position, prod(p.matrix.shape[:-2]))
    alone = p.matrix.rounded_to is None
    return p.but(facts, array=p.entries[index], home=p.home[index], progress=report, alone=alone)


def _report(progress: Any, position: int, count: int, done: int, total: int) -> None:
    """Tell of the matrix at that position."""
    progress(position * total + done, count * total)


def _close_each(node: Node, D: Any) -> Any:
    p = node.inner
    for k, index in enumerate(np.ndindex(D.shape[:-2])):
        one = node.children[k] if node.children else node.plan(_one(p, p.facts, k, index), k)
        one.solve(D[index])
    return D
