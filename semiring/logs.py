"""Log messages under the logger ``semiring``: a line for each compilation, and for each choice of a method.

The library installs no handler that writes. ``logging.basicConfig(level=logging.INFO)`` shows the lines on standard
error. Without a handler, compilations are announced on a terminal and in a notebook, unless the logger has a level of
its own: ``logging.getLogger("semiring").setLevel(logging.WARNING)`` silences them.
"""

from __future__ import annotations

from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING

from semiring.profiling import record
from semiring.terminal import announce

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["KEPT", "Compilation", "chose", "logger"]

#: Seconds within which CuPy has loaded what it keeps on disk. It does not say whether it compiles.
KEPT = 0.1


@cache
def logger() -> Logger:
    """Return the logger ``semiring``; `logging` is loaded with the first line, not with the library."""
    import logging

    named = logging.getLogger("semiring")
    named.addHandler(logging.NullHandler())
    return named


class Compilation:
    """A running compilation: it logs a line of level DEBUG when it begins, and one of level INFO with its duration.

    ``what`` names what the caller computes, not a function of the library. A compilation that fails logs no second
    line. The line's record has the attribute ``seconds``, None while
    it is under way; an open profile gets a span.

    >>> import logging, sys
    >>> show = logging.StreamHandler(sys.stdout)
    >>> logger().addHandler(show)
    >>> logger().setLevel(logging.DEBUG)
    >>> under_way = Compilation("min_plus float32 product")
    compiling min_plus float32 product for this machine, once
    >>> under_way.done()  # doctest: +ELLIPSIS
    compiling min_plus float32 product for this machine, once: 0.0 s
    >>> logger().removeHandler(show)
    >>> logger().setLevel(logging.NOTSET)
    """

    def __init__(self, what: str, target: str = "this machine") -> None:
        self.what, self.line = what, f"compiling {what} for {target}, once"
        logger().debug(self.line, extra={"seconds": None})
        self._announced = logger().level == 0 and not logger().isEnabledFor(20)  # NOTSET, INFO
        if self._announced:
            announce(self.line)
        self._start = perf_counter()

    def done(self, least: float = 0.0) -> None:
        """Log the duration; below ``least`` seconds the code came from a cache, and the line is of level DEBUG."""
        seconds = perf_counter() - self._start
        if self._announced:
            announce(self.line, 0.0 if seconds < least else seconds)
        if seconds < least:
            logger().debug("%s: found", self.line, extra={"seconds": seconds})
            return
        logger().info("%s: %.1f s", self.line, seconds, extra={"seconds": seconds})
        record("compilation", self.what, seconds)


def chose(what: str, choice: str, because: str) -> None:
    """Log a choice and its reason: a line of level INFO.

    It costs half a microsecond without a handler, so that it is not called for every small matrix.
    """
    logger().info("%s: %s, because %s", what, choice, because)
