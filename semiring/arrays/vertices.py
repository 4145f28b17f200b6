"""Look vertices up by number or by name."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Set
from functools import cached_property
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.errors import ShapeError, VertexError

__all__ = ["Vertices", "ordered_names"]

_INTEGER = re.compile("0|-?[1-9][0-9]*")  # an integer in Python's notation, so 01234 is only a text


class Vertices:
    """The vertices 0 … n - 1 of a graph, which may have names.

    ``names``: n different names in the order of the vertices, or None. Raises `ShapeError` if their number is not n or
    two are equal, and `TypeError` for a name that is not hashable.
    """

    def __init__(self, n: int, names: Iterable[Hashable] | None = None) -> None:
        self.n = n
        self.names = None if names is None else _check_names(names, n)

    def __len__(self) -> int:
        return self.n

    @cached_property
    def _indices(self) -> dict[Hashable, int]:
        return {name: vertex for vertex, name in enumerate(self.names or ())}

    @cached_property
    def _numbers_are_names(self) -> bool:
        """Whether some name is an integer or the text of an integer, as in edge lists and .npz files."""
        return any(
            isinstance(name, int | np.integer) or (isinstance(name, str) and _INTEGER.fullmatch(name) is not None)
            for name in self.names or ()
        )

    def index(self, vertex: Any) -> int:
        """Return the number of a vertex from its name or its number.

        If some names are integers or texts of integers, vertices are looked up by name only. Then 7 is the vertex named
        7, or else the vertex named "7". Raises `VertexError`.
        """
        if self.names is not None and isinstance(vertex, Hashable) and vertex in self._indices:
            return self._indices[vertex]
        number = isinstance(vertex, int | np.integer) and not isinstance(vertex, bool)
        if number and not self._numbers_are_names:
            if 0 <= vertex < len(self):
                return int(vertex)
            raise VertexError(f"vertex {vertex} is not one of the {len(self)} from 0 on")
        if number and (text := str(int(vertex))) in self._indices:
            return self._indices[text]
        if self.names is None:
            raise VertexError(f"vertex {quote(vertex)} is not an integer, and names= were not given")
        from difflib import get_close_matches

        near = [] if number else get_close_matches(str(vertex), map(str, self.names), n=3)
        some = ", ".join(map(repr, self.names[:5])) + ", …" * (len(self.names) > 5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"they are {some or 'none'}"
        rule = "; where names are integers, an integer is a name and no position" if number else ""
        raise VertexError(f"no vertex is named {quote(vertex)}: {hint}{rule}")

    def indices(self, vertices: Any) -> np.ndarray[Any, Any]:
        """Return the numbers of a list of vertices, int64, in their order. None stands for all vertices."""
        if vertices is None:
            return np.arange(self.n)
        if isinstance(vertices, np.ndarray) and vertices.dtype.kind in "iu" and not self._numbers_are_names:
            if vertices.ndim != 1:
                raise ShapeError(f"vertices are a list of one dimension, not of shape {vertices.shape}")
            if vertices.size and not (vertices.min() >= 0 and vertices.max() < self.n):
                self.index(int(next(v for v in vertices if not 0 <= v < self.n)))
            return vertices.astype(np.int64)
        if isinstance(vertices, np.ndarray) and vertices.dtype.kind == "b":
            raise TypeError("vertices are a list of them, and this is a mask: give numpy.flatnonzero of it")
        if not hasattr(vertices, "__iter__"):
            self.index(vertices)  # raises `VertexError` for an unknown vertex, before the error about the list
        if self.is_one(vertices):
            raise TypeError(f"vertices are a list of them, and {quote(vertices)} is one: give [{quote(vertices)}]")
        return np.array([self.index(vertex) for vertex in vertices], np.int64)

    def is_one(self, vertices: Any) -> bool:
        """Return whether the argument is one vertex, and not a list of vertices.

        A name may be iterable, such as a tuple in a grid.
        """
        if isinstance(vertices, Hashable) and vertices in self._indices:
            return True
        return isinstance(vertices, str) or not hasattr(vertices, "__iter__") or getattr(vertices, "ndim", 1) == 0

    def name(self, vertex: int) -> Any:
        """Return the name of a vertex from its number, or the number if vertices have no names."""
        return int(vertex) if self.names is None else self.names[vertex]


def ordered_names(names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return the names of vertices as a tuple. Raises `TypeError` for a dictionary or a set, which have no order."""
    if isinstance(names, Mapping | Set):
        raise TypeError(f"names are in the order of the vertices, and a {type(names).__name__} has none: give a list")
    if not isinstance(names, Iterable):
        raise TypeError(f"names are a list with a name for each vertex, and not {quote(names)}")
    return tuple(names)


def _check_names(names: Iterable[Hashable], n: int) -> tuple[Hashable, ...]:
    """Return n different names as a tuple. Raises `ShapeError` and `TypeError`."""
    name_list = ordered_names(names)
    if isinstance(names, range) and len(name_list) == n:
        return name_list
    if len(name_list) != n:
        raise ShapeError(f"{len(name_list)} names were given for {n} vertices")
    try:
        different = len(set(name_list))
    except TypeError as error:  # a list, or a tuple that holds one
        raise TypeError(f"a name of a vertex is hashable, such as a string or a number: {error}") from None
    if different != n:
        twice = next(name for position, name in enumerate(name_list) if name in name_list[:position])
        raise ShapeError(f"the name {quote(twice)} was given to two vertices: names must differ")
    return name_list
