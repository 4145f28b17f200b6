"""Store boolean matrices with 32 entries to a word, and compute boolean operations as operations on words.

A `BitMatrix` holds uint32 words along its rows: bit b of word w of a row is column 32·w + b, and the tail bits of the
last word are zero. It is a storage, not an algebra: `matmul`, `closure` and related functions accept it for every
semiring on bool. The words are in the memory of the host (NumPy) or of a GPU (CuPy), and so are the results.

*Views.* ``A[i0:i1, j0:j1]`` shares the words of A. A column range must therefore start at a multiple of 32, and end at
a multiple of 32 or at the last column. Ranges of rows are arbitrary. A recursion that splits its columns at multiples
of 32 therefore works in place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from semiring.advice import quote, truth_values_advice
from semiring.algebra.catalogue import boolean
from semiring.algebra.truth_tables import to_bitwise, truth_table, zhegalkin_coefficients
from semiring.arguments import as_numbers, require_integer
from semiring.arrays.encoding import convert
from semiring.arrays.labels import is_graph, refuse_collection
from semiring.arrays.memory import demand_array, demand_memory
from semiring.arrays.parts import pieces
from semiring.arrays.sparse import check_sparse, is_sparse, stored_entries
from semiring.arrays.tensors import as_sparse_array, is_sparse_tensor
from semiring.errors import DeviceError, DomainError, DTypeError, ShapeError, VertexError
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["WORD_BITS", "BitMatrix", "pack", "pack_truths", "to_bitwise", "truth_table", "zhegalkin_coefficients"]

WORD_BITS = 32
_PACKED_ENTRIES = 1 << 22  # entries that are packed at a time
_UNPACKED_ENTRIES = 1 << 20  # entries that are unpacked at a time
_DENSE_SHARE = 8  # if an eighth of the words hold an edge, all words are unpacked
Words: TypeAlias = Any  # uint32, NumPy's or CuPy's

_ALL = np.uint32(0xFFFFFFFF)


def _word_count(columns: int) -> int:
    return -(-columns // WORD_BITS)


class BitMatrix:
    """A boolean matrix (m, n) as uint32 words (m, ⌈n/32⌉) along its rows.

    Parameters
    ----------
    words : array of uint32, shape (m, ⌈n/32⌉)
        The words, of NumPy or on a GPU. The words of a row are adjacent in memory, and rows may have any stride. They
        are shared, not copied.
    shape : pair of int, or None
        The shape (m, n). The default is all columns that the words hold.

    Raises
    ------
    DTypeError
        If the words are no array of uint32.
    ShapeError
        If the words are not 2-D, do not fit the shape, or are not adjacent.
    DomainError
        If a bit beyond column n is set.

    Examples
    --------
    >>> A = pack([[True, False, True]])
    >>> A.words
    array([[5]], dtype=uint32)
    >>> A.unpack()
    array([[ True, False,  True]])
    """

    __slots__ = ("shape", "words")
    __hash__: ClassVar[None]  # type: ignore[assignment]  # a BitMatrix is mutable, as arrays are

    words: Words
    shape: tuple[int, int]

    def __init__(self, words: Words, shape: Sequence[int] | None = None) -> None:
        if is_device_array(words):
            from semiring.arrays.device import as_cupy

            words = as_cupy(words, "words")
        is_array = isinstance(words, np.ndarray) or is_device_array(words)
        if not is_array or words.dtype != np.uint32:
            actual = words.dtype if is_array else type(words).__name__
            raise DTypeError(
                f"the words of a BitMatrix are a uint32 array, not {actual}; pack(array) makes them from bool"
            )
        if words.ndim != 2:
            raise ShapeError(f"the words of a BitMatrix are 2-D, not {words.ndim}-D of shape {words.shape}")
        m, n = _check_shape(shape) if shape is not None else (words.shape[0], words.shape[1] * WORD_BITS)
        if words.shape != (m, _word_count(n)):
            raise ShapeError(
                f"a BitMatrix of shape {(m, n)} has words of shape {(m, _word_count(n))}, not {words.shape}"
            )
        if words.shape[1] > 1 and words.shape[0] and words.strides[1] != words.itemsize:
            raise ShapeError(
                f"the words of a row must be adjacent (stride 4 bytes, not {words.strides[1]}): "
                "use numpy.ascontiguousarray(words)"
            )
        self.words, self.shape = words, (m, n)
        if n % WORD_BITS and bool((words[:, -1] & ~self.tail).any()):
            row = int((words[:, -1] & ~self.tail != 0).argmax())
            raise DomainError(
                f"row {row} has bits set beyond column {n - 1}: the tail bits of the last word must be zero "
                f"(words[:, -1] &= {int(self.tail):#x} clears them)"
            )

    @classmethod
    def _view(cls, words: Words, shape: tuple[int, int]) -> BitMatrix:
        """Return the matrix of valid words without a check."""
        matrix = object.__new__(cls)
        matrix.words, matrix.shape = words, shape
        return matrix

    @classmethod
    def zeros(cls, shape: Sequence[int], like: BitMatrix | None = None) -> BitMatrix:
        """Return a matrix of False.

        Parameters
        ----------
        shape : pair of int
            The shape (m, n).
        like : BitMatrix or None
            A matrix in the memory of the result. The default is the memory of the host.

        Returns
        -------
        BitMatrix
            The matrix (m, n).

        Raises
        ------
        ShapeError
            If the shape is not a pair of sizes.
        TypeError
            If ``like`` is not a `BitMatrix`.
        """
        m, n = _check_shape(shape)
        xp = np if like is None else _namespace_of(like)
        if xp is np:
            demand_array((m, _word_count(n)), np.dtype(np.uint32))
        return cls._view(xp.zeros((m, _word_count(n)), np.uint32), (m, n))

    @classmethod
    def empty(cls, shape: Sequence[int], like: BitMatrix) -> BitMatrix:
        """Return an uninitialized matrix.

        Parameters
        ----------
        shape : pair of int
            The shape (m, n).
        like : BitMatrix
            A matrix in the memory of the result.

        Returns
        -------
        BitMatrix
            The matrix (m, n). Its tail bits are not zero yet.

        Raises
        ------
        ShapeError
            If the shape is not a pair of sizes.
        TypeError
            If ``like`` is not a `BitMatrix`.
        """
        m, n = _check_shape(shape)
        return cls._view(_namespace_of(like).empty((m, _word_count(n)), np.uint32), (m, n))

    @classmethod
    def full(cls, shape: Sequence[int], value: bool, like: BitMatrix | None = None) -> BitMatrix:
        """Return a matrix whose entries are all equal.

        Parameters
        ----------
        shape : pair of int
            The shape (m, n).
        value : bool
            The entry.
        like : BitMatrix or None
            A matrix in the memory of the result. The default is the memory of the host.

        Returns
        -------
        BitMatrix
            The matrix (m, n).

        Raises
        ------
        ShapeError
            If the shape is not a pair of sizes.
        DTypeError
            If the value is no bool.
        """
        matrix = cls.zeros(shape, like)
        matrix.fill(value)
        return matrix

    @classmethod
    def identity(cls, n: int, like: BitMatrix | None = None) -> BitMatrix:
        """Return a matrix with True on the diagonal and False elsewhere.

        Parameters
        ----------
        n : int
            The number of rows and of columns.
        like : BitMatrix or None
            A matrix in the memory of the result. The default is the memory of the host.

        Returns
        -------
        BitMatrix
            The matrix (n, n).
        """
        n = require_integer(n, "the size of an identity", 0)
        matrix = cls.zeros((n, n), like)
        i = array_namespace(matrix.words).arange(n)
        matrix.words[i, i // WORD_BITS] = (1 << i % WORD_BITS).astype(np.uint32)
        return matrix

    @classmethod
    def from_edges(cls, tails: ArrayLike, heads: ArrayLike, shape: Sequence[int]) -> BitMatrix:
        """Return the matrix that is True at row ``tails[e]`` and column ``heads[e]`` of every edge e.

        Parameters
        ----------
        tails, heads : array of int, shape (edges,)
            The ends of the edges in any order, repeated or not. If both are on a GPU, so is the matrix: a million
            vertices take 116 GiB.
        shape : pair of int
            The shape (m, n) of the matrix.

        Returns
        -------
        BitMatrix
            The matrix (m, n), in the memory of the arrays.

        Raises
        ------
        VertexError
            For an edge beyond the shape.
        TooLargeError
            If the matrix does not fit into the memory of the host.
        ShapeError, DTypeError, DeviceError
            If the arrays differ in length, hold no integers, or lie in different memories.

        Notes
        -----
        It costs O(edges), and m · n / 8 bytes of zeros.

        Examples
        --------
        >>> BitMatrix.from_edges([0, 1], [1, 2], (3, 3))
        BitMatrix(3 × 3, 2 set
          .1.
          ..1
          ...)
        """
        is_on_device = is_device_array(tails) and is_device_array(heads)
        if not is_on_device and (is_device_array(tails) or is_device_array(heads)):
            raise DeviceError("one of tails and heads is on a GPU, the other is not: copy one of them")
        if is_on_device:
            from semiring.arrays.device import as_cupy

            ends: list[Any] = [as_cupy(tails, "tails"), as_cupy(heads, "heads")]
        else:
            ends = [as_numbers(tails, "tails"), as_numbers(heads, "heads")]
        if ends[0].ndim != 1 or ends[0].shape != ends[1].shape:
            raise ShapeError(f"tails {ends[0].shape} and heads {ends[1].shape} are not 1-D of one length")
        xp, (m, n) = array_namespace(ends[0]), _check_shape(shape)
        if not is_on_device:
            demand_memory(4 * m * _word_count(n), f"{m:,} × {n:,} bits", "semiring.condensation makes none")
        matrix = cls._view(xp.zeros((m, _word_count(n)), np.uint32), (m, n))
        if not ends[0].size:
            return matrix
        for name, values, size in zip(("tails", "heads"), ends, matrix.shape, strict=True):
            if values.dtype.kind not in "iu":
                raise DTypeError(f"{name} are integers, not {values.dtype}")
            low, high = int(values.min()), int(values.max())
            if low < 0 or high >= size:
                raise VertexError(f"{name} have {low if low < 0 else high}, and the matrix is {matrix.shape}")
        rows, columns = (values.astype(np.int64, copy=False) for values in ends)
        if is_on_device:
            from semiring.kernels.cuda.entries.packing import set_bits

            set_bits(matrix.words, rows, columns)
        else:
            bits = np.left_shift(np.uint32(1), (columns % WORD_BITS).astype(np.uint32))
            np.bitwise_or.at(matrix.words, (rows, columns // WORD_BITS), bits)
        return matrix

    def edges(self, entries: int = 1 << 24) -> Iterator[tuple[Any, Any]]:
        """Yield the True entries in parts, row by row.

        Parameters
        ----------
        entries : int
            The number of entries of a part. A part has as many rows as have ``entries`` entries, but at least one.

        Yields
        ------
        tails, heads : array of int64, shape (edges,)
            The rows and the columns of the True entries of a part, in the memory of the words. A part may be without
            edges.

        Notes
        -----
        The cost is a scan of all words, and of the bits of words that hold an edge. A part takes up to a byte of memory
        for an entry and 16 for an edge.

        Examples
        --------
        >>> [(tails.tolist(), heads.tolist()) for tails, heads in pack([[True, False], [True, True]]).edges()]
        [([0, 1, 1], [0, 0, 1])]
        """
        m, n = self.shape
        step = max(1, entries // max(1, n))
        for start in range(0, m, step):
            part = self[start : start + step]
            nonzero = None if self.on_device else np.flatnonzero(part.words != 0)  # "!= 0" takes a third of the time
            if nonzero is None or _DENSE_SHARE * nonzero.size > part.words.size:
                tails, heads = array_namespace(self.words).nonzero(part.unpack())
            else:
                rows, places = np.divmod(nonzero, max(1, part.words.shape[1]))
                words = self._view(part.words[rows, places][:, np.newaxis], (nonzero.size, WORD_BITS))
                which, bits = np.nonzero(words.unpack())
                tails, heads = rows[which], WORD_BITS * places[which] + bits
            yield tails + start, heads

    # ------------------------------------------------------------------------------------------------- properties

    @property
    def dtype(self) -> np.dtype[np.bool_]:
        """The dtype of the entries: bool, not that of the words."""
        return np.dtype(np.bool_)

    @property
    def ndim(self) -> int:
        """The number of dimensions, which is 2."""
        return 2

    @property
    def size(self) -> int:
        """The number of entries, m · n."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """The bytes of the words."""
        return int(self.words.nbytes)

    @property
    def tail(self) -> np.uint32:
        """The bits of the last word of a row that are columns of the matrix."""
        return np.uint32((1 << (self.shape[1] % WORD_BITS or WORD_BITS)) - 1)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        m, n = self.shape
        if 0 < m <= 16 and 0 < n <= 64:
            entries = self.to_host().unpack().astype(int)
            rows = "\n".join("  " + "".join(".1"[entry] for entry in row) for row in entries)
            return f"BitMatrix({m} × {n}, {self.count()} set\n{rows})"
        return f"BitMatrix({m} × {n}, {self.count()} set)"

    def __reduce__(self) -> tuple[Any, ...]:
        return BitMatrix, (array_namespace(self.words).ascontiguousarray(self.words), self.shape)

    # ------------------------------------------------------------------------------------------------- conversions

    def unpack(self) -> Any:
        """Return the matrix with one byte for each entry.

        Returns
        -------
        array of bool, shape (m, n)
            A new C-ordered array, in the memory of the words.
        """
        m, n = self.shape
        if not m or not n:
            return array_namespace(self.words).zeros((m, n), np.bool_)
        if self.on_device:
            from semiring.kernels.cuda.entries.packing import unpack

            return unpack(self.words, n)
        words = self.words if sys.byteorder == "little" else self.words.byteswap()
        return np.unpackbits(words.view(np.uint8), axis=1, count=n, bitorder="little").view(np.bool_)

    def unpack_into(self, out: Any) -> None:
        """Write the entries into an array of bool.

        Parameters
        ----------
        out : array of bool, shape (m, n)
            The array, in the memory of the words. On the host so many rows are written at a time that temporaries stay
            small.
        """
        if self.on_device and out.size:
            from semiring.kernels.cuda.entries.packing import unpack

            unpack(self.words, self.shape[1], out)
            return
        if out.size <= _UNPACKED_ENTRIES:
            out[...] = self.unpack()
            return
        for rows in pieces(out, _UNPACKED_ENTRIES):
            out[rows] = self[rows].unpack()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a BitMatrix has no array without a copy: leave copy=False out")
        if self.on_device:
            raise TypeError("this BitMatrix is on a GPU: call to_host() first")
        entries: NDArray[Any] = self.unpack().astype(np.bool_ if dtype is None else dtype, copy=False)
        return entries

    def copy(self) -> BitMatrix:
        """Return a copy with contiguous words.

        Returns
        -------
        BitMatrix
            The copy (m, n), in the same memory.
        """
        return self._view(self.words.copy(), self.shape)

    @property
    def on_device(self) -> bool:
        """Whether the words lie in the memory of a GPU."""
        return is_device_array(self.words)

    def to_host(self) -> BitMatrix:
        """Return the matrix in the memory of the host.

        Returns
        -------
        BitMatrix
            The matrix itself if it is in the memory of the host, else a copy there.
        """
        return self._view(self.words.get(), self.shape) if self.on_device else self

    def to_device(self) -> BitMatrix:
        """Return the matrix in the memory of a GPU.

        Returns
        -------
        BitMatrix
            The matrix itself if it is on a GPU, else a copy on the current one.

        Raises
        ------
        DeviceError
            If there is no GPU, or no CuPy.
        """
        if self.on_device:
            return self
        from semiring.arrays.device import copy_to_device

        return self._view(copy_to_device(self.words), self.shape)

    @property
    def T(self) -> BitMatrix:
        """The transpose as a new matrix, by five exchanges for 32 × 32 bits (Warren, Hacker's Delight, 7-3)."""
        m, n = self.shape
        if self.on_device:
            return pack(self.unpack().T)
        result = self.zeros((n, m))
        if not n:
            return result
        for i in range(0, m, _TRANSPOSE_ROWS):
            block = _transpose_words(self.words[i : i + _TRANSPOSE_ROWS])[:n]
            first = i // WORD_BITS
            result.words[:, first : first + block.shape[1]] = block
        return result

    def count(self) -> int:
        """Return the number of True entries.

        Returns
        -------
        int
            The number.
        """
        if self.on_device:
            from semiring.kernels.cuda.entries.packing import count

            return int(count(self.words))
        return int(np.bitwise_count(self.words).sum(dtype=np.int64))

    # ------------------------------------------------------------------------------------------------- entries, views

    def __getitem__(self, key: Any) -> Any:
        """Return one entry for ``A[i, j]``, or a view for ``A[rows]`` and ``A[rows, columns]``, see the module."""
        rows, columns = _split_key(key)
        if not isinstance(rows, slice) and not isinstance(columns, slice):
            i, j = _check_index(rows, self.shape[0], "row"), _check_index(columns, self.shape[1], "column")
            return np.bool_(int(self.words[i, j // WORD_BITS]) >> j % WORD_BITS & 1)
        if not isinstance(rows, slice) or not isinstance(columns, slice):
            raise TypeError(
                f"a BitMatrix has no 1-D rows or columns: index with two integers or slices, not {quote(key)}"
            )
        start, stop = _column_range(columns, self.shape[1])
        words = self.words[rows, start // WORD_BITS : _word_count(stop)]
        return self._view(words, (words.shape[0], stop - start))

    def __setitem__(self, key: Any, value: Any) -> None:
        rows, columns = _split_key(key)
        if not isinstance(rows, slice) and not isinstance(columns, slice):
            i, j = _check_index(rows, self.shape[0], "row"), _check_index(columns, self.shape[1], "column")
            bit = np.uint32(1 << (j % WORD_BITS))
            word = self.words[i, j // WORD_BITS]
            self.words[i, j // WORD_BITS] = word | bit if _check_truth_value(value) else word & ~bit
            return
        target: BitMatrix = self[key]
        if isinstance(value, bool | np.bool_):
            target.fill(bool(value))
            return
        source = value if isinstance(value, BitMatrix) else pack(value)
        _require_same_memory(self, source)
        if source.shape != target.shape:
            raise ShapeError(f"a part of shape {target.shape} cannot hold a matrix of shape {source.shape}")
        target.words[...] = source.words

    def fill(self, value: bool) -> None:
        """Set every entry to one value.

        Parameters
        ----------
        value : bool
            The value.

        Raises
        ------
        DTypeError
            If the value is no bool.
        """
        self.words[...] = _ALL if _check_truth_value(value) else 0
        if self.words.shape[1]:
            self.words[:, -1] &= self.tail

    # ------------------------------------------------------------------------------------------------- entry by entry

    def __eq__(self, other: object) -> bool:
        """Return whether shapes and all entries agree, as one truth value."""
        if not isinstance(other, BitMatrix):
            return NotImplemented
        _require_same_memory(self, other)
        return self.shape == other.shape and bool((self.words == other.words).all())

    def __and__(self, other: BitMatrix) -> BitMatrix:
        return self._combine(np.bitwise_and, other)

    def __or__(self, other: BitMatrix) -> BitMatrix:
        return self._combine(np.bitwise_or, other)

    def __xor__(self, other: BitMatrix) -> BitMatrix:
        return self._combine(np.bitwise_xor, other)

    def __matmul__(self, other: object) -> Any:
        """Raise `TypeError`, because each semiring on bool has another product."""
        if not isinstance(other, BitMatrix):
            return NotImplemented
        raise TypeError(
            "A @ B names no semiring: semiring.matmul(A, B, 'boolean') finds the pairs that two steps "
            "connect, semiring.closure(A, 'boolean') any number of them"
        )

    def __invert__(self) -> BitMatrix:
        words = ~self.words
        if words.shape[1]:
            words[:, -1] &= self.tail
        return self._view(words, self.shape)

    def _combine(self, operation: np.ufunc, other: BitMatrix) -> BitMatrix:
        """Return a bitwise operation of two matrices. Raises `ShapeError` and `DeviceError`."""
        if not isinstance(other, BitMatrix):
            return NotImplemented
        _require_same_memory(self, other)
        if other.shape != self.shape:
            raise ShapeError(f"{operation.__name__} of BitMatrices of shapes {self.shape} and {other.shape}")
        return self._view(operation(self.words, other.words), self.shape)


def pack(array: Any) -> BitMatrix:
    """Return the `BitMatrix` of a matrix of truth values.

    Parameters
    ----------
    array : array_like of bool, shape (m, n)
        An array of any memory order and strides, a nested list, a SciPy sparse matrix, or a `BitMatrix`. Integers that
        are all 0 or 1 are truth values. Entries that a sparse matrix does not store are False.

    Returns
    -------
    BitMatrix
        A packed copy, on the GPU if the array is there.

    Raises
    ------
    DTypeError
        For other entries, and for a graph. Of weights, say which are edges, as ``pack(A < inf)``.
    ShapeError
        If the array is not 2-D.
    """
    if isinstance(array, BitMatrix):
        return array.copy()
    if is_graph(array):
        raise DTypeError(f"pack takes a 2-D array, not a {type(array).__name__}: pack(as_network(A, 'boolean').matrix)")
    refuse_collection(array, "array")
    array = as_sparse_array(array, "array") if is_sparse_tensor(array) else array
    if is_device_array(array):
        from semiring.arrays import device

        entries: Any = device.as_cupy(array, "array")
    else:
        if is_sparse(array):  # entries that are not stored are False
            check_sparse(array, "array")
            rows, columns, stored = stored_entries(array)
            truths = _as_truth_values(stored, "array.data")
            return BitMatrix.from_edges(rows[truths], columns[truths], array.shape)
        try:
            entries = np.asarray(array)
        except ValueError:
            raise ShapeError("array is a list whose rows differ in length: pass rows of one length") from None
    if entries.ndim != 2:
        raise ShapeError(f"pack takes a 2-D array, not {entries.ndim}-D of shape {entries.shape}")
    return pack_truths(_as_truth_values(entries, "array") if entries.size else entries)


def pack_truths(entries: Any) -> BitMatrix:
    """Return the `BitMatrix` of an array (m, n) of bool, in its memory; of any dtype if it is empty."""
    m, n = entries.shape
    if is_device_array(entries):
        from semiring.kernels.cuda.entries.packing import pack as pack_on_device

        return BitMatrix._view(pack_on_device(entries), (m, n))
    shape = m, _word_count(n)
    demand_array(shape, np.dtype(np.uint32))
    words = np.zeros(shape, np.uint32)
    if m and n:
        octets, step = words.view(np.uint8), max(1, _PACKED_ENTRIES // n)
        if m <= step:  # two slices would take a tenth of the time of a small matrix
            _pack_into(octets, entries)
        else:
            for start in range(0, m, step):
                _pack_into(octets[start : start + step], entries[start : start + step])
        if sys.byteorder == "big":
            words.byteswap(inplace=True)
    return BitMatrix._view(words, (m, n))


def _as_truth_values(entries: Any, name: str) -> Any:
    """Return entries as truth values.

    Raises `DTypeError` unless they are truth values, or integers that are all 0 or 1.
    """
    if entries.dtype.kind not in "iub":
        raise DTypeError(
            f"the entries are {entries.dtype}, and truth values (bool) are needed. {truth_values_advice()}"
        )
    return convert(entries, boolean, np.bool_, name)


def _pack_into(octets: Words, entries: Any) -> None:
    packed = np.packbits(entries, axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed


# ------------------------------------------------------------------------------------------------- arguments


def _namespace_of(like: Any) -> Any:
    """Return the module of the arrays of a packed matrix. Raises `TypeError` for another object."""
    if not isinstance(like, BitMatrix):
        raise TypeError(f"like is a BitMatrix in the memory of the result, not {quote(like)}")
    return array_namespace(like.words)


def _check_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return a shape as two ints. Raises `ShapeError`."""
    try:
        m, n = (int(extent) for extent in shape)
    except (TypeError, ValueError):
        m = n = -1
    if not (0 <= m < 2**63 and 0 <= n < 2**63):
        raise ShapeError(f"the shape of a BitMatrix is a pair of sizes (rows, columns), not {quote(shape)}")
    return m, n


def _require_same_memory(one: BitMatrix, other: BitMatrix) -> None:
    if one.on_device != other.on_device:
        raise DeviceError("one BitMatrix is on a GPU, the other is not: call to_device() or to_host()")


def _check_truth_value(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise DTypeError(f"an entry of a BitMatrix is a bool, not {quote(value)} of type {type(value).__name__}")


def _split_key(key: Any) -> tuple[Any, Any]:
    """Return an index as a pair, for rows and for columns. Raises `TypeError`."""
    rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
    for part in (rows, columns):
        if not isinstance(part, slice) and (isinstance(part, bool) or not isinstance(part, int | np.integer)):
            raise TypeError(f"a BitMatrix is indexed by two integers, or by one or two slices, not by {quote(key)}")
    return rows, columns


def _check_index(index: int, size: int, axis: str) -> int:
    if not -size <= index < size:
        raise IndexError(f"{axis} {index} is out of bounds: there are {size}")
    return int(index) % size


def _column_range(columns: slice, n: int) -> tuple[int, int]:
    """Return the bounds of a slice of columns. Raises `IndexError` unless it starts and ends at words."""
    start, stop, step = columns.indices(n)
    if step == 1 and stop <= start:
        return 0, 0
    if step != 1 or start % WORD_BITS or (stop % WORD_BITS and stop != n):
        raise IndexError(
            f"columns {start}:{stop}{'' if step == 1 else f':{step}'} of {n} are no view: a range of columns starts "
            f"at a multiple of {WORD_BITS} and ends at one or at {n}; unpack() has them all"
        )
    return start, stop


# ------------------------------------------------------------------------------------------------- transpose

_TRANSPOSE_ROWS = 256  # rows that are transposed at a time, so that the exchanges stay in cache


def _transpose_words(words: Words) -> Words:
    """Return the transposed bits of words (r, w), as words (32·w, ⌈r/32⌉)."""
    r, w = words.shape
    blocks = np.zeros((_word_count(r), WORD_BITS, w), np.uint32)
    blocks.reshape(-1, w)[:r] = words
    width, mask = 16, np.uint32(0x0000FFFF)
    while width:
        # Exchange the high bits of the upper rows with the low bits of the lower rows, in squares of `width`.
        pairs = blocks.reshape(blocks.shape[0], -1, 2, width, w)
        upper, lower = pairs[:, :, 0], pairs[:, :, 1]
        change = ((upper >> np.uint32(width)) ^ lower) & mask
        lower ^= change
        upper ^= change << np.uint32(width)
        width //= 2
        mask ^= mask << np.uint32(width)
    return blocks.transpose(2, 1, 0).reshape(w * WORD_BITS, -1)
