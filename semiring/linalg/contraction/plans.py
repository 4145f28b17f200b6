"""Plan a contraction: predict its steps, its pairs and its memory without reading an entry.

`_LayoutOperations` implements the operations on arrays that consist of a shape and strides. The functions of `steps`
run with it as they run on the arrays of a library. It counts the bytes of every result and every copy that is
referenced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_exponentials
from semiring.arrays.memory import format_bytes
from semiring.arrays.scans import PIECE
from semiring.errors import TooLargeError
from semiring.linalg.contraction.notation import Notation, display
from semiring.linalg.contraction.orders import Path
from semiring.linalg.contraction.steps import contract, prepare_terms, stride_of_group, take_block
from semiring.linalg.elementwise import is_sum_of_numpy

__all__ = ["ContractionPlan", "ContractionProblem", "Layout", "PlannedStep", "plan_contraction"]

_BLOCK = 1024  # the rows and columns that a product of log_plus computes at a time
_STACK_ENTRIES = 1 << 19  # the entries of the results of a stack that a product of log_plus computes at a time
_LOG_SUM_BYTES = 20  # the most bytes of workspace of such a product, for each entry of the operands and the result


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan: a pairwise contraction, or the sum of one operand.

    Parameters
    ----------
    subscripts : str
        The labels of both terms and of the result.
    shape : tuple of int
        The sizes (batch, rows, inner, columns) of its product. An entrywise product has one inner index.
    pairs : int
        How many times ⊗ and ⊕ are computed.
    result_bytes : int
        The memory of the result.
    """

    subscripts: str
    shape: tuple[int, int, int, int]
    pairs: int
    result_bytes: int


@dataclass(frozen=True)
class ContractionPlan:
    """The plan of `einsum` for operands of some shapes, which prints as a table of the steps.

    `einsum_path` returns an instance of this class. The parameters are also its attributes.

    Parameters
    ----------
    subscripts : str
        The notation with every label, the output included. An axis of an ellipsis is a digit in brackets.
    path : tuple of tuple of int
        The order, in the form of `numpy.einsum_path` and opt_einsum. Pass ``optimize=plan.path`` to use it again.
    steps : tuple of PlannedStep
        A step for each contraction, of the whole operands.
    pairs : int
        How many times ⊗ and ⊕ are computed in all. With ``slices`` it is more than the sum of the steps.
    memory : int
        The most bytes that the call holds at a time beside the operands: intermediate results, copies, the result.
    slices : dict of str to int
        The number of parts of each label that is cut to meet ``memory``.
    blocks : dict of str to int
        The size of a part of each label in ``slices``.
    """

    subscripts: str
    path: Path
    steps: tuple[PlannedStep, ...]
    pairs: int
    memory: int
    slices: dict[str, int]
    blocks: dict[str, int] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        rows = [("contraction", "batch × rows × inner × columns", "pairs", "result")]
        rows += [
            (step.subscripts, " × ".join(map(str, step.shape)), f"{step.pairs:,}", format_bytes(step.result_bytes))
            for step in self.steps
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join(
                [
                    *(f"{text:<{width}}" for text, width in zip(row[:2], widths, strict=False)),
                    *(f"{text:>{width}}" for text, width in zip(row[2:], widths[2:], strict=True)),
                ]
            )
            for row in rows
        ]
        cut = "".join(f", {display(label)} in {parts} parts" for label, parts in self.slices.items())
        return "\n".join([self.subscripts, *lines, f"{self.pairs:,} pairs, {format_bytes(self.memory)} of memory{cut}"])


# ------------------------------------------------------------------------------------------------------------ layouts


class _MemoryMeter:
    """A counter of the bytes in use, and of their maximum."""

    def __init__(self) -> None:
        self.bytes_in_use = self.peak_bytes = 0

    def add(self, size: int) -> None:
        self.bytes_in_use += size
        self.peak_bytes = max(self.peak_bytes, self.bytes_in_use)


class _Buffer:
    """An amount of memory, which is in use until no layout refers to the object."""

    def __init__(self, meter: _MemoryMeter, size: int) -> None:
        self.meter, self.size = meter, size
        meter.add(size)

    def __del__(self) -> None:
        self.meter.bytes_in_use -= self.size


@dataclass(frozen=True)
class Layout:
    """The shape and the strides (in bytes) of an array without entries.

    ``buffer`` is the `_Buffer` that it occupies. It is None for an operand, whose memory is not counted.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    buffer: Any = None

    def __getitem__(self, key: tuple[Any, ...]) -> Layout:
        axes = [axis for axis, place in enumerate(key) if isinstance(place, slice)]
        shape = tuple(len(range(*key[axis].indices(self.shape[axis]))) for axis in axes)
        return Layout(shape, tuple(self.strides[axis] for axis in axes), self.buffer)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write nothing, because a layout has no entries."""


def _contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a row-major array in bytes."""
    strides = [itemsize]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(1, size))
    return tuple(reversed(strides)) if shape else ()


class _LayoutOperations:
    """The implementation of `TermOperations` for layouts, which counts memory."""

    def __init__(self, semiring: Semiring, itemsize: int) -> None:
        self.semiring, self.itemsize, self.meter = semiring, itemsize, _MemoryMeter()

    def allocate(self, shape: Sequence[int], order: Sequence[int] | None = None) -> Layout:
        """Return the layout of a new array, whose axes have this order in memory, by default row-major."""
        axes = range(len(shape)) if order is None else order
        strides = dict(zip(axes, _contiguous_strides([shape[axis] for axis in axes], self.itemsize), strict=True))
        buffer = _Buffer(self.meter, prod(shape) * self.itemsize)
        return Layout(tuple(shape), tuple(strides[axis] for axis in range(len(shape))), buffer)

    def strides(self, x: Layout) -> tuple[int, ...]:
        return x.strides

    def diagonal(self, x: Layout, first: int, second: int) -> Layout:
        axes = [axis for axis in range(len(x.shape)) if axis not in (first, second)]
        shape, strides = (tuple(values[axis] for axis in axes) for values in (x.shape, x.strides))
        return Layout((*shape, x.shape[first]), (*strides, x.strides[first] + x.strides[second]), x.buffer)

    def group_axes(self, x: Layout, groups: Sequence[Sequence[int]]) -> Layout:
        shape = tuple(prod([x.shape[axis] for axis in group]) for group in groups)
        strides = [stride_of_group(x.shape, x.strides, group) for group in groups]
        if None in strides and 0 not in shape:
            return self.allocate(shape)
        return Layout(shape, tuple(stride or 0 for stride in strides), x.buffer)

    def reshape(self, x: Layout, shape: Sequence[int]) -> Layout:
        return Layout(tuple(shape), _contiguous_strides(shape, self.itemsize), x.buffer)

    def align(self, x: Layout, axes: Sequence[int | None]) -> Layout:
        shape, strides = (
            tuple(rest if axis is None else values[axis] for axis in axes)
            for values, rest in ((x.shape, 1), (x.strides, 0))
        )
        return Layout(shape, strides, x.buffer)

    def product(self, left: Layout, right: Layout, names: tuple[str, str]) -> Layout:
        (*batch, m, k), n = left.shape, right.shape[-1]
        result = self.allocate((*batch, m, n))
        if adds_exponentials(self.semiring) and m > 1 and n > 1:
            # Products of log_plus keep exponentials of blocks of both operands, and their sums, in memory: see
            # `kernels/cpu/product/log_products.py`.
            rows, columns = min(m, _BLOCK), min(n, _BLOCK)
            side = min(prod(batch), max(1, _STACK_ENTRIES // max(1, m * n)))
            _Buffer(self.meter, side * (rows * k + k * columns + rows * columns) * _LOG_SUM_BYTES)
        return result

    def entrywise(self, left: Layout, right: Layout, names: tuple[str, str]) -> Layout:
        result = self.allocate(np.broadcast_shapes(left.shape, right.shape))
        piece = min(result.buffer.size, PIECE)
        _Buffer(self.meter, piece + 3 * piece // self.itemsize)  # a piece of the result, and a mask of its zeros
        return result

    def sum_axes(self, x: Layout, axes: Sequence[int], name: str) -> Layout | None:
        if not is_sum_of_numpy(self.semiring):
            return None
        rest = [axis for axis in range(len(x.shape)) if axis not in axes]
        order = sorted(range(len(rest)), key=lambda place: -abs(x.strides[rest[place]]))  # as in NumPy's result
        return self.allocate([x.shape[axis] for axis in rest], order)

    def ones(self, x: Layout, shape: tuple[int, int]) -> Layout:
        return self.allocate(shape)

    def verify(self, x: Layout, name: str) -> None:
        pass


# -------------------------------------------------------------------------------------------------------------- plans


@dataclass(frozen=True)
class ContractionProblem:
    """A contraction without its entries.

    ``layouts`` and ``is_copied``: of each operand its layout, and whether the call copies it first. ``itemsize``: the
    bytes of an entry in the arithmetic. ``result_itemsize``: the bytes of an entry of the result if it is rounded to
    another dtype at the end, else None.
    """

    notation: Notation
    sizes: Mapping[str, int]
    path: Path
    semiring: Semiring
    itemsize: int
    layouts: tuple[Layout, ...]
    is_copied: tuple[bool, ...]
    result_itemsize: int | None = None

    def memory(self, blocks: Mapping[str, int]) -> int:
        """Return the most bytes that a call holds in addition to the operands, if it computes these blocks in turn."""
        ops = _LayoutOperations(self.semiring, self.itemsize)
        operands: list[Any] = [
            ops.allocate(layout.shape) if copied else layout
            for layout, copied in zip(self.layouts, self.is_copied, strict=True)
        ]
        terms = prepare_terms(ops, self.notation, self.sizes, operands)
        output = self.notation.output
        if not blocks:
            result = contract(ops, terms, self.path, output)
        else:
            # No block takes more memory than the first. If summed labels are cut, a second block is computed while the
            # sum of the first is held.
            place = {label: slice(0, size) for label, size in blocks.items()}
            whole = ops.allocate([self.sizes[label] for label in output]) if set(blocks) & set(output) else None
            for _ in range(2 if set(blocks) - set(output) else 1):
                some = [take_block(term, place) for term in terms]
                part = contract(ops, some, self.path, output)
                result = part if whole is None else whole
        if self.result_itemsize is not None:
            ops.meter.add(prod(result.shape) * self.result_itemsize)
        return ops.meter.peak_bytes


def plan_contraction(problem: ContractionProblem, limit: int | None) -> ContractionPlan:
    """Return the plan of a contraction, in blocks of some labels if it would take more than ``limit`` bytes.

    Raises `TooLargeError` if the contraction exceeds the limit for all sizes of blocks.
    """
    steps, sizes = _plan_steps(problem), problem.sizes
    blocks: dict[str, int] = {}
    memory = problem.memory(blocks)
    while limit is not None and memory > limit:
        cuts = [
            _cut_label(problem, steps, blocks, label, limit) for label in sizes if blocks.get(label, sizes[label]) > 1
        ]
        _, _, least, _, cut = min(cuts, default=(0, 0, memory, "", blocks))
        if least >= memory:
            raise TooLargeError(
                f"memory is {format_bytes(limit)}, and the contraction takes {format_bytes(memory)} at the "
                f"least, {format_bytes(_result_bytes(problem))} of them for the result: give that much, or another "
                "optimize="
            )
        memory, blocks = least, cut
    return ContractionPlan(
        problem.notation.text,
        problem.path,
        tuple(step for step, _ in steps),
        _count_pairs(steps, sizes, blocks),
        memory,
        _count_parts(sizes, blocks),
        blocks,
    )


def _cut_label(
    problem: ContractionProblem,
    steps: Sequence[tuple[PlannedStep, str]],
    blocks: dict[str, int],
    label: str,
    limit: int,
) -> tuple[int, int, int, str, dict[str, int]]:
    """Return the blocks with one more label cut: into the fewest parts that meet the limit, or that take least memory.

    The result is (bytes beyond the limit, pairs, memory, label, blocks). The first four are the key by which
    `plan_contraction` compares cuts.
    """
    sizes, candidates = problem.sizes, []
    parts = 2 * _count_parts(sizes, blocks).get(label, 1)
    while True:
        size = -(-sizes[label] // parts)
        cut = blocks | {label: size}
        memory = problem.memory(cut)
        candidates.append((max(0, memory - limit), _count_pairs(steps, sizes, cut), memory, label, cut))
        if memory <= limit or size == 1:
            return min(candidates, key=lambda one: one[:3])
        parts *= 2


def _result_bytes(problem: ContractionProblem) -> int:
    return prod(problem.sizes[label] for label in problem.notation.output) * problem.itemsize


def _count_parts(sizes: Mapping[str, int], blocks: Mapping[str, int]) -> dict[str, int]:
    return {label: -(-sizes[label] // size) for label, size in blocks.items()}


def _count_pairs(steps: Sequence[tuple[PlannedStep, str]], sizes: Mapping[str, int], blocks: Mapping[str, int]) -> int:
    """Return the pairs of all steps. A step without a label that is cut is repeated for each part of the label."""
    parts = _count_parts(sizes, blocks)
    return sum(
        step.pairs * prod(count for label, count in parts.items() if label not in labels) for step, labels in steps
    )


def _plan_steps(problem: ContractionProblem) -> list[tuple[PlannedStep, str]]:
    """Return the steps, each with all labels of its operands."""
    sizes, planned_steps = problem.sizes, []
    terms = []
    for place, (term, layout) in enumerate(zip(problem.notation.terms, problem.layouts, strict=True)):
        own = dict(zip(term, layout.shape, strict=True))
        terms.append(("".join(label for label in own if own[label] == sizes[label]), place))

    def size(labels: Sequence[str]) -> int:
        return prod(sizes[label] for label in labels)

    def record_step(left: str, right: str | None, result: str) -> None:
        labels = left + "".join(label for label in right or "" if label not in left)
        inner = [label for label in labels if label not in result]
        batch = [label for label in result if right is not None and label in left and label in right]
        rows = [label for label in result if label in left and label not in batch]
        columns = [label for label in result if label not in left]
        shape = (size(batch), size(rows), size(inner), size(columns))
        text = display(f"{left}->{result}" if right is None else f"{left},{right}->{result}")
        planned_steps.append((PlannedStep(text, shape, prod(shape), size(result) * problem.itemsize), labels))

    def sum_out(labels: str, needed: set[str]) -> str:
        rest = "".join(label for label in labels if label in needed)
        if rest != labels:
            record_step(labels, None, rest)
        return rest

    output = set(problem.notation.output)
    for places in problem.path:
        some = sorted((terms.pop(place) for place in sorted(places, reverse=True)), key=lambda term: term[1])
        later_labels = output.union(*(labels for labels, _ in terms))
        while len(some) > 1:
            (left, first), (right, _) = some.pop(0), some.pop(0)
            inside = later_labels.union(*(labels for labels, _ in some))
            left, right = sum_out(left, inside.union(right)), right
            right = sum_out(right, inside.union(left))
            result = "".join(label for label in dict.fromkeys(left + right) if label in inside)
            record_step(left, right, result if some or terms or set(result) != output else problem.notation.output)
            some.insert(0, (result, first))
        terms.append(some.pop())
    sum_out(terms[0][0], output)
    return planned_steps
