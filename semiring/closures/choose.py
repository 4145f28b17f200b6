"""Choose the cheapest algorithm for a problem.

The candidates for large or sparse matrices are evaluated in the order of their least costs, which need no scan. A
candidate whose least cost exceeds the best cost so far is not evaluated, so its scans are not made. All answers
together are the explanation.

`choose` only reads, and raises every error of the entries. `semiring.closures.run` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from semiring.advice import option
from semiring.algorithms.algorithm import AUTO, Algorithm, Circumstances, Method, check_backend, missing_needs
from semiring.algorithms.dense import Dense, dense_method_of
from semiring.algorithms.methods import candidates_in_order, check_method, matrix_methods, method_named, methods_for
from semiring.algorithms.potentials.scales import has_factors
from semiring.algorithms.schedule import BLOCKED
from semiring.arrays.memory import format_bytes
from semiring.arrays.zero_conventions import warn_of_other_zeros, warn_of_other_zeros_on_device
from semiring.closures.encodings import encodings_for, half_precision
from semiring.closures.explain import Answer
from semiring.closures.problem import Facts, Problem
from semiring.closures.run import run
from semiring.errors import AlgebraError, DeviceError, SemiringError
from semiring.kernels import backend_for
from semiring.logs import DEBUG, log_choice, logger
from semiring.registrations import register_callback

__all__ = ["Choice", "cheapest", "choose", "choose_with_warnings", "encode", "reason_against", "whole_matrix_error"]

_EXCEEDED = "not evaluated: its lower bound exceeds the best cost"


@dataclass(slots=True)
class Choice:
    """The algorithm for a problem, with the problem as the algorithm closes it, and that of the caller.

    ``choice.run(out)`` returns the closure, in ``out`` or in a new array; ``out`` may be the operand.
    """

    algorithm: Algorithm
    problem: Problem
    origin: Problem
    answers: tuple[Answer, ...]  # of every encoding and candidate

    run = run

    def for_equal(self, p: Problem) -> Choice:
        """Return the choice for a problem of the same form, all of whose facts that this choice has read are equal."""
        fields = {"facts": p.facts, "predecessors": p.predecessors, "progress": p.progress, "place": p.place}
        return Choice(self.algorithm, self.problem.replace(**fields), p, ())

    @property
    def method_name(self) -> str:
        """The name of the method that closes the matrix: for dense matrices that of the table of sizes."""
        a = self.algorithm
        return dense_method_of(self.problem).name if isinstance(a, Dense) else a.name


def choose(p: Problem) -> Choice:
    """Return the cheapest algorithm for a problem. Raises the errors of the entries, and writes nothing.

    Raises `AlgebraError` and `DeviceError` if the method that the caller named does not close the problem.
    """
    facts, origin = p.facts, p
    answers: list[Answer] = []
    if p.options.compute_dtype is not None or (facts.storage == "elements" and facts.dtype.itemsize == 2):
        wide = half_precision(p)
        answers.append(_answer(p, wide, half_precision))
        p = p if isinstance(wide, str) else wide
        facts = p.facts
    if p.options.method != AUTO:
        _check_named_method(p)
    may_gain, kind = facts.is_tropical or has_factors(facts.semiring), facts.dtype.kind
    if facts.storage == "elements" and (facts.may_scan or facts.is_tropical):
        is_below = facts.signs == "below"  # the signs raise `DomainError`, unless the call must not wait for a device
        may_gain = is_below if facts.is_tropical else may_gain
    if kind == "i":
        _ = facts.counts_paths  # raises `DTypeError` and `IntegerOverflowError`
    circumstances = p.circumstances
    allowed, excluded = _candidates(circumstances, may_gain, may_gain and facts.is_tropical and kind == "f")
    if circumstances.is_large or facts.storage == "sparse":
        allowed = tuple(sorted(allowed, key=lambda a: a.least_cost(p)))
    best = cheapest(allowed, p, answers)
    answers += excluded
    if best is None:
        return _choose_instead(p, origin, answers)
    a, q = best
    if q.dense_method is not None and q.dense_method.name == a.name:
        a = q.dense_method  # the named method on the GPUs that divide the matrix
    q = a.prepare(q)
    if a.is_encoded and q.matrix.needs_binding:
        _ = q.bound_matrix  # finds potentials, or raises
    choice = Choice(a, q, origin, tuple(answers))
    if logger().isEnabledFor(DEBUG) and not facts.is_part:
        shape = " × ".join(map(str, facts.shape))
        log_choice(f"closure of {shape} {facts.dtype} in {facts.semiring.name}", choice.method_name, a.describe(q))
    return choice


Problem.choose = choose  # the parts of a problem are chosen by the same function


def cheapest(candidates: Sequence[Algorithm], p: Any, answers: list[Answer]) -> tuple[Algorithm, Any] | None:
    """Return the cheapest candidate that closes a problem, with the problem as it reads it; None if none does.

    The candidates are evaluated in their order, and add their answers. If they are in the order of their least costs,
    few are evaluated. A candidate that the caller named is chosen if it applies. The cost of a single candidate is
    only computed for an explanation.
    """
    has_rivals = len(candidates) > 1 or getattr(p, "explanation", None) is not None
    best: tuple[float, Algorithm, Any] | None = None
    encoded: Any = None
    for a in candidates:
        is_named = a.name == p.options.method
        if best is not None and not is_named and _cannot_be_cheaper(a, p, best[0]):
            answers.append(Answer("algorithm", a.name, _EXCEEDED))
            continue
        if a.is_encoded and encoded is None:
            encoded = encode(p, answers)
        q = encoded if a.is_encoded else p
        why = reason_against(a, q)
        if why is not None:
            answers.append(Answer("algorithm", a.name, why))
            continue
        cost = a.cost(q) if has_rivals else 0.0
        rank = 0.0 if is_named else cost
        if best is None or rank < best[0]:
            why = _late_reason(a, q)
            best = (rank, a, q) if why is None else best
        answers.append(Answer("algorithm", a.name, why or "", cost, why is None))
    return None if best is None else best[1:]


def _cannot_be_cheaper(a: Algorithm, p: Any, cost: float) -> bool:
    return cost <= 0 or a.least_cost(p) >= cost or a.tighter_bound(p) >= cost


def reason_against(a: Algorithm, p: Any) -> str | None:
    """Return why an algorithm does not close a problem, by its traits or by its own reason, or None."""
    if a.is_encoded and p.matrix.storage not in a.storages:
        return "the entries are no packed bits" if "bits" in a.storages else "the entries are packed bits"
    if a.below_zero_only and not p.is_shifted:
        return _reason_by_signs(a, may_gain=True)
    if a.needs and (lacks := missing_needs(a, p.backend)):
        return f"the backend has no {', '.join(lacks)}"
    return a.reason_against(p)


def _reason_by_signs(a: Algorithm, may_gain: bool = False, may_shift: bool = False) -> str | None:
    """Return why an algorithm does not close entries of which none gains, or none is a float below 0, or None."""
    if a.below_zero_only and not may_shift:
        return "no floating-point weight is below 0"
    return "no weight gains" if a.gaining_only and not may_gain else None


def encode(p: Problem, answers: list[Any]) -> Problem:
    """Return the problem under all encodings that apply, and add their answers."""
    for encoding in encodings_for(p.facts.semiring, p.facts.dtype):
        result = encoding(p)
        if p.explanation is not None:
            answers.append(_answer(p, result, encoding))
        p = p if isinstance(result, str) else result
    return p


def _answer(p: Problem, result: Problem | str, encoding: Any) -> Answer:
    """Return what an encoding of a problem answered."""
    name = encoding.__name__.replace("_", " ")
    if isinstance(result, str):
        return Answer("encoding", name, result)
    changes = any(getattr(result, name) is not getattr(p, name) for name in ("matrix", "facts", "semiring"))
    return Answer("encoding", name, "" if changes else "nothing to change", None, changes)


def _late_reason(a: Algorithm, p: Problem) -> str | None:
    """Return why an algorithm that would be chosen does not close a problem after all."""
    if not (a.is_encoded and p.is_shifted) or a.divides:
        return a.late_reason(p)
    if p.facts.strips is None and not p.facts.is_strongly_connected:  # pieces are read under potentials of all
        return "each strong component needs potentials of its own"
    return "the weights need exact potentials" if p.facts.needs_exact_potentials else a.late_reason(p)


@register_callback
def _forget_candidates() -> None:
    """Forget the candidates after a method was registered or removed."""
    _candidates.cache_clear()


@lru_cache(maxsize=1024)
def _candidates(c: Circumstances, may_gain: bool, may_shift: bool) -> tuple[tuple[Algorithm, ...], tuple[Answer, ...]]:
    """Return the candidates that the circumstances allow, and the answers of the others.

    ``may_gain``, ``may_shift``: whether weights may gain, and whether they may be floats below 0, which are read under
    potentials.
    """
    candidates = candidates_in_order(c.method, c.method_options)
    reasons = [(a, a.reason_by_options(c) or _reason_by_signs(a, may_gain, may_shift)) for a in candidates]
    allowed = tuple(a for a, why in reasons if why is None)
    return allowed, tuple(Answer("algorithm", a.name, why) for a, why in reasons if why is not None)


# ------------------------------------------------------------------------------------------------------ named methods


def _check_named_method(p: Problem) -> None:
    """Raise `AlgebraError` or `DeviceError` if the named method closes no matrix of this form, before any scan."""
    facts, name = p.facts, p.options.method
    if facts.is_part:
        return
    if facts.devices and name != BLOCKED:
        raise AlgebraError(f"{name} does not run on several GPUs: use {BLOCKED}, or one of them")
    method, storage = method_named(name), "bits" if facts.storage == "bits" else "elements"
    backend = backend_for(facts.memory, facts.semiring, facts.dtype, storage)
    if isinstance(method, Method) or (method.reads_edges and storage == "bits"):
        check_method(name, backend, storage)
    else:
        check_backend(method, backend, methods_for)
    if not method.supports(facts):
        raise AlgebraError(
            f"{name} closes {method.semirings} in {method.dtypes}. For {facts.semiring.name} on {facts.dtype}, pass "
            f"{_list_alternatives(p, backend, storage)}"
        )


def _list_alternatives(p: Problem, backend: Any, storage: str) -> str:
    """Return the options with the methods that close such a matrix, as a list in words."""
    names, semiring = [], p.semiring
    may_square = semiring.idempotent and (semiring.selective or semiring.absorptive)
    for name in matrix_methods():
        if name != AUTO and (name != "squaring" or may_square):
            with suppress(AlgebraError, DeviceError):
                check_method(name, backend, storage)
                names.append(name)
    return " or ".join([", ".join([option("method", AUTO), *names[:-1]]), *names[-1:]])


def _choose_instead(p: Problem, origin: Problem, answers: list[Answer]) -> Choice:
    """Choose by the fallback of the named method. Raises `AlgebraError` if it has none."""
    name = p.options.method
    method, facts = method_named(name), p.facts
    why = next((answer.why for answer in answers if answer.name == name), "it closes no matrix of this form")
    if facts.strips is not None:
        raise whole_matrix_error(facts, why)
    fallback = method.fallbacks.get(why)
    if fallback is None:
        raise AlgebraError(
            f"{name} closes {method.requires or 'other matrices'}, and does not close this matrix: {why}. Use "
            f"{option('method', AUTO)}, or another method"
        )
    p.note(f"{why}: closed by {option('method', fallback)}")
    operand = facts.A if facts.storage == "sparse" else facts.operand
    options = facts.options._replace(method=fallback, method_options=())
    choice = choose(p.with_facts(facts.of(operand, options)))
    return replace(choice, origin=origin, answers=(*answers, *choice.answers))


def whole_matrix_error(facts: Facts, why: str) -> AlgebraError:
    """Return the error for a matrix in pieces that only an algorithm for a whole matrix closes, with the reason."""
    strips: Any = facts.strips
    return AlgebraError(
        f"{why}: that needs the whole matrix in memory, and this matrix is closed by {strips.piece_name} of it; read "
        f"it and close it in memory, which takes {format_bytes(facts.operand.nbytes)} at least"
    )


# ----------------------------------------------------------------------------------------------------------- warnings


def choose_with_warnings(p: Problem) -> Choice:
    """Choose, and warn if edges look like the "no edge" of another convention, also where they cause an error."""
    warns = p.options.check and p.facts.storage != "bits"
    try:
        choice = choose(p)
    except SemiringError:
        if warns:  # the warning may name the cause of the error
            _warn_of_zeros(p.facts)
        raise
    if warns:
        _warn_of_zeros(p.facts if choice.problem.rounded_result is None else choice.problem.facts)
    return choice


def _warn_of_zeros(facts: Facts) -> None:
    found = facts.__dict__
    if facts.storage == "sparse":
        if "A" in found:  # the edges have become a matrix
            warn_of_other_zeros(facts.A, facts.semiring)
    elif (found.get("least_weight") or 0) > 0 and facts.n != 3:  # three rows may list edges
        return
    elif not facts.on_device:
        warn_of_other_zeros(facts.operand, facts.semiring)
    elif "scan" in found:
        warn_of_other_zeros_on_device(facts.operand, facts.semiring, facts.scan)
