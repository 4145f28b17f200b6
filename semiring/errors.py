"""Define the errors and warnings of this library, whose messages name the input, the expectation and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from semiring.advice import advice, install_advice, option, quote

__all__ = [
    "AlgebraError",
    "AlgebraWarning",
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
    """The base class of all errors of this library; each error is also a built-in exception, such as `ValueError`."""


class SuspiciousWeightsWarning(UserWarning):
    """Entries look like the "no edge" of another convention, or a product of probabilities is above 1.

    Examples are the 0 of SciPy's matrices in min-plus, and percentages in max-times.
    """


class DivergenceWarning(UserWarning):
    """The sum over all paths diverges in ordinary arithmetic, and the inverse of I - A is returned in its place."""


class RoundingWarning(UserWarning):
    """Rounding makes a result meaningless.

    Either the laws of a semiring hold for real numbers, and the rounding of a dtype breaks one by far. Or a closure of
    log_plus is so near divergence that its numbers are arbitrary.
    """


class AlgebraWarning(UserWarning):
    """A product uses operations that fail a law of semirings, so that only single products are meaningful."""


class ExpressionError(SemiringError, ValueError):
    """An operation of a semiring cannot be traced or parsed."""


class AlgebraError(SemiringError, ValueError):
    """A claim about a semiring is false, or the definition lacks what a call needs (a star, a selective ⊕)."""


def no_star(name: str, need: str = "") -> AlgebraError:
    """Return the error for a semiring without a star; ``need``: a comma, and the purpose of the star in the call."""
    return AlgebraError(f"{name} has no star{need}: give one, {advice('Semiring(..., star=...)', option('star'))}")


class ShapeError(SemiringError, ValueError):
    """The shapes of the operands are not compatible."""


def square_error(shape: tuple[int, ...], name: str = "A") -> ShapeError:
    """Return the error for a matrix of this shape where a square matrix is needed."""
    rows = f". If its rows are edges, pass semiring.as_network({name}, columns=(0, 1))"
    hint = rows if len(shape) == 2 and shape[1] in (2, 3) else ", or a stack of them" * (len(shape) > 2)
    return ShapeError(f"{name} is {shape}: a square matrix is needed{hint}")


def inner_size_error(A: tuple[int, ...], B: tuple[int, ...]) -> ShapeError:
    """Return the error for a product of operands of these shapes, whose inner sizes differ."""
    return ShapeError(f"A is {A}, B is {B}: inner sizes {A[-1]} and {B[-2] if len(B) > 1 else B[0]} differ")


class DTypeError(SemiringError, TypeError):
    """The semiring is not defined on this dtype, or the operands have no common dtype."""


class DeviceError(SemiringError, TypeError):
    """The array is on a device for which this installation has no backend."""


class DomainError(SemiringError, ValueError):
    """An entry is NaN or lies outside the domain of the semiring.

    Parameters
    ----------
    message : str
        The message.
    position : sequence of int
        The index of the entry, or () if the error is not about one entry.

    Attributes
    ----------
    position
        The index as a tuple.
    """

    def __init__(self, message: str, position: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.position = tuple(position)

    def at(self, *position: int) -> DomainError:
        """Return the same error for an entry of a matrix, if it was raised for a list of entries.

        Parameters
        ----------
        *position : int
            The index of the entry in the matrix.

        Returns
        -------
        DomainError
            A new error with this position.
        """
        before, after = (f"[{', '.join(map(str, index))}]" for index in (self.position, position))
        return DomainError(str(self).replace(before, after, 1), position)

    def named(self, names: Sequence[object] | None) -> DomainError:
        """Return the same error with the names of the edge's vertices.

        Parameters
        ----------
        names : sequence or None
            The names of all n vertices.

        Returns
        -------
        DomainError
            A new error, or this error if the vertices have no names.
        """
        if names is None or len(self.position) != 2 or not max(self.position) < len(names):
            return self
        tail, head = (names[vertex] for vertex in self.position)
        return DomainError(f"{self}; by name, it is the edge {tail} → {head}", self.position)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.position), self.__dict__


class IntegerOverflowError(SemiringError, OverflowError):
    """A finite result or an intermediate sum does not fit the integer dtype; the message names a sufficient dtype."""


_Divergence = TypeVar("_Divergence", bound="DivergenceError")


class DivergenceError(SemiringError, ArithmeticError):
    """The closure does not exist: a pivot has no star.

    Parameters
    ----------
    message : str
        The message.
    vertex : int or None
        The number of the pivot's vertex, or None if it is unknown.
    cycle : sequence of int
        The vertices of a cycle that gains, in order. The first one is not repeated at the end.

    Attributes
    ----------
    vertex
        The number of the pivot's vertex, or None.
    cycle
        The vertices of the cycle as a tuple.
    matrix
        The index of the matrix in a stack, or () for a single matrix.
    """

    matrix: tuple[int, ...] = ()

    def __init__(self, message: str, vertex: int | None = None, cycle: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.vertex, self.cycle = vertex, tuple(cycle)

    def of_paths(self) -> DivergenceError:
        """Return the same error for a function of paths, in terms of paths instead of the closure.

        Returns
        -------
        DivergenceError
            A new error of the same class, or this error if its text fits both.
        """
        return self

    def named(self, names: Sequence[object] | None) -> DivergenceError:
        """Return the same error with the names of the vertices.

        Parameters
        ----------
        names : sequence or None
            The names of all n vertices.

        Returns
        -------
        DivergenceError
            A new error, or this error if the vertices have no names.
        """
        if names is None or self.vertex is None or not max((self.vertex, *self.cycle)) < len(names):
            return self
        stated = str(self).replace(f"vertex {self.vertex},", f"vertex {names[self.vertex]},")
        if self.cycle:
            stated = stated.replace(cycle_text(self.cycle), cycle_text([names[vertex] for vertex in self.cycle]))
        return self._with_matrix(DivergenceError(stated, self.vertex, self.cycle))

    def _with_matrix(self, error: _Divergence) -> _Divergence:
        """Return another statement of this error, about the same matrix of a stack."""
        error.matrix = self.matrix
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.vertex, self.cycle), self.__dict__


_CYCLE_LENGTH = 12  # the most vertices of a cycle that a message lists


def cycle_text(vertices: Sequence[object]) -> str:
    """Return the text of a cycle for messages: at most twelve vertices, and the first one again."""
    vertex_list = [*vertices[:_CYCLE_LENGTH], *(["…"] if len(vertices) > _CYCLE_LENGTH else []), vertices[0]]
    return " → ".join(map(str, vertex_list))


#: The consequence of a cycle that improves without end for `closure`; `NegativeCycleError.of_paths` replaces it.
NO_CLOSURE = "no closure exists"


class NegativeCycleError(DivergenceError):
    """A cycle improves without end: negative in min-plus; positive in max-plus, where it is a `PositiveCycleError`.

    Parameters
    ----------
    message : str
        The message.
    cycle : sequence of int
        The numbers of its vertices in order. The first one is not repeated at the end.
    names : sequence
        The names of these vertices, or () if vertices have no names.

    Attributes
    ----------
    cycle
        The numbers of the vertices as a tuple.
    names
        The names of the vertices as a tuple.
    matrix
        As for `DivergenceError`.
    """

    def __init__(self, message: str, cycle: Sequence[int] = (), names: Sequence[object] = ()) -> None:
        super().__init__(message, cycle=cycle)
        self.names = tuple(names)

    def named(self, names: Sequence[object] | None) -> NegativeCycleError:
        """Return the same error with the names of the vertices.

        Parameters
        ----------
        names : sequence or None
            The names of all n vertices.

        Returns
        -------
        NegativeCycleError
            A new error of the same class, or this error if the vertices have no names.
        """
        if names is None or not self.cycle or not max(self.cycle) < len(names):
            return self
        of_cycle = tuple(names[vertex] for vertex in self.cycle)
        cycle_text = " → ".join(str(name) for name in (*of_cycle, of_cycle[0]))
        return self._with_matrix(type(self)(f"{self}; by name, it is {cycle_text}", self.cycle, of_cycle))

    def of_paths(self) -> NegativeCycleError:
        """Return the same error for a function of paths, in terms of paths instead of the closure.

        Returns
        -------
        NegativeCycleError
            A new error of the same class.
        """
        kind = "longest" if isinstance(self, PositiveCycleError) else "shortest"
        stated = str(self).replace(NO_CLOSURE, f"vertices that a walk over it joins have no {kind} path")
        return self._with_matrix(type(self)(stated, self.cycle, self.names))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.cycle, self.names), self.__dict__


class PositiveCycleError(NegativeCycleError):
    """A cycle of max-plus has a weight above 0, so it is a negative cycle of the negated weights.

    Parameters
    ----------
    message : str
        The message.
    cycle : sequence of int
        The numbers of its vertices in order, as for `NegativeCycleError`.
    names : sequence
        The names of these vertices, or ().
    """


class MethodError(SemiringError, ValueError):
    """A closure method or a rule cannot be loaded, or cannot be registered under this name or with these traits."""


class NoPathError(SemiringError, LookupError):
    """No path leads from one vertex to the other."""


class VertexError(SemiringError, IndexError):
    """No vertex has this number or this name."""


_SHORTEST_PART = 3  # the least letters of a part of a name that finds the name
_NEAREST = 4  # the most names that a message suggests


def did_you_mean(name: object, valid: Sequence[str], remarks: Mapping[str, str] | None = None) -> str:
    """Return the question that suggests the valid names nearest to a name, or "" if no name is near.

    Names with these initials are near, names that contain the name, and names of similar spelling. The ``remarks``
    follow the names.
    """
    from difflib import get_close_matches  # imported for this message only, because it takes two milliseconds

    if not isinstance(name, str):
        return ""
    folded_name = name.casefold()
    initials = [valid for valid in valid if "".join(word[:1] for word in valid.split("_")) == name]
    folded = {valid.casefold(): valid for valid in valid}
    exact = [folded[folded_name]] if folded_name in folded else []
    parts = [folded[key] for key in folded if folded_name in key] if len(folded_name) >= _SHORTEST_PART else []
    near = initials[:1] or exact or parts[:_NEAREST]
    near = near or [folded[key] for key in get_close_matches(folded_name, folded, n=1, cutoff=0.7)]
    suggestions = [f"{each!r}{(remarks or {}).get(each, '')}" for each in near]
    return f" Did you mean {' or '.join(filter(None, (', '.join(suggestions[:-1]), suggestions[-1])))}?" if near else ""


class UnknownNameError(SemiringError, LookupError):
    """A name is not valid; the message lists the valid names.

    Parameters
    ----------
    what : str
        What the name stands for, such as "semiring".
    name : object
        The name, or another object that was given as one.
    valid : iterable of str
        The valid names.
    places : mapping of str to sequence of str, or None
        Places, such as "on a GPU", with the valid names there. The message then lists the names by their places.
    """

    def __init__(
        self, what: str, name: object, valid: Iterable[str], places: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        names, remarks = sorted(valid), {}
        listed = f"Valid names: {', '.join(names)}"
        if places is not None:
            places_by_name = {each: [place for place, members in places.items() if each in members] for each in names}
            remarks = {each: f" (runs {members[0]})" for each, members in places_by_name.items() if len(members) == 1}
            listed = " ".join(
                f"{place[:1].upper()}{place[1:]}: {', '.join(members)}." for place, members in places.items()
            )
        super().__init__(f"no {what} is named {quote(name)}.{did_you_mean(name, names, remarks)} {listed}")
        self._arguments = (what, name, tuple(names), places)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments


class FormatError(SemiringError, ValueError):
    """A file violates its format; the message names the file and, for a text file, the line."""


class StorageError(SemiringError, ValueError):
    """A matrix in a file cannot be closed with these options, because of the memory, the file or the journal."""


class TooLargeError(SemiringError, MemoryError):
    """A result does not fit into memory; the message has the need, the free memory and a call that needs less."""


class MissingExtraError(SemiringError, ImportError):
    """An optional package is not installed; the message says how to install it.

    Parameters
    ----------
    package : str
        The package.
    extra : str
        The extra that installs it, or "" if the package is installed by its own name.
    purpose : str
        What needs the package, the subject of the message.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        how = f"pip install {package}"
        super().__init__(
            f"{purpose} needs {package}, which is not installed: {install_advice(extra) if extra else how}"
        )
        self._arguments = (package, extra, purpose)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments
