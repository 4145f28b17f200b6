"""Measure products against the limit of the machine and against the peers, side by side in one run.

    python -m benchmarks.gemm [products] [peers] [--size 2048] [--threads 1 2]

A row is one semiring and dtype: pairs per second, and the fraction of what the registers alone allow
(`benchmarks.limits`). The peers multiply the same matrices: tropical-gemm (Rust, one core), python-graphblas (dense
input), NumPy by broadcasting.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_number, ours, random_matrix, run, theirs
from benchmarks.limits import limit
from benchmarks.packages import has

__all__ = ["main"]

ROWS = (
    *(("min_plus", dtype) for dtype in ("float32", "float64", "int32", "int16")),
    *(("max_times", "float32"), ("max_min", "float32"), ("max_min", "uint8"), ("lukasiewicz", "float32")),
    *(("plus_times", "float32"), ("log_plus", "float32"), ("boolean", "bool")),
)

#: The same algebras, defined by a user: the library has no special case for them.
USERS = {
    "max_times": sr.Semiring("mine", lambda x, y: sr.extend.maximum(x, y), lambda x, y: x * y, 0, 1, domain="[0, inf)"),
    "lukasiewicz": sr.Semiring("mine", "max(x, y)", "max(0, x + y - 1)", 0, 1, domain=(0, 1)),
}


def _operands(semiring: str, dtype: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    pair = random_matrix(n, dtype, seed=1), random_matrix(n, dtype, seed=2)
    if semiring in ("lukasiewicz", "max_times"):
        return tuple((matrix / 1000).astype(dtype) for matrix in pair)  # type: ignore[return-value]
    return pair


def _peers(n: int) -> list[tuple[str, Callable[[], Any]]]:
    A, B = _operands("min_plus", "float32", n)
    result: list[tuple[str, Callable[[], Any]]] = []
    if has("tropical_gemm"):
        import tropical_gemm

        result.append(("tropical-gemm", lambda: tropical_gemm.minplus_matmul_2d(A, B)))
    if has("graphblas"):
        import graphblas as gb

        G, H = gb.Matrix.from_dense(A), gb.Matrix.from_dense(B)
        result.append(("python-graphblas", lambda: gb.semiring.min_plus(G @ H).new()))

    def broadcast() -> None:
        C = np.empty_like(A)
        for i in range(n):
            np.min(A[i][:, None] + B, axis=0, out=C[i])

    if n <= 1024:
        result.append(("NumPy, row by row", broadcast))
    return result


def products(options: argparse.Namespace) -> Table:
    """Measure every kind of product beside its limit."""
    n, rows = options.size, []
    for threads in dict.fromkeys(options.threads):
        for name, dtype in ROWS:
            A, B = _operands(name, dtype, n)
            out = np.empty_like(A)
            semiring = USERS.get(name, sr.CATALOGUE[name])
            label = f"{name} (user-defined)" if name in USERS else name
            seconds = ours(
                f"{label}, {dtype}, n = {n}, threads: {threads}",
                lambda: sr.matmul(A, B, semiring, out=out, threads=threads),  # noqa: B023
            )
            rate, most = n**3 / seconds / 1e9, limit(name, dtype, threads) / 1e9
            rows.append(
                [
                    label,
                    dtype,
                    threads,
                    format_number(seconds * 1e3, 1),
                    rate,
                    most,
                    f"{format_number(100 * rate / most, 0)} %",
                ]
            )
    columns = ["semiring", "dtype", "threads", "ms", "G pairs/s", "limit", "of the limit"]
    return Table(f"Products, n = {n}", columns, rows)


def peers(options: argparse.Namespace) -> Table:
    """Measure the products of other libraries on one thread."""
    n = min(options.size, 1024)
    A, B = _operands("min_plus", "float32", n)
    rate = n**3 / ours(f"min_plus, float32, n = {n}", lambda: sr.matmul(A, B, threads=1)) / 1e9
    rows = [["semiring, 1 thread", rate, "1"]]
    for label, call in _peers(n):
        other = n**3 / theirs(call, repeats=3) / 1e9
        rows.append([label, other, f"{format_number(rate / other, 1)}×"])
    return Table(f"Against peers, min_plus float32, n = {n}", ["who", "G pairs/s", "we are faster by"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--size", type=int, default=2048)
        parser.add_argument("--threads", type=int, nargs="+", default=[1, sr.get_threads()])

    tables = {"products": products, "peers": peers}
    return run("benchmarks.gemm", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
