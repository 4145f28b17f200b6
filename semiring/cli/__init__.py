"""Run the command ``semiring``: closures, paths, axioms, code, and the capabilities of this installation.

The exit codes are:

- 0: the command succeeded.
- 1: a law is refuted, or no path leads from one vertex to the other.
- 2: the input or the usage is wrong.
- 130: the command was interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from semiring.advice import use_spelling
from semiring.errors import NegativeCycleError, SemiringError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (by default the arguments of the process) and return its exit code."""
    from semiring.cli.parser import build_parser

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # a process that was started with it closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure") and (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ∞ and → shows ?, and raises no error
    try:
        arguments = build_parser().read(argv)
        with use_spelling(arguments.command.spelling), warnings.catch_warnings():
            warnings.showwarning = _WarningPrinter()
            code = int(arguments.run(arguments))
        sys.stdout.flush()  # so that a closed pipe raises here, not at exit
    except SystemExit as exit_:  # argparse: --help, --version, wrong usage
        try:
            sys.stdout.flush()
        except OSError as error:  # a full disk; argparse has printed, so no code says it
            _forget_output()
            return 0 if isinstance(error, BrokenPipeError) else _fail(describe(error), 2)
        return exit_.code if isinstance(exit_.code, int) else 2
    except BrokenPipeError:  # `semiring ... | head`: the reader has closed the pipe
        _forget_output()
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except (SemiringError, OSError, MemoryError) as error:
        return _fail(describe(error), 2)
    return code


def describe(error: BaseException) -> str:
    """Return one line that describes an error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, NegativeCycleError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}"
    return " ".join(str(error).split()) or type(error).__name__


class _WarningPrinter:
    """Print each warning of the library once, without the line of its own code."""

    def __init__(self) -> None:
        self._printed = set[str]()

    def __call__(self, message: Warning | str, *_: object, **__: object) -> None:
        from semiring.advice import escape

        if str(message) not in self._printed:  # a command may compute with one matrix twice
            self._printed.add(str(message))
            print(f"semiring: warning: {escape(str(message), tabs=True)}", file=sys.stderr)


def _fail(message: str, code: int) -> int:
    from semiring.advice import escape
    from semiring.distributed.mpi_communicator import is_first

    if not is_first():  # an exit code would make mpiexec end rank 0 before it prints the error
        return 0
    try:
        sys.stdout.flush()
        print(f"semiring: error: {escape(message, tabs=True)}", file=sys.stderr)
    except BrokenPipeError:
        _forget_output()
    return code


def _forget_output() -> None:
    """Redirect standard output to the null device, so that Python does not report the closed pipe at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):  # a stand-in for standard output, such as a test's
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
