"""Write best paths as an array of vertices, padded with -1, on the device of their predecessors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arguments import require_integer
from semiring.arrays.memory import demand_memory
from semiring.errors import ShapeError
from semiring.kernels import backend_for
from semiring.namespaces import array_namespace, is_device_array
from semiring.thread_counts import get_threads

__all__ = ["count_path_vertices", "list_found", "list_vertices"]

_INT32 = np.dtype(np.int32)


def list_vertices(predecessors: Any, sources: Any, targets: Any, length: int | None) -> tuple[Any, Any]:
    """Return the vertices (..., p, q, L) of the paths to the targets, and the numbers (..., p, q) of their vertices.

    predecessors (..., p, n) int32 may be on a GPU, where the results then are. sources (p,) and targets (q,) are
    numbers of vertices on the host, targets None for all. Raises `ShapeError` if a path is longer than ``length``,
    `ValueError` if the predecessors are not those of paths, and `TooLargeError`.
    """
    if length is not None:
        length = require_integer(length, "length")
    xp, (*stack, p, n) = array_namespace(predecessors), predecessors.shape
    trees = predecessors.reshape(int(np.prod(stack, dtype=np.int64)), p, n)
    starts = xp.asarray(sources, np.int32)
    counts, longest = count_path_vertices(trees, sources, targets, starts)
    if targets is not None:
        ends = xp.asarray(targets, np.int32)
    else:
        ends = starts if np.array_equal(sources, np.arange(n)) else xp.arange(n, dtype=np.int32)
    vertices = _new_vertices(counts, longest, length)
    if vertices.size:
        kernels: Any = backend_for(trees, min_plus, _INT32).capabilities.paths
        kernels.write_paths(trees, starts, ends, counts, vertices, get_threads())
    return vertices.reshape(*stack, p, ends.size, vertices.shape[-1]), counts.reshape(*stack, p, ends.size)


def count_path_vertices(predecessors: Any, sources: Any, targets: Any, starts: Any = None) -> tuple[Any, int]:
    """Return the number (count, p, q) of vertices of each path to the targets, 0 without one, and the greatest number.

    The parameters are those of `list_vertices`. ``starts`` are the sources where the predecessors are, int32; None
    copies them there.

    Raises `ValueError` if the predecessors are not those of paths, and `TooLargeError`.
    """
    xp = array_namespace(predecessors)
    kernels: Any = backend_for(predecessors, min_plus, _INT32).capabilities.paths
    _demand(predecessors.size, f"the lengths of {predecessors.size:,} paths", predecessors)
    counts = xp.empty(predecessors.shape, np.int32)
    if counts.size:
        starts = xp.asarray(sources, np.int32) if starts is None else starts
        kernels.count_vertices(predecessors, starts, counts, get_threads())
    if targets is not None:
        counts = xp.ascontiguousarray(counts[..., xp.asarray(targets, np.int32)])
    longest = int(counts.view(np.uint32).max()) if counts.size else 0  # one reduction, where -1 is the greatest number
    if longest > predecessors.shape[-1]:
        _, row, end = np.unravel_index(int((counts < 0).argmax()), counts.shape)
        target = end if targets is None else targets[end]
        raise ValueError(
            f"the predecessors on the way from vertex {int(sources[row])} to {int(target)} lead in a cycle, or to a "
            "number that is no vertex: compute the paths again"
        )
    return counts, longest


def list_found(find: Callable[[int, int], list[int]], p: int, q: int, length: int | None) -> tuple[Any, Any]:
    """Return the result of `list_vertices` for the paths (p, q) that ``find(row, column)`` returns, [] for none."""
    if length is not None:
        length = require_integer(length, "length")
    paths = [[find(row, column) for column in range(q)] for row in range(p)]
    counts = np.array([[len(path) for path in row] for row in paths], np.int32).reshape(p, q)
    vertices = _new_vertices(counts, int(counts.max(initial=0)), length)
    vertices[...] = -1
    for index in np.ndindex(p, q):
        vertices[index][: counts[index]] = paths[index[0]][index[1]]
    return vertices, counts


def _new_vertices(counts: Any, longest: int, length: int | None) -> Any:
    """Return memory for the vertices of paths of these lengths. Raises `ShapeError` if ``length`` is too small."""
    if length is None:
        length = longest
    elif length < longest:
        raise ShapeError(
            f"length is {length}, and the longest path has {longest} vertices: give length={longest} or more, or leave "
            "it out"
        )
    _demand(counts.size * length, f"an array of {counts.size:,} paths of up to {length:,} vertices", counts)
    return array_namespace(counts).empty((*counts.shape, length), np.int32)


def _demand(numbers: int, subject: str, like: Any) -> None:
    """Raise `TooLargeError` if so many int32 do not fit into the memory of the device of an array."""
    remedy = "pass sources= or targets= for fewer paths, or a part of the stack"
    demand_memory(4 * numbers, subject, remedy, is_on_device=is_device_array(like))
