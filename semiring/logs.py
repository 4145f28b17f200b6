"""Log messages under the logger ``semiring``: a line for each compilation, and of level DEBUG for each closure.

The library installs no handler that writes. ``logging.basicConfig(level=logging.INFO)`` shows the lines on standard
error. Without a handler, compilations are announced on a terminal and in a notebook, unless the logger has a level of
its own: ``logging.getLogger("semiring").setLevel(logging.WARNING)`` silences them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING

from semiring.profiling import record
from semiring.terminal import announce

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["CACHED_SECONDS", "DEBUG", "Compilation", "expected", "log_choice", "logger", "warn_of_wait"]

#: The level `logging.DEBUG`, without loading `logging`.
DEBUG = 10

#: Seconds within which CuPy loads a kernel from its disk cache. CuPy does not report whether it compiles.
CACHED_SECONDS = 0.1


#: What a caller waits for: a part of the subject of a compilation, the name of the kernels, about how many seconds they
#: take to compile on a server of two cores, and the ``calls`` of `precompile`. The first match counts. Kernels that
#: compile within a second are not listed.
_WAITS = (
    ("log_plus", "log_plus", 8, "products"),
    ("factorization", "sparse factorization", 6, "sparse"),
    ("sparse products", "sparse products", 5, "sparse"),
    ("packed bits", "packed truth values", 4, "closures"),
    ("graph analysis", "graph analysis", 8, "closures"),
    ("searches", "shortest-path searches", 2, "paths"),
    ("predecessors", "predecessors", 5, "paths"),
    ("centrality", "centrality", 8, "queries"),
    ("closure", "closures", 4, "closures"),
    ("products", "products", 3, "products"),
)
_announced: set[str] = set()
_expecting = 0  # blocks whose caller requested compilations


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


@contextmanager
def expected() -> Iterator[None]:
    """Announce no waits in a block whose caller requested its compilations."""
    global _expecting
    _expecting += 1
    try:
        yield
    finally:
        _expecting -= 1


def warn_of_wait(subject: str) -> None:
    """Log a line of level INFO when a call begins to wait for kernels of a kind, once for each kind in a process.

    >>> import logging, sys
    >>> show = logging.StreamHandler(sys.stdout)
    >>> logger().addHandler(show)
    >>> logger().setLevel(logging.INFO)
    >>> _announced.discard("centrality")
    >>> for _ in range(2):
    ...     warn_of_wait("centrality")
    centrality: this call waits about 8 s for the compiler, once on this machine; semiring.precompile(SEMIRING, \
dtype=DTYPE, calls='queries') or `semiring precompile SEMIRING --dtype DTYPE --calls queries` compiles beforehand
    >>> logger().removeHandler(show)
    >>> logger().setLevel(logging.NOTSET)
    """
    if _expecting:
        return
    for part, kind, seconds, calls in _WAITS:
        if part in subject:
            if kind not in _announced:
                _announced.add(kind)
                logger().info(
                    "%s: this call waits about %d s for the compiler, once on this machine; "
                    "semiring.precompile(SEMIRING, dtype=DTYPE, calls=%r) or "
                    "`semiring precompile SEMIRING --dtype DTYPE --calls %s` compiles beforehand",
                    *(kind, seconds, calls, calls),
                )
            return


def log_choice(subject: str, choice: str, reason: str) -> None:
    """Log a choice and its reason: a line of level DEBUG."""
    logger().debug("%s: %s, because %s", subject, choice, reason)
