"""Run ``semiring closure``, which closes the matrix of a network."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import boolean
from semiring.arrays.bits import BitMatrix
from semiring.cli.common import (
    Report,
    check_outputs,
    chosen_semiring,
    format_number,
    input_name,
    load,
    name_cycle_vertices,
    names_as_text,
    report_network,
    save_matrix,
    vertex_key,
)
from semiring.cli.file_closure import run_on_file
from semiring.closures import closure
from semiring.distributed.launcher import is_under_mpiexec
from semiring.io import Network
from semiring.out_of_core.strip_layout import parse_bytes
from semiring.terminal import ProgressBar

__all__ = ["run"]

SMALL = 12  # the matrix is printed for at most this many vertices


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Close the matrix of INPUT, print facts about the result, write and draw it."""
    if arguments.memory is not None:
        parse_bytes(arguments.memory)  # an invalid size raises StorageError before any other error
    if is_under_mpiexec():
        from semiring.cli.on_ranks import run_on_ranks

        return run_on_ranks(arguments, report, _report_result)
    if arguments.memory is not None or arguments.journal is not None:
        return run_on_file(arguments, report)
    check_outputs(arguments)
    semiring = chosen_semiring(arguments)
    # Reachability of listed edges takes n² bits, and avoids the work that the graph does not need.
    reaches = semiring == boolean and arguments.method == "auto" and arguments.device is None
    network = load(arguments, semiring, sparse=reaches)
    report_network(report, network, semiring)
    matrix: Any = network.matrix
    if not isinstance(matrix, np.ndarray):
        edges = matrix.tocoo()
        matrix = BitMatrix.from_edges(edges.row, edges.col, edges.shape)
    with ProgressBar("closure") as progress, name_cycle_vertices(network.names, input_name(arguments.input)):
        result, explanation = closure(
            matrix,
            semiring,
            method=arguments.method,
            reflexive=arguments.reflexive,
            # The edges are not needed any more, except that integers may restart in a wider dtype.
            out=matrix if matrix.dtype.kind != "i" else None,
            progress=progress,
            check=arguments.check,
            threads=arguments.threads,
            device=arguments.device,
            explain=arguments.explain or True,
        )
    report.add_facts(method=explanation.method, reasons=explanation.reasons)
    if arguments.explain:
        report(*str(explanation).splitlines())
    _report_result(arguments, report, result, semiring, network)
    return 0


def _report_result(
    arguments: argparse.Namespace, report: Report, result: Any, semiring: Semiring, network: Network
) -> None:
    """Report the result on the terminal and in files."""
    zero = semiring.zero_for(result.dtype)
    least = greatest = None
    if isinstance(result, BitMatrix):
        entries = result.count()
    else:
        connected = result != zero
        entries = int(np.count_nonzero(connected))
        if entries and result.dtype.kind != "b":
            least, greatest = result[connected].min(), result[connected].max()
    report.add_facts(pairs=result.size, entries=entries, least=least, greatest=greatest)
    if result.dtype.kind != "b":
        word = f"not {format_number(zero)}"
    else:  # truth values: an idempotent ⊕ gives whether there is a path, and xor the parity of their number
        word = "connected" if semiring.idempotent else "false" if zero else "true"
    rows = [("entries", f"{entries:,} of {result.size:,} pairs are {word}")]
    if least is not None:
        unit = f" {network.unit}" if network.unit else ""
        rows.append(("range", f"{format_number(least)} … {format_number(greatest)}{unit}"))
    report.table(rows)
    if arguments.output is not None:
        save_matrix(report, arguments.output, result, semiring, network)
    elif len(result) <= SMALL:
        _print_matrix(report, np.asarray(result), zero, network)
    if arguments.plot is not None:
        _draw(report, arguments, np.asarray(result), semiring, network)


def _print_matrix(report: Report, result: Any, zero: Any, network: Network) -> None:
    names = names_as_text(network) or [str(vertex) for vertex in range(len(result))]
    texts = [["·" if value == zero else format_number(value) for value in row] for row in result]
    width = max((len(text) for text in [*names, *(text for row in texts for text in row)]), default=1)
    margin = max(map(len, names), default=0)
    entries = [[None if value == zero else value for value in row] for row in result.tolist()]
    report.add_facts(names=[vertex_key(network, vertex) for vertex in range(len(result))], matrix=entries)
    report("", " " * margin + "".join(f"  {name:>{width}}" for name in names))
    for name, row in zip(names, texts, strict=True):
        report(f"{name:<{margin}}" + "".join(f"  {text:>{width}}" for text in row))


def _draw(report: Report, arguments: argparse.Namespace, result: Any, semiring: Semiring, network: Network) -> None:
    from semiring.plot import plot_matrix, save

    title = f"{network.title}: closure in {semiring.name}"
    save(plot_matrix(result, semiring, names=names_as_text(network), unit=network.unit, title=title), arguments.plot)
    report.add_file(arguments.plot, "drew")
