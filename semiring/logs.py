"""Log messages under the logger ``semiring``: a line for each compilation, and of level DEBUG for each closure.

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

__all__ = ["CACHED_SECONDS", "DEBUG", "Compilation", "log_choice", "logger"]

#: The level `logging.DEBUG`, without loading `logging`.
DEBUG = 10

#: Seconds within which CuPy loads a kernel from its disk cache. CuPy does not report whether it compiles.
CACHED_SECONDS = 0.1


@cache
def logger() -> Logger:
    """Return the logger ``semiring``; `logging` is loaded with the first line, not with the library."""
    import logging

    named = logging.getLogger("semiring")
    named.addHandler(logging.NullHandler())
    return named


class Compilation:
    """A running compilation: it logs a line of level DEBUG when it begins, and one of level INFO with its duration.

    ``subject`` names the result that the caller computes, not a function of the library. A compilation that fails logs
    no second line. The record of a line has the attribute ``seconds``, which is None during the compilation. An open
    profile gets a span.

    >>> import logging, sys
    >>> show = logging.StreamHandler(sys.stdout)
    >>> logger().addHandler(show)
    >>> logger().setLevel(logging.DEBUG)
    >>> under_way = Compilation("min_plus float32 product")
    compiling min_plus float32 product for this machine, once
    >>> under_way.finish()  # doctest: +ELLIPSIS
    compiling min_plus float32 product for this machine, once: 0.0 s
    >>> logger().removeHandler(show)
    >>> logger().setLevel(logging.NOTSET)
    """

    def __init__(self, subject: str, target: str = "this machine") -> None:
        self.subject, self.line = subject, f"compiling {subject} for {target}, once"
        logger().debug(self.line, extra={"seconds": None})
        self._is_announced = logger().level == 0 and not logger().isEnabledFor(20)  # NOTSET, INFO
        if self._is_announced:
            announce(self.line)
        self._start = perf_counter()

    def finish(self, shortest: float = 0.0) -> None:
        """Log the duration. Below ``shortest`` seconds the code came from a cache, and the line is of level DEBUG."""
        seconds = perf_counter() - self._start
        if self._is_announced:
            announce(self.line, 0.0 if seconds < shortest else seconds)
        if seconds < shortest:
            logger().debug("%s: found", self.line, extra={"seconds": seconds})
            return
        logger().info("%s: %.1f s", self.line, seconds, extra={"seconds": seconds})
        record("compilation", self.subject, seconds)


def log_choice(subject: str, choice: str, reason: str) -> None:
    """Log a choice and its reason: a line of level DEBUG."""
    logger().debug("%s: %s, because %s", subject, choice, reason)
