"""Define questions about the entries of a matrix, and the questions that several rules share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from semiring import profiling
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.scales import may_gain
from semiring.arrays.encoding import inner_zero
from semiring.closures.call import Call, is_tropical

__all__ = ["Question", "is_symmetric", "products_gain", "question", "signs", "sums_are_safe"]

Answer = TypeVar("Answer")


class Question(Generic[Answer]):
    """A discrete fact about the entries of a call, which ``answer(call)`` computes; made by `question`."""

    def __init__(self, answer: Callable[[Call], Answer], default: Answer | None) -> None:
        self.answer, self.default = answer, default
        self.__name__, self.__doc__ = answer.__name__, answer.__doc__

    @cached_property
    def text(self) -> str:
        """The name of the question in an explanation."""
        return self.__name__.replace("_", " ")

    def find(self, call: Call) -> Answer:
        """Return the answer, and record a span of a profile."""
        with profiling.span("scan", self.text):
            return self.answer(call)

    def __repr__(self) -> str:
        return f"<question: {self.text}>"


def question(default: Any = None) -> Callable[[Callable[[Call], Answer]], Question[Answer]]:
    """Make a question of a function of a call, which returns a bool, or one of a few numbers or texts.

    ``default`` is the answer for a call that may not wait for a GPU. Such a call raises `MethodError` for a question
    without a default.
    """
    return lambda answer: Question(answer, default)


@question(default="zero")
def signs(call: Call) -> Literal["clear", "zero", "below"]:
    """Classify the signs of the weights; weights of max-plus are negated first.

    "clear": no weight is below 0, and no sign bit is set. "zero": no weight is below 0. "below": a weight is below 0,
    or the range is unknown.
    """
    if not is_tropical(call.kind.options.semiring):
        low, _, _, nonnegative = call.scan
        return "clear" if nonnegative else "zero" if low is not None and low >= 0 else "below"
    least = call.least_weight
    if least is None or least < 0:
        return "below"
    if call.needs_least_weight_only:
        return "zero"
    return "clear" if call.scan.nonnegative and call.sign > 0 else "zero"


@question(default=False)
def products_gain(call: Call) -> bool:
    """Return whether a weight of max-times or min-times gains."""
    part = call.kind.part
    return may_gain(call.semiring if part is None else part.semiring, call.scan.low, call.scan.high)


@question(default=True)
def sums_are_safe(call: Call) -> bool:
    """Return whether no weight of a stack gains, and no sum of integers comes near "no path"."""
    if not is_tropical(call.semiring):
        return not may_gain(call.semiring, call.scan.low, call.scan.high)
    if call.least_weight is None or call.least_weight < 0:
        return False
    if call.kind.dtype.kind != "i":
        return True
    none = int(inner_zero(min_plus, call.kind.dtype))
    return call.greatest_weight is None or bool(call.greatest_weight <= (none - 1) // (call.n + 1))


@question()
def is_symmetric(call: Call) -> bool:
    """Return whether the graph is undirected: the matrix is bitwise identical to its transpose."""
    return bool(call.structure.is_symmetric)
