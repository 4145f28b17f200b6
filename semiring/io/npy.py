"""NumPy's .npy and .npz, and SciPy's sparse .npz. Nothing is ever unpickled.

A dense .npz holds the matrix under ``matrix`` (or is a single array), and ``names`` where vertices have them. NumPy
pads texts with zero characters and strips them: where names end in some, ``name_lengths`` says how long each name is.
In a dense matrix every entry is an element of the semiring; in a sparse one an entry that is not stored
is no edge, and a stored 0 is an edge of weight 0.
"""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from semiring.errors import FormatError, SemiringError
from semiring.io.network import Edges, Entries, square

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]

# What NumPy, zipfile and SciPy raise on a file that is damaged or none of theirs.
_DAMAGED = (
    *(ValueError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


def read_npy(stream: BinaryIO, source: str) -> Entries:
    """The matrix of a .npy file."""
    try:
        if stream.read(6) != b"\x93NUMPY":
            raise FormatError(f"{source}: not a .npy file")
        stream.seek(0)
        matrix = np.lib.format.read_array(stream, allow_pickle=False)
    except SemiringError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{source}: {_reason(error)}") from None
    return _entries(matrix, source)


def read_npz(stream: BinaryIO, source: str) -> Edges | Entries:
    """The matrix of a .npz file: SciPy's sparse formats, or a dense one with the names of its vertices."""
    try:
        if not zipfile.is_zipfile(stream):
            raise FormatError(f"{source}: not a .npz file")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            held = list(archive.files)
            if {"format", "shape"} <= set(held):
                return _sparse(stream, source)
            key = "matrix" if "matrix" in held else held[0] if len(held) == 1 else None
            if key is None:
                raise FormatError(f"{source}: holds {', '.join(held) or 'nothing'}; the matrix is the array 'matrix'")
            matrix = archive[key]
            names = archive["names"] if "names" in held else None
            lengths = archive["name_lengths"] if names is not None and "name_lengths" in held else None
    except SemiringError:
        raise
    except (*_DAMAGED, OSError) as error:  # a wrong offset inside the archive is an OSError of seek
        raise FormatError(f"{source}: {_reason(error)}") from None
    if not all(array is None or isinstance(array, np.ndarray) for array in (matrix, names, lengths)) or matrix is None:
        raise FormatError(f"{source}: holds a file that is no array")
    return _entries(matrix, source, names, lengths)


def _reason(error: BaseException) -> str:
    if "pickle" in str(error):
        return "holds Python objects, which are never loaded (they could run code)"
    text = str(error).splitlines()
    return f"damaged: {text[0]}" if text else f"damaged: {type(error).__name__}"


def _entries(
    matrix: np.ndarray[Any, Any],
    source: str,
    names: np.ndarray[Any, Any] | None = None,
    lengths: np.ndarray[Any, Any] | None = None,
) -> Entries:
    n = square(matrix.shape, source)
    found = None
    if names is not None:
        if names.shape != (n,) or names.dtype.kind != "U":
            raise FormatError(f"{source}: 'names' is {names.dtype} {names.shape}; {n} vertices need {n} texts")
        found = _padded(names, lengths, source)
        if len(set(found)) < n:
            raise FormatError(f"{source}: two vertices have the same name")
    return Entries(matrix, _entry(source, n), names=found)


def _padded(names: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any] | None, source: str) -> tuple[str, ...]:
    """The names with the zero characters at their ends that NumPy stripped."""
    stripped = names.tolist()
    if lengths is None:
        return tuple(stripped)
    width = names.dtype.itemsize // np.dtype("U1").itemsize
    if lengths.shape == names.shape and lengths.dtype.kind in "iu" and (lengths <= width).all():
        padded = tuple(name.ljust(length, "\0") for name, length in zip(stripped, lengths.tolist(), strict=True))
        if lengths.tolist() == [len(name) for name in padded]:
            return padded
    raise FormatError(f"{source}: 'name_lengths' are not the lengths of the names")


def _entry(source: str, n: int) -> Callable[[int], str]:
    return lambda index: source if index < 0 else f"{source}: entry ({index // n}, {index % n})"


def _sparse(stream: BinaryIO, source: str) -> Edges:
    from scipy.sparse import load_npz

    stream.seek(0)
    matrix: Any = load_npz(stream)
    n = square(matrix.shape, source)
    found = matrix.tocoo()
    rows, columns = np.asarray(found.row, np.int64), np.asarray(found.col, np.int64)
    for indices in (rows, columns):
        if len(indices) and not (indices.min() >= 0 and indices.max() < n):
            raise FormatError(f"{source}: an index lies outside the {n} × {n} matrix")

    def locate(index: int) -> str:
        return source if index < 0 else f"{source}: entry ({rows[index % len(rows)]}, {columns[index % len(rows)]})"

    return Edges(n, rows, columns, np.asarray(found.data), locate, typed=True)


def write_npy(stream: BinaryIO, matrix: np.ndarray[Any, Any]) -> None:
    """The matrix as it is, in its own dtype."""
    np.lib.format.write_array(stream, matrix, allow_pickle=False)


def write_npz(stream: BinaryIO, matrix: np.ndarray[Any, Any], names: Sequence[str] | None) -> None:
    """The matrix and the names of its vertices, compressed."""
    arrays = {"matrix": matrix}
    if names is not None:
        arrays["names"] = np.array(list(names), dtype=np.str_)
        if any(name.endswith("\0") for name in names):
            arrays["name_lengths"] = np.array([len(name) for name in names], np.int64)
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # the stubs expect the flag allow_pickle
