"""Collect profiles: a tree of spans, each with a name, a duration, and the bytes and operations.

Code opens a `span` around its work. Outside a profile this does nothing, because `active` is False. Code on which
tenths of a microsecond count reads `active` first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Lock
from time import perf_counter
from typing import Any

__all__ = ["Span", "describe_array", "innermost", "profile", "record", "span"]

#: Whether a profile is open in some thread. Read it as ``profiling.active``.
active = False

_open_profiles = 0
_counting = Lock()
_current: ContextVar[Span | None] = ContextVar("semiring_span", default=None)
_synchronizes: ContextVar[bool] = ContextVar("semiring_synchronizes", default=False)
_NO_SPAN = nullcontext()


class Span:
    """A piece of work with its duration, and the spans inside it.

    Parameters
    ----------
    kind : str
        ``"call"`` of a public function, ``"scan"`` of the entries, ``"method"``, ``"product"``, ``"closing"`` (of a
        block, or of whole matrices by one kernel), ``"predecessors"``, ``"search"``, ``"update"`` of a closure,
        ``"pass"`` over a matrix, ``"replay"`` of recorded launches, ``"compilation"``, ``"transfer"`` to or from a GPU;
        ``"profile"`` for the root.
    name : str
        The name: for a product the operation of the kernel contract, such as ``"multiply_add"``.
    pairs, moved : int
        The pairs of ⊗ and ⊕, and the bytes, of this span without its children.
    **details : object
        ``shape`` ((m, k, n) for products, else the shape of the matrix), ``dtype`` and ``semiring``, and ``raised``
        with the name of an exception that ended the work.

    Attributes
    ----------
    kind
        The kind of the work.
    name
        The name of the work.
    details
        A dictionary of the details.
    seconds
        The duration, with that of ``children``.
    children
        The spans inside this span, in order.
    """

    __slots__ = ("_bytes", "_pairs", "children", "details", "kind", "name", "seconds")

    def __init__(self, kind: str, name: str, *, pairs: int = 0, moved: int = 0, **details: Any) -> None:
        self.kind, self.name, self.details = kind, name, details
        self._pairs, self._bytes = pairs, moved
        self.seconds = 0.0
        self.children: list[Span] = []

    @property
    def pairs(self) -> int:
        """The number of ⊗ and ⊕ with those of the children; n³ for a closure, even if a method computes fewer."""
        return self._pairs + sum(child.pairs for child in self.children)

    @property
    def bytes(self) -> int:
        """The least number of bytes that must be read and written, with those of the children.

        Each operand and each result counts once; a result that is added to counts twice.
        """
        return self._bytes + sum(child.bytes for child in self.children)

    def walk(self) -> Iterator[Span]:
        """Yield this span and all spans inside it, each before its children.

        Yields
        ------
        Span
            A span of the tree.
        """
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        rows = [("time", "calls", "pairs", "pairs/s", "bytes", ""), *_table_rows([self], "")]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ("  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=False)) for row in rows)
        return "\n".join(f"{line}  {row[-1]}".rstrip() for line, row in zip(lines, rows, strict=True))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label}: {_format_duration(self.seconds)}>"

    @property
    def label(self) -> str:
        """The name and the details in one line."""
        return " ".join(filter(None, (self.name, *map(_format_value, self.details.values()))))


def innermost() -> Span | None:
    """Return the innermost open span of this Python thread or asyncio task, or None outside a profile."""
    return _current.get() if active else None


def span(kind: str, name: str, **measures: Any) -> AbstractContextManager[Span | None]:
    """Return a context manager for a piece of work, which yields its `Span`, or None outside a profile.

    ``measures`` are the ``pairs``, ``moved`` (bytes) and details of the `Span`.
    """
    parent = innermost()
    if parent is None:
        return _NO_SPAN
    child = Span(kind, name, **measures)
    parent.children.append(child)
    return _measure(child)


@contextmanager
def _measure(one: Span) -> Iterator[Span]:
    outer, waits = _current.set(one), _synchronizes.get()
    if waits:
        _synchronize()
    start = perf_counter()
    try:
        yield one
        if waits:
            _synchronize()
    except BaseException as error:
        one.details["raised"] = type(error).__name__
        raise
    finally:
        one.seconds = perf_counter() - start
        _current.reset(outer)


def record(kind: str, name: str, seconds: float) -> None:
    """Add a span of known duration to the open profile."""
    parent = innermost()
    if parent is not None:
        parent.children.append(Span(kind, name))
        parent.children[-1].seconds = seconds


@contextmanager
def profile(*, synchronize: bool = False) -> Iterator[Span]:
    """Collect the spans of a ``with`` block, only in this Python thread or asyncio task.

    Parameters
    ----------
    synchronize : bool
        Whether every span waits for the GPU at its begin and at its end. Otherwise kernels of a GPU are only enqueued,
        and seconds are those of the host. Then a product of a GPU seems to take some microseconds, and the span that
        waits for the result seems to take the whole time. With it no kernels overlap, so the whole takes longer.

    Yields
    ------
    Span
        The root of the tree of spans. Printing it gives a table, in which equal neighbouring spans are one line.
        `Span.walk` yields its spans. It can be pickled.

    Notes
    -----
    A profile inside another belongs to both. A span of a kernel takes about 10 µs and half a kilobyte. Outside a
    profile nothing is measured. The kernels that run are those that run without a profile.

    Examples
    --------
    >>> import semiring as sr
    >>> with sr.profile() as ran:
    ...     C = sr.matmul([[0.0, 3.0], [1.0, 0.0]], [[0.0, 2.0], [4.0, 0.0]], "min_plus")
    >>> product = next(span for span in ran.walk() if span.kind == "product")
    >>> product.name, product.details["shape"], product.pairs, product.bytes
    ('multiply', (2, 2, 2), 8, 96)
    """
    root, parent = Span("profile", "in all"), innermost()
    if parent is not None:
        parent.children.append(root)
    outer = _synchronizes.set(synchronize or _synchronizes.get())
    _count_profiles(1)
    try:
        with _measure(root):
            yield root
    finally:
        _count_profiles(-1)
        _synchronizes.reset(outer)


def _count_profiles(step: int) -> None:
    global _open_profiles, active
    with _counting:
        _open_profiles += step
        active = _open_profiles > 0


def describe_array(array: Any) -> str:
    """Return the text of the shape and the dtype of an array, as a detail of a span."""
    return f"{_format_value(tuple(array.shape))} {array.dtype}"


# -------------------------------------------------------------------------------------------------------- the table


def _table_rows(spans: list[Span], indent: str) -> Iterator[tuple[str, ...]]:
    """Yield a line for each group of equal spans, followed by the lines of the spans inside."""
    groups: dict[tuple[str, str], list[Span]] = {}
    for one in spans:
        groups.setdefault((one.kind, one.label), []).append(one)
    for (kind, label), group in groups.items():
        seconds, pairs = sum(one.seconds for one in group), sum(one.pairs for one in group)
        moved = sum(one.bytes for one in group)
        title = f"{kind} {label}" if kind in ("scan", "method", "compilation", "replay") else label
        yield (
            _format_duration(seconds),
            str(len(group)),
            _format_count(pairs, _THOUSANDS) if pairs else "",
            _format_count(pairs / seconds, _THOUSANDS) if pairs and seconds else "",
            _format_count(moved, _KIBIBYTES) if moved else "",
            indent + title,
        )
        yield from _table_rows([child for one in group for child in one.children], indent + "  ")


_THOUSANDS = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1}
_KIBIBYTES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def _format_value(value: Any) -> str:
    return " × ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _format_duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _format_count(count: float, units: Mapping[str, float]) -> str:
    """Return a number in the first of the units that is not larger; units are in falling order."""
    unit = next((unit for unit, size in units.items() if count >= size), "")
    return f"{count / units.get(unit, 1):.3g} {unit}".rstrip()


def _synchronize() -> None:
    """Wait for the current GPU, if CuPy is in use and its stream is not capturing."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and cupy.is_available() and not cupy.cuda.get_current_stream().is_capturing():
        cupy.cuda.runtime.deviceSynchronize()
