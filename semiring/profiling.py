"""Collect profiles: a tree of spans, each with a name, a duration, and the bytes and operations.

Code opens a `span` around its work. Outside a profile this does nothing, because `active` is False. Code on which
tenths of a microsecond count reads `active` first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextvars import ContextVar, Token
from threading import Lock
from time import perf_counter
from typing import Any, TypeAlias

__all__ = ["Profile", "Span", "describe_array", "profile", "record", "span"]

#: Whether a profile is open in some thread. Read it as ``profiling.active``.
active = False

_open_profiles = 0
_counting = Lock()
_current: ContextVar[Span | None] = ContextVar("semiring_span", default=None)  # the innermost open span


class Span:
    """A piece of work with its duration, and the spans inside it.

    A span is a context manager, which `span` returns.

    Parameters
    ----------
    kind : str
        ``"call"`` of a public function, ``"scan"`` of the entries, ``"method"``, ``"product"``, ``"closing"`` (of a
        block, or of whole matrices by one kernel), ``"predecessors"``, ``"pass"`` over a matrix, ``"replay"`` of
        recorded launches, ``"compilation"``, ``"transfer"`` to or from a GPU; ``"profile"`` for the root.
    name : str
        The name: for a product the operation of the kernel contract, such as ``"multiply_add"``.
    pairs, moved : int
        The pairs of ⊗ and ⊕, and the bytes, of this span without its children.
    **details : object
        ``shape`` ((m, k, n) for products, else the shape of the matrix), ``dtype`` and ``semiring``.

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

    __slots__ = (
        *("kind", "name", "details", "seconds", "children"),
        *("_pairs", "_bytes", "_start", "_synchronizes", "_token"),
    )

    def __init__(self, kind: str, name: str, *, pairs: int = 0, moved: int = 0, **details: Any) -> None:
        self.kind, self.name, self.details = kind, name, details
        self._pairs, self._bytes = pairs, moved
        self.seconds = 0.0
        self.children: list[Span] = []
        self._synchronizes = False
        self._start = 0.0
        self._token: Token[Span | None] | None = None

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

    def note(self, **details: Any) -> None:
        """Add details to this span.

        Parameters
        ----------
        **details : object
            The details by name. A detail of the same name is replaced.
        """
        self.details.update(details)

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

    def __enter__(self) -> Span:
        parent = _current.get()
        if parent is not None:
            parent.children.append(self)
            self._synchronizes |= parent._synchronizes
        self._token = _current.set(self)
        if self._synchronizes:
            _synchronize()
        self._start = perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if self._synchronizes and kind is None:
            _synchronize()
        self.seconds += perf_counter() - self._start
        assert self._token is not None
        _current.reset(self._token)
        if kind is not None:
            self.note(raised=kind.__name__)

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


class _NoSpan:
    """The context manager that `span` returns outside a profile."""

    def note(self, **details: Any) -> None:
        pass

    def __enter__(self) -> _NoSpan:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


_NO_SPAN = _NoSpan()


def is_collecting() -> bool:
    """Return whether a profile is open in this Python thread or asyncio task."""
    return active and _current.get() is not None


def span(kind: str, name: str, *, pairs: int = 0, moved: int = 0, **details: Any) -> Span | _NoSpan:
    """Return a context manager for a piece of work: a `Span` of the open profile, or one without effect.

    ``pairs`` and ``moved`` (bytes) count the work of this span without its children.
    """
    if not is_collecting():
        return _NO_SPAN
    return Span(kind, name, pairs=pairs, moved=moved, **details)


def record(kind: str, name: str, seconds: float, **details: Any) -> None:
    """Add a span of known duration to the open profile."""
    parent = _current.get() if active else None
    if parent is not None:
        finished = Span(kind, name, **details)
        finished.seconds = seconds
        parent.children.append(finished)


class Profile(Span):
    """The root of a tree of spans: the work while it was open. `profile` makes one."""

    __slots__ = ()

    def __init__(self, *, synchronize: bool = False) -> None:
        super().__init__("profile", "in all")
        self._synchronizes = synchronize

    def __enter__(self) -> Profile:
        _count_profiles(1)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _count_profiles(-1)


def _count_profiles(step: int) -> None:
    global _open_profiles, active
    with _counting:
        _open_profiles += step
        active = _open_profiles > 0


def profile(*, synchronize: bool = False) -> Profile:
    """Collect the spans of a ``with`` block, only in this Python thread or asyncio task.

    Parameters
    ----------
    synchronize : bool
        Whether every span waits for the GPU at its begin and at its end. Otherwise kernels of a GPU are only enqueued,
        and seconds are those of the host. Then a product of a GPU seems to take some microseconds, and the span that
        waits for the result seems to take the whole time. With it no kernels overlap, so the whole takes longer.

    Returns
    -------
    Profile
        A context manager, whose value is the root of the tree of spans. Printing it gives a table, in which equal
        neighbouring spans are one line. `Span.walk` yields its spans.

    Notes
    -----
    A profile inside another belongs to both. A span of a kernel takes about 10 µs and half a kilobyte. Outside a
    profile nothing is measured.

    Examples
    --------
    >>> import semiring as sr
    >>> with sr.profile() as ran:
    ...     C = sr.matmul([[0.0, 3.0], [1.0, 0.0]], [[0.0, 2.0], [4.0, 0.0]], "min_plus")
    >>> product = next(span for span in ran.walk() if span.kind == "product")
    >>> product.name, product.details["shape"], product.pairs, product.bytes
    ('multiply', (2, 2, 2), 8, 96)
    """
    return Profile(synchronize=synchronize)


def describe_array(array: Any) -> str:
    """Return the text of the shape and the dtype of an array, as a detail of a span."""
    return f"{_format_value(tuple(array.shape))} {array.dtype}"


# -------------------------------------------------------------------------------------------------------- the table

_Row: TypeAlias = tuple[str, str, str, str, str, str]


def _table_rows(spans: list[Span], indent: str) -> Iterator[_Row]:
    """Yield a line for each group of equal spans, followed by the lines of the spans inside."""
    groups: dict[tuple[str, str], list[Span]] = {}
    for one in spans:
        groups.setdefault((one.kind, one.label), []).append(one)
    for group in groups.values():
        seconds, pairs = sum(one.seconds for one in group), sum(one.pairs for one in group)
        total_bytes, label = sum(one.bytes for one in group), group[0].label
        title = f"{group[0].kind} {label}" if group[0].kind in _NAMED_BY_KIND else label
        rate = f"{_format_count(pairs / seconds)}" if pairs and seconds else ""
        yield (
            _format_duration(seconds),
            str(len(group)),
            _format_count(pairs) if pairs else "",
            rate,
            _format_bytes(total_bytes) if total_bytes else "",
            indent + title,
        )
        yield from _table_rows([child for one in group for child in one.children], indent + "  ")


_NAMED_BY_KIND = frozenset({"scan", "method", "compilation", "replay"})


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return " × ".join(map(str, value))
    return str(value)


def _format_duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _format_count(count: float) -> str:
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.3g}"


def _format_bytes(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def _synchronize() -> None:
    """Wait for the current GPU, if CuPy is in use and its stream is not capturing."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and cupy.is_available() and not cupy.cuda.get_current_stream().is_capturing():
        cupy.cuda.runtime.deviceSynchronize()
