"""Read and write NumPy files .npy and .npz, and SciPy's sparse .npz files, without pickle.

A dense .npz file holds the array ``matrix`` (or a single array). Both kinds may hold an array ``names`` of texts. In a
dense matrix every entry is an element of the semiring. In a sparse matrix an entry that is not stored is no edge, and a
stored 0 is an edge of weight 0.
"""

from __future__ import annotations

import re
import struct
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np

from semiring.advice import plain_text, quote
from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.memory import demand_memory
from semiring.arrays.sparse import check_sparse, is_sparse, stored_entries
from semiring.errors import FormatError, SemiringError, ShapeError
from semiring.io.files import DAMAGED, EMPTY
from semiring.io.network import Edges, Entries, check_size, count_vertices

__all__ = ["PARSER_LOCK", "read_header", "read_npy", "read_npz", "write_npy", "write_npz"]

# The exceptions of NumPy, zipfile and SciPy for a file that is damaged or of another format. A wrong offset inside an
# archive raises OSError in seek. A member that needs a password raises RuntimeError. A header that is nested too deeply
# raises RecursionError or MemoryError in the parser.
_DAMAGED = (
    *(ValueError, EOFError, LookupError, TypeError, SyntaxError, ArithmeticError, RuntimeError, MemoryError, OSError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)
_HEADERS: Mapping[Any, Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
PARSER_LOCK = threading.Lock()  # headers are Python literals, and CPython 3.11 may fail if two threads parse literals
_SPARSE = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def read_header(stream: Any, source: str, prefix: str = "") -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether columns are adjacent, and the dtype of the .npy file in a stream.

    Every reader of such a file reads its header here. Raises `FormatError` for a damaged header and for Python objects.
    """
    if stream.read(6) != b"\x93NUMPY":
        raise FormatError(
            f"{source}: {prefix + 'is ' if prefix else ''}not a .npy file, or the result of a run that has not finished"
        )
    try:
        version = tuple(stream.read(2))
        if version not in _HEADERS:
            raise FormatError(f"{source}: {prefix}has version {version} of the format, and numbers are kept in 1 and 2")
        with PARSER_LOCK:
            shape, is_column_major, dtype = _HEADERS[version](stream)
    except _DAMAGED as error:
        raise FormatError(f"{source}: {_damage_reason(error)}") from None
    if dtype.hasobject:
        raise FormatError(f"{source}: {_damage_reason(ValueError('pickle'))}")
    return shape, is_column_major, dtype


def _check_array(stream: Any, size: int, source: str, prefix: str = "") -> None:
    """Compare the header of the array in a stream of ``size`` bytes with its size and with the free memory."""
    shape, _, dtype = read_header(stream, source, prefix)
    needed, available = prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or needed != available:
        raise FormatError(
            f"{source}: damaged: {prefix}has the header of a {dtype} array {shape}, {needed:,} bytes, and "
            f"{available:,} follow it: {DAMAGED}"
        )
    demand_memory(needed, f"{source}: a {dtype} array {shape}", "semiring.closure takes the name of a .npy file")


def read_npy(stream: BinaryIO, source: str) -> Entries:
    """Return the matrix of a .npy file."""
    if not (size := stream.seek(0, 2)):
        raise FormatError(f"{source}: {EMPTY}")
    stream.seek(0)
    _check_array(stream, size, source)
    stream.seek(0)
    try:
        return _make_entries(np.load(stream, allow_pickle=False), source)
    except SemiringError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{source}: {_damage_reason(error)}") from None


def read_npz(stream: BinaryIO, source: str) -> Edges | Entries:
    """Return the matrix of a .npz file: SciPy's sparse formats, or a dense one, with the names of its vertices."""
    if not stream.seek(0, 2):
        raise FormatError(f"{source}: {EMPTY}")
    is_archive, _ = zipfile.is_zipfile(stream), stream.seek(0)
    # An archive begins with these bytes, and ends with the list of its members.
    if not is_archive and stream.read(4) == b"PK\x03\x04":
        raise FormatError(f"{source}: damaged: the file is truncated, as its end is missing: {DAMAGED}")
    if not is_archive:
        raise FormatError(f"{source}: not a .npz file: give one that numpy.savez or scipy.sparse.save_npz wrote")
    try:
        with zipfile.ZipFile(stream) as archive:
            members = _check_members(archive, source)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            names = arrays["names"] if "names" in members else None
            if {"format", "shape"} <= members:
                return _read_sparse(arrays, names, source)
            key = "matrix" if "matrix" in members else next(iter(members)) if len(members) == 1 else None
            if key is None:
                contents = plain_text(", ".join(arrays.files)) or "nothing"
                raise FormatError(f"{source}: holds {contents}; the matrix is the array 'matrix'")
            return _make_entries(arrays[key], source, names)
    except SemiringError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{source}: {_damage_reason(error)}") from None


def _check_members(archive: zipfile.ZipFile, source: str) -> set[str]:
    """Return the names of the arrays in an archive, after a comparison of their headers with their sizes."""
    members = set[str]()
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            raise FormatError(f"{source}: holds a file that is no array")
        if name in members:
            raise FormatError(f"{source}: holds two arrays {quote(name, 20)}")
        members.add(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(
                f"{source}: {quote(name)} is compressed by another method than numpy.savez_compressed uses"
            )
        with archive.open(info) as member:
            _check_array(member, info.file_size, source, f"the array {quote(name)} ")
    return members


def _damage_reason(error: BaseException) -> str:
    if "pickle" in str(error):
        return "holds Python objects, which are never loaded (they could run code)"
    text = (str(error).splitlines() or [type(error).__name__])[0]
    if isinstance(error, tokenize.TokenError | SyntaxError):  # of Python, which reads the header
        text = "its header is not one that NumPy writes"
    text = re.sub(r"^Bad CRC-32 for file", "the checksum (CRC-32) does not match the bytes of", text)
    return f"damaged: {text}: {DAMAGED}"


def _check_names(names: np.ndarray[Any, Any] | None, n: int, source: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if names.shape != (n,) or names.dtype.kind != "U":
        raise FormatError(f"{source}: 'names' is {names.dtype} {names.shape}; {n} vertices need {n} texts")
    if len(set(names.tolist())) < n:
        raise FormatError(f"{source}: two vertices have the same name")
    return tuple(names.tolist())


def _make_entries(matrix: np.ndarray[Any, Any], source: str, names: np.ndarray[Any, Any] | None = None) -> Entries:
    n = count_vertices(matrix.shape, source)

    def locate(index: int) -> str:
        return source if index < 0 else f"{source}: entry ({index // n}, {index % n})"

    return Entries(matrix, locate, names=_check_names(names, n, source))


def _read_sparse(arrays: Any, names: np.ndarray[Any, Any] | None, source: str) -> Edges:
    """Return the edges of a file that `scipy.sparse.save_npz` wrote."""
    from scipy import sparse

    kind = arrays["format"]
    name = kind[()].decode() if kind.shape == () and kind.dtype.kind == "S" else str(kind)
    if name not in _SPARSE:
        raise FormatError(f"{source}: the sparse format is {quote(name)}, and known are {', '.join(_SPARSE)}")
    sides = arrays["shape"]
    if sides.dtype.kind not in "iu" or sides.shape != (2,) or sides.min() < 0:
        raise FormatError(f"{source}: 'shape' is {sides.dtype} {sides.tolist()}, and two numbers are expected")
    n = count_vertices(sides.tolist(), source)
    for array in _SPARSE[name]:
        if array not in arrays:
            raise FormatError(f"{source}: holds no array {quote(array)}")
    check_size(n, arrays["data"].size, source)
    data, *indices = (arrays[array] for array in _SPARSE[name])
    if data.dtype.kind not in "fiub" and not is_floating(data.dtype):
        raise FormatError(f"{source}: holds {data.dtype}, not real numbers")
    for array, held in zip(_SPARSE[name][1:], indices, strict=True):
        if held.dtype.kind not in "iu" or held.ndim != 1 or (held.size and held.max() > np.iinfo(np.int64).max):
            raise FormatError(
                f"{source}: {quote(array)} is {held.dtype} {held.shape}, and a list of indices is expected"
            )
    indices = [held if held.dtype == np.int32 else held.astype(np.int64) for held in indices]
    if name == "dia" and (wrong := [k for k in indices[0].tolist() if not -n < k < n]):  # SciPy takes them modulo 2^32
        raise FormatError(f"{source}: the offset {wrong[0]} of a diagonal is outside a matrix of {n} vertices")
    make_matrix: Any = getattr(sparse, f"{name}_array")
    matrix = make_matrix((data, tuple(indices)) if name == "coo" else (data, *indices), shape=(n, n))
    try:
        check_sparse(matrix, "the matrix")
    except ShapeError as error:
        raise FormatError(f"{source}: {error}") from None
    rows, columns, values = stored_entries(matrix)
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)

    def locate(index: int) -> str:
        return source if index < 0 else f"{source}: entry ({rows[index % len(rows)]}, {columns[index % len(rows)]})"

    record: dict[str, Any] = {"names": _check_names(names, n, source), "has_dtype": True, "is_text": False}
    return Edges(n, rows, columns, values, locate, **record)


def write_npy(stream: BinaryIO, matrix: np.ndarray[Any, Any]) -> None:
    """Write the matrix in its own dtype to a .npy file."""
    np.lib.format.write_array(stream, matrix, allow_pickle=False)


def write_npz(stream: BinaryIO, matrix: Any, names: Sequence[str] | None) -> None:
    """Write a dense or csr matrix and the names of its vertices to a compressed .npz file.

    Raises `FormatError` for a name that ends in a zero character, which NumPy strips.
    """
    arrays: dict[str, Any] = {"matrix": matrix}
    if is_sparse(matrix):
        arrays = {part: getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")} | {"format": b"csr"}
    if names is not None:
        if any(name.endswith("\0") for name in names):
            raise FormatError("a name ends in a zero character, which an .npz file does not keep: rename the vertex")
        arrays["names"] = np.array(list(names), dtype=np.str_)
    np.savez_compressed(stream, **arrays)
