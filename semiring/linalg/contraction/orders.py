"""Compute the order of the pairwise contractions.

A path is a list of pairs of places, in the form of `numpy.einsum_path`. The terms at both places are removed from the
list of terms, and their contraction is appended to it. If ⊗ commutes, opt_einsum finds the path of three or more
operands (Smith and Gray, 2018). If it does not, only neighbours may be contracted, which opt_einsum does not support.
The best bracketing is then found as that of a chain of matrices (Cormen et al., section 14.2), in time n³.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from math import prod
from operator import index
from typing import Any, NamedTuple, TypeAlias

from semiring.advice import quote
from semiring.errors import AlgebraError, MissingExtraError
from semiring.linalg.contraction.notation import Notation

__all__ = ["ContractionOrder", "Path", "find_order"]

Path: TypeAlias = tuple[tuple[int, ...], ...]


class ContractionOrder(NamedTuple):
    """A path, and the total number of entries of its results."""

    path: Path
    entries: int


def find_order(notation: Notation, sizes: Mapping[str, int], optimize: Any, commutative: bool) -> ContractionOrder:
    """Return the order of the contractions: by the strategy of opt_einsum that ``optimize`` names, or its path.

    Raises `MissingExtraError` if opt_einsum is needed and not installed, and `ValueError` for an invalid path. Raises
    `AlgebraError` for a path that changes the order of operands although ⊗ does not commute.
    """
    if not isinstance(optimize, str):
        optimize = _validate_path(getattr(optimize, "path", optimize), len(notation.terms), commutative)
    return _cached_order(notation, tuple(sizes.items()), optimize, commutative)


@lru_cache(maxsize=256)
def _cached_order(
    notation: Notation, label_sizes: tuple[tuple[str, int], ...], optimize: str | Path, commutative: bool
) -> ContractionOrder:
    """Return the order of a validated path or of a strategy."""
    sizes, count = dict(label_sizes), len(notation.terms)
    if not isinstance(optimize, str):
        path = optimize
    elif count < 3:
        path = (tuple(range(count)),)
    elif commutative:
        path = _opt_einsum_path(notation, sizes, optimize)
    else:
        path = _best_bracketing(notation, sizes)
    return ContractionOrder(path, _count_entries(notation, sizes, path))


def _count_entries(notation: Notation, sizes: dict[str, int], path: Path) -> int:
    """Return the total number of entries of the results of a path."""
    terms, entries = [set(term) for term in notation.terms], 0
    for places in path:
        labels: set[str] = set().union(*(terms.pop(place) for place in sorted(places, reverse=True)))
        terms.append(labels & set(notation.output).union(*terms))
        entries += prod(sizes[label] for label in terms[-1])
    return entries


def _validate_path(path: Any, count: int, commutative: bool) -> Path:
    """Return the caller's path as tuples of places. Raises `ValueError` and `AlgebraError`."""
    pairs = list(path) if isinstance(path, list | tuple) else None
    if pairs and pairs[0] == "einsum_path":  # the first item of a path of numpy.einsum_path
        pairs = pairs[1:]
    try:
        steps = [tuple(sorted(index(place) for place in places)) for places in pairs or ()]
    except TypeError:
        steps = []
    if not steps:
        raise ValueError(
            f"optimize is {quote(path)}: give the name of a strategy of opt_einsum, such as 'auto' or 'greedy', or a "
            "path, a list of pairs of places such as [(0, 1), (0, 1)]"
        )
    spans = [(place, place) for place in range(count)]
    for number, places in enumerate(steps):
        if not places or len(set(places)) < len(places) or places[0] < 0 or places[-1] >= len(spans):
            raise ValueError(
                f"step {number} of the path is {places}, and there are {len(spans)} terms: it names places from 0 to "
                f"{len(spans) - 1}, each once"
            )
        joined_spans = sorted(spans.pop(place) for place in reversed(places))
        for (_, last), (first, _) in pairwise(joined_spans):
            if first != last + 1 and not commutative:
                raise AlgebraError(
                    f"step {number} of the path contracts operands {last} and {first}, and operand {last + 1} stands "
                    "between them: ⊗ of this semiring does not commute, so that only neighbours can be contracted. "
                    "Leave optimize out, or contract neighbours first"
                )
        spans.append((joined_spans[0][0], joined_spans[-1][1]))
    if len(spans) > 1:
        raise ValueError(f"the path leaves {len(spans)} terms: one more step has to contract them")
    return tuple(steps)


def _opt_einsum_path(notation: Notation, sizes: dict[str, int], strategy: str) -> Path:
    """Return the path that a strategy of opt_einsum finds. Raises `MissingExtraError` and `ValueError`."""
    try:
        import opt_einsum
    except ImportError:
        raise MissingExtraError(
            "opt_einsum", "einsum", f"finding an order for the contraction of {len(notation.terms)} operands"
        ) from None
    shapes = [tuple(sizes[label] for label in term) for term in notation.terms]
    equation = f"{','.join(notation.terms)}->{notation.output}"
    try:
        path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=strategy)
    except KeyError:
        raise ValueError(f"optimize is {quote(strategy)}: opt_einsum has no strategy of this name") from None
    return tuple(tuple(sorted(places)) for places in path)


def _best_bracketing(notation: Notation, sizes: dict[str, int]) -> Path:
    """Return the path of neighbours with the fewest pairs."""
    terms, count = [set(term) for term in notation.terms], len(notation.terms)
    needed: dict[tuple[int, int], set[str]] = {}
    for first in range(count):
        inner_labels: set[str] = set()
        for last in range(first, count):
            inner_labels |= terms[last]
            outer_labels = set(notation.output).union(*terms[:first], *terms[last + 1 :])
            needed[first, last] = inner_labels & outer_labels
    best: dict[tuple[int, int], tuple[int, int]] = {(place, place): (0, place) for place in range(count)}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            best[first, last] = min(
                (
                    best[first, cut][0]
                    + best[cut + 1, last][0]
                    + prod(sizes[label] for label in needed[first, cut] | needed[cut + 1, last]),
                    cut,
                )
                for cut in range(first, last)
            )
    spans: list[tuple[int, int]] = [(place, place) for place in range(count)]
    path = []

    def contract(first: int, last: int) -> None:
        if first == last:
            return
        cut = best[first, last][1]
        contract(first, cut)
        contract(cut + 1, last)
        places = sorted((spans.index((first, cut)), spans.index((cut + 1, last))))
        path.append(tuple(places))
        for place in reversed(places):
            spans.pop(place)
        spans.append((first, last))

    contract(0, count - 1)
    return tuple(path)
