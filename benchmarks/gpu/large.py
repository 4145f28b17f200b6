"""Measure a closure in place that fills a GPU, checked row by row.

    python -m benchmarks.gpu.large [--n 131072] [--rows 64]

Min-plus in float32, whole-numbered weights from 1 to 2²⁰, so that every sum of a short path is exact. The matrix is
made on the GPU, 1024 rows at a time, each piece from its own seed. So each piece can be made again after the matrix was
closed in its own memory. Rows of the result are then compared, bit for bit, with Bellman-Ford runs from those vertices
alone, which share no kernel with the closure. 131072 vertices take 64 GiB and some 145 s, the check 30 s more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, device_milliseconds, format_number, run
from benchmarks.gpu.rates import product_rate
from semiring.kernels.cuda.entries.entry_passes import relax

__all__ = ["main"]

_STEP = 1024


def weights(n: int, start: int) -> Any:
    """Return the rows of the matrix from ``start`` on, at most `_STEP`, the same every time."""
    import cupy

    rows = cupy.random.RandomState(start).randint(1, 1 << 20, (min(_STEP, n - start), n), dtype=np.int32)
    return rows.astype(np.float32)


def single_source(n: int, sources: Sequence[int]) -> list[Any]:
    """Return the distances from each source, (n,) float64, by sweeps over the matrix, which is made anew."""
    import cupy

    distances = [cupy.full(n, np.inf) for _ in sources]
    for row, source in zip(distances, sources, strict=True):
        row[source] = 0
    settled = False
    while not settled:
        before = [row.copy() for row in distances]
        for start in range(0, n, _STEP):
            piece = weights(n, start)
            for i, row in enumerate(distances):
                distances[i] = cupy.minimum(row, relax(piece, row[start : start + _STEP], 1, 0.0))
        settled = all(bool((x == y).all()) for x, y in zip(before, distances, strict=True))
    return distances


def closure(options: argparse.Namespace) -> Table:
    """Measure time and extra memory of a closure, and check its rows."""
    import cupy

    n, rate = options.n, product_rate("min_plus", "float32")
    sr.closure(cupy.random.random((4608, 4608), dtype=np.float32), check=False)  # compiles
    cupy.get_default_memory_pool().free_all_blocks()
    A = cupy.empty((n, n), np.float32)
    for start in range(0, n, _STEP):
        A[start : start + _STEP] = weights(n, start)
    # the pool keeps freed blocks, so later requests are those of the closure
    cupy.get_default_memory_pool().free_all_blocks()
    time = device_milliseconds(lambda: sr.closure(A, out=A, check=False))
    beyond = cupy.get_default_memory_pool().total_bytes() - A.nbytes
    sources = np.random.default_rng(n).choice(n, min(n, options.rows), replace=False).tolist()
    rows = single_source(n, sources)
    equal = sum(bool((A[i] == row.astype(np.float32)).all()) for i, row in zip(sources, rows, strict=True))
    columns = [
        *("n", "s", "T pairs/s", "of the product"),
        *("GiB beside the matrix", "rows equal to single-source runs"),
    ]
    speed = n**3 / time * 1e3
    row = [
        n,
        format_number(time / 1e3, 2),
        speed / 1e12,
        f"{format_number(100 * speed / rate, 1)} %",
        beyond / 2**30,
        f"{equal} of {len(sources)}",
    ]
    return Table("In place, min-plus float32; the product of 8192 × 8192 matrices", columns, [row])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, default=131072)
        parser.add_argument("--rows", type=int, default=64)

    return run("benchmarks.gpu.large", str(__doc__), {"closure": closure}, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
