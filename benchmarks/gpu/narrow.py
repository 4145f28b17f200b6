"""Measure closures of whole numbers in narrower integers on a GPU.

    python -m benchmarks.gpu.narrow [--sizes 8192 ...]

Checked min-plus closures are timed by the clock, by `auto` and in the dtype of the operand. A method requested by its
name keeps that dtype. The results are compared bit for bit. One matrix has weights from 1 to 1000 between all vertices,
another has them on 60 edges a vertex. Floats with one half more must cost no more than before. Elements of 8 bytes have
weights up to 2²⁰, whose distances take int32.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_synchronized_clock, format_number, ours, run

__all__ = ["graphs", "main"]


def graphs(n: int, dtype: Any) -> Iterator[tuple[str, Any]]:
    """Return matrices (n, n) on the GPU, by name."""
    import cupy

    random = cupy.random.RandomState(n)

    def weights(high: int) -> Any:
        return random.randint(1, high + 1, (n, n), dtype=np.int32).astype(dtype)

    none = sr.min_plus.zero_for(np.dtype(dtype))
    yield "all, 1 to 1000", weights(1000)
    yield "60 a vertex, 1 to 1000", cupy.where(random.random_sample((n, n)) < 60 / n, weights(1000), none).astype(dtype)
    if np.dtype(dtype).kind == "f":
        yield "all, halves", weights(1000) + np.dtype(dtype).type(0.5)
    if np.dtype(dtype).itemsize == 8:
        yield "60 a vertex, to 2²⁰", cupy.where(random.random_sample((n, n)) < 60 / n, weights(1 << 20), none)


def closures(options: argparse.Namespace) -> Table:
    """Measure closures in both dtypes, whose results must be the same."""
    import cupy

    rows = []
    for dtype in options.dtypes:
        for n in options.sizes:
            for name, A in graphs(n, dtype):
                wide, narrow = (
                    ours(
                        f"closure, {method}, {dtype}, {name}, n = {n}",
                        lambda method=method, A=A: sr.closure(A, method=method),  # type: ignore[misc]
                        clock=by_synchronized_clock,
                        seconds=0.5,
                    )
                    for method in ("blocked_floyd_warshall", "auto")
                )
                expected = sr.closure(A, method="blocked_floyd_warshall")
                result, explanation = sr.closure(A, explain=True)
                word = np.dtype(f"u{A.itemsize}")
                assert bool((result.view(word) == expected.view(word)).all()), "other bits"
                inner = next((x.split()[-1] for x in explanation.encodings if x.startswith("in int")), dtype)
                rows.append([dtype, n, name, inner, wide * 1e3, narrow * 1e3, f"{format_number(wide / narrow, 1)}×"])
                del A, expected, result
                cupy.get_default_memory_pool().free_all_blocks()
    columns = ["dtype", "n", "edges", "closed in", "ms in its own dtype", "ms", "faster by"]
    return Table("Min-plus closures of whole numbers, checked", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=(8192, 16384))
        parser.add_argument("--dtypes", nargs="+", default=("float32", "float64", "int64"))

    return run("benchmarks.gpu.narrow", str(__doc__), {"closures": closures}, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
