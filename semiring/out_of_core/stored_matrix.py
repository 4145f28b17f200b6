"""Which file holds a matrix, and where in it: the name of an .npy file, or an array that maps one."""

from __future__ import annotations

import mmap
import os
import threading
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from semiring.errors import DTypeError, FormatError, ShapeError, StorageError
from semiring.out_of_core.disk import File, FileRows

__all__ = ["PIVOT", "Stored", "header", "is_name", "let_go", "new_file", "pivots_of", "stored"]

Array: TypeAlias = Any

PIVOT = np.dtype(np.int32)
_WRITABLE = ("r+", "w+")
_PARSER = threading.Lock()  # CPython 3.11 may fail where two threads read literals, of which headers are made


@dataclass(frozen=True)
class Stored:
    """A square matrix in a file, row after row, or column after column where it is ``turned``."""

    path: str
    start: int  # the byte of the first entry
    n: int
    dtype: np.dtype[Any]
    turned: bool
    writable: bool  # as far as who gave it is concerned
    given: Any = None

    @property
    def is_new(self) -> bool:
        """Whether nothing of it was there when it was named."""
        return self.given is None

    @property
    def row(self) -> int:
        """Bytes of a row, or of a column."""
        return self.n * self.dtype.itemsize

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self.n * self.row

    def same_file(self, other: Stored) -> bool:
        """Whether both are in one file, under whatever name."""
        return os.path.samefile(self.path, other.path)

    def overlaps(self, other: Stored) -> bool:
        """Whether they share bytes of one file."""
        apart = self.start + self.size <= other.start or other.start + other.size <= self.start
        return self.same_file(other) and not apart

    @property
    def resolved(self) -> str:
        """The one name of the file."""
        return os.path.realpath(self.path)

    def rows(self, file: File) -> FileRows:
        """The rows, or columns, in the open file."""
        return FileRows(file, self.start, self.row, self.n)

    def result(self) -> Array:
        """What was given, or where that is a name, the file that it names, which is only read."""
        if isinstance(self.given, np.ndarray):
            return self.given
        with _PARSER:
            return np.load(self.path, mmap_mode="r")

    def view(self) -> Array:
        """The entries as the file has them, row by row, through the page cache; they cannot be written."""
        return np.memmap(self.path, self.dtype, "r", self.start, (self.n, self.n)).view(np.ndarray)


def let_go(view: Array) -> None:
    """Let the system take back the memory in which a `Stored.view` was read; it may be read again."""
    mapped = getattr(view.base, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def is_name(given: Any) -> bool:
    """Whether it is the name of an .npy file; `semiring.read` reads those of other formats."""
    return isinstance(given, (str, os.PathLike)) and os.fspath(given).endswith(".npy")


def stored(given: Any, what: str = "A") -> Stored | None:
    """The matrix that a name or a `numpy.memmap` stands for; None for anything else.

    Raises `OSError`, `FormatError`, `ShapeError`, and `DTypeError` for the byte order of another machine.
    """
    if is_name(given):
        return _of_name(os.fspath(given), what, given)
    return _of_map(given, what) if isinstance(given, np.memmap) and given.filename is not None else None


def new_file(path: str, like: Stored) -> Stored:
    """A file of that name for a matrix of the same kind; `header` is what it begins with. Nothing is written yet."""
    return Stored(path, len(header(like)), like.n, like.dtype, like.turned, True)


def pivots_of(name: Any, home: Stored) -> Stored:
    """A file of that name for the pivots of a closure."""
    return new_file(os.fsdecode(name), replace(home, dtype=PIVOT))


def header(matrix: Stored) -> bytes:
    """The header of an .npy file with the matrix."""
    from io import BytesIO

    stream = BytesIO()
    about = {"descr": matrix.dtype.str, "fortran_order": matrix.turned, "shape": (matrix.n, matrix.n)}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def _of_name(path: str | bytes, what: str, given: Any) -> Stored:
    name = os.fsdecode(path)
    with open(name, "rb") as stream:
        shape, turned, dtype = _read_header(stream, name)
        start = stream.tell()
    found = _checked(name, start, shape, dtype, turned, os.access(name, os.W_OK), what, given)
    if os.path.getsize(name) < found.start + found.size:
        raise FormatError(f"{name} is shorter than its {found.n} × {found.n} entries of {found.dtype}")
    return found


def _read_header(stream: BinaryIO, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with _PARSER:
            shape, turned, dtype = read(stream)
    except (ValueError, TypeError, SyntaxError, EOFError) as error:
        raise FormatError(
            f"{name}: not an .npy file, or the result of a run that has not finished ({str(error).splitlines()[0]}); "
            "read other files by "
            "`semiring.io.read`"
        ) from None
    if dtype.hasobject:
        raise FormatError(f"{name}: holds Python objects, which are never loaded (they could run code)")
    return shape, turned, dtype


def _of_map(given: Any, what: str) -> Stored:
    if given.mode == "c":
        raise StorageError(
            f"{what} maps {given.filename} in the mode 'c', which never writes to the file: open it in the mode 'r' "
            "or 'r+'"
        )
    adjacent, turned = given.flags.c_contiguous, given.flags.f_contiguous and not given.flags.c_contiguous
    if not adjacent and not turned:
        raise StorageError(
            f"{what} maps some columns of {given.filename}, and this function reads whole rows: map all columns"
        )
    base = np.frombuffer(given._mmap, np.uint8)
    begins = given.offset - given.offset % mmap.ALLOCATIONGRANULARITY
    start = begins + given.ctypes.data - base.ctypes.data
    path = os.fspath(given.filename)
    return _checked(path, start, given.shape, given.dtype, turned, given.mode in _WRITABLE, what, given)


def _checked(
    path: str,
    start: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    turned: bool,
    writable: bool,
    what: str,
    given: Any,
) -> Stored:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(f"{what}, in {path}, is {shape}: a closure by strips needs one square matrix, shape (n, n)")
    if not dtype.isnative:
        raise DTypeError(
            f"{what}, in {path}, is {dtype.str}, in the byte order of another machine: convert the file, "
            f"x.astype(x.dtype.newbyteorder('='))"
        )
    return Stored(path, start, shape[0], dtype, turned, writable, given)
