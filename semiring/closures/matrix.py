"""Encode the entries of a matrix in the first read of a call, and decode them in the last write.

An encoding changes how entries are read (their sign, a shift by potentials, another value for "no path"): it adds a
map, and nothing is computed. When the method is about to close the matrix, `EncodedMatrix.encode` reads the caller's
array once, through all maps, into the memory of the result. `EncodedMatrix.decode` undoes the maps of the closed matrix
in one pass. A map that converts a whole array in one pass does so. Otherwise all maps are applied to some rows at a
time, while these are in the cache. It holds no entries, so one serves all arrays of a dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from semiring.algorithms.packed_bits import diagonal_bits as packed_loops
from semiring.arrays.bits import BitMatrix, pack_truths
from semiring.arrays.encoding import clamp, first_unrepresentable
from semiring.arrays.operands import has_adjacent_elements, is_same_memory
from semiring.arrays.parts import assign_where, parts
from semiring.errors import IntegerOverflowError
from semiring.namespaces import Array, array_namespace, is_device_array

__all__ = ["CallMap", "EncodedMatrix", "EntryMap"]

Index: TypeAlias = tuple[Any, ...]  # the index of some rows of a matrix, or of some matrices of a stack; () is all

_ALL = slice(None)


class EntryMap:
    """A pending change of the entries of one matrix (n, n), or of a stack (count, n, n).

    `encode` and `decode` may return their result in ``out``, or in other memory. ``out`` has the shape of the rows. Its
    dtype is that of the encoded matrix, or that of the result. It may be the memory of the rows.
    """

    name = ""  # identifies the map in a journal
    is_negation = False  # whether the map only changes the sign of every number
    may_change_numbers = False  # whether the map may change numbers, apart from their sign
    is_one_pass = False  # whether the map converts a whole array in one pass

    def encode(self, rows: Array, index: Index | None, out: Array) -> Array:
        """Return some rows with the change applied.

        ``index`` None: ``rows`` (1, n) holds the diagonal. There h[i] - h[i] = 0, so a shift does not change it.
        """
        raise NotImplementedError

    def decode(self, rows: Array, index: Index, out: Array) -> Array:
        """Return the same rows of the result with the change undone. The default returns them unchanged."""
        return rows

    def restrict(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> EntryMap:
        """Return the map for some rows and columns of the matrix, with vectors on the device of ``array``."""
        return self

    def bind(self, facts: Any) -> EntryMap:
        """Return the map for one operand, which differs from this map if it needs a scan of the entries (`CallMap`)."""
        return self


class CallMap(EntryMap):
    """A map that needs potentials or factors, which a scan of the entries finds when the map is bound."""

    may_change_numbers = True

    def __init__(self, make: Callable[[Any], EntryMap]) -> None:
        self._make = make

    def bind(self, facts: Any) -> EntryMap:
        return self._make(facts)


@dataclass(frozen=True)
class EncodedMatrix:
    """The encoding of the entries of an array: read through ``maps``, in ``dtype``, with ``inner`` for "no path".

    `encode` reads the array. `decode` restores the encoding ``outer``, whose maps are the first ones of this matrix.
    Neither keeps entries, so one object serves all arrays of a dtype.
    """

    source: np.dtype[Any]  # the dtype of the array
    none: Any  # the value for "no path" in the array
    dtype: np.dtype[Any]
    inner: Any  # the value for "no path" in the encoded matrix
    maps: tuple[EntryMap, ...] = ()
    #: How the entries of absent edges become ``inner``, for integers. "held": min(entry, inner) suffices, because
    #: weights are ≥ 0 and a weight that reaches ``inner`` may count as no edge. "masked": absent entries are masked.
    sentinel: Literal["", "masked", "held"] = ""
    storage: Literal["elements", "bits"] = "elements"
    is_packed: bool = False  # whether the array is a `BitMatrix`
    is_transposed: bool = False  # whether the array is the transpose of the caller's
    outer: EncodedMatrix | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # cached, because each encoding of a problem is looked up by it
        return hash((self.source, self.none, self.dtype, self.inner, self.maps, self.sentinel, self.outer))

    @classmethod
    def identity(
        cls, dtype: np.dtype[Any], none: Any, *, is_packed: bool = False, is_transposed: bool = False
    ) -> EncodedMatrix:
        """Return the encoding of a matrix whose entries are read unchanged."""
        return cls(
            dtype,
            none,
            dtype,
            none,
            storage="bits" if is_packed else "elements",
            is_packed=is_packed,
            is_transposed=is_transposed,
        )

    def relative_to(self, outer: EncodedMatrix) -> EncodedMatrix:
        """Return the same encoding, whose `decode` restores the encoding ``outer``."""
        return replace(self, outer=outer)

    @property
    def is_unchanged(self) -> bool:
        """Whether the encoded entries equal those of the array."""
        stored = self.storage == "elements" or self.is_packed
        same = not self.sentinel and self.dtype == self.source and stored
        return same and not any(map_.may_change_numbers or map_.is_negation for map_ in self.maps)

    @property
    def may_change_numbers(self) -> bool:
        """Whether a map changes numbers, apart from their sign."""
        return any(map_.may_change_numbers for map_ in self.maps)

    @property
    def sign(self) -> int:
        """-1 if the first map changes the sign, else 1."""
        return -1 if self.maps and self.maps[0].is_negation else 1

    @cached_property
    def needs_binding(self) -> bool:
        """Whether a map needs potentials or factors."""
        return any(isinstance(map_, CallMap) for map_ in self.maps)

    @cached_property
    def is_one_pass(self) -> bool:
        """Whether each map converts a whole array in one pass."""
        if self.sentinel:
            return self.sentinel == "held" and self.dtype == self.source
        return self.storage == "elements" and all(map_.is_one_pass for map_ in self.maps)

    def bind(self, facts: Any) -> EncodedMatrix:
        """Return the encoding with the maps for one operand, which hold the results of its scans."""
        return replace(self, maps=tuple(map_.bind(facts) for map_ in self.maps))

    def restrict(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> EncodedMatrix:
        """Return the encoding of some rows and columns of the matrix, with vectors on the device of ``array``."""
        outer = None if self.outer is None else self.outer.restrict(array, rows, columns)
        return replace(self, maps=tuple(map_.restrict(array, rows, columns) for map_ in self.maps), outer=outer)

    def read(self, part: Array, index: Index | None, out: Array | None = None) -> Array:
        """Read some entries of the array through all maps into ``out``; they are the loops if ``index`` is None."""
        if out is None:
            out = array_namespace(part).empty(part.shape, self.dtype)
        if self.sentinel == "held":
            clamp(part, part.dtype.type(self.sign * int(self.inner)), self.sign > 0, out, self.sign)
            return out
        numbers, memory = part, out
        if self.sentinel:
            absent = part == self.none  # a mask, because maps may turn numbers into a value for "no path"
            numbers = memory = out if out.dtype == np.int64 else array_namespace(part).empty(part.shape, np.int64)
            numbers[...] = part
            assign_where(numbers, absent, 0)
        for map_ in self.maps:
            numbers = map_.encode(numbers, index, memory)
        if numbers is not out and not is_same_memory(numbers, out):
            out[...] = numbers
        if self.sentinel:
            assign_where(out, absent, self.inner)
        return out

    def diagonal(self, array: Any) -> Array:
        """Return the loops (n,) of the array, read through all maps."""
        loops = packed_loops(array) if isinstance(array, BitMatrix) else array.diagonal()
        return self.read(loops[np.newaxis], None)[0]

    def number_range(self, array: Array) -> tuple[Any, Any]:
        """Return the least and the greatest encoded number of the array."""
        bounds = []
        for index in parts(array.shape, is_device_array(array)):
            rows = self.read(array[index], index)
            if self.sentinel:
                assign_where(rows, rows == self.inner, 0)
            bounds += [rows.min(), rows.max()]
        return min(bounds, default=0), max(bounds, default=0)

    def memory_in(self, out_buffer: Any, array: Any) -> Any:
        """Return memory for the encoded entries: that of ``out_buffer`` if it is adjacent and large enough, or new.

        ``out_buffer`` may have any dtype and strides. Returns None for truth values that are packed first.
        """
        if self.storage == "bits":
            return out_buffer if self.is_packed else None
        if out_buffer is not None and has_adjacent_elements(out_buffer):
            if out_buffer.dtype == self.dtype:
                return out_buffer
            if self.dtype.itemsize <= out_buffer.dtype.itemsize:  # each row occupies the start of a row
                return out_buffer.view(self.dtype)[..., : out_buffer.shape[-1]]
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

        D may be the memory of the source, or the beginnings of its rows. The source may be a strip of the matrix that
        begins with the row ``first``.
        """
        if self.is_one_pass:
            self.read(source, (), D)
        elif self.storage == "elements":
            for index in parts(source.shape, is_device_array(source)):
                self.read(source[index], _shift_index(index, first), D[index])
        elif not isinstance(source, BitMatrix):
            return pack_truths(source)
        elif D.words is not source.words:
            D.words[...] = source.words
        return D

    def decode(self, D: Any, out: Any, first: int = 0) -> None:
        """Out ← D with the maps undone: the last write of a call.

        ``out`` may be D, or may contain D in the beginnings of its rows. Raises `IntegerOverflowError` if a distance
        does not fit the caller's integers.
        """
        if self.storage == "bits":
            if self.needs_packing:
                D.unpack_into(out)
            return
        on_device, maps = is_device_array(D), self._undone_maps
        if self._is_recoded and on_device and self.dtype == self.source and not self._undoes_numbers:
            from semiring.kernels.cuda.entries.entry_passes import replace_beyond

            replace_beyond(D, self.inner, self.none, out, sign=self.sign)  # one kernel for the whole matrix
            return
        if not self._is_recoded and all(map_.is_one_pass for map_ in maps):
            self._undo_maps(D, (), out)
            return
        with np.errstate(over="ignore"):  # a distance beyond the range of floats is ∞, as without potentials
            for index in parts(D.shape, on_device):
                rows = D[index]
                self._undo_maps(rows, _shift_index(index, first), rows if D is out else out[index])

    def _undo_maps(self, rows: Any, index: Index, out: Any) -> None:
        """Out ← some rows with the maps undone; entries of at least ``inner`` become the caller's "no path"."""
        maps, is_recoded = self._undone_maps, self._is_recoded
        absent: Any = rows >= self.inner if is_recoded else None
        checked = is_recoded and (self._undoes_numbers or out.dtype.itemsize < rows.dtype.itemsize)
        if is_recoded:  # every number fits a dtype of the same width, and every sum fits int64
            rows = rows.astype(np.int64 if checked else out.dtype, copy=False)
        for map_ in maps:
            rows = map_.decode(rows, index, rows if checked else out)
        if checked:
            assign_where(rows, absent, 0)
            if (worst := first_unrepresentable(rows, absent, self.none, out.dtype)) is not None:
                raise IntegerOverflowError(
                    f"a distance of {worst} does not fit {out.dtype} beside {self.none} for no path: use int64 or "
                    "float64"
                )
        if rows is not out and not is_same_memory(rows, out):
            out[...] = rows
        if is_recoded:
            assign_where(out, absent, self.none)


def _shift_index(index: Index, first: int) -> Index:
    """Return the index in the matrix of some rows of a strip that begins with the row ``first``."""
    return (slice(index[0].start + first, index[0].stop + first),) if first and index else index
