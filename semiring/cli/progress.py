"""Show compilations on a terminal while a command runs."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import IO

from semiring.terminal import ProgressBar, compilation_text

__all__ = ["Compilations", "ProgressBar"]


class Compilations(logging.Handler):
    """A log handler that prints a line on standard error for each compilation, from its beginning on.

    It prints nothing where standard error is no terminal. As a context manager, it adds itself to the logger of the
    library (`semiring.logs`), and restores the logger at the end.
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
        """Print the line of a compilation, and complete it at the end, or erase it if the compilation was short."""
        if not hasattr(record, "seconds"):  # a record of a choice, not of a compilation
            return
        message = record.getMessage()
        line = message if record.seconds is None else message.rpartition(":")[0]  # without the seconds
        self._stream.write(compilation_text(line, record.seconds))
        self._stream.flush()
