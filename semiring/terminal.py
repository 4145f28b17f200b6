"""Print on a terminal or in a notebook during the work: a progress bar, and lines about compilations."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from types import TracebackType
from typing import IO, Any

__all__ = [
    "SHOWN_ROWS",
    "ProgressBar",
    "announce",
    "compilation_text",
    "html_lines",
    "html_matrix",
    "html_table",
    "progress_bar",
]

PATIENCE = 0.4  # seconds before the bar appears: shorter work needs no bar
PATIENT = 20.0  # seconds after which a small part of the work suffices to predict the remaining time
INTERVAL = 0.1  # seconds between two drawings
NOTEWORTHY = 1.0  # seconds: the line of a longer compilation stays on the screen
SHOWN_ROWS = 10  # the most rows and columns of a matrix in a notebook


class ProgressBar:
    """A progress callback ``bar(done, total)`` that draws a bar on standard error, if that is a terminal.

    It is a context manager, which erases the line at the end, also after an exception.
    """

    def __init__(self, label: str, stream: IO[str] | None = None) -> None:
        self._label, self._stream = label, sys.stderr if stream is None else stream
        self._next_drawing = time.monotonic() + PATIENCE
        self._first_call: tuple[float, float] | None = None  # the time and the share of the work of the first call
        self._is_visible = False

    def __enter__(self) -> ProgressBar | None:
        """Return this callback, or None if the stream is no terminal: then the work need not report progress."""
        return self if self._stream.isatty() else None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total <= 0:
            return
        share = min(1.0, done / total)
        if self._first_call is None:  # a continued run begins with a large share
            self._first_call = (now, share)
        if now < self._next_drawing:
            return
        self._next_drawing = now + INTERVAL
        elapsed, progress = now - self._first_call[0], share - self._first_call[1]
        is_predictable = progress > 0.02 or (progress > 0 and elapsed > PATIENT)
        remaining = f"  {_format_duration(elapsed / progress * (1 - share))} left" if is_predictable else ""
        width = max(10, min(40, shutil.get_terminal_size().columns - len(self._label) - 26))
        filled = round(share * width)
        line = f"{self._label} {'█' * filled}{'░' * (width - filled)} {share:4.0%}{remaining}"
        self._write(f"\r{line}\x1b[K")
        self._is_visible = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_visible:
            self._write("\r\x1b[K")
            self._is_visible = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # a terminal without the block characters
            self._stream.write(text.replace("█", "#").replace("░", "."))
        self._stream.flush()


def _format_duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def progress_bar(label: str) -> Callable[[int, int], None]:
    """Return the callback for ``progress=True``: a bar of tqdm if that is installed, else a `ProgressBar`."""
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
    """Return the line for the begin (None) or the end of a compilation. A short compilation erases its line."""
    if seconds is None:
        return f"\rsemiring: {line} …\x1b[K"
    return f"\rsemiring: {line}: {seconds:.1f} s\x1b[K\n" if seconds >= NOTEWORTHY else "\r\x1b[K"


def announce(line: str, seconds: float | None = None) -> None:
    """Print a line about a compilation on standard error, if that is a terminal or a notebook."""
    stream = sys.stderr
    if stream is None or not (stream.isatty() or "ipykernel" in sys.modules):
        return
    stream.write(compilation_text(line, seconds))
    stream.flush()


def html_table(title: str, head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as HTML for a notebook."""

    def line(cells: Iterable[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<p>{escape(title)}</p><table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def html_matrix(title: str, matrix: Any, rows: Sequence[Any], columns: Sequence[Any]) -> str:
    """Return the first rows and columns of a matrix as HTML for a notebook, with the names of their vertices.

    The matrix needs only its first `SHOWN` rows and columns.
    """

    def format_entry(entry: Any) -> str:
        return f"{entry:.6g}" if matrix.dtype.kind == "f" else str(entry)

    header = ["", *map(str, columns[:SHOWN_ROWS]), *["…"] * (len(columns) > SHOWN_ROWS)]
    body = [
        [str(name), *(format_entry(entry) for entry in matrix[i, :SHOWN_ROWS]), *["…"] * (len(columns) > SHOWN_ROWS)]
        for i, name in enumerate(rows[:SHOWN_ROWS])
    ]
    return html_table(title, header, [*body, *[["…"] * len(header)] * (len(rows) > SHOWN_ROWS)])


def html_lines(text: str) -> str:
    """Return lines of text as HTML for a notebook, with their blanks."""
    return f"<pre>{escape(text)}</pre>"
