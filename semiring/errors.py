"""Every error and warning of this library. Each says what was given, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from semiring.advice import advice, installing, option

__all__ = [
    "AlgebraError",
    "DTypeError",
    "DeviceError",
    "DivergenceError",
    "DivergenceWarning",
    "DomainError",
    "ExpressionError",
    "FormatError",
    "IntegerOverflowError",
    "MethodError",
    "MissingExtraError",
    "NegativeCycleError",
    "NoPathError",
    "PositiveCycleError",
    "RoundingWarning",
    "SemiringError",
    "ShapeError",
    "StorageError",
    "SuspiciousWeightsWarning",
    "TooLargeError",
    "UnknownNameError",
    "VertexError",
]


class SemiringError(Exception):
    """The base of every error of this library; each one is also the built-in exception a caller would expect."""


class SuspiciousWeightsWarning(UserWarning):
    """Entries look as if they were meant to be no edges, such as the 0 of SciPy's matrices in min-plus; or a product of
    probabilities is above 1, as of percentages.
    """


class DivergenceWarning(UserWarning):
    """The sum over all paths diverges in ordinary arithmetic, and the inverse of I - A is returned in its place."""


class RoundingWarning(UserWarning):
    """Rounding decides: the laws of a semiring hold for numbers, and that of a dtype breaks one by far; or a closure of
    log_plus is so near divergence that its numbers say nothing.
    """


class ExpressionError(SemiringError, ValueError):
    """An operation of a semiring cannot be traced or parsed."""


class AlgebraError(SemiringError, ValueError):
    """A claim about a semiring is false, or the definition lacks what a call needs (a star, a selective ⊕)."""


def no_star(name: str, need: str = "") -> AlgebraError:
    """Return the error for a semiring without a star; ``need`` says, after a comma, what the call needs it for."""
    return AlgebraError(f"{name} has no star{need}: give one, {advice('Semiring(..., star=...)', option('star'))}")


class ShapeError(SemiringError, ValueError):
    """The shapes of the operands do not fit each other."""


class DTypeError(SemiringError, TypeError):
    """The semiring is not defined on this dtype, or the operands have no common one."""


class DeviceError(SemiringError, TypeError):
    """The array lives on a device for which this installation has no backend."""


class DomainError(SemiringError, ValueError):
    """An entry is NaN or lies outside the domain of the semiring.

    ``position`` is its index, where one entry is to blame; else ().
    """

    def __init__(self, message: str, position: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.position = tuple(position)

    def at(self, *position: int) -> DomainError:
        """The same error of the entry ``position`` of a matrix, where it was looked at in a list of entries."""
        before, after = (f"[{', '.join(map(str, index))}]" for index in (self.position, position))
        return DomainError(str(self).replace(before, after, 1), position)

    def named(self, names: Sequence[object] | None) -> DomainError:
        """The same error, which also says what the vertices of the edge are called; itself where they have no names."""
        if names is None or len(self.position) != 2 or not max(self.position) < len(names):
            return self
        tail, head = (names[vertex] for vertex in self.position)
        return DomainError(f"{self}; by name, it is the edge {tail} → {head}", self.position)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.position), self.__dict__


class IntegerOverflowError(SemiringError, OverflowError):
    """A finite result, or a sum on the way to it, does not fit the integer dtype; the message names what holds it."""


class DivergenceError(SemiringError, ArithmeticError):
    """The closure does not exist: a pivot has no star.

    ``vertex`` is the number of its vertex, where it is known, and ``cycle`` lists those of a cycle that gains, in
    order, the first one not repeated at the end. ``matrix`` is the index of the matrix of a stack in which that is so,
    and () where there was one matrix only.
    """

    matrix: tuple[int, ...] = ()

    def __init__(self, message: str, vertex: int | None = None, cycle: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.vertex, self.cycle = vertex, tuple(cycle)

    def named(self, names: Sequence[object] | None) -> DivergenceError:
        """Return the same error with the names of the vertices; itself where they have none."""
        if names is None or self.vertex is None or not max((self.vertex, *self.cycle)) < len(names):
            return self
        stated = str(self).replace(f"vertex {self.vertex},", f"vertex {names[self.vertex]},")
        if self.cycle:
            stated = stated.replace(shown_cycle(self.cycle), shown_cycle([names[vertex] for vertex in self.cycle]))
        return DivergenceError(stated, self.vertex, self.cycle)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.vertex, self.cycle), self.__dict__


_SHOWN = 12  # vertices of a cycle that a message lists


def shown_cycle(vertices: Sequence[object]) -> str:
    """Return the cycle as messages show it, from the first vertex back to it: its first twelve, by number or name."""
    shown = [*vertices[:_SHOWN], *(["…"] if len(vertices) > _SHOWN else []), vertices[0]]
    return " → ".join(map(str, shown))


#: What a cycle that improves without end means for `closure`; `NegativeCycleError.of_paths` restates it for paths.
NO_CLOSURE = "no closure exists"


class NegativeCycleError(DivergenceError):
    """A cycle improves without end: negative in min-plus; positive in max-plus, where it is a `PositiveCycleError`.

    ``cycle`` lists the numbers of its vertices in order, the first one not repeated at the end; ``names`` what they are
    called, where names were given. ``matrix`` as for `DivergenceError`.
    """

    def __init__(self, message: str, cycle: Sequence[int] = (), names: Sequence[object] = ()) -> None:
        super().__init__(message, cycle=cycle)
        self.names = tuple(names)

    def named(self, names: Sequence[object] | None) -> NegativeCycleError:
        """The same error, which also says what the vertices are called; itself where they have no names."""
        if names is None or not self.cycle or not max(self.cycle) < len(names):
            return self
        found = tuple(names[vertex] for vertex in self.cycle)
        shown = " → ".join(str(name) for name in (*found, found[0]))
        return type(self)(f"{self}; by name, it is {shown}", self.cycle, found)

    def of_paths(self) -> NegativeCycleError:
        """The same error of a function of paths: it says that no best paths exist, where that of `closure` says so."""
        kind = "longest" if isinstance(self, PositiveCycleError) else "shortest"
        stated = str(self).replace(NO_CLOSURE, f"no {kind} paths exist")
        return type(self)(stated, self.cycle, self.names)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.cycle, self.names), self.__dict__


class PositiveCycleError(NegativeCycleError):
    """A cycle of max-plus has a weight above 0: it is the negative cycle of the weights with their signs turned."""


class MethodError(SemiringError, ValueError):
    """A closure method, or a rule, cannot be registered under this name or with these traits, or not be loaded."""


class NoPathError(SemiringError, LookupError):
    """No path leads from one vertex to the other."""


class VertexError(SemiringError, IndexError):
    """There is no such vertex, neither by number nor by name."""


def did_you_mean(name: str, valid: Sequence[str]) -> str:
    """The question, of the nearest of the valid names; "" where none is near."""
    from difflib import get_close_matches  # only for this message: two milliseconds of every import

    initials = [valid for valid in valid if "".join(word[:1] for word in valid.split("_")) == str(name)]
    folded = {valid.casefold(): valid for valid in valid}
    near = initials or [folded[key] for key in get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.7)]
    return f" Did you mean {near[0]!r}?" if near else ""


class UnknownNameError(SemiringError, LookupError):
    """A name is not in the list it was looked up in; the message holds the list."""

    def __init__(self, what: str, name: str, valid: Iterable[str]) -> None:
        names = sorted(valid)
        super().__init__(f"no {what} is named {name!r}.{did_you_mean(name, names)} Valid names: {', '.join(names)}")
        self._arguments = (what, name, tuple(names))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments


class FormatError(SemiringError, ValueError):
    """A file does not hold what its format promises; the message names the file and, where there is one, the line."""


class StorageError(SemiringError, ValueError):
    """A matrix in a file cannot be closed as asked: the memory, the file or the journal does not allow it."""


class TooLargeError(SemiringError, MemoryError):
    """A result would not fit into memory; the message says what it takes, what is free, and which call answers."""


class MissingExtraError(SemiringError, ImportError):
    """An optional package is not installed; the message names the extra that brings it, or the package (extra "")."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        how = f"pip install {package}"
        super().__init__(f"{purpose} needs {package}, which is not installed: {installing(extra) if extra else how}")
        self._arguments = (package, extra, purpose)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments
