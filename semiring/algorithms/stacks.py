"""Close stacks of matrices together by one call of the backend, or one by one; and few vertices whose weights gain.

Together they are encoded as one matrix with one more axis. This needs A*, not A⁺, and an idempotent ⊕. In min-plus it
needs weights ≥ 0, and sums of integers within half their range. Matrices that are large enough to use the whole machine
are closed one by one. The result of one matrix never depends on another matrix, with one exception: if the call must
not wait for the signs, one weight below 0 makes all results NaN.

Weights that gain are below 0 in min-plus, or above 1 in max-times. For few vertices potentials and factors would take
longer than the n³ pairs, so one loop of the backend finds them and closes the matrix.

Cost: count · n³ pairs. The results are bitwise identical to those of separate calls, and to those of larger matrices
(`semiring.kernels.contract.ClosureKernels`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.algorithm import AUTO, Algorithm, Circumstances
from semiring.algorithms.potentials.small_matrices import SMALL
from semiring.algorithms.predecessors import PredecessorSearch
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import add_matrix_index
from semiring.arrays.operands import has_adjacent_elements
from semiring.errors import SemiringError
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, engine_of, make_plan
from semiring.namespaces import Array, array_namespace
from semiring.progress import share_of

if TYPE_CHECKING:
    from semiring.closures.problem import Problem

__all__ = ["OneByOne", "SmallLoop", "StackTogether"]

#: The most bytes of the weights, by kind of dtype, whose sums float64 holds as the search for predecessors adds them.
_SEARCHED_BYTES = {"f": 8, "i": 4}


class SmallLoop(Algorithm):
    """Few vertices, and weights that gain: components, potentials and blocks in one compiled loop, also for a stack."""

    name = "small_loop"
    forms = ("elements",)
    axes = (2, 3)
    is_encoded = False
    gaining_only = True

    def reason_by_options(self, c: Circumstances) -> str | None:
        if c.on_device or c.several or c.method != AUTO:
            return "only of matrices in the memory of the host, by any method"
        if not c.is_small or (c.structure and c.is_large):
            return f"more than {SMALL} vertices" if not c.is_small else "the structure of the graph is known"
        return super().reason_by_options(c)

    def reason_against(self, p: Problem) -> str | None:
        facts = p.facts
        if p.plus or p.progress is not None or facts.rounded_to is not None:
            return "only A*, by any method"
        if 0 in facts.shape:
            return "there is nothing to close"
        if facts.dtype not in (np.float32, np.float64) and facts.dtype.kind != "i":
            return "no numbers that gain"
        if p.predecessors is not None and not facts.is_tropical:
            return "the factors round products by more than a search for paths allows"
        if p.predecessors is not None and facts.dtype.itemsize > _SEARCHED_BYTES[facts.dtype.kind]:
            return "the paths of such integers may not fit float64"
        if not facts.weights_gain:
            return "no weight gains"
        return None if facts.small_loop is not None else "the weights take more care than one loop"

    def cost(self, p: Problem) -> float:
        return 0.0

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        flat = D.reshape(-1, p.n, p.n)
        p.facts.small_loop(flat)
        if not np.may_share_memory(flat, D):  # strides that allow no view
            D[...] = flat.reshape(D.shape)
        if p.predecessors is not None:
            _search_as_given(p, D)
        return D

    def describe(self, p: Problem) -> str:
        if p.is_stack:
            return "small matrices with weights that gain: potentials for all, then closed by one launch"
        return "few vertices, and weights that gain: components, potentials and blocks in one loop"


def _search_as_given(p: Problem, D: Array) -> None:
    """Search the predecessors of closed matrices in the given weights: max-plus as min-plus, integers in float64."""
    facts, semiring = p.facts, p.semiring
    matrices: tuple[Any, Any] = D, facts.operand
    if facts.is_tropical:
        semiring = min_plus
        if facts.dtype.kind == "i":
            wide = [np.where(facts.none == M, facts.sign * np.inf, M) for M in matrices]
            matrices = (wide[0], wide[1])
        if facts.sign < 0:
            matrices = (-matrices[0], -matrices[1])
    plan, search = make_plan(semiring, matrices[0].dtype, threads=p.options.threads), p.predecessors
    assert search is not None
    search.find(engine_of(plan, matrices[0]), *matrices)


def find_small_loop(operand: Array, semiring: Any, threads: int) -> Any:
    """Scan the matrices, and return the backend's loop ``loop(out)``; None if a matrix needs a larger algorithm."""
    n = operand.shape[-1]
    closures = backend_for(operand, semiring, operand.dtype).capabilities.closures
    plan = make_plan(semiring, operand.dtype, threads=threads)
    if closures is None or n > closures.gaining_rows(plan):
        return None
    flat = operand.reshape(-1, n, n)
    scan = closures.survey_gaining(plan, flat)
    return None if scan is None else partial(closures.close_gaining, plan, flat, scan)


class StackTogether(Algorithm):
    """All matrices of a stack by one call of the backend."""

    name = "stack_together"
    forms = ("elements",)
    axes = (3,)
    copies_entries = True

    def reason_against(self, p: Problem) -> str | None:
        facts, backend = p.facts, p.backend
        if 0 in facts.shape:
            return "there is nothing to close"
        if p.plus:
            return "A⁺ of each matrix needs its own A*"
        if p.progress is not None:
            return "progress is reported for each matrix"
        if not backend.capabilities.provides("close_stack") or not p.semiring.idempotent:
            return "the backend closes one matrix at a time"
        if not facts.sums_are_safe:
            return "the weights of each matrix need a validation of their own"
        if _is_small(p) or _are_many(p):
            return None
        return f"fewer than {_least_stack(p):,} matrices of {p.n:,} vertices, each of which uses the whole machine"

    def cost(self, p: Problem) -> float:
        return 0.0

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        closures: Any = engine.capabilities.closures
        if p.predecessors is not None:
            matrix = p.bound_matrix

            def fill(part: slice) -> None:
                if matrix.is_unchanged:
                    matrix.encode(entries[part], D[part])
                else:
                    D[part] = entries[part]

            if _is_small(p) and p.predecessors.close(engine, D, entries, fill):
                return D
            fill(slice(None))
        closures.close_stack(engine.plan, D)
        return D

    def describe(self, p: Problem) -> str:
        if _is_small(p):
            return "small matrices: closed side by side by one launch"
        return f"{_least_stack(p)} or more matrices of this size: closed together, pivot by pivot"


def _is_small(p: Problem) -> bool:
    """Return whether the backend closes matrices of this size side by side, whatever their number."""
    closures: Any = p.backend.capabilities.closures
    return bool(p.n <= closures.stack_rows(p.kernel_plan))


def _are_many(p: Problem) -> bool:
    return bool(p.facts.shape[0] >= _least_stack(p))


def _least_stack(p: Problem) -> int:
    """Return the least number of matrices of this size that are closed together."""
    return schedule_for(p.backend.name, p.facts.dtype).min_stack(p.n)


class OneByOne(Algorithm):
    """The matrices of a stack one by one, as problems of their own."""

    name = "one_by_one"
    forms = ("elements",)
    axes = (3,)
    divides = gives_plus = True
    is_encoded = False

    def cost(self, p: Problem) -> float:
        return float(p.facts.shape[0]) * p.dense_cost

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        """Close each matrix. Unless no error can follow, each is chosen before the first one is written."""
        facts = p.facts
        is_validated = facts.sums_are_safe
        has_to_fit = p.circumstances.is_structural  # a graph that the named method does not close is an error
        parts = [_matrix(p, number, is_validated, D[number]) for number in range(facts.shape[0])]
        if p.predecessors is not None:
            parts = [part.replace(predecessors=PredecessorSearch()) for part in parts]
        closings: list[Any] = [part.close for part in parts]
        if not is_validated or has_to_fit:
            closings = [_with_index(p, number, part.choose).run for number, part in enumerate(parts)]
        elif parts and not p.circumstances.is_large:  # the choice reads only facts that are those of the stack
            first = parts[0].choose()
            closings = [first.run, *(first.for_equal(part).run for part in parts[1:])]
        for number, (part, close) in enumerate(zip(parts, closings, strict=True)):
            _with_index(p, number, close, D[number].T if part.facts.is_transposed else D[number])
        if p.predecessors is not None:
            _collect_predecessors(p, parts, D)
        return D

    def describe(self, p: Problem) -> str:
        return "one matrix after the other"


def _with_index(p: Problem, number: int, function: Any, *arguments: Any) -> Any:
    """Call a function, and add the index of the matrix to its error."""
    try:
        return function(*arguments)
    except SemiringError as error:
        raise add_matrix_index(error, np.unravel_index(number, p.stack)) from None


def _matrix(p: Problem, number: int, is_validated: bool, out: Array) -> Problem:
    """Return the problem of one matrix of the stack, closed as its transpose if the result has adjacent columns."""
    facts = p.facts
    A = facts.operand[number]
    has_columns = not has_adjacent_elements(out) and has_adjacent_elements(out.T)
    is_transposed = has_columns and p.semiring.commutative
    pairs = p.n**3
    report = share_of(p.progress, number * pairs, (number + 1) * pairs, facts.shape[0] * pairs)
    found = {"scan": facts.scan, "counts_paths": facts.counts_paths} if is_validated else {}
    return p.matrix_of_stack(A.T if is_transposed else A, found, is_transposed, progress=report, place=number)


def _collect_predecessors(p: Problem, parts: list[Problem], D: Array) -> None:
    """Join the predecessors of all matrices. Matrices that were closed as packed bits are searched here."""
    xp, trees = array_namespace(D), []
    for number, part in enumerate(parts):
        search: Any = part.predecessors
        if search.predecessors is None:
            plan = make_plan(p.options.semiring, D.dtype, threads=p.options.threads)
            search.find(engine_of(plan, D), D[number], p.facts.operand[number])
        trees.append(search.predecessors)
    joined: Any = p.predecessors
    joined.predecessors = xp.stack(trees) if trees else xp.empty(D.shape, np.int32)
