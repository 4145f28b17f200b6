"""Read and write NumPy files .npy and .npz, and read SciPy's sparse .npz files, without pickle.

A dense .npz file holds the array ``matrix`` (or a single array), and the array ``names`` if vertices have names. NumPy
pads texts with zero characters, and strips them when it reads. If a name ends in zero characters, the array
``name_lengths`` holds the lengths of all names. In a dense matrix every entry is an element of the semiring. In a
sparse matrix an entry that is not stored is no edge, and a stored 0 is an edge of weight 0.
"""

from __future__ import annotations

import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np

from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.memory import demand_memory
from semiring.arrays.sparse import check_sparse, stored_entries
from semiring.errors import FormatError, SemiringError, ShapeError
from semiring.io.network import Edges, Entries, count_vertices
from semiring.io.text import DAMAGED, EMPTY

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]

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
_SPARSE = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def read_npy(stream: BinaryIO, source: str) -> Entries:
    """Return the matrix of a .npy file."""
    try:
        if not (size := stream.seek(0, 2)):
            raise FormatError(f"{source}: {EMPTY}")
        stream.seek(0)
        matrix = _read_array(stream, size, source, "")
    except SemiringError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{source}: {_damage_reason(error)}") from None
    return _make_entries(matrix, source)


def read_npz(stream: BinaryIO, source: str) -> Edges | Entries:
    """Return the matrix of a .npz file: SciPy's sparse formats, or a dense one with the names of its vertices."""
    try:
        _check_archive(stream, source)
        with zipfile.ZipFile(stream) as archive:
            members = _list_members(archive, source)
            if {"format", "shape"} <= set(members):
                return _read_sparse(archive, members, source)
            key = "matrix" if "matrix" in members else next(iter(members)) if len(members) == 1 else None
            if key is None:
                contents = ", ".join(members) or "nothing"
                raise FormatError(f"{source}: holds {contents}; the matrix is the array 'matrix'")
            matrix = _read_member(archive, members, key, source)
            names = _read_member(archive, members, "names", source) if "names" in members else None
            counted = names is not None and "name_lengths" in members
            lengths = _read_member(archive, members, "name_lengths", source) if counted else None
    except SemiringError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{source}: {_damage_reason(error)}") from None
    return _make_entries(matrix, source, names, lengths)


def _check_archive(stream: BinaryIO, source: str) -> None:
    """Raise `FormatError`, with the reason, for a stream that is no zip archive or lacks the end of one."""
    if not stream.seek(0, 2):
        raise FormatError(f"{source}: {EMPTY}")
    is_archive = zipfile.is_zipfile(stream)
    stream.seek(0)
    # An archive begins with these bytes, and ends with the list of its members.
    if not is_archive and stream.read(4) == b"PK\x03\x04":
        raise FormatError(f"{source}: damaged: the file is truncated, as its end is missing: {DAMAGED}")
    if not is_archive:
        raise FormatError(f"{source}: not a .npz file: give one that numpy.savez or scipy.sparse.save_npz wrote")
    stream.seek(0)


def _list_members(archive: zipfile.ZipFile, source: str) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by the names of their arrays; a member that is no array has its own name."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise FormatError(f"{source}: holds two arrays {name!r}")
        members[name] = info
    return members


def _read_member(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str, source: str) -> Any:
    """Return an array of an archive; zipfile compares the checksum at the last byte."""
    if name not in members:
        raise FormatError(f"{source}: holds no array {name!r}")
    info = members[name]
    if not info.filename.endswith(".npy"):
        raise FormatError(f"{source}: holds a file that is no array")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FormatError(f"{source}: {name!r} is compressed by another method than numpy.savez_compressed uses")
    with archive.open(info) as stream:
        member = _read_array(stream, info.file_size, source, f"the array {name!r} ")
        if stream.read(1):
            raise FormatError(f"{source}: damaged: more bytes than the archive lists for {name!r}: {DAMAGED}")
        return member


def _read_array(stream: Any, size: int, source: str, prefix: str) -> np.ndarray[Any, Any]:
    """Return the array in a stream of ``size`` bytes.

    The function compares the header with the size before it allocates the array.
    """
    if stream.read(6) != b"\x93NUMPY":
        raise FormatError(f"{source}: {prefix + 'is ' if prefix else ''}not a .npy file")
    stream.seek(0)
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise FormatError(f"{source}: {prefix}has version {version} of the format, and numbers are kept in 1 and 2")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise FormatError(f"{source}: {_damage_reason(ValueError('pickle'))}")
    needed, available = prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or needed != available:
        raise FormatError(
            f"{source}: damaged: {prefix}has the header of a {dtype} array {shape}, {needed:,} bytes, and "
            f"{available:,} follow it: {DAMAGED}"
        )
    demand_memory(needed, f"{source}: a {dtype} array {shape}", "semiring.closure takes the name of a .npy file")
    stream.seek(0)
    result: np.ndarray[Any, Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return result


def _damage_reason(error: BaseException) -> str:
    if "pickle" in str(error):
        return "holds Python objects, which are never loaded (they could run code)"
    text = (str(error).splitlines() or [type(error).__name__])[0]
    text = re.sub(r"^Bad CRC-32 for file", "the checksum (CRC-32) does not match the bytes of", text)
    return f"damaged: {text}: {DAMAGED}"


def _make_entries(
    matrix: np.ndarray[Any, Any],
    source: str,
    names: np.ndarray[Any, Any] | None = None,
    lengths: np.ndarray[Any, Any] | None = None,
) -> Entries:
    n = count_vertices(matrix.shape, source)
    name_list = None
    if names is not None:
        if names.shape != (n,) or names.dtype.kind != "U":
            raise FormatError(f"{source}: 'names' is {names.dtype} {names.shape}; {n} vertices need {n} texts")
        name_list = _restore_padding(names, lengths, source)
        if len(set(name_list)) < n:
            raise FormatError(f"{source}: two vertices have the same name")
    return Entries(matrix, _entry_locator(source, n), names=name_list)


def _restore_padding(names: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any] | None, source: str) -> tuple[str, ...]:
    """Return the names with the zero characters at their ends that NumPy stripped."""
    stripped = names.tolist()
    if lengths is None:
        return tuple(stripped)
    width = names.dtype.itemsize // np.dtype("U1").itemsize
    if lengths.shape == names.shape and lengths.dtype.kind in "iu" and (lengths <= width).all():
        padded = tuple(name.ljust(length, "\0") for name, length in zip(stripped, lengths.tolist(), strict=True))
        if lengths.tolist() == [len(name) for name in padded]:
            return padded
    raise FormatError(f"{source}: 'name_lengths' are not the lengths of the names")


def _entry_locator(source: str, n: int) -> Callable[[int], str]:
    return lambda index: source if index < 0 else f"{source}: entry ({index // n}, {index % n})"


def _read_sparse(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], source: str) -> Edges:
    """Return the edges of a file that `scipy.sparse.save_npz` wrote."""
    from scipy import sparse

    kind = _read_member(archive, members, "format", source)
    name = kind[()].decode() if kind.shape == () and kind.dtype.kind == "S" else str(kind)
    if name not in _SPARSE:
        raise FormatError(f"{source}: the sparse format is {name[:20]!r}, and known are {', '.join(_SPARSE)}")
    sides = _read_member(archive, members, "shape", source)
    if sides.dtype.kind not in "iu" or sides.shape != (2,) or sides.min() < 0:
        raise FormatError(f"{source}: 'shape' is {sides.dtype} {sides.tolist()}, and two numbers are expected")
    shape = tuple(sides.tolist())
    n = count_vertices(shape, source)
    data, *indices = (_read_member(archive, members, array, source) for array in _SPARSE[name])
    if data.dtype.kind not in "fiub" and not is_floating(data.dtype):
        raise FormatError(f"{source}: holds {data.dtype}, not real numbers")
    for array, indexes in zip(_SPARSE[name][1:], indices, strict=True):
        if (
            indexes.dtype.kind not in "iu"
            or indexes.ndim != 1
            or (indexes.dtype == np.uint64 and (indexes >> 63).any())
        ):
            raise FormatError(
                f"{source}: {array!r} is {indexes.dtype} {indexes.shape}, and a list of indices is expected"
            )
    indices = [indexes if indexes.dtype == np.int32 else indexes.astype(np.int64) for indexes in indices]
    if name == "dia" and (wrong := [k for k in indices[0].tolist() if not -n < k < n]):  # SciPy takes them modulo 2^32
        raise FormatError(f"{source}: the offset {wrong[0]} of a diagonal is outside a matrix of {n} vertices")
    make_matrix: Any = getattr(sparse, f"{name}_array")
    matrix = make_matrix((data, tuple(indices)) if name == "coo" else (data, *indices), shape=shape)
    try:
        check_sparse(matrix, "the matrix")
    except ShapeError as error:
        raise FormatError(f"{source}: {error}") from None
    rows, columns, values = stored_entries(matrix)
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)

    def locate(index: int) -> str:
        return source if index < 0 else f"{source}: entry ({rows[index % len(rows)]}, {columns[index % len(rows)]})"

    return Edges(n, rows, columns, values, locate, has_dtype=True, is_text=False)


def write_npy(stream: BinaryIO, matrix: np.ndarray[Any, Any]) -> None:
    """Write the matrix in its own dtype to a .npy file."""
    np.lib.format.write_array(stream, matrix, allow_pickle=False)


def write_npz(stream: BinaryIO, matrix: np.ndarray[Any, Any], names: Sequence[str] | None) -> None:
    """Write the matrix and the names of its vertices to a compressed .npz file."""
    arrays = {"matrix": matrix}
    if names is not None:
        arrays["names"] = np.array(list(names), dtype=np.str_)
        if any(name.endswith("\0") for name in names):
            arrays["name_lengths"] = np.array([len(name) for name in names], np.int64)
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # the stubs expect the flag allow_pickle
