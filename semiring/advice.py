"""Spell advice in messages: options of a call in Python, or options of the command while the command runs.

A message is composed once, when it is raised, in the words of the front end that made the call:

>>> f"leave these edges out, or pass {option('check', False)}"
'leave these edges out, or pass check=False'
>>> with use_spelling(lambda name, value: "--no-check" if (name, value) == ("check", False) else ""):
...     f"leave these edges out, or pass {option('check', False)}"
'leave these edges out, or pass --no-check'
"""

from __future__ import annotations

import ctypes
import reprlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, TypeAlias

__all__ = [
    "ANY",
    "Spelling",
    "advice",
    "argument",
    "cuda_extra",
    "cuda_version",
    "entry_name",
    "escape",
    "fewer_paths_advice",
    "install_advice",
    "matrix_name",
    "name_matrix",
    "option",
    "plain_text",
    "quote",
    "truth_values_advice",
    "use_spelling",
]

#: The value of an option that a message names without a value: ``memory=``.
ANY = object()

#: A function that returns the spelling of an option with a value in a front end, or "" if it has no such option.
Spelling: TypeAlias = Callable[[str, object], str]

#: How an extra is installed. The name of the project is not published yet: the release changes this line.
_INSTALL = "pip install '.[{extra}]' in a clone of the repository"

_spelling: Spelling | None = None  # the spelling of the command while it runs, in all of its threads


class _MatrixFile(NamedTuple):
    """The file that holds the matrix of the command, and the names of the vertices."""

    file: str
    names: Sequence[object] | None


_source: _MatrixFile | None = None  # the file of the command while it computes, in all of its threads


@contextmanager
def use_spelling(spelling: Spelling) -> Iterator[None]:
    """Compose messages with the options of a front end other than Python, within a ``with`` statement."""
    global _spelling
    before, _spelling = _spelling, spelling
    try:
        yield
    finally:
        _spelling = before


def option(name: str, value: object = ANY) -> str:
    """Return the spelling of an option: ``weight='km'`` in Python, ``--weight km`` in the command."""
    text = "" if _spelling is None else _spelling(name, value)
    return text or (f"{name}=" if value is ANY else f"{name}={quote(value)}")


def argument(name: str) -> str:
    """Return the name of an argument: ``memory`` in Python, ``--memory`` in the command."""
    return advice(name, option(name))


@contextmanager
def name_matrix(file: str, names: Sequence[object] | None) -> Iterator[None]:
    """Name the matrix by its file, and entries by vertices, in the messages of a ``with`` statement."""
    global _source
    before, _source = _source, _MatrixFile(file, names)
    try:
        yield
    finally:
        _source = before


def matrix_name(python: str = "A") -> str:
    """Return the name of the matrix: ``python`` in Python, the name of its file in the command."""
    return python if _source is None else _source.file


def entry_name(*position: int) -> str:
    """Return the name of an entry of the matrix: ``A[0, 2]``, entry (0, 2), or the edge a → c.

    The position has an index for each dimension of the array.
    """
    if _source is None:
        return f"A[{', '.join(map(str, position))}]"
    if _source.names is None:
        return f"entry ({', '.join(map(str, position))})"
    return f"the edge {' → '.join(plain_text(_source.names[vertex]) for vertex in position)}"


def advice(python: str, command: str) -> str:
    """Return the first text for a call in Python, the second for the command."""
    return python if _spelling is None else command


_LONGEST_QUOTATION = 80  # characters


def quote(x: object, longest: int = _LONGEST_QUOTATION) -> str:
    """Return the text by which a message quotes an argument: its `repr`, with at most ``longest`` characters of a text.

    `repr` escapes control characters and characters that reverse the direction of a line.
    """
    quotations = reprlib.Repr()
    quotations.maxstring = quotations.maxother = quotations.maxlong = longest
    try:
        text = quotations.repr(x)
    except ValueError:  # Python writes no integers of more than 4,300 digits
        text = f"an object of type {type(x).__name__} with a very long text"
    return plain_text(" ".join(text.split()) if "\n" in text else text, 4 * longest)


def plain_text(x: object, longest: int = _LONGEST_QUOTATION) -> str:
    """Return the text of a name or of another object for a message, without quotes, escaped and shortened."""
    text = str(x)
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[-(longest // 4) :]}"
    return text if text.isprintable() else escape(text)


def escape(text: str, *, tabs: bool = False) -> str:
    """Return the text with escapes for characters that are not printable; with ``tabs`` these remain.

    Names come from files and arguments, and must not send commands to a terminal, or reverse the direction of a line.
    Joiners of letters and spaces that do not break remain.
    """
    kept = "\u200c\u200d\xa0\t" if tabs else "\u200c\u200d\xa0"
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


def install_advice(extra: str) -> str:
    """Return the advice that installs an extra. Every advice to install this library comes from this function."""
    return _INSTALL.format(extra=cuda_extra() if extra == "cuda" else extra)


@cache
def cuda_version() -> tuple[int, int] | None:
    """Return the newest CUDA that the NVIDIA driver supports, as (12, 8), or None without a driver."""
    number = ctypes.c_int(0)
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        if library.cuDriverGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10


def cuda_extra() -> str:
    """Return the extra with the packages for the driver of this machine: "cuda12", or "cuda" for newer drivers."""
    version = cuda_version()
    return "cuda12" if version is not None and version < (13, 0) else "cuda"


def truth_values_advice() -> str:
    """Return the advice, a sentence or two, that makes a matrix of truth values from a matrix of weights."""
    return advice(
        "For an array, say which entries are edges, by A != 0 or A < inf. For a SciPy sparse matrix, whose stored "
        "entries are the edges, set A.data = np.ones(A.nnz, bool) in a copy",
        f"If all entries are 0 or 1, give {option('dtype', 'bool')}",
    )


def fewer_paths_advice() -> str:
    """Return the advice for a graph whose matrix of all pairs does not fit into memory."""
    return advice(
        "ask the functions of paths for some sources=, targets= or a limit=, or call semiring.factor, which make none",
        "ask for some paths, semiring paths FILE --from A [--to B], without -o, --predecessors and --plot",
    )
