"""Run ``semiring check``, which proves or refutes the laws of a semiring."""

from __future__ import annotations

import argparse

from semiring.algebra.catalogue import as_semiring
from semiring.cli.common import Report, defined_semiring
from semiring.errors import SemiringError

__all__ = ["run"]


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Print the laws with their verdicts, and return 1 if one of them is refuted."""
    semiring = defined_semiring(arguments, arguments.name or "custom")
    if semiring is None:
        if arguments.name is None:
            raise SemiringError("give the name of a semiring, or --add, --mul, --zero and --one")
        semiring = as_semiring(arguments.name)
    options = {} if arguments.dtype is None else {"dtype": arguments.dtype}
    axioms = semiring.check_axioms(**options)
    report(*str(axioms).splitlines())
    report.add_facts(
        semiring=axioms.name,
        domain=axioms.domain,
        dtype=axioms.dtype,
        proved=axioms.proved,
        refuted=bool(axioms.refuted),
        laws=[
            {
                "law": verdict.law.key,
                "statement": verdict.law.text,
                "outcome": verdict.outcome,
                "counterexample": None if verdict.counterexample is None else str(verdict.counterexample),
                "rounding": None if verdict.rounding is None else str(verdict.rounding),
            }
            for verdict in axioms
        ],
    )
    return 1 if axioms.refuted else 0
