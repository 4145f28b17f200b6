"""What the command shows on a terminal while it works."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import IO

from semiring.terminal import ProgressBar, compilation_text

__all__ = ["Compilations", "ProgressBar"]


class Compilations(logging.Handler):
    """A line on standard error for each compilation, from its begin on; silent where that is no terminal.

    A context manager: it listens to the logger of the library (`semiring.logs`) and leaves it as it was.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        super().__init__(logging.DEBUG)
        self._stream = sys.stderr if stream is None else stream
        self._logger = logging.getLogger("semiring")
        self._level = self._logger.level

    def __enter__(self) -> Compilations:
        if self._stream is not None and self._stream.isatty():
            self._logger.addHandler(self)
            self._logger.setLevel(logging.DEBUG)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """The line when a compilation begins; completed when it ends, or wiped where it took next to no time."""
        if not hasattr(record, "seconds"):  # a choice
            return
        said = record.getMessage()
        line = said if record.seconds is None else said.rpartition(":")[0]  # without the seconds
        self._stream.write(compilation_text(line, record.seconds))
        self._stream.flush()
