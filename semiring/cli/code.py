"""Run ``semiring code``, which prints the generated code of a semiring."""

from __future__ import annotations

import argparse

from semiring.algebra.catalogue import as_semiring
from semiring.cli.common import Report, defined_semiring
from semiring.errors import SemiringError
from semiring.kernels.listing import code

__all__ = ["run"]


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Print the generated code of a semiring."""
    semiring = defined_semiring(arguments, arguments.name or "custom")
    if semiring is None:
        semiring = as_semiring(arguments.name or "min_plus")
    options = {"target": arguments.target, "nonnegative": arguments.nonnegative, "whole": arguments.whole}
    try:
        text = code(semiring, arguments.dtype, arguments.language, **options)
    except SemiringError:
        raise
    except ValueError as error:  # an unknown target
        raise SemiringError(str(error)) from error
    report(*text.split("\n"))
    report.add_facts(semiring=semiring.name, dtype=arguments.dtype, language=arguments.language, code=text)
    return 0
