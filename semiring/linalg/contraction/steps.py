"""Compute a contraction by products, sums and entrywise products, on the arrays of any library.

Two terms are contracted by a stack of products. Their labels form four groups. Labels of the *batch* are in both terms
and in the result. *Inner* labels are in both terms and are summed. Labels of *rows* are in the left term alone, and
those of *columns* in the right term alone. Each group becomes one axis, (batch, rows, inner) ⊗ (batch, inner, columns),
by a view if strides allow, else by a copy. Labels of one term alone that the result lacks are summed before, as ⊗
distributes over ⊕. Without inner labels the product is an outer one, or entrywise.

A library implements `TermOperations`. The planner implements it too, on shapes alone, and counts memory. It runs the
same functions, so it counts every copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple, Protocol

from semiring.linalg.contraction.notation import Notation
from semiring.linalg.contraction.orders import Path
from semiring.namespaces import Array

__all__ = [
    "BlockOperations",
    "Choice",
    "Choices",
    "Term",
    "TermOperations",
    "contract",
    "contract_blocks",
    "prepare_terms",
    "stride_of_group",
    "take_block",
]


_MIN_OUTER_ENTRIES = (
    64  # entries of an outer product: a stack of smaller ones takes longer than their entrywise product
)


class Term(NamedTuple):
    """An array, the label of each axis, and the first and the last of the operands whose contraction it is."""

    array: Array
    labels: str
    span: tuple[int, int]
    name: str = ""  # the name of an operand whose entries have not been scanned, else ""


class Choice(NamedTuple):
    """The index, over all summed axes as one, of the summed entry that attains each entry of a result."""

    labels: str  # the labels of the axes of ``witness``
    summed_labels: str
    sizes: tuple[int, ...]  # the sizes of the summed axes
    witness: Array


class TermOperations(Protocol):
    """The operations that a library provides. A ``name`` marks an operand whose entries need a scan."""

    def strides(self, x: Any) -> tuple[int, ...]:
        """Return the stride of each axis, in any one unit."""

    def diagonal(self, x: Any, first: int, second: int) -> Any:
        """Return the diagonal of two axes as the last axis."""

    def group_axes(self, x: Any, groups: Sequence[Sequence[int]]) -> Any:
        """Return x with each group of axes as one."""

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return x, whose entries are contiguous, in another shape."""

    def align(self, x: Any, axes: Sequence[int | None]) -> Any:
        """Return x with its axes in this order, and an axis of size 1 for None."""

    def product(self, left: Any, right: Any, names: tuple[str, str]) -> Any:
        """Return left ⊗ right, of two matrices or of two stacks of the same number of matrices."""

    def entrywise(self, left: Any, right: Any, names: tuple[str, str]) -> Any:
        """Return left ⊗ right entry by entry, of arrays with the same number of axes, which broadcast."""

    def sum_axes(self, x: Any, axes: Sequence[int], name: str) -> Any | None:
        """Return the ⊕ along the axes, or None if a product with ones is better."""

    def ones(self, x: Any, shape: tuple[int, int]) -> Any:
        """Return a matrix of 1̄ in the dtype and the memory of x."""

    def verify(self, x: Any, name: str) -> None:
        """Scan the entries of an operand that is part of no product and no sum."""


class BlockOperations(TermOperations, Protocol):
    """The operations that contractions in blocks need in addition."""

    def add_into(self, x: Array, y: Array) -> Array:
        """Return x ⊕ y of one shape. The array x may be overwritten."""

    def empty(self, x: Array, shape: Sequence[int]) -> Array:
        """Return an uninitialized array in the dtype and the memory of x."""


class Choices:
    """The choices of all sums of a contraction, and the product that finds them.

    ``product`` returns the product of two matrices or stacks, and the inner index that attains each entry.
    """

    def __init__(self, product: Callable[[Array, Array, tuple[str, str]], tuple[Array, Array]]) -> None:
        self.product, self.steps = product, list[Choice]()


def stride_of_group(shape: Sequence[int], strides: Sequence[int], axes: Iterable[int]) -> int | None:
    """Return the stride of several axes as one axis, or None if their entries have no common stride."""
    remaining = [axis for axis in axes if shape[axis] != 1]
    if any(strides[one] != strides[other] * shape[other] for one, other in pairwise(remaining)):
        return None
    return strides[remaining[-1]] if remaining else 0


def prepare_terms(ops: TermOperations, notation: Notation, sizes: Mapping[str, int], arrays: list[Any]) -> list[Term]:
    """Return the operands as terms whose labels are distinct, without axes that broadcast.

    The list of arrays is emptied.
    """
    terms = []
    for place, labels in enumerate(notation.terms):
        array, arrays[place] = arrays[place], None
        while (label := next((one for one in labels if labels.count(one) > 1), "")) != "":
            first = labels.index(label)
            second = labels.index(label, first + 1)
            array = ops.diagonal(array, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
        broadcast = [axis for axis, label in enumerate(labels) if array.shape[axis] != sizes[label]]
        if broadcast:
            array = array[tuple(0 if axis in broadcast else slice(None) for axis in range(len(labels)))]
            labels = "".join(label for axis, label in enumerate(labels) if axis not in broadcast)
        terms.append(Term(array, labels, (place, place), f"operand {place}"))
    return terms


def contract(ops: TermOperations, terms: list[Term], path: Path, output: str, choices: Choices | None = None) -> Any:
    """Return the contraction of the terms, in the order of the path. The list of terms is emptied.

    ``choices`` receives the entries that attain each sum.
    """
    for places in path:
        operands = sorted((terms.pop(place) for place in sorted(places, reverse=True)), key=_operand_span, reverse=True)
        while len(operands) > 1:
            left, right = operands.pop(), operands.pop()
            remaining = set(output).union(*[term.labels for term in terms], *[term.labels for term in operands])
            pair = [left, right]
            del left, right
            operands.append(_contract_pair(ops, pair, remaining, "" if operands or terms else output, choices))
        terms.append(operands.pop())
    term = _sum_out(ops, terms.pop(), set(output), choices)
    if term.name:
        ops.verify(term.array, term.name)
    return ops.align(term.array, [term.labels.index(label) for label in output])


def _operand_span(term: Term) -> tuple[int, int]:
    return term.span


def _contract_pair(
    ops: TermOperations, pair: list[Term], remaining: set[str], result_labels: str, choices: Choices | None
) -> Term:
    """Return the contraction of two terms to the ``remaining`` labels, in the order of ``result_labels`` if given.

    The list ``pair`` is emptied, so that the memory of both terms is free as soon as possible.
    """
    right, left = pair.pop(), pair.pop()
    left = _sum_out(ops, left, remaining.union(right.labels), choices)
    right = _sum_out(ops, right, remaining.union(left.labels), choices)
    span, names = (left.span[0], right.span[1]), (left.name, right.name)
    sizes = dict(zip(left.labels + right.labels, left.array.shape + right.array.shape, strict=True))
    batch, inner, rows, columns = _group_labels(left.labels, right.labels, remaining)
    if not inner and not _is_outer(batch, rows, columns, sizes):
        large, small = (left, right) if len(left.labels) >= len(right.labels) else (right, left)
        labels = result_labels or large.labels + "".join(label for label in small.labels if label not in large.labels)
        x, y = (
            ops.align(term.array, [term.labels.index(label) if label in term.labels else None for label in labels])
            for term in (left, right)
        )
        return Term(ops.entrywise(x, y, names), labels, span)
    rows, columns = _sort_by_stride(ops, left, rows), _sort_by_stride(ops, right, columns)
    batch, inner = _cheapest_order(ops, left, right, batch), _cheapest_order(ops, left, right, inner)
    labels = batch + rows + columns
    shape = [sizes[label] for label in labels]
    x = ops.group_axes(left.array, _group_axes(left, batch, rows, inner))
    del left
    y = ops.group_axes(right.array, _group_axes(right, batch, inner, columns))
    del right
    if choices is None:
        return Term(ops.reshape(ops.product(x, y, names), shape), labels, span)
    C, W = choices.product(x, y, names)
    if inner:
        choices.steps.append(Choice(labels, inner, tuple(sizes[label] for label in inner), ops.reshape(W, shape)))
    return Term(ops.reshape(C, shape), labels, span)


def _group_labels(left: str, right: str, remaining: set[str]) -> tuple[str, str, str, str]:
    """Return the labels of the batch, of the inner axes, of the rows and of the columns."""
    shared = [label for label in left if label in right]
    rows = "".join(label for label in left if label not in right)
    columns = "".join(label for label in right if label not in left)
    batch, inner = ("".join(label for label in shared if (label in remaining) == is_kept) for is_kept in (True, False))
    return batch, inner, rows, columns


def _is_outer(batch: str, rows: str, columns: str, sizes: Mapping[str, int]) -> bool:
    """Return whether a product without a sum is a stack of outer products, not an entrywise product."""
    if not rows or not columns:
        return False
    return not batch or prod(sizes[label] for label in rows + columns) >= _MIN_OUTER_ENTRIES


def _group_axes(term: Term, *groups: str) -> list[list[int]]:
    """Return the axes of each group of labels.

    An empty batch is no axis, and any other empty group is an axis of size 1.
    """
    positions = [[term.labels.index(label) for label in group] for group in groups]
    return positions[1:] if not positions[0] else positions


def _sort_by_stride(ops: TermOperations, term: Term, labels: str) -> str:
    """Return labels by descending stride, because adjacent axes in this order are most often one axis."""
    if len(labels) < 2:
        return labels
    strides = dict(zip(term.labels, ops.strides(term.array), strict=True))
    return "".join(sorted(labels, key=lambda label: -abs(strides[label])))


def _cheapest_order(ops: TermOperations, left: Term, right: Term, labels: str) -> str:
    """Return labels of both terms in the memory order of the left or the right term, whichever copies fewer entries."""
    if len(labels) < 2:
        return labels
    orders = _sort_by_stride(ops, left, labels), _sort_by_stride(ops, right, labels)
    return min(orders, key=lambda order: sum(_count_copied_entries(ops, term, order) for term in (left, right)))


def _count_copied_entries(ops: TermOperations, term: Term, labels: str) -> int:
    places = [term.labels.index(label) for label in labels]
    is_view = stride_of_group(term.array.shape, ops.strides(term.array), places) is not None
    return 0 if is_view else prod(term.array.shape)


def _sum_out(ops: TermOperations, term: Term, kept_labels: set[str], choices: Choices | None) -> Term:
    """Return the sum of a term over all labels but ``kept_labels``."""
    if kept_labels.issuperset(term.labels):
        return term
    rest = "".join(label for label in term.labels if label in kept_labels)
    summed = "".join(label for label in term.labels if label not in kept_labels)
    if choices is None:
        total = ops.sum_axes(term.array, [term.labels.index(label) for label in summed], term.name)
        if total is not None:
            return Term(total, rest, term.span)
    strides = dict(zip(term.labels, ops.strides(term.array), strict=True))
    rest, summed = _sort_by_stride(ops, term, rest), _sort_by_stride(ops, term, summed)
    sizes = dict(zip(term.labels, term.array.shape, strict=True))
    span, names = term.span, (term.name, "")
    count, shape = prod(sizes[label] for label in summed), [sizes[label] for label in rest]
    # The longer stride goes to the rows of the left operand, or to those of the right one.
    is_left = not rest or strides[summed[-1]] <= strides[rest[-1]]
    groups = _group_axes(term, "", rest, summed) if is_left else _group_axes(term, "", summed, rest)
    x = ops.group_axes(term.array, groups)
    del term
    one = ops.ones(x, (count, 1) if is_left else (1, count))
    left, right = (x, one) if is_left else (one, x)
    names = names if is_left else names[::-1]
    del x
    if choices is None:
        return Term(ops.reshape(ops.product(left, right, names), shape), rest, span)
    C, W = choices.product(left, right, names)
    choices.steps.append(Choice(rest, summed, tuple(sizes[label] for label in summed), ops.reshape(W, shape)))
    return Term(ops.reshape(C, shape), rest, span)


def contract_blocks(
    ops: BlockOperations,
    terms: list[Term],
    path: Path,
    output: str,
    blocks: Mapping[str, int],
    sizes: Mapping[str, int],
) -> Any:
    """Return the contraction, computed in blocks of ``blocks[label]`` indices of each label in ``blocks``."""
    if not blocks:
        return contract(ops, terms, path, output)
    outer, inner = ([label for label in blocks if (label in output) == remaining] for remaining in (True, False))
    result: Any = None
    for place in _iterate_blocks(outer, blocks, sizes):
        part: Any = None
        for more in _iterate_blocks(inner, blocks, sizes):
            some = [take_block(term, place | more) for term in terms]
            value = contract(ops, some, path, output)
            part = value if part is None else ops.add_into(part, value)
            del value
        if not outer:
            return part
        if result is None:
            result = ops.empty(part, [sizes[label] for label in output])
        result[tuple(place.get(label, slice(None)) for label in output)] = part
    return result


def _iterate_blocks(
    labels: list[str], blocks: Mapping[str, int], sizes: Mapping[str, int]
) -> Iterator[dict[str, slice]]:
    """Yield a slice for each of the labels, for each combination of their blocks."""
    ranges = [
        [slice(start, min(start + blocks[label], sizes[label])) for start in range(0, sizes[label], blocks[label])]
        for label in labels
    ]
    for starts in product(*ranges):
        yield dict(zip(labels, starts, strict=True))


def take_block(term: Term, place: Mapping[str, slice]) -> Term:
    """Return a view of the part of a term that the slices of some labels select."""
    return term._replace(array=term.array[tuple(place.get(label, slice(None)) for label in term.labels)])
