"""Open files for reading: plain files, gzip files and standard input."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from typing import IO, Any, TextIO, cast

from semiring.algebra.catalogue import ALIASES, CATALOGUE
from semiring.errors import FormatError

__all__ = ["names_file", "open_binary"]


@contextlib.contextmanager
def open_binary(source: str) -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, decompressed if its name ends in .gz; "-" is standard input.

    Raises `OSError`, and `FormatError` for damaged gzip data.
    """
    if source == "-":
        standard: TextIO | None = sys.stdin
        if standard is None:  # the process was started with standard input closed
            raise OSError(errno.EBADF, "standard input is closed")
        yield standard.buffer
        return
    with contextlib.ExitStack() as stack:
        stream: IO[bytes] = stack.enter_context(open(source, "rb"))
        if source.endswith(".gz"):
            stream = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=stream)))
        try:
            yield stream
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"{source}: damaged gzip data: {error}") from None


def names_file(x: Any) -> bool:
    """Return whether x is the name of a file for `semiring.read`, and not of a semiring."""
    return isinstance(x, str | os.PathLike) and x not in CATALOGUE and x not in ALIASES
