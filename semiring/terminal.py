"""Print on a terminal or in a notebook during the work: a progress bar, and lines about compilations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["SHOWN_ROWS", "ProgressBar", "announce", "html_lines", "html_matrix", "html_table"]

PATIENCE = 0.4  # seconds before the bar appears: shorter work needs no bar
NOTEWORTHY = 1.0  # seconds: the line of a longer compilation stays on the screen
SHOWN_ROWS = 10  # the most rows and columns of a matrix in a notebook


def _is_watched() -> bool:
    """Return whether standard error is a terminal, or the output of a notebook."""
    is_terminal = getattr(sys.stderr, "isatty", None)
    return is_terminal is not None and ("ipykernel" in sys.modules or is_terminal())


class ProgressBar:
    """A progress callback ``bar(done, total)`` that draws a bar of tqdm on standard error.

    The bar is erased when ``done`` reaches ``total``. As a context manager it is erased at the end in any case, and the
    context yields None where no one sees the bar: then the work need not report progress.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None

    def __enter__(self) -> ProgressBar | None:
        return self if _is_watched() else None

    def __call__(self, done: int, total: int) -> None:
        if total <= 0:
            return
        if self._bar is None:
            self._bar = _new_bar(self._label, done, total)
        self._bar.total = total
        self._bar.update(done - self._bar.n)
        if done >= total:
            self.__exit__()

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _new_bar(label: str, done: int, total: int) -> Any:
    from tqdm import tqdm

    # Every call of the callback may draw, so no thread of tqdm has to.
    without_thread = type("Bar", (tqdm,), {"monitor_interval": 0})
    # A continued run begins with a large share, which is not part of the speed.
    line = "{desc} {bar} {percentage:3.0f} %  {remaining} left"
    options = {"leave": False, "delay": PATIENCE, "miniters": 0, "bar_format": line, "dynamic_ncols": True}
    return without_thread(desc=label, initial=done, total=total, file=sys.stderr, **options)


def announce(line: str, seconds: float | None = None) -> None:
    """Print a line for the begin (None) or the end of a compilation on a terminal or in a notebook."""
    if not _is_watched():
        return
    if seconds is None:
        text = f"\rsemiring: {line} …\x1b[K"
    elif seconds >= NOTEWORTHY:
        text = f"\rsemiring: {line}: {seconds:.1f} s\x1b[K\n"
    else:  # a short compilation leaves no line
        text = "\r\x1b[K"
    sys.stderr.write(text)
    sys.stderr.flush()


def html_table(title: str, head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as HTML for a notebook."""
    from html import escape

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
    from html import escape

    return f"<pre>{escape(text)}</pre>"
