"""A matrix that is read through maps, and the two passes that they are fused into: the first read and the last write.

A step that only changes how entries look (their sign, a shift by potentials, another value for "no path") adds a map,
and nothing is done. When the method is about to close the matrix, `encode` reads the caller's array once, through all
maps, into the memory of the result; when it is closed, `decode` undoes the maps in one pass. A map that can do a whole
array by itself in one pass is asked to; otherwise some rows are taken at a time, and all maps done to them while they
are in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.encoding import clamp
from semiring.arrays.parts import parts, put
from semiring.errors import IntegerOverflowError
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["Map", "Matrix", "adjacent", "decode", "encode", "same_memory"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array
At: TypeAlias = tuple[Any, ...]  # which rows of a matrix, or of which matrices of a stack


class Map:
    """A change of entries that waits. Entries are those of one matrix (n, n), or of a stack (count, n, n)."""

    negates = False  # whether all it does is to turn the sign
    moves = False  # whether it changes numbers, apart from their sign
    whole = False  # whether it can do a whole array in one pass
    undone = True  # whether the result has something of it

    def encode(self, rows: Array, at: At) -> Array:
        """Some rows as the next reader sees them, in a new array."""
        raise NotImplementedError

    def decode(self, rows: Array, at: At) -> Array:
        """The same rows of the result, with the change undone."""
        raise NotImplementedError

    def of_rows(self, rows: slice) -> Map:
        """The same change of some rows, which then count from 0."""
        return self

    def encode_loops(self, loops: Array) -> Array:
        """`encode` of the diagonal (..., n): what depends on a vertex cancels there."""
        return self.encode(loops, ())

    def encode_all(self, source: Array, out: Array) -> Any:
        """Out ← the whole array encoded; out may be the source. Returns what the way back will ask for, if anything."""
        raise NotImplementedError

    def decode_all(self, D: Array, out: Array, mark: Any) -> None:
        """Out ← the whole result decoded; out may be D. ``mark`` is what `encode_all` returned."""
        raise NotImplementedError


@dataclass(frozen=True)
class Matrix:
    """Entries of ``array`` as they are read: through ``maps``, in ``dtype``, with ``inner`` for "no path"."""

    array: Any  # (n, n) or (count, n, n), or a BitMatrix
    none: Any  # "no path" in the array
    dtype: np.dtype[Any]
    inner: Any  # "no path" as it is read
    maps: tuple[Map, ...] = ()
    #: Integers hold another value for "no path" inside. Where every weight is ≥ 0 and below it or of no use, they are
    #: "held" to it, by one minimum; else what was "no path" is "masked".
    sentinel: Literal["", "masked", "held"] = ""
    storage: Literal["elements", "bits"] = "elements"
    vertices: Any = None  # (m,) or (count, m): which rows and columns of the array these are; None is all, in order
    turned: bool = False  # whether the edges of the array are the caller's, reversed

    @property
    def shape(self) -> tuple[int, ...]:
        """That of what is read."""
        v = self.vertices
        found: tuple[int, ...] = self.array.shape if v is None else (*v.shape, v.shape[-1])
        return found

    @property
    def there(self) -> bool:
        """Whether it lives on a GPU."""
        return is_device_array(self.array.words if isinstance(self.array, BitMatrix) else self.array)

    @property
    def as_it_is(self) -> bool:
        """Whether what is read equals the array, entry by entry."""
        same = self.vertices is None and not self.sentinel and self.dtype == self.array.dtype
        return same and self.storage == "elements" and not any(map_.moves or map_.negates for map_ in self.maps)

    @property
    def sign(self) -> int:
        """-1 where the first map turns the sign."""
        return -1 if self.maps and self.maps[0].negates else 1

    def part(self, at: At) -> Array:
        """Some rows as they lie in the array."""
        v = self.vertices
        if v is None:
            return self.array[at]
        return self.array[v[at][..., None], v[at[:-1]][..., None, :]]

    def rows(self, at: At) -> Array:
        """Some rows, read through all maps."""
        return self._read(self.part(at), at)

    def strip(self, rows: slice, array: Array) -> Matrix:
        """Some rows, which lie in another array and count from 0 there."""
        return replace(self, array=array, maps=tuple(map_.of_rows(rows) for map_ in self.maps))

    def diagonal(self) -> Array:
        """The loops (n,), of chosen vertices (..., n), read through all maps."""
        v = self.vertices
        loops = self.array.diagonal() if v is None else self.array[v, v]
        return self._read(loops, None).astype(self.dtype)

    def _read(self, part: Array, at: At | None) -> Array:
        """Entries through all maps; those of the diagonal where ``at`` is None."""
        if self.sentinel == "held":
            return _held(part, self.inner, self.sign)
        absent = None
        if self.sentinel:
            absent = part == self.none  # a mask, for maps may move numbers to where a value for "no path" is
            part = part.astype(np.int64)
            put(part, absent, 0)
        for map_ in self.maps:
            part = map_.encode_loops(part) if at is None else map_.encode(part, at)
        return part if absent is None else array_namespace(part).where(absent, np.int64(self.inner), part)

    def caller(self, vertices: Sequence[int], which: int = 0) -> list[int]:
        """Vertices as the caller counts them, so that an error is right where it is raised."""
        found = list(map(int, vertices))
        if self.vertices is not None:
            names = self.vertices if self.vertices.ndim == 1 else self.vertices[which]
            found = [int(names[vertex]) for vertex in found]
        return found[::-1] if self.turned else found

    def memory(self, home: Any) -> Any:
        """Memory for the entries as they are read: that of ``home`` (of any dtype and strides) wherever it will do."""
        if self.storage == "bits":
            return home
        if home is not None and self.vertices is None and adjacent(home):
            if home.dtype == self.dtype:
                return home
            if self.dtype.itemsize <= home.dtype.itemsize:  # each row at the start of its own
                return home.view(self.dtype)[..., : home.shape[-1]]
        return array_namespace(self.array).empty(self.shape, self.dtype)


def adjacent(A: Any) -> bool:
    """Whether the elements of a row lie side by side."""
    if isinstance(A, BitMatrix):
        return True
    return bool(A.shape[-1] <= 1 or A.strides[-1] == A.itemsize)


def same_memory(x: Any, y: Any) -> bool:
    """Whether two arrays are the same elements in the same order."""
    if x is y:
        return True
    if isinstance(x, BitMatrix):
        return isinstance(y, BitMatrix) and x.words is y.words
    if isinstance(y, BitMatrix) or is_device_array(x) != is_device_array(y):
        return False
    return bool(_address(x) == _address(y) and x.strides == y.strides and x.shape == y.shape and x.dtype == y.dtype)


def _address(array: Array) -> int:
    return int(array.data.ptr if is_device_array(array) else array.ctypes.data)


def _held(part: Array, inner: Any, sign: int) -> Array:
    """±part, held to ``inner`` from below and to ±inner from beyond: of weights ≥ 0 what is more is "no path"."""
    xp, bound = array_namespace(part), part.dtype.type(sign * int(inner))
    return xp.minimum(part, bound) if sign > 0 else xp.negative(xp.maximum(part, bound))


Marks: TypeAlias = tuple[Any, ...]  # what maps left for the way back
Encoder: TypeAlias = Callable[[Array, Array], Marks]
Decoder: TypeAlias = Callable[[Array, Array, Marks], None]


def encoder(m: Matrix) -> Encoder | None:
    """How a whole array is encoded as m's, in one pass a map; None where it must be by parts.

    It depends on the kind of matrix alone, and serves all arrays of its kind.
    """
    if m.vertices is not None or m.storage == "bits":
        return None
    if m.sentinel:
        bound, sign = m.dtype.type(m.sign * int(m.inner)), m.sign
        if m.sentinel == "masked" or m.dtype != m.array.dtype:
            return None

        def held(source: Array, D: Array) -> Marks:
            clamp(source, bound, sign > 0, D, sign)
            return ()

        return held
    if not m.maps:
        return _copied
    if not all(map_.whole for map_ in m.maps):
        return None
    maps = m.maps
    if len(maps) == 1:
        encode_all = maps[0].encode_all
        return lambda source, D: (encode_all(source, D),)

    def in_turn(source: Array, D: Array) -> Marks:
        marks = []
        for map_ in maps:
            marks.append(map_.encode_all(source, D))
            source = D
        return tuple(marks)

    return in_turn


def _copied(source: Array, D: Array) -> Marks:
    if not same_memory(source, D):
        D[...] = source
    return ()


def nothing(D: Array, out: Array, marks: Marks) -> None:
    """Out ← D, where there is nothing to undo."""
    if D is not out and not same_memory(D, out):
        out[...] = D


def decoder(outer: Matrix, inner: Matrix) -> Decoder | None:
    """How a whole result is decoded; None where it must be by parts, as for `encoder`."""
    maps = [(len(outer.maps) + k, map_) for k, map_ in enumerate(inner.maps[len(outer.maps) :]) if map_.undone][::-1]
    if inner.storage == "bits" or inner.vertices is not outer.vertices:
        return None
    if inner.sentinel and (outer.dtype, outer.inner) != (inner.dtype, inner.inner):
        limit, sign, none = inner.dtype.type(inner.inner), inner.sign, outer.none
        if inner.dtype != inner.array.dtype or any(map_.moves for _, map_ in maps):
            return None
        return lambda D, out, marks: clear_sentinel(D, limit, none, out, sign)
    if not all(map_.whole for _, map_ in maps):
        return None
    if not maps and outer.dtype == inner.dtype:
        return nothing

    def in_turn(D: Array, out: Array, marks: Marks) -> None:
        source = D
        for k, map_ in maps:
            map_.decode_all(source, out, marks[k] if marks else None)
            source = out
        if source is not out and not same_memory(source, out):
            out[...] = source

    return in_turn


def encode(m: Matrix, D: Any) -> tuple[Any, Marks]:
    """D ← the entries of m through all its maps: the first write of a call. Returns D, new words where it is None.

    D may be the memory of the array, or the beginnings of its rows.
    """
    if m.storage == "bits":
        if not isinstance(m.array, BitMatrix):
            return pack(m.array), ()
        if D.words is not m.array.words:
            D.words[...] = m.array.words
        return D, ()
    at_once = encoder(m)
    if at_once is not None:
        return D, at_once(m.array, D)
    for at in parts(m.shape, m.there):
        D[at] = m.rows(at)
    return D, ()


def decode(outer: Matrix, inner: Matrix, D: Any, out: Any, marks: Marks = ()) -> None:
    """Out ← D with the maps undone that ``inner`` has and ``outer`` has not: the last write of a call.

    Out may be D, or have D in the beginnings of its rows. Raises `IntegerOverflowError` where a distance does not fit
    the caller's integers.
    """
    if inner.storage == "bits":
        return
    at_once = decoder(outer, inner)
    if at_once is not None:
        at_once(D, out, marks)
        return
    maps = [map_ for map_ in inner.maps[len(outer.maps) :][::-1] if map_.undone]
    if inner.sentinel and (outer.dtype, outer.inner) != (inner.dtype, inner.inner):
        _decode_integers(inner, maps, D, out, outer.none)
        return
    scatter = inner.vertices if inner.vertices is not outer.vertices else None
    for at in parts(D.shape, is_device_array(D)):
        rows = D[at]
        with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞, as without potentials
            for map_ in maps:
                rows = map_.decode(rows, at)
            if scatter is None:
                out[at] = rows
            else:
                out[scatter[at][..., None], scatter[at[:-1]][..., None, :]] = rows


def _decode_integers(inner: Matrix, maps: Sequence[Map], D: Array, out: Array, none: Any) -> None:
    """The way back of integers: what reaches "no path" is that of the caller; all else must fit his dtype beside it."""
    limit, sign = inner.dtype.type(inner.inner), -1 if maps and maps[-1].negates else 1
    shifts = [map_ for map_ in maps if not map_.negates]
    xp = array_namespace(D)
    for at in parts(D.shape, is_device_array(D)):
        rows = D[at]
        absent = rows >= limit
        if not shifts and out.dtype.itemsize >= D.dtype.itemsize:  # so does every one in a wider dtype
            numbers = rows.astype(out.dtype)
            out[at] = xp.where(absent, out.dtype.type(none), numbers if sign > 0 else out.dtype.type(0) - numbers)
            continue
        rows = rows.astype(np.int64)
        for map_ in shifts:
            rows = map_.decode(rows, at)
        rows *= sign
        put(rows, absent, 0)
        check_fit(rows, absent, none, out.dtype)
        out[at] = rows
        put(out[at], absent, none)


def clear_sentinel(D: Array, limit: Any, none: Any, out: Array, sign: int) -> None:
    """Out ← ±D of integers, and the caller's ``none`` where D has reached its own; out may be D."""
    if is_device_array(D):
        from semiring.arrays.device.elements import replace_beyond

        replace_beyond(D, limit, none, out, sign=sign)
        return
    for at in parts(D.shape, False):
        rows, target = D[at], out[at]
        absent = rows >= limit
        if sign < 0:
            np.subtract(rows.dtype.type(0), rows, out=target)
        elif rows is not target:
            target[...] = rows
        put(target, absent, none)


def check_fit(rows: Array, absent: Array, none: Any, dtype: np.dtype[Any]) -> None:
    """Raise `IntegerOverflowError` unless all rows but the absent ones fit the dtype beside ``none``."""
    limits = np.iinfo(dtype)
    bad = ((rows > limits.max) | (rows < limits.min) | (rows == none)) & ~absent
    if bad.any():
        worst = int(rows[bad][:1].max())
        raise IntegerOverflowError(
            f"a distance of {worst} does not fit {dtype} beside {none} for no path: use int64 or float64"
        )
