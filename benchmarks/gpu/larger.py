"""Measure closures of matrices larger than the GPU's memory.

    python -m benchmarks.gpu.larger [--n 65536] [--memory 3GiB]

Min-plus in float32, the matrix of `benchmarks.gpu.large`. It is closed in the memory of the GPU first, and then by
strips of rows. The strips come from an array of the host in ordinary, pageable memory. With ``--rows file journal``
they come from an .npy file in ``--folder``, which is closed in place. Every result is compared with that of the GPU's
memory, bit by bit. The bound is the longer of the time in memory and of the bytes at the disk's rate, which is that of
`benchmarks.larger`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, device_milliseconds, format_number, run
from benchmarks.gpu.large import weights
from benchmarks.larger import bytes_through, disk_rate, rounds_of
from semiring.out_of_core.strip_layout import bytes_moved, format_bytes, parse_bytes

__all__ = ["main"]

_STEP = 1024
METHOD = "blocked_floyd_warshall"
ROWS = {"array": "an array of the host", "file": "a file in place", "journal": "a file in place, with a journal"}


def by_rows(A: Any, do: Callable[[int, Any], None]) -> None:
    """Do something with some rows of A at a time, and the first of each."""
    for start in range(0, len(A), _STEP):
        do(start, A[start : start + _STEP])


def larger(options: argparse.Namespace) -> Table:
    """Measure the closure by strips beside the closure in memory."""
    import cupy

    n, pool = options.n, cupy.get_default_memory_pool()
    nbytes = 4 * n * n
    first = min(n, 8704)  # from this size on, blocks of pivots have their final width
    small = cupy.random.random((first, first), dtype=np.float32)
    sr.closure(small, method=METHOD)  # compiles
    sr.closure(small.get(), method=METHOD, device="cuda", memory=min(parse_bytes(options.memory), 600 << 20))
    del small
    D = cupy.empty((n, n), np.float32)
    by_rows(D, lambda start, rows: rows.__setitem__(slice(None), weights(n, start)))
    alone = device_milliseconds(lambda: sr.closure(D, out=D, method=METHOD)) / 1e3
    pool.free_all_blocks()
    rate = None
    table: list[list[Any]] = [["in the GPU's memory", format_number(alone, 2), "100 %", "", "", "", ""]]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        for kind in options.rows:
            path = folder / "A.npy"
            A: Any = np.empty((n, n), np.float32)
            if kind != "array":
                A = np.lib.format.open_memmap(path, "w+", np.float32, (n, n))
            by_rows(A, lambda start, rows: rows.__setitem__(slice(None), weights(n, start).get()))
            operand: Any = A
            more: dict[str, Any] = {}
            if kind != "array":
                A.flush()
                os.sync()
                rate = rate or disk_rate(path, n)
                operand, more = path, {"journal": folder / "run"} if kind == "journal" else {}
            before = bytes_through()
            start = time.perf_counter()
            _, why = sr.closure(operand, out=operand, device="cuda", memory=options.memory, explain=True, **more)
            seconds, through = time.perf_counter() - start, bytes_through() - before
            closed = A if kind == "array" else np.load(path, mmap_mode="r")
            differ: list[int] = []

            def compare(start: int, rows: Any, result: Any = closed, differ: list[int] = differ) -> None:
                if not bool((D[start : start + _STEP] == cupy.asarray(rows)).all()):
                    differ.append(start)

            by_rows(closed, compare)
            assert not differ, "the bits differ"
            rounds = rounds_of(why.reasons)
            moved, bound = bytes_moved(n, 4, rounds, journal=kind == "journal"), alone
            if kind != "array":
                bound = max(alone, through / (rate or 1))
                share = f"{format_number(100 * through / (moved + nbytes), 0)} %"
                moved = through
            table.append(
                [
                    ROWS[kind],
                    format_number(seconds, 2),
                    f"{format_number(100 * alone / seconds, 1)} %",
                    rounds,
                    format_number(moved / 2**30, 1),
                    "" if kind == "array" else share,
                    format_number(seconds / bound, 2),
                ]
            )
    columns = ["what", "s", "of the rate in memory", "rounds", "GiB moved", "of the model's", "of the bound"]
    disk = "" if rate is None else f"; the disk: {rate / 1e9:.2f} GB/s"
    memory = format_bytes(parse_bytes(options.memory))
    title = f"A matrix of {format_bytes(nbytes)} in {memory} of the GPU's memory, float32{disk}"
    return Table(title, columns, table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, default=65536)
        parser.add_argument("--memory", default="3GiB")
        parser.add_argument("--folder", default=".", help="where the files are: on the disk that is measured")
        parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=["array"])

    return run("benchmarks.gpu.larger", str(__doc__), {"larger": larger}, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
