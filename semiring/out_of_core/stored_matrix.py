"""Describe square matrices that are stored in files: the name of an .npy file, or an array that maps a file."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.errors import DTypeError, FormatError, ShapeError, StorageError
from semiring.io.files import is_npy_name
from semiring.io.npy import PARSER_LOCK, read_header
from semiring.namespaces import Array
from semiring.out_of_core.disk import File, FileRows

__all__ = ["StoredMatrix", "as_stored", "header", "new_file", "release_pages"]


_WRITABLE = ("r+", "w+")


@dataclass(frozen=True)
class StoredMatrix:
    """A square matrix in a file, in C order, or in Fortran order if ``is_column_major``.

    ``start`` is the offset of the first entry in bytes. ``is_writable`` is whether the caller's name or map allows
    writing. ``argument`` is the caller's name or array, and None for a new file.
    """

    path: str
    start: int
    n: int
    dtype: np.dtype[Any]
    is_column_major: bool
    is_writable: bool
    argument: Any = None

    @property
    def is_new(self) -> bool:
        """Whether the run creates the file, so that it has no contents yet."""
        return self.argument is None

    @property
    def row_bytes(self) -> int:
        """The number of bytes of a row, or of a column in Fortran order."""
        return self.n * self.dtype.itemsize

    @property
    def size(self) -> int:
        """The number of bytes of all entries."""
        return self.n * self.row_bytes

    def is_same_file(self, other: StoredMatrix) -> bool:
        """Return whether both matrices are in the same file, under any of its names."""
        return os.path.samefile(self.path, other.path)

    def overlaps(self, other: StoredMatrix) -> bool:
        """Return whether both matrices share bytes of one file."""
        is_disjoint = self.start + self.size <= other.start or other.start + other.size <= self.start
        return self.is_same_file(other) and not is_disjoint

    @property
    def real_path(self) -> str:
        """The path of the file with all symbolic links resolved."""
        return os.path.realpath(self.path)

    def rows(self, file: File) -> FileRows:
        """Return the rows in the open file, or the columns in Fortran order."""
        return FileRows(file, self.start, self.row_bytes, self.n)

    def result(self) -> Any:
        """Return the caller's array, or for a name a read-only map of the file."""
        if isinstance(self.argument, np.ndarray):
            return self.argument
        with PARSER_LOCK:
            return np.load(self.path, mmap_mode="r")

    def view(self) -> Array:
        """Return a read-only map (n, n) of the entries in the order of the file."""
        return np.memmap(self.path, self.dtype, "r", self.start, (self.n, self.n)).view(np.ndarray)


def release_pages(view: Array) -> None:
    """Return the pages of a `StoredMatrix.view` to the system. The view stays readable."""
    mapped = getattr(view.base, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def as_stored(argument: Any, name: str = "A") -> StoredMatrix | None:
    """Return the matrix that a name or a `numpy.memmap` denotes, and None for any other argument.

    ``name`` is the name of the argument in error messages.

    Raises `OSError`, `FormatError`, `ShapeError`, and `DTypeError` for a byte order that is not this machine's.
    """
    if is_npy_name(argument):
        return _stored_by_name(os.fspath(argument), name, argument)
    return _stored_by_map(argument, name) if isinstance(argument, np.memmap) and argument.filename is not None else None


def new_file(path: str, template: StoredMatrix) -> StoredMatrix:
    """Return a new file for a matrix of the shape, dtype and order of ``template``, after a `header`.

    The function writes nothing.
    """
    return StoredMatrix(path, len(header(template)), template.n, template.dtype, template.is_column_major, True)


def header(matrix: StoredMatrix) -> bytes:
    """Return the bytes that begin an .npy file of the matrix."""
    from io import BytesIO

    stream = BytesIO()
    about = {"descr": matrix.dtype.str, "fortran_order": matrix.is_column_major, "shape": (matrix.n, matrix.n)}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def _stored_by_name(path: str | bytes, argument_name: str, argument: Any) -> StoredMatrix:
    name = os.fsdecode(path)
    with open(name, "rb") as stream:
        shape, is_column_major, dtype = read_header(stream, name)
        start = stream.tell()
    matrix = _validate_square(
        name, start, shape, dtype, is_column_major, os.access(name, os.W_OK), argument_name, argument
    )
    if os.path.getsize(name) < matrix.start + matrix.size:
        raise FormatError(f"{name} is shorter than its {matrix.n} × {matrix.n} entries of {matrix.dtype}")
    return matrix


def _stored_by_map(argument: Any, name: str) -> StoredMatrix:
    if argument.mode == "c":
        raise StorageError(
            f"{name} maps {argument.filename} in the mode 'c', which never writes to the file: open it in the mode 'r' "
            "or 'r+'"
        )
    adjacent = argument.flags.c_contiguous
    is_column_major = argument.flags.f_contiguous and not adjacent
    if not adjacent and not is_column_major:
        raise StorageError(
            f"{name} maps some columns of {argument.filename}, and this function reads whole rows: map all columns"
        )
    base = np.frombuffer(argument._mmap, np.uint8)
    begins = argument.offset - argument.offset % mmap.ALLOCATIONGRANULARITY
    start = begins + argument.ctypes.data - base.ctypes.data
    path = os.fspath(argument.filename)
    return _validate_square(
        path, start, argument.shape, argument.dtype, is_column_major, argument.mode in _WRITABLE, name, argument
    )


def _validate_square(
    path: str,
    start: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    is_column_major: bool,
    is_writable: bool,
    argument_name: str,
    argument: Any,
) -> StoredMatrix:
    """Return the matrix, or raise an error if it is not square or has the byte order of another machine."""
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(
            f"{argument_name}, in {path}, is {shape}: a closure by strips needs one square matrix, shape (n, n)"
        )
    if not dtype.isnative:
        raise DTypeError(
            f"{argument_name}, in {path}, is {dtype.str}, in the byte order of another machine: convert the file, "
            f"x.astype(x.dtype.newbyteorder('='))"
        )
    return StoredMatrix(path, start, shape[0], dtype, is_column_major, is_writable, argument)
