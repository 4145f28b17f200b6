"""Measure closures of matrices in files, beside the closure in memory, the rate of the disk and the modelled bytes.

    python -m benchmarks.larger [--n 8192] [--memory 64MiB] [--folder .] [--threads 2] [--rows new place journal]

float32, min-plus. Every result is compared with that of the closure in memory, bit by bit. Linux counts the bytes of
the process. The model is `semiring.out_of_core.strip_layout.bytes_moved`, plus one reading to scan the entries. The
bound is the longer of the time in memory and of the bytes at the disk's rate. One thread measures that rate: it
reads and writes the file by pieces of 16 MiB, past the page cache where the file system allows it.

``--stop`` stops each run after so many seconds and extrapolates its time from the computed pairs. No bits are compared
then.

The table ``killed`` has half as many vertices. A process is killed at a quarter, a half and three quarters of the work,
and the next process continues by the same call.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_number, random_matrix, run
from semiring.algorithms.schedule import schedule_for
from semiring.out_of_core.disk import File, FileRows, Memory, System
from semiring.out_of_core.strip_layout import bytes_moved, format_bytes, parse_bytes

__all__ = ["bytes_through", "disk_rate", "main", "rounds_of"]

METHOD = "blocked_floyd_warshall"
ROWS = {"new": "to another file", "place": "in place", "journal": "in place, with a journal"}


def bytes_through() -> int:
    """Return the bytes that this process has read and written by system calls, or 0 if Linux's counters are missing."""
    path = Path("/proc/self/io")
    if not path.exists():
        return 0
    told = dict(line.split(": ") for line in path.read_text().splitlines())
    return int(told["rchar"]) + int(told["wchar"])


def disk_rate(path: Path, n: int) -> float:
    """Return bytes a second of reading and writing all rows of a file."""
    row = 4 * n
    rows = max(1, (16 << 20) // row)
    file = File(System(), str(path), os.O_RDWR)
    place, memory = FileRows(file, 128, row, n), Memory(rows, n, np.dtype(np.float32))
    start = time.perf_counter()
    for first in range(0, n, rows):
        strip = memory.rows_at(place.page_offset(first), min(rows, n - first))
        place.read(first, strip)
        place.write(first, strip)
    file.sync()
    seconds = time.perf_counter() - start
    file.close()
    return 2 * n * row / seconds


class _Watch:
    """The progress of a run, which stops after ``stop`` seconds unless that is None."""

    def __init__(self, stop: float | None) -> None:
        self._stop, self._start = stop, time.perf_counter()
        self._reports: list[tuple[float, float]] = []

    def __call__(self, computed_pairs: int, total: int) -> None:
        self._reports.append((time.perf_counter() - self._start, computed_pairs / total))
        if self._stop is not None and self._reports[-1][0] - self._reports[0][0] > self._stop:
            raise KeyboardInterrupt

    def seconds(self, run: Any) -> tuple[float, float, Any]:
        """Return the seconds of a whole run, the share of them that it ran, and its result.

        The seconds of a stopped run are extrapolated by its progress, and its result is None.
        """
        self._start = time.perf_counter()
        try:
            result = run(progress=self)
        except KeyboardInterrupt:
            (first, before), (last, after) = self._reports[0], self._reports[-1]
            whole = last + (1 - after) * (last - first) / (after - before)
            return whole, last / whole, None
        return time.perf_counter() - self._start, 1.0, result


def strips(options: argparse.Namespace) -> Table:
    """Measure the closure of a file by strips."""
    n, threads = options.n, options.threads
    A = random_matrix(n, np.float32, seed=n)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source, out, journal = (Path(folder) / name for name in ("A.npy", "D.npy", "run"))
        np.save(source, A)
        sr.closure(A[:1024, :1024], method=METHOD, threads=threads)  # compiles
        alone, _, _ = _Watch(options.stop).seconds(partial(sr.closure, A, out=A, method=METHOD, threads=threads))
        rate = disk_rate(source, n)
        print(f"in memory {alone:.1f} s, the disk {rate / 1e9:.2f} GB/s", file=sys.stderr)
        table: list[list[Any]] = [["in memory", format_number(alone, 1), "100 %", "", "", "", "", ""]]
        for kind in options.rows:
            if kind != "new":
                np.save(source, random_matrix(n, np.float32, seed=n))
            os.sync()
            target = out if kind == "new" else source
            more = {"journal": journal} if kind == "journal" else {}
            closure: Any = sr.closure
            do = partial(closure, source, out=target, memory=options.memory, threads=threads, explain=True, **more)
            before = bytes_through()
            seconds, ran, ended = _Watch(options.stop).seconds(do)
            rounds: Any = ""
            share, moved = "", (bytes_through() - before) / ran
            if ended is not None:
                found, why = ended
                assert np.array_equal(found, A), "the bits differ"
                rounds = rounds_of(why.reasons)
                share = (
                    f"{format_number(100 * moved / (bytes_moved(n, 4, rounds, kind == 'journal') + 4 * n * n), 0)} %"
                )
            bound = max(alone, moved / rate)
            table.append(
                [
                    ROWS[kind],
                    format_number(seconds, 1),
                    f"{format_number(100 * alone / seconds, 1)} %",
                    rounds,
                    format_number(moved / 2**30, 2),
                    share,
                    format_number(moved / seconds / 1e9, 2),
                    format_number(seconds / bound, 2),
                ]
            )
            print(f"{ROWS[kind]}: {seconds:.1f} s, in memory {alone:.1f} s, {rate / 1e9:.2f} GB/s", file=sys.stderr)
            out.unlink(missing_ok=True)
    columns = ["how", "s", "of the rate in memory", "rounds", "GiB moved", "of the model's", "GB/s", "of the bound"]
    title = (
        f"A file of {format_bytes(4 * n * n)} in {format_bytes(parse_bytes(options.memory))} of memory, float32, "
        f"n = {n}, blocks of "
        f"{schedule_for('cpu', np.dtype(np.float32)).blocks(n)[0][1]}; the disk: {rate / 1e9:.2f} GB/s"
    )
    return Table(title, columns, table)


_CHILD = """
import sys, semiring as sr
path, memory, journal, threads = sys.argv[1:]
tell = lambda done, total: print(done / total, flush=True)
sr.closure(path, out=path, memory=memory, journal=journal, threads=int(threads), progress=tell)
"""
_KILLS = (0.25, 0.5, 0.75)  # the fractions of the work at which the process is killed


def killed(options: argparse.Namespace) -> Table:
    """Compare a run whose process is killed and restarted with an undisturbed run."""
    n, threads = options.n // 2, options.threads
    expected = random_matrix(n, np.float32, seed=n)
    sr.closure(expected, out=expected, method=METHOD, threads=threads)
    table: list[list[Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, kills in (("left alone", ()), ("killed", _KILLS)):
            path, journal = Path(folder) / f"{name}.npy", Path(folder) / f"{name}.run"
            np.save(path, random_matrix(n, np.float32, seed=n))
            os.sync()
            command = [sys.executable, "-c", _CHILD, str(path), options.memory, str(journal), str(threads)]
            start = told = time.perf_counter()
            for number, stop in enumerate((*kills, 2.0), 1):
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                    assert process.stdout is not None
                    for line in process.stdout:
                        share, now = float(line), time.perf_counter()
                        if now - told > 0.1 or share in (1.0,) or share >= stop:
                            told = now
                            table.append([name, number, format_number(now - start, 2), format_number(100 * share, 1)])
                        if share >= stop:
                            process.kill()
                            break
            assert np.array_equal(np.load(path), expected), "the bits differ"
    title = (
        f"A file of {format_bytes(4 * n * n)} in {options.memory}, with a journal: a run that is killed, and the next "
        "goes on"
    )
    return Table(title, ["run", "process", "s", "% done"], table)


def rounds_of(reasons: Sequence[str]) -> int:
    """Return the number of rounds that the explanation reports."""
    (found,) = (told for reason in reasons if (told := re.search(r" in (\d+) rounds?\b", reason)))
    return int(found[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, default=8192)
        parser.add_argument("--memory", default="64MiB")
        parser.add_argument("--folder", default=".", help="where the files are: on the disk that is measured")
        parser.add_argument("--threads", type=int, default=sr.get_threads())
        parser.add_argument("--stop", type=float, metavar="S", help="seconds after which each run is stopped")
        parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))

    return run("benchmarks.larger", str(__doc__), {"strips": strips, "killed": killed}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
