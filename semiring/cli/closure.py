"""Run ``semiring closure``, which closes the matrix of a network, in memory, in its file, or on several ranks.

semiring closure graph.csv -o closed.npy
semiring closure big.npy -o closed.npy --memory 8GiB --journal run
mpiexec -n 4 semiring closure graph.csv -o closed.npy
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from semiring.advice import ANY, name_matrix, option
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
from semiring.closures import closure
from semiring.distributed.mpi_communicator import is_under_mpiexec
from semiring.errors import DTypeError, SemiringError
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
        return _run_on_ranks(arguments, report)
    if arguments.memory is not None or arguments.journal is not None:
        return _run_on_file(arguments, report)
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


def _find_network_options(arguments: argparse.Namespace) -> list[str]:
    """Return the given options that are for networks that are read or drawn."""
    return [name for name, default in _NETWORK_OPTIONS.items() if getattr(arguments, name) != default]


def _reject_network_options(arguments: argparse.Namespace) -> None:
    """Raise `SemiringError` where an option for networks was given."""
    for name in _find_network_options(arguments):
        value = getattr(arguments, name)
        flag = option(name, value if isinstance(value, bool) else ANY)
        raise SemiringError(f"{flag} is for networks that are read or drawn: leave it out with --memory and --journal")


def _run_on_file(arguments: argparse.Namespace, report: Report) -> int:
    """Close the matrix in the file INPUT, in the file of ``-o``, which may be the same."""
    source, out, journal = arguments.input, arguments.output, arguments.journal
    _reject_network_options(arguments)
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


#: The options that only a single process supports, by name.
_SINGLE_PROCESS_OPTIONS = {"reflexive": True, "explain": False, "check": True}


def _run_on_ranks(arguments: argparse.Namespace, report: Report) -> int:
    """Close the matrix of INPUT on the ranks that mpiexec started. Rank 0 reads, reports and writes.

    From one .npy file to another, each rank reads and writes its own tiles. An error is reported once.
    """
    from semiring import mpi
    from semiring.distributed.transports import agree

    rejected = [name for name, default in _SINGLE_PROCESS_OPTIONS.items() if getattr(arguments, name) != default]
    if rejected:
        value = getattr(arguments, rejected[0])
        flag = option(rejected[0], value if isinstance(value, bool) else ANY)
        raise SemiringError(f"{flag} is for one process: leave it out, or run the command without mpiexec")
    if arguments.device not in (None, "cuda"):
        raise SemiringError(f"{option('device', ANY)} of several ranks is cpu, or cuda for a GPU of each rank")
    semiring = chosen_semiring(arguments)
    options: dict[str, Any] = {"threads": arguments.threads}
    if arguments.method != "auto":
        options["method"] = arguments.method
    where = {"device": arguments.device}
    with mpi.together() as ranks:
        first = ranks.rank == 0
        agree(ranks, lambda: check_outputs(arguments) if first else None)
        source, out = arguments.input, arguments.output
        if arguments.journal is not None or arguments.memory is not None:
            _reject_network_options(arguments)
            memory, journal = arguments.memory, arguments.journal
            with ProgressBar("closure") if first else nullcontext() as progress:
                stored = {"out": out, "memory": memory, "journal": journal, "progress": progress}
                closed = mpi.closure(source, semiring, **stored, **options, **where)
            if first:
                _report_file(report, source, out, semiring, len(closed), closed.dtype)
            return 0
        named = source.endswith(".npy") and str(out).endswith(".npy") and os.path.exists(source)
        if named and not _find_network_options(arguments):
            matrix = mpi.read(source, **where)
            mpi.closure(matrix, semiring, out=matrix, **options).write(out)
            if first:
                _report_file(report, source, out, semiring, matrix.n, matrix.dtype)
            return 0
        network: Network | None = agree(ranks, lambda: load(arguments, semiring) if first else None)
        names = ranks.allgather(None if network is None else network.names)[0]
        if network is not None:
            report_network(report, network, semiring)
        matrix = mpi.distribute(None if network is None else network.matrix, **where)
        with name_cycle_vertices(names, input_name(source)):
            mpi.closure(matrix, semiring, out=matrix, **options)
        result = matrix.gather()
        agree(
            ranks,
            lambda: None if network is None else _report_result(arguments, report, result, semiring, network),
        )
    return 0


def _report_file(report: Report, source: str, out: str, semiring: Semiring, n: int, dtype: Any) -> None:
    report(f"{source}: {n:,} vertices, {semiring.name} {dtype}")
    report.add_facts(network={"title": source, "vertices": n, "semiring": semiring.name, "dtype": str(dtype)})
    report.add_file(out)
