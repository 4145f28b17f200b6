"""What the library tells under the logger ``semiring``: each compilation, and each choice that it makes.

It installs no handler that writes. ``logging.basicConfig(level=logging.INFO)`` shows the lines on standard error. Where
nobody listens, compilations are announced on a terminal and in a notebook, unless the logger has a level of its own:
``logging.getLogger("semiring").setLevel(logging.WARNING)`` is silence.
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
    """The logger ``semiring``; `logging` is loaded with the first line, not with the library."""
    import logging

    found = logging.getLogger("semiring")
    found.addHandler(logging.NullHandler())
    return found


class Compilation:
    """A compilation under way: a line of level DEBUG when it begins, one of level INFO with its seconds at its end.

    One that fails is never `done`, and has no second line. The line's record has the attribute ``seconds``, None while
    it is under way; an open profile gets a span.

    >>> import logging, sys
    >>> show = logging.StreamHandler(sys.stdout)
    >>> logger().addHandler(show)
    >>> logger().setLevel(logging.DEBUG)
    >>> under_way = Compilation("the tile of min_plus float32")
    compiling the tile of min_plus float32 for this machine, once
    >>> under_way.done()  # doctest: +ELLIPSIS
    compiling the tile of min_plus float32 for this machine, once: 0.0 s
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
        """Say how long it took; what took less than ``least`` seconds was found somewhere, and is of level DEBUG."""
        seconds = perf_counter() - self._start
        if self._announced:
            announce(self.line, 0.0 if seconds < least else seconds)
        if seconds < least:
            logger().debug("%s: found", self.line, extra={"seconds": seconds})
            return
        logger().info("%s: %.1f s", self.line, seconds, extra={"seconds": seconds})
        record("compilation", self.what, seconds)


def chose(what: str, choice: str, because: str) -> None:
    """Say what was chosen for what, and why: a line of level INFO.

    Costs half a microsecond where nobody listens: not for every small matrix.
    """
    logger().info("%s: %s, because %s", what, choice, because)
