"""Open what `semiring.read` reads: files, gzip files, standard input, open files, and bytes; and bound its size."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from semiring.advice import option, plain_text
from semiring.algebra.catalogue import ALIASES, CATALOGUE
from semiring.arrays.memory import demand_memory
from semiring.errors import FormatError, TooLargeError

__all__ = [
    "DAMAGED",
    "EMPTY",
    "decode",
    "decode_lines",
    "is_npy_name",
    "name_of",
    "names_file",
    "open_binary",
    "read_all",
]

#: The remedy for a file that is shorter than its format requires, or whose bytes have changed.
DAMAGED = "copy or download the file again, or write it again from its source"

#: The message for a file without bytes, with its remedy.
EMPTY = "the file is empty, 0 bytes: write it again, or give another file"

_MAX_LINE = 1 << 20  # bytes: a longer line lists no edge
_CHUNK = 1 << 24


def names_file(x: Any) -> bool:
    """Return whether x is the name of a file for `semiring.read`, and not of a semiring."""
    return isinstance(x, str | os.PathLike) and x not in CATALOGUE and x not in ALIASES


def is_npy_name(argument: Any) -> bool:
    """Return whether the argument is the name of an .npy file. `semiring.read` reads files of other formats."""
    if type(argument) is np.ndarray:  # saves a microsecond of small calls
        return False
    return isinstance(argument, (str, os.PathLike)) and os.fspath(argument).endswith(".npy")


_LONGEST_PATH = 1000  # characters of the name of a file in a message


def name_of(source: Any) -> str:
    """Return the name of a file, an open file, or of bytes, for messages. Raises `TypeError` for anything else."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if source == "-" else plain_text(os.fspath(source), _LONGEST_PATH)
    if isinstance(source, bytes | bytearray | memoryview):
        return "<bytes>"
    if not hasattr(source, "read"):
        raise TypeError(
            f"read takes the name of a file, an open file, io.StringIO or bytes, not a {type(source).__name__}"
        )
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<stream>"


@contextlib.contextmanager
def open_binary(source: Any) -> Iterator[IO[bytes]]:
    """Open ``source`` for reading its bytes, decompressed if its name ends in .gz.

    ``source`` is the name of a file, "-" for standard input, an open file of bytes or of text, or bytes. Raises
    `OSError`, and `FormatError` for damaged gzip data.
    """
    import gzip  # it and zlib take a millisecond of a first call that reads no file
    import zlib

    name, stream = name_of(source), source
    with contextlib.ExitStack() as stack:
        if source == "-":
            if sys.stdin is None:  # the process was started with standard input closed
                raise OSError(errno.EBADF, "standard input is closed")
            stream = sys.stdin.buffer
        elif isinstance(source, str | os.PathLike):
            stream = stack.enter_context(open(source, "rb"))
        elif isinstance(source, bytes | bytearray | memoryview):
            stream = io.BytesIO(source)
        elif isinstance(start := source.read(0), str):
            stream = io.BytesIO(source.read().encode(errors="surrogateescape"))
        elif not isinstance(start, bytes):
            raise TypeError(f"read takes an open file of bytes or text, and this one holds {type(start).__name__}")
        if name.endswith(".gz") and not isinstance(stream, gzip.GzipFile):
            stream = stack.enter_context(gzip.GzipFile(fileobj=stream))
        try:
            yield stream
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"{name}: damaged gzip data: {error}") from None


def read_all(stream: IO[bytes], source: str, factor: int = 2) -> bytes:
    """Return the bytes of a stream, of which a reader takes ``factor`` times as much memory.

    Raises `FormatError` for an empty stream, and `TooLargeError` before that much memory is taken.
    """
    chunks, size = list[bytes](), 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        demand_memory(factor * size, f"{source}, of {size:,} bytes or more,", "read a part of it")
    if not size:
        raise FormatError(f"{source}: {EMPTY}")
    return b"".join(chunks)


def decode(content: bytes, source: str, encoding: str | None = None) -> str:
    """Return the text of a file or of a line. Raises `FormatError` for other bytes."""
    try:
        text = content.decode(encoding or "utf-8")
    except LookupError:
        raise FormatError(f"{option('encoding', encoding)}: Python knows no encoding of this name") from None
    except UnicodeDecodeError:
        wrong = f"not {encoding or 'UTF-8'} text"
        raise FormatError(
            f"{source}: {wrong}: pass {option('encoding', 'latin-1')} or the encoding that it has, or save it as UTF-8"
        ) from None
    if "\0" in text:
        raise FormatError(f"{source}: holds a zero byte, so it is no text")
    return text


def decode_lines(stream: IO[bytes], source: str, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, from 1, and its text without line end and byte-order mark.

    Raises `FormatError` for text of another encoding, and `TooLargeError` for a line that lists no edge.
    """
    if encoding is not None and re.match(r"utf[-_ ]?(16|32)", encoding, re.I):  # lines that do not end in one byte
        stream = io.BytesIO(decode(read_all(stream, source), source, encoding).encode())
        encoding = None
    number = 0
    while line := stream.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE:
            raise TooLargeError(f"{source}:{number}: a line of more than {_MAX_LINE:,} bytes lists no edge")
        text = decode(line, f"{source}:{number}", encoding).rstrip("\r\n")
        yield number, text.removeprefix("\ufeff") if number == 1 else text
    if not number:
        raise FormatError(f"{source}: {EMPTY}")
