"""Read the notation of `numpy.einsum`: the label of each axis of each operand, and the labels of the result.

A label is one letter, of any alphabet. The axes of an ellipsis have labels from the private use area of Unicode, which
are no letters. They are numbered from the right, as NumPy broadcasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import index
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple, TypeAlias

from semiring.advice import quote
from semiring.errors import ShapeError

__all__ = ["Notation", "Subscripts", "display", "label_number", "read_notation", "split_arguments"]

_ELLIPSIS = "…"
_FIRST_ELLIPSIS_LABEL = (
    0xE000  # the label of the last axis of an ellipsis: a character for private use, which is no letter
)
_MAX_AXES = 64  # NumPy's limit on the axes of an array

# Labels that replace the numbers in lists, in order: letters as in NumPy, then ideographs from this code point on.
_LETTERS, _IDEOGRAPHS = ascii_uppercase + ascii_lowercase, 0x4E00


class Notation(NamedTuple):
    """The labels of the axes of each operand and of the result, one character each."""

    terms: tuple[str, ...]
    output: str

    @property
    def text(self) -> str:
        """The notation as a caller writes it."""
        return display(",".join(self.terms) + "->" + self.output)


def display(text: str) -> str:
    """Return labels as a text. An axis of the ellipsis is a number in brackets, 0 for the last axis."""
    return "".join(
        f"[{ord(one) - _FIRST_ELLIPSIS_LABEL}]"
        if _FIRST_ELLIPSIS_LABEL <= ord(one) < _FIRST_ELLIPSIS_LABEL + _MAX_AXES
        else one
        for one in text
    )


def _labels_of_ellipsis(count: int) -> str:
    """Return the labels of the last ``count`` axes that an ellipsis stands for."""
    return "".join(chr(_FIRST_ELLIPSIS_LABEL + place) for place in reversed(range(count)))


Subscripts: TypeAlias = str | tuple[tuple[str, ...], str | None]


def split_arguments(arguments: Sequence[Any]) -> tuple[Subscripts, list[Any]]:
    """Return the subscripts and the operands.

    ``arguments`` are (subscripts, *operands), or (operand, labels, operand, labels, …), as in `numpy.einsum`. Labels of
    lists become terms, and an output or None, with "…" for an ellipsis. Raises `ValueError` and `TypeError`.
    """
    return (arguments[0], list(arguments[1:])) if isinstance(arguments[0], str) else _split_lists(list(arguments))


@lru_cache(maxsize=256)
def read_notation(subscripts: Subscripts, shapes: tuple[tuple[int, ...], ...]) -> tuple[Notation, Mapping[str, int]]:
    """Return a label for each axis of operands of these shapes, and the size of each label.

    Raises `ShapeError`, and `ValueError` for invalid subscripts or another number of operands.
    """
    if isinstance(subscripts, str):
        written, arrow, last = "".join(subscripts.split()).partition("->")
        terms, output = tuple(_parse_term(term, subscripts) for term in written.split(",")), None
        if arrow:
            output = _parse_term(last, subscripts)
    else:
        terms, output = subscripts
    if len(terms) != len(shapes):
        raise ValueError(f"{quote(subscripts)} has {len(terms)} terms, {len(shapes)} operands are given")
    notation = _expand(terms, output, shapes)
    return notation, _label_sizes(notation, shapes)


def _parse_term(term: str, subscripts: str) -> str:
    """Return the labels of a term, with `_ELLIPSIS` for its dots. Raises `ValueError` if it has other characters."""
    labels = term.replace("...", _ELLIPSIS)
    for label in labels:
        if label != _ELLIPSIS and not label.isalpha():
            raise ValueError(
                f"{quote(subscripts)} has {quote(label)} in the term {quote(term)}: a term consists of letters and at "
                "most one '...', as in 'ij,...jk->...ik'"
            )
    if labels.count(_ELLIPSIS) > 1:
        raise ValueError(f"the term {quote(term)} has several '...': at most one stands in a term")
    return labels


def _split_lists(arguments: list[Any]) -> tuple[Subscripts, list[Any]]:
    """Return the subscripts and the operands of (operand, labels, operand, labels, …), with optional output labels."""
    labels = arguments[1::2]
    output = arguments[-1] if len(arguments) % 2 else None
    if not labels or any(not isinstance(one, list | tuple) for one in (*labels, *([] if output is None else [output]))):
        raise TypeError(
            f"the subscripts are of type {type(arguments[0]).__name__}, not text: call einsum('ij,jk->ik', A, B), or "
            "einsum(A, [0, 1], B, [1, 2], [0, 2])"
        )
    terms = tuple(map(_parse_list, labels))
    return (terms, None if output is None else _parse_list(output)), arguments[: 2 * len(labels) : 2]


def _parse_list(labels: Sequence[Any]) -> str:
    """Return a list of numbers and Ellipsis as the labels of a term. Raises `TypeError` and `ValueError`."""
    characters = []
    for label in labels:
        if label is Ellipsis:
            characters.append(_ELLIPSIS)
            continue
        try:
            place = index(label)
        except TypeError:
            raise TypeError(f"the label {quote(label)} is neither a whole number nor Ellipsis") from None
        if not 0 <= place < 1 << 14:
            raise ValueError(f"the label {place} is outside 0 to {(1 << 14) - 1}")
        characters.append(_LETTERS[place] if place < len(_LETTERS) else chr(_IDEOGRAPHS + place))
    if characters.count(_ELLIPSIS) > 1:
        raise ValueError(f"the labels {quote(labels)} have several Ellipsis: at most one stands in a list")
    return "".join(characters)


def label_number(label: str) -> int:
    """Return the number that a caller gave for a label in a list."""
    return _LETTERS.index(label) if label in _LETTERS else ord(label) - _IDEOGRAPHS


def _expand(terms: Sequence[str], output: str | None, shapes: Sequence[tuple[int, ...]]) -> Notation:
    """Return the notation with a label for each axis, and with NumPy's output if ``output`` is None."""
    term_list, most = [], 0
    for place, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        rest = len(shape) - len(term.replace(_ELLIPSIS, ""))
        if rest < 0 or (rest and _ELLIPSIS not in term):
            raise ShapeError(
                f"operand {place} is {tuple(shape)}, and its term {quote(term.replace(_ELLIPSIS, '...'))} names "
                f"{len(term.replace(_ELLIPSIS, ''))} axes{'' if rest < 0 else ': ... stands for further axes'}"
            )
        most = max(most, rest)
        term_list.append(term.replace(_ELLIPSIS, _labels_of_ellipsis(rest)))
    broadcast = _labels_of_ellipsis(most)
    if output is None:
        counts = Counter(label for term in term_list for label in term if label not in broadcast)
        output = broadcast + "".join(sorted(label for label, count in counts.items() if count == 1))
    else:
        if broadcast and _ELLIPSIS not in output:
            raise ValueError(
                f"the output {quote(output)} has no '...', and the operands have axes for it: write '...{output}'"
            )
        output = output.replace(_ELLIPSIS, broadcast)
    for label, count in Counter(output).items():
        if count > 1:
            raise ValueError(f"the output {quote(display(output))} has {quote(display(label))} more than once")
        if not any(label in term for term in term_list):
            raise ValueError(f"the output {quote(display(output))} has {quote(display(label))}, which no operand has")
    return Notation(tuple(term_list), output)


def _label_sizes(notation: Notation, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Return the size of each label. Axes of size 1 broadcast from one operand to another, as in NumPy."""
    sizes: dict[str, int] = {}
    owner: dict[str, int] = {}
    for place, (term, shape) in enumerate(zip(notation.terms, shapes, strict=True)):
        own: dict[str, int] = {}
        for label, size in zip(term, map(int, shape), strict=True):
            if own.setdefault(label, size) != size:
                raise ShapeError(
                    f"operand {place} is {tuple(shape)}: {quote(display(label))} names axes of the sizes {own[label]} "
                    f"and {size}, which have no common diagonal"
                )
        for label, size in own.items():
            if sizes.setdefault(label, size) == size:
                owner.setdefault(label, place)
            elif sizes[label] == 1:
                sizes[label], owner[label] = size, place
            elif size != 1:
                raise ShapeError(
                    f"{quote(display(label))} has the size {sizes[label]} in operand {owner[label]}, and {size} in "
                    f"operand {place}"
                )
    return sizes
