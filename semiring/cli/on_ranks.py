"""Run the closure command on several ranks: ``mpiexec -n 4 semiring closure graph.csv -o closed.npy``.

Rank 0 reads, reports and writes. From one .npy file to another, each rank reads and writes its own tiles. An error is
reported once.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from typing import Any

from semiring.advice import ANY, option
from semiring.algebra import Semiring
from semiring.cli.common import (
    Report,
    check_outputs,
    chosen_semiring,
    input_name,
    load,
    name_cycle_vertices,
    report_network,
)
from semiring.cli.file_closure import find_network_options, reject_network_options
from semiring.errors import SemiringError
from semiring.io import Network
from semiring.terminal import ProgressBar

__all__ = ["run_on_ranks"]

#: The options that only a single process supports, by name.
_SINGLE_PROCESS_OPTIONS = {"reflexive": True, "explain": False, "check": True}


def run_on_ranks(arguments: argparse.Namespace, report: Report, report_result: Any) -> int:
    """Close the matrix of INPUT.

    Rank 0 calls ``report_result(arguments, report, result, semiring, network)``.
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
            reject_network_options(arguments)
            memory, journal = arguments.memory, arguments.journal
            with ProgressBar("closure") if first else nullcontext() as progress:
                stored = {"out": out, "memory": memory, "journal": journal, "progress": progress}
                closure = mpi.closure(source, semiring, **stored, **options, **where)
            if first:
                _report_file(report, source, out, semiring, len(closure), closure.dtype)
            return 0
        named = source.endswith(".npy") and str(out).endswith(".npy") and os.path.exists(source)
        if named and not find_network_options(arguments):
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
        agree(ranks, lambda: report_result(arguments, report, result, semiring, network) if first else None)
    return 0


def _report_file(report: Report, source: str, out: str, semiring: Semiring, n: int, dtype: Any) -> None:
    report(f"{source}: {n:,} vertices, {semiring.name} {dtype}")
    report.add_facts(network={"title": source, "vertices": n, "semiring": semiring.name, "dtype": str(dtype)})
    report.add_file(out)
