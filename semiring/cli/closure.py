"""``semiring closure``."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.cli.common import (
    Report,
    check_outputs,
    chosen_semiring,
    format_number,
    load,
    save_matrix,
    size_of,
)
from semiring.cli.cycles import cycles_by_name
from semiring.cli.file_closure import run_on_file
from semiring.cli.progress import ProgressBar
from semiring.closures import closure
from semiring.io import Network
from semiring.ranks.launched import launched

__all__ = ["run"]

SMALL = 12  # vertices up to which the matrix is printed


def run(arguments: argparse.Namespace) -> int:
    """Close the matrix of INPUT, print facts about the result, write and draw it."""
    if launched():
        from semiring.cli.on_ranks import run_on_ranks

        return run_on_ranks(arguments, _tell)
    if arguments.memory is not None or arguments.journal is not None:
        return run_on_file(arguments)
    check_outputs(arguments)
    semiring = chosen_semiring(arguments)
    network = load(arguments, semiring)
    report = Report(arguments.output)
    report(size_of(network, semiring))
    with ProgressBar("closure") as progress, cycles_by_name(network.names):
        result, explanation = closure(
            network.matrix,
            semiring,
            method=arguments.method,
            reflexive=not arguments.irreflexive,
            out=network.matrix,  # nobody needs the edges any more
            progress=progress,
            check=arguments.check,
            threads=arguments.threads,
            explain=True,
        )
    if arguments.explain:
        report(*str(explanation).splitlines())
    _tell(arguments, report, result, semiring, network)
    return 0


def _tell(arguments: argparse.Namespace, report: Report, result: Any, semiring: Semiring, network: Network) -> None:
    """What came of it, on the terminal and in files."""
    zero = semiring.zero_for(result.dtype)
    report.table(_facts(result, semiring, zero, network))
    if arguments.output is not None:
        save_matrix(report, arguments.output, result, semiring, network)
    elif len(result) <= SMALL:
        _print_matrix(report, result, zero, network)
    if arguments.plot is not None:
        _draw(report, arguments, result, semiring, network)


def _facts(result: Any, semiring: Semiring, zero: Any, network: Network) -> list[tuple[str, str]]:
    pairs, connected = result.size, int(np.count_nonzero(result != zero))
    if result.dtype.kind != "b":
        said = f"not {format_number(zero)}"
    else:  # of truths an idempotent ⊕ says whether there is a path, and any other how many, as odd or even
        said = "connected" if semiring.idempotent else "false" if zero else "true"
    facts = [("entries", f"{connected:,} of {pairs:,} pairs are {said}")]
    if connected and result.dtype.kind != "b":
        kept = result[result != zero]
        unit = f" {network.unit}" if network.unit else ""
        facts.append(("range", f"{format_number(kept.min())} … {format_number(kept.max())}{unit}"))
    return facts


def _print_matrix(report: Report, result: Any, zero: Any, network: Network) -> None:
    names = network.names or [str(vertex) for vertex in range(len(result))]
    texts = [["·" if value == zero else format_number(value) for value in row] for row in result]
    width = max((len(text) for text in [*names, *(text for row in texts for text in row)]), default=1)
    left = max(map(len, names), default=0)
    report("", " " * left + "".join(f"  {name:>{width}}" for name in names))
    for name, row in zip(names, texts, strict=True):
        report(f"{name:<{left}}" + "".join(f"  {text:>{width}}" for text in row))


def _draw(report: Report, arguments: argparse.Namespace, result: Any, semiring: Semiring, network: Network) -> None:
    from semiring.plot import plot_matrix, save

    title = f"{network.title}: closure in {semiring.name}"
    save(plot_matrix(result, semiring, names=network.names, unit=network.unit, title=title), arguments.plot)
    report(f"drew {arguments.plot}")
