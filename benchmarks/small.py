"""Small graphs: never slower than SciPy, from two vertices up; and what starting costs.

python -m benchmarks.small
"""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np

import semiring as sr
from benchmarks.closure import graph
from benchmarks.common import environment, median_seconds, print_table

__all__ = ["main"]

_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def _versus_scipy() -> None:
    from scipy.sparse.csgraph import floyd_warshall

    for title, ours, options in (
        ("closure, float64, against scipy floyd_warshall", sr.closure, {}),
        (
            "shortest_paths, float64, against the same with predecessors",
            sr.shortest_paths,
            {"return_predecessors": True},
        ),
    ):
        rows = []
        for n in _SIZES:
            A = graph(n, np.float64)
            rounds = max(1, 20_000 // n**2)

            def repeat(call, rounds=rounds):  # type: ignore[no-untyped-def]
                for _ in range(rounds):
                    call()

            mine = median_seconds(lambda: repeat(lambda: ours(A)), seconds=0.3) / rounds  # noqa: B023
            theirs = median_seconds(lambda: repeat(lambda: floyd_warshall(A, **options)), seconds=0.3) / rounds  # noqa: B023
            rows.append([n, f"{mine * 1e6:.1f}", f"{theirs * 1e6:.1f}", f"{theirs / mine:.1f}×"])
        print_table(title, ["n", "ours, µs", "SciPy, µs", "faster by"], rows)


def _fresh(code: str, attempts: int = 5) -> float:
    """The median of what ``code`` prints in fresh interpreters."""
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(attempts)
    ]
    return float(np.median([float(run.stdout) for run in runs]))


def _start() -> None:
    clock = "import time; import {}; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    product = "import semiring as sr; A = numpy.ones((64, 64), numpy.float32); sr.matmul(A, A)"
    rows = [
        ["import semiring, beyond NumPy", f"{1e3 * _fresh(clock.format('numpy', 'import semiring')):.0f}"],
        ["import and first product, beyond Numba", f"{1e3 * _fresh(clock.format('numpy, numba', product)):.0f}"],
    ]
    print_table("Starting, kernels in the cache", ["what", "ms"], rows)


def _memory() -> None:
    lengths = "rng.random(({n}, {n}), dtype=np.float32)"
    # Lengths and differences of heights, row by row, so that the operand itself costs no more than it is.
    mixed = f"{lengths}; h = rng.random({{n}}, dtype=np.float32)\nfor i in range({{n}}): A[i] += h[i] - h"
    bits = "np.empty(({n}, {n}), bool)\nfor i in range({n}): A[i] = rng.random({n}) < 2 / {n}"
    rows = []
    for what, n, size, operand, options in (
        ("float32", 8192, 4, lengths, ""),
        ("float32, weights of both signs", 8192, 4, mixed, ""),
        ("float32, A⁺", 8192, 4, lengths, "reflexive=False"),
        ("bool", 16384, 1, bits, "semiring='boolean'"),
        ("bool, A⁺", 16384, 1, bits, "semiring='boolean', reflexive=False"),
    ):
        code = (
            "import numpy as np, resource, semiring as sr\n"
            "rng = np.random.default_rng(0)\n"
            f"A = {operand.format(n=600)}\nsr.closure(A, out=A, {options})\n"  # what is compiled stays
            f"A = {operand.format(n=n)}\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            f"sr.closure(A, out=A, {options})\n"
            "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)"
        )
        extra, matrix = _fresh(code, 1), size * n * n
        rows.append([what, n, f"{matrix / 2**20:.0f}", f"{extra / 2**20:.0f}", f"{1 + extra / matrix:.3f}×"])
    print_table("Peak memory of closure(A, out=A)", ["what", "n", "matrix, MiB", "beyond it, MiB", "peak"], rows)


def main() -> None:
    """Print the tables."""
    print(environment(), f"(this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB)")
    _versus_scipy()
    _start()
    _memory()


if __name__ == "__main__":
    main()
