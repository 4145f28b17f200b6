"""What a terminal or a notebook shows while the work lasts: a progress bar, and what is compiled."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from types import TracebackType
from typing import IO, Any

__all__ = [
    "SHOWN",
    "ProgressBar",
    "announce",
    "compilation_text",
    "html_lines",
    "html_matrix",
    "html_table",
    "progress_bar",
]

PATIENCE = 0.4  # seconds before the bar appears: what is over by then needs none
PATIENT = 20.0  # seconds from which on a small part of the work tells how long the rest will take
INTERVAL = 0.1  # seconds between two drawings
NOTEWORTHY = 1.0  # seconds from which on a compilation stays on the screen
SHOWN = 10  # rows and columns of a matrix that a notebook shows


class ProgressBar:
    """Called with (done, total), draws how far the work is on standard error; silent where that is no terminal.

    A context manager: the line is wiped at the end, whatever happened.
    """

    def __init__(self, label: str, stream: IO[str] | None = None) -> None:
        self._label, self._stream = label, sys.stderr if stream is None else stream
        self._next = time.monotonic() + PATIENCE
        self._first: tuple[float, float] | None = None  # when it was told first, and how much was done by then
        self._drawn = False

    def __enter__(self) -> ProgressBar | None:
        """Itself, or None where nobody would see it: the work then need not report at all."""
        return self if self._stream.isatty() else None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total <= 0:
            return
        share = min(1.0, done / total)
        if self._first is None:  # a run that goes on where another ended begins with much done
            self._first = (now, share)
        if now < self._next:
            return
        self._next = now + INTERVAL
        elapsed, gone = now - self._first[0], share - self._first[1]
        left = elapsed / gone * (1 - share) if gone > 0.02 or (gone > 0 and elapsed > PATIENT) else None
        remaining = "" if left is None else f"  {_duration(left)} left"
        width = max(10, min(40, shutil.get_terminal_size().columns - len(self._label) - 26))
        filled = round(share * width)
        line = f"{self._label} {'█' * filled}{'░' * (width - filled)} {share:4.0%}{remaining}"
        self._write(f"\r{line}\x1b[K")
        self._drawn = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # a terminal without the block characters
            self._stream.write(text.replace("█", "#").replace("░", "."))
        self._stream.flush()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def progress_bar(label: str) -> Callable[[int, int], None]:
    """What ``progress=True`` stands for: a bar of tqdm where that is installed, else a `ProgressBar`."""
    try:
        from tqdm import tqdm
    except ImportError:
        own = ProgressBar(label)

        def draw(done: int, total: int) -> None:
            own(done, total)
            if done >= total:
                own.__exit__(None, None, None)

        return draw
    bar = tqdm(desc=label, total=100, unit="%", leave=False, bar_format="{desc} {bar} {n:.0f} %  {remaining} left")

    def show(done: int, total: int) -> None:
        bar.update(100 * done / max(1, total) - bar.n)
        if done >= total:
            bar.close()

    return show


def compilation_text(line: str, seconds: float | None) -> str:
    """The line of a compilation as it begins (None), and as it ends: wiped where it took next to no time."""
    if seconds is None:
        return f"\rsemiring: {line} …\x1b[K"
    return f"\rsemiring: {line}: {seconds:.1f} s\x1b[K\n" if seconds >= NOTEWORTHY else "\r\x1b[K"


def announce(line: str, seconds: float | None = None) -> None:
    """Say on standard error what is compiled, where somebody sees it: on a terminal, and in a notebook."""
    stream = sys.stderr
    if stream is None or not (stream.isatty() or "ipykernel" in sys.modules):
        return
    stream.write(compilation_text(line, seconds))
    stream.flush()


def html_table(title: str, head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table for a notebook."""

    def line(cells: Iterable[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<p>{escape(title)}</p><table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def html_matrix(title: str, matrix: Any, rows: Sequence[Any], columns: Sequence[Any]) -> str:
    """The first rows and columns of a matrix, called by the names of their vertices, for a notebook.

    The matrix has at least the `SHOWN` first ones.
    """

    def shortened(entry: Any) -> str:
        return f"{entry:.6g}" if matrix.dtype.kind == "f" else str(entry)

    header = ["", *map(str, columns[:SHOWN]), *["…"] * (len(columns) > SHOWN)]
    body = [
        [str(name), *(shortened(entry) for entry in matrix[i, :SHOWN]), *["…"] * (len(columns) > SHOWN)]
        for i, name in enumerate(rows[:SHOWN])
    ]
    return html_table(title, header, [*body, *[["…"] * len(header)] * (len(rows) > SHOWN)])


def html_lines(text: str) -> str:
    """Lines as they are, for a notebook."""
    return f"<pre>{escape(text)}</pre>"
