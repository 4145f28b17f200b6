"""Closures of whole numbers in narrower integers, on a GPU: python -m benchmarks.gpu.narrow [--sizes 4096 ...]

Checked min-plus closures, by the clock, as `auto` does them and in the dtype that came in (a method asked for by its
name stays there); the results are compared bit for bit. Weights: from 1 to 1000 between all vertices; the same on 60
edges a vertex; floats with one half more, which must cost no more than before; and for elements of 8 bytes up to 2²⁰,
whose distances take int32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import print_table

__all__ = ["graphs", "main", "measured"]


def graphs(n: int, dtype: Any) -> Iterator[tuple[str, Any]]:
    """Matrices (n, n) on the GPU, by name."""
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


def measured(call: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds by the clock, and the result: the median of up to three calls after two that compile and record.

    Of calls longer than a quarter of a second, the second.
    """
    import cupy

    times: list[float] = []
    while len(times) < 5 and (len(times) < 2 or times[-1] < 250):
        start = time.perf_counter()
        result = call()
        cupy.cuda.Device().synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return float(np.median(times[2:] or times[1:])), result


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=(4096, 8192, 16384))
    parser.add_argument("--dtypes", nargs="+", default=("float32", "float64", "int32", "int64"))
    options = parser.parse_args(arguments)
    import cupy

    rows = []
    for dtype in options.dtypes:
        for n in options.sizes:
            for name, A in graphs(n, dtype):
                wide, expected = measured(lambda A=A: sr.closure(A, method="blocked_floyd_warshall"))
                narrow, (result, explanation) = measured(lambda A=A: sr.closure(A, explain=True))
                word = np.dtype(f"u{A.itemsize}")
                assert bool((result.view(word) == expected.view(word)).all()), "other bits"
                inner = next((x.split()[-1] for x in explanation.reasons if "closed in" in x), dtype)
                rows.append([dtype, n, name, inner, wide, narrow, wide / narrow])
                del A, expected, result
                cupy.get_default_memory_pool().free_all_blocks()
    print(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    header = ["dtype", "n", "edges", "closed in", "ms in its own dtype", "ms by auto", "faster by"]
    print_table("Min-plus closures of whole numbers, checked", header, rows)


if __name__ == "__main__":
    main()
