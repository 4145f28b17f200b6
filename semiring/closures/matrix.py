"""How the entries of a matrix are read, and the two passes over it: the first read and the last write of a call.

A rule that only changes how entries are read (their sign, a shift by potentials, another value for "no path") adds a
map, and nothing is computed. When the method is about to close the matrix, `EncodedMatrix.encode` reads the caller's
array once, through all maps, into the memory of the result. `EncodedMatrix.decode` undoes the maps of the closed matrix
in one pass. A map that converts a whole array in one pass does so. Otherwise some rows are taken at a time, and all
maps are applied to them while they are in the cache. Nothing here holds entries, so one plan serves all arrays of its
kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from semiring.algorithms.packed import loops as packed_loops
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.encoding import clamp, first_unrepresentable
from semiring.arrays.operands import has_adjacent_elements, same_memory
from semiring.arrays.parts import parts, put
from semiring.errors import IntegerOverflowError
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["EncodedMatrix", "EntryMap"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array
At: TypeAlias = tuple[Any, ...]  # which rows of a matrix, or of which matrices of a stack; () is all of it

_ALL = slice(None)


class EntryMap:
    """A pending change of the entries of one matrix (n, n), or of a stack (count, n, n).

    What `encode` and `decode` return may be made in ``out``, memory of that shape in the dtype that the matrix is read
    in, or is wanted in. It may be the memory of the rows, and need not be used.
    """

    name = ""  # a journal identifies the map by it
    is_negation = False  # whether it changes the sign of every number, and nothing else
    may_change_numbers = False  # apart from their sign
    is_one_pass = False  # whether it converts a whole array in one pass

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        """Return some rows with the change applied.

        ``at`` None: ``rows`` (1, n) holds the diagonal. There h[i] - h[i] = 0, so a shift leaves it alone.
        """
        raise NotImplementedError

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        """Return the same rows of the result with the change undone. By default there is nothing to undo."""
        return rows

    def beside(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> EntryMap:
        """Return the map for some rows and columns of the matrix, with vectors on the device of ``array``."""
        return self

    def of_call(self, call: Any) -> EntryMap:
        """Return the map of one call: another one if it needs the result of a scan (`MapOfCall`)."""
        return self


@dataclass(frozen=True)
class EncodedMatrix:
    """How the entries of an array are read: through ``maps``, in ``dtype``, with ``inner`` for "no path".

    `encode` reads the array. `decode` restores the encoding ``outer``, whose maps are the first ones of this matrix.
    Neither keeps entries, so one object serves all arrays of its kind.
    """

    source: np.dtype[Any]  # the dtype of the array
    none: Any  # "no path" in the array
    dtype: np.dtype[Any]
    inner: Any  # "no path" as it is read
    maps: tuple[EntryMap, ...] = ()
    #: How integers get another value for "no path" inside. "held": min(entry, inner) is enough, because weights are ≥ 0
    #: and one that reaches ``inner`` may count as no edge. "masked": the absent entries are remembered and put back.
    sentinel: Literal["", "masked", "held"] = ""
    storage: Literal["elements", "bits"] = "elements"
    packed: bool = False  # whether the array is a `BitMatrix`
    turned: bool = False  # whether the edges of the array are the caller's, reversed
    outer: EncodedMatrix | None = None

    @classmethod
    def of(cls, dtype: np.dtype[Any], none: Any, *, packed: bool = False, turned: bool = False) -> EncodedMatrix:
        """Return the encoding of a matrix whose entries are read unchanged."""
        return cls(dtype, none, dtype, none, storage="bits" if packed else "elements", packed=packed, turned=turned)

    def relative_to(self, outer: EncodedMatrix) -> EncodedMatrix:
        """Return the same encoding, whose `decode` restores the encoding ``outer``."""
        return replace(self, outer=outer)

    @property
    def is_unchanged(self) -> bool:
        """Whether the entries as they are read equal those of the array."""
        stored = self.storage == "elements" or self.packed
        same = not self.sentinel and self.dtype == self.source and stored
        return same and not any(map_.may_change_numbers or map_.is_negation for map_ in self.maps)

    @property
    def has_changed_numbers(self) -> bool:
        """Whether a map changes numbers, apart from their sign."""
        return any(map_.may_change_numbers for map_ in self.maps)

    @property
    def sign(self) -> int:
        """-1 if the first map changes the sign, else 1."""
        return -1 if self.maps and self.maps[0].is_negation else 1

    @cached_property
    def is_one_pass(self) -> bool:
        """Whether each map converts a whole array in one pass."""
        if self.sentinel:
            return self.sentinel == "held" and self.dtype == self.source
        return self.storage == "elements" and all(map_.is_one_pass for map_ in self.maps)

    def bound(self, call: Any) -> EncodedMatrix:
        """Return the encoding with the maps that the scans of one call have found."""
        return replace(self, maps=tuple(map_.of_call(call) for map_ in self.maps))

    def beside(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> EncodedMatrix:
        """Return the encoding of some rows and columns of the matrix, with vectors on the device of ``array``."""
        outer = None if self.outer is None else self.outer.beside(array, rows, columns)
        return replace(self, maps=tuple(map_.beside(array, rows, columns) for map_ in self.maps), outer=outer)

    def read(self, part: Array, at: At | None, out: Array | None = None) -> Array:
        """Read some entries of the array through all maps into ``out``; the loops if ``at`` is None."""
        if out is None:
            out = array_namespace(part).empty(part.shape, self.dtype)
        if self.sentinel == "held":
            clamp(part, part.dtype.type(self.sign * int(self.inner)), self.sign > 0, out, self.sign)
            return out
        numbers, memory = part, out
        if self.sentinel:
            absent = part == self.none  # a mask, for maps may move numbers to where a value for "no path" is
            numbers = memory = out if out.dtype == np.int64 else array_namespace(part).empty(part.shape, np.int64)
            numbers[...] = part
            put(numbers, absent, 0)
        for map_ in self.maps:
            numbers = map_.encode(numbers, at, memory)
        if numbers is not out and not same_memory(numbers, out):
            out[...] = numbers
        if self.sentinel:
            put(out, absent, self.inner)
        return out

    def diagonal(self, array: Any) -> Array:
        """Return the loops (n,) of the array, read through all maps."""
        loops = packed_loops(array) if isinstance(array, BitMatrix) else array.diagonal()
        return self.read(loops[np.newaxis], None)[0]

    def range(self, array: Array) -> tuple[Any, Any]:
        """Return bounds of the numbers of the array, as they are read."""
        ends = []
        for at in parts(array.shape, is_device_array(array)):
            rows = self.read(array[at], at)
            if self.sentinel:
                put(rows, rows == self.inner, 0)
            ends += [rows.min(), rows.max()]
        return min(ends, default=0), max(ends, default=0)

    def memory_in(self, home: Any, array: Any) -> Any:
        """Memory for the entries as they are read: that of ``home`` (of any dtype and strides) wherever it will do.

        Of truth values that are packed first, None.
        """
        if self.storage == "bits":
            return home if self.packed else None
        if home is not None and has_adjacent_elements(home):
            if home.dtype == self.dtype:
                return home
            if self.dtype.itemsize <= home.dtype.itemsize:  # each row at the start of its own
                return home.view(self.dtype)[..., : home.shape[-1]]
        return array_namespace(array).empty(array.shape, self.dtype)

    # ------------------------------------------------------------------------------ the first read and the last write

    @cached_property
    def _undone_maps(self) -> list[EntryMap]:
        """The maps that `decode` undoes, the last one first."""
        assert self.outer is not None
        maps = self.maps[len(self.outer.maps) :]
        return [map_ for map_ in maps[::-1] if type(map_).decode is not EntryMap.decode]

    @cached_property
    def _undoes_numbers(self) -> bool:
        """Whether `decode` changes numbers, apart from their sign."""
        return any(map_.may_change_numbers for map_ in self._undone_maps)

    @cached_property
    def _is_recoded(self) -> bool:
        """Whether the value for "no path", or the dtype of integers, differs from that of ``outer``."""
        assert self.outer is not None
        return bool(self.sentinel) and (self.outer.dtype, self.outer.inner) != (self.dtype, self.inner)

    @cached_property
    def needs_packing(self) -> bool:
        """Whether truth values are packed into words when the array is read."""
        return self.outer is not None and self.storage != self.outer.storage

    @cached_property
    def needs_decoding(self) -> bool:
        """Whether the closed matrix differs from the result in the encoding ``outer``."""
        return bool(self._undone_maps) or self.needs_packing or self._is_recoded

    def encode(self, source: Any, D: Any, first: int = 0) -> Any:
        """D ← the entries of ``source`` through all maps: the first write of a call. Returns D, or new words.

        D may be the memory of the source, or the beginnings of its rows. The source may be a strip of the matrix, which
        begins with its row ``first``.
        """
        if self.is_one_pass:
            self.read(source, (), D)
        elif self.storage == "elements":
            for at in parts(source.shape, is_device_array(source)):
                self.read(source[at], _below(at, first), D[at])
        elif not isinstance(source, BitMatrix):
            return pack(source)
        elif D.words is not source.words:
            D.words[...] = source.words
        return D

    def decode(self, D: Any, out: Any, first: int = 0) -> None:
        """Out ← D with the maps undone: the last write of a call. Out may be D, or have D in its rows' beginnings.

        Raises `IntegerOverflowError` where a distance does not fit the caller's integers.
        """
        if self.storage == "bits":
            if self.needs_packing:
                D.unpack_into(out)
            return
        there, maps = is_device_array(D), self._undone_maps
        if self._is_recoded and there and self.dtype == self.source and not self._undoes_numbers:
            from semiring.kernels.cuda.entries.elementwise import replace_beyond

            replace_beyond(D, self.inner, self.none, out, sign=self.sign)  # all of it by one kernel
            return
        if not self._is_recoded and all(map_.is_one_pass for map_ in maps):
            self._undo(D, (), out)
            return
        with np.errstate(over="ignore"):  # a distance beyond the range of floats is ∞, as it is without potentials
            for at in parts(D.shape, there):
                rows = D[at]
                self._undo(rows, _below(at, first), rows if D is out else out[at])

    def _undo(self, rows: Array, at: At, out: Array) -> None:
        """Out ← some rows. Of integers, what reaches "no path" is that of the caller, and all else fits beside it."""
        maps, is_recoded = self._undone_maps, self._is_recoded
        absent = rows >= self.inner if is_recoded else None
        checked = is_recoded and (self._undoes_numbers or out.dtype.itemsize < rows.dtype.itemsize)
        if is_recoded:  # every number fits a dtype that is as wide, and every sum int64
            rows = rows.astype(np.int64 if checked else out.dtype, copy=False)
        for map_ in maps:
            rows = map_.decode(rows, at, rows if checked else out)
        if checked:
            put(rows, absent, 0)
            if (worst := first_unrepresentable(rows, absent, self.none, out.dtype)) is not None:
                raise IntegerOverflowError(
                    f"a distance of {worst} does not fit {out.dtype} beside {self.none} for no path: use int64 or "
                    "float64"
                )
        if rows is not out and not same_memory(rows, out):
            out[...] = rows
        if is_recoded:
            put(out, absent, self.none)


def _below(at: At, first: int) -> At:
    """Where some rows of a strip lie in the matrix, which has the strip from its row ``first`` on."""
    return (slice(at[0].start + first, at[0].stop + first),) if first and at else at
