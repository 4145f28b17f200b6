"""Close a matrix that stays in its file: ``semiring closure big.npy -o closed.npy --memory 8GiB --journal run``."""

from __future__ import annotations

import argparse
import errno
import os
import sys

from semiring.advice import ANY, name_matrix, option
from semiring.cli.common import Report, check_outputs, chosen_semiring
from semiring.closures import closure
from semiring.errors import DTypeError, SemiringError
from semiring.terminal import ProgressBar

__all__ = ["find_network_options", "reject_network_options", "run_on_file"]

#: The options for networks that are read or drawn, by name. They do not apply to a matrix that stays in its file.
_NETWORK_OPTIONS = {
    "dtype": None,
    "directed": True,
    "header": None,
    "weight": None,
    "columns": None,
    "encoding": None,
    "decimal": None,
    "plot": None,
}


def find_network_options(arguments: argparse.Namespace) -> list[str]:
    """Return the given options that are for networks that are read or drawn."""
    return [name for name, default in _NETWORK_OPTIONS.items() if getattr(arguments, name) != default]


def reject_network_options(arguments: argparse.Namespace) -> None:
    """Raise `SemiringError` where an option for networks was given."""
    for name in find_network_options(arguments):
        value = getattr(arguments, name)
        flag = option(name, value if isinstance(value, bool) else ANY)
        raise SemiringError(f"{flag} is for networks that are read or drawn: leave it out with --memory and --journal")


def run_on_file(arguments: argparse.Namespace, report: Report) -> int:
    """Close the matrix in the file INPUT, in the file of ``-o``, which may be the same."""
    source, out, journal = arguments.input, arguments.output, arguments.journal
    reject_network_options(arguments)
    if not source.endswith(".npy") or out is None or not out.endswith(".npy"):
        raise SemiringError(
            "--memory and --journal are for a matrix in an .npy file, closed into an .npy file: give -o FILE.npy"
        )
    if not os.path.exists(source):
        raise FileNotFoundError(errno.ENOENT, "no such file", source)
    check_outputs(arguments)
    semiring = chosen_semiring(arguments)
    try:
        with ProgressBar("closure") as progress, name_matrix(source, None):
            result, explanation = closure(
                source,
                semiring,
                method=arguments.method,
                reflexive=arguments.reflexive,
                out=out,
                progress=progress,
                check=arguments.check,
                threads=arguments.threads,
                device=arguments.device,
                memory=arguments.memory,
                journal=journal,
                explain=arguments.explain or True,
            )
    except DTypeError as error:
        reason, alternatives, _ = str(error).partition(". Use one of ")
        if not alternatives:
            raise
        dtypes = ", ".join(semiring.dtypes)  # --dtype is not for matrices that stay in their files
        raise DTypeError(f"{source}: {reason}. Save the matrix in one of {dtypes}, by numpy.save") from None
    except (KeyboardInterrupt, OSError):
        if journal is not None and os.path.exists(journal):
            print(f"semiring: note: run the same command again to continue from {journal}", file=sys.stderr)
        raise
    facts = {"title": source, "vertices": len(result), "semiring": semiring.name, "dtype": str(result.dtype)}
    report(f"{source}: {len(result):,} vertices, {semiring.name} {result.dtype}")
    report.add_facts(network=facts, method=explanation.method, reasons=explanation.reasons)
    if arguments.explain:
        report(*str(explanation).splitlines())
    else:
        report(*(f"  {reason}" for reason in explanation.reasons))
    report.add_file(out)
    return 0
