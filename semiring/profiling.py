"""What ran: `profile` collects a tree of spans, each with what was done, how long it took, and what it moved.

Whoever does work says so with `span`. Outside a profile that is nothing: `active` is False, and a path on which tenths
of a microsecond count asks it first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextvars import ContextVar, Token
from threading import Lock
from time import perf_counter
from typing import Any, TypeAlias

__all__ = ["Profile", "Span", "described", "profile", "record", "span"]

#: Whether a profile is open in some thread. Read it as ``profiling.active``.
active = False

_open = 0
_counting = Lock()
_current: ContextVar[Span | None] = ContextVar("semiring_span", default=None)  # the innermost open span


class Span:
    """One thing that was done, and what was done inside it.

    Attributes
    ----------
    kind
        ``"call"`` of a public function, ``"scan"`` of the entries, ``"method"``, ``"product"``, ``"closing"`` (of a
        block, or of whole matrices by one kernel), ``"predecessors"``, ``"pass"`` over a matrix, ``"replay"`` of
        recorded launches, ``"compilation"``, ``"transfer"`` to or from a GPU; ``"profile"`` for the root.
    name
        What it is called: of a product the operation of the kernel contract, such as ``"multiply_add"``.
    details
        A dictionary: of products ``shape`` (m, k, n), of other kernels the matrix's, ``dtype`` and ``semiring``.
    seconds
        From its begin to its end, those of ``children`` included.
    children
        What was done inside, in order.

    Also a context manager, as which `span` gives it.
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
        """How many times ⊗ and ⊕ were computed, here and in the children; of closures n³, whatever was left out."""
        return self._pairs + sum(child.pairs for child in self.children)

    @property
    def bytes(self) -> int:
        """What had to be read and written at the least, here and in the children.

        Each operand once and each result once; one that is added to counts twice.
        """
        return self._bytes + sum(child.bytes for child in self.children)

    def note(self, **details: Any) -> None:
        """Say more of it."""
        self.details.update(details)

    def walk(self) -> Iterator[Span]:
        """Itself and all below it, each before its children."""
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
        rows = [("time", "calls", "pairs", "pairs/s", "bytes", ""), *_rows([self], "")]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ("  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=False)) for row in rows)
        return "\n".join(f"{line}  {row[-1]}".rstrip() for line, row in zip(lines, rows, strict=True))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label}: {_duration(self.seconds)}>"

    @property
    def label(self) -> str:
        """Its name and details in one line."""
        return " ".join(filter(None, (self.name, *map(_text, self.details.values()))))


class _Nothing:
    """What `span` gives outside a profile."""

    def note(self, **details: Any) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


_NOTHING = _Nothing()


def collects() -> bool:
    """Whether a profile is open here: in this Python thread, or asyncio task."""
    return active and _current.get() is not None


def span(kind: str, name: str, *, pairs: int = 0, moved: int = 0, **details: Any) -> Span | _Nothing:
    """A context in which something is done: a `Span` of the open profile, or nothing where there is none.

    ``pairs`` and ``moved`` (bytes) are what it does by itself, outside its children.
    """
    if not collects():
        return _NOTHING
    return Span(kind, name, pairs=pairs, moved=moved, **details)


def record(kind: str, name: str, seconds: float, **details: Any) -> None:
    """A span that has ended already."""
    parent = _current.get() if active else None
    if parent is not None:
        done = Span(kind, name, **details)
        done.seconds = seconds
        parent.children.append(done)


class Profile(Span):
    """What ran while it was open: the root of a tree of spans. `profile` makes one."""

    __slots__ = ()

    def __init__(self, *, synchronize: bool = False) -> None:
        super().__init__("profile", "in all")
        self._synchronizes = synchronize

    def __enter__(self) -> Profile:
        _count(1)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _count(-1)


def _count(step: int) -> None:
    global _open, active
    with _counting:
        _open += step
        active = _open > 0


def profile(*, synchronize: bool = False) -> Profile:
    """Collect what runs inside a ``with`` block, in this Python thread (or asyncio task) alone.

    Parameters
    ----------
    synchronize
        Wait for the GPU at the begin and at the end of every span. Without it kernels of a GPU are only enqueued, and
        seconds are those of the host: a product of a GPU seems to take some microseconds, and whoever waits for the
        result seems to take all. With it nothing runs side by side, so the whole takes longer than it would.

    Printed it is a table, in which equal things side by side are one line; it is also a tree of `Span` to walk. A
    profile inside another belongs to both. A span of a kernel takes some 10 µs and half a kilobyte; outside a profile
    nothing is measured.

    >>> import semiring as sr
    >>> with sr.profile() as ran:
    ...     C = sr.matmul([[0.0, 3.0], [1.0, 0.0]], [[0.0, 2.0], [4.0, 0.0]], "min_plus")
    >>> product = next(span for span in ran.walk() if span.kind == "product")
    >>> product.name, product.details["shape"], product.pairs, product.bytes
    ('multiply', (2, 2, 2), 8, 96)
    """
    return Profile(synchronize=synchronize)


def described(array: Any) -> str:
    """The shape and the dtype of an array, as a detail."""
    return f"{_text(tuple(array.shape))} {array.dtype}"


# -------------------------------------------------------------------------------------------------------- the table

_Row: TypeAlias = tuple[str, str, str, str, str, str]


def _rows(spans: list[Span], indent: str) -> Iterator[_Row]:
    """A line for each kind of thing, those inside it below."""
    groups: dict[tuple[str, str], list[Span]] = {}
    for one in spans:
        groups.setdefault((one.kind, one.label), []).append(one)
    for group in groups.values():
        seconds, pairs = sum(one.seconds for one in group), sum(one.pairs for one in group)
        moved, label = sum(one.bytes for one in group), group[0].label
        shown = f"{group[0].kind} {label}" if group[0].kind in _NAMED_BY_KIND else label
        rate = f"{_short(pairs / seconds)}" if pairs and seconds else ""
        yield (
            _duration(seconds),
            str(len(group)),
            _short(pairs) if pairs else "",
            rate,
            _size(moved) if moved else "",
            indent + shown,
        )
        yield from _rows([child for one in group for child in one.children], indent + "  ")


_NAMED_BY_KIND = frozenset({"scan", "method", "compilation", "replay"})


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " × ".join(map(str, value))
    return str(value)


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _short(count: float) -> str:
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.3g}"


def _size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def _synchronize() -> None:
    """Wait for the current GPU, if CuPy is in use. Work that is being recorded has no end to wait for."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and cupy.is_available() and not cupy.cuda.get_current_stream().is_capturing():
        cupy.cuda.runtime.deviceSynchronize()
