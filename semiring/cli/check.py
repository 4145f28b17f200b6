"""``semiring check``."""

from __future__ import annotations

import argparse

from semiring.algebra.catalogue import as_semiring
from semiring.cli.common import own_semiring
from semiring.errors import SemiringError

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print the laws with their verdicts; 1 if one of them is refuted."""
    semiring = own_semiring(arguments, arguments.name or "custom")
    if semiring is None:
        if arguments.name is None:
            raise SemiringError("give the name of a semiring, or --add, --mul, --zero and --one")
        semiring = as_semiring(arguments.name)
    options = {} if arguments.dtype is None else {"dtype": arguments.dtype}
    report = semiring.check_axioms(**options)
    print(report)
    return 0 if report.holds else 1
