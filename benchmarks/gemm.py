"""Products against the limit of the machine and against the peers, side by side in one run.

    python -m benchmarks.gemm [--size 2048] [--threads 1 2]

A row is one semiring and dtype: pairs per second, and the fraction of what the registers alone allow
(`benchmarks.limits`). The peers multiply the same matrices: tropical-gemm (Rust, one core), python-graphblas (dense
input), NumPy by broadcasting.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import environment, median_seconds, print_table, random_matrix
from benchmarks.limits import limit

__all__ = ["main"]

ROWS = (
    *(("min_plus", dtype) for dtype in ("float32", "float64", "int32", "int16")),
    *(("max_times", "float32"), ("max_min", "float32"), ("max_min", "uint8"), ("lukasiewicz", "float32")),
    *(("plus_times", "float32"), ("log_plus", "float32"), ("boolean", "bool")),
)

#: The same algebra, written by a user: no case of the library knows it.
USERS = {
    "max_times": sr.Semiring("mine", lambda x, y: sr.maximum(x, y), lambda x, y: x * y, 0, 1, domain="[0, inf)"),
    "lukasiewicz": sr.Semiring("mine", "max(x, y)", "max(0, x + y - 1)", 0, 1, domain=(0, 1)),
}


def _operands(semiring: str, dtype: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    pair = random_matrix(n, dtype, seed=1), random_matrix(n, dtype, seed=2)
    if semiring in ("lukasiewicz", "max_times"):
        return tuple((matrix / 1000).astype(dtype) for matrix in pair)  # type: ignore[return-value]
    return pair


def _peers(n: int) -> list[tuple[str, str, Callable[[], Any]]]:
    A, B = _operands("min_plus", "float32", n)
    found: list[tuple[str, str, Callable[[], Any]]] = []
    try:
        import tropical_gemm

        found.append(("tropical-gemm", "float32", lambda: tropical_gemm.minplus_matmul_2d(A, B)))
    except ImportError:
        print("tropical-gemm is not installed (pip install 'semiring[bench]')")
    try:
        import graphblas as gb

        G, H = gb.Matrix.from_dense(A), gb.Matrix.from_dense(B)
        found.append(("python-graphblas", "float32", lambda: gb.semiring.min_plus(G @ H).new()))
    except ImportError:
        print("python-graphblas is not installed (pip install 'semiring[bench]')")

    def broadcast() -> None:
        C = np.empty_like(A)
        for i in range(n):
            np.min(A[i][:, None] + B, axis=0, out=C[i])

    if n <= 1024:
        found.append(("NumPy, row by row", "float32", broadcast))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, sr.get_threads()])
    options = parser.parse_args(arguments)
    n = options.size
    print(environment())
    rows: list[list[Any]] = []
    for threads in dict.fromkeys(options.threads):
        for name, dtype in ROWS:
            A, B = _operands(name, dtype, n)
            out = np.empty_like(A)
            semiring = USERS.get(name, sr.CATALOGUE[name])
            seconds = median_seconds(lambda: sr.matmul(A, B, semiring, out=out, threads=threads))  # noqa: B023
            rate, most = n**3 / seconds / 1e9, limit(name, dtype, threads) / 1e9
            label = f"{name} (user-defined)" if name in USERS else name
            rows.append([label, dtype, threads, f"{seconds * 1e3:.1f}", rate, most, f"{100 * rate / most:.0f} %"])
    print_table(
        f"Products, n = {n}", ["semiring", "dtype", "threads", "ms", "G pairs/s", "limit", "of the limit"], rows
    )
    size = min(n, 1024)
    peers = _peers(size)
    A, B = _operands("min_plus", "float32", size)
    ours = size**3 / median_seconds(lambda: sr.matmul(A, B, threads=1)) / 1e9
    rows = [["semiring, 1 thread", ours, "1"]]
    for label, _, call in peers:
        rate = size**3 / median_seconds(call, repeats=3) / 1e9
        rows.append([label, rate, f"{ours / rate:.1f}×"])
    print_table(f"Against peers, min_plus float32, n = {size}", ["who", "G pairs/s", "we are faster by"], rows)


if __name__ == "__main__":
    main()
