"""Measure calls on GPU arrays beside their kernels: scans of operands, entrywise operations and small products.

    python -m benchmarks.gpu.linalg [passes] [products] [plus_times] [stacks] [host]

Medians on the current GPU. The yardstick of a pass over memory is CuPy's copy of a matrix in the same run, in bytes
read and written. That of plus_times is `cupy.matmul`. ``host``: how long calls that wait for nothing keep the host,
which goes on before the device does, and how long they keep the device.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import (
    Table,
    by_enqueueing,
    by_synchronized_clock,
    device_milliseconds,
    format_number,
    ours,
    run,
    theirs,
)
from semiring.arrays.entries import check_entries


def seconds(call: Callable[[], Any], label: str | None = None, burst: int = 1) -> float:
    """Return the seconds of a call on the device and the host, from bursts. ``label`` is set for this library."""

    def calls() -> None:
        for _ in range(burst):
            call()

    if label is None:
        return theirs(calls, clock=by_synchronized_clock, repeats=7) / burst
    return ours(label, calls, clock=by_synchronized_clock, repeats=7) / burst


def passes(options: argparse.Namespace) -> Table:
    """Measure operations bound by memory, in GB/s of the bytes that they must read and write."""
    import cupy

    n, rows = options.size, []
    for dtype in ("float32", "int16", "float64"):
        A = cupy.random.randint(0, 1000, (n, n)).astype(dtype)
        out = cupy.empty_like(A)
        one = A.nbytes / 1e9
        limit = 2 * one / seconds(lambda A=A, out=out: cupy.copyto(out, A), burst=5)
        for name, call, bytes_moved in (
            ("look", lambda A=A: check_entries(A, sr.min_plus), one),
            ("look at a part", lambda A=A: check_entries(A[:, : n // 2], sr.min_plus), one / 2),
            ("add", lambda A=A: sr.add(A, A.T, check=False), 3 * one),
            ("multiply", lambda A=A: sr.multiply(A, A, check=False), 3 * one),
            ("reduce, all", lambda A=A: sr.reduce(A, check=False), one),
            ("reduce, columns", lambda A=A: sr.reduce(A, axis=0, check=False), one),
            ("reduce, rows", lambda A=A: sr.reduce(A, axis=1, check=False), one),
        ):
            rate = bytes_moved / seconds(call, f"{name}, {dtype}", 3)
            rows.append((name, dtype, rate, f"{format_number(100 * rate / limit, 0)} %"))
    return Table(f"One pass over {n} × {n}", ("operation", "dtype", "GB/s", "of a copy"), rows)


def products(options: argparse.Namespace) -> Table:
    """Measure whole calls in microseconds."""
    import cupy

    rows = []
    for n in (*options.small, options.size):
        A = cupy.random.randint(0, 1000, (n, n)).astype(np.float32)
        out, burst = cupy.empty_like(A), 1 if n == options.size else 10
        unchecked, checked = (
            seconds(
                lambda check=check, A=A, out=out: sr.matmul(A, A, out=out, check=check),  # type: ignore[misc]
                f"matmul, n = {n}{', checked' * check}",
                burst,
            )
            for check in (False, True)
        )
        rows.append((n, unchecked * 1e6, checked * 1e6, format_number(checked / unchecked, 2), n**3 / checked / 1e12))
    columns = ("n", "check=False, µs", "checked, µs", "ratio", "T pairs/s checked")
    return Table("matmul, min_plus float32", columns, rows)


def plus_times(options: argparse.Namespace) -> Table:
    """Compare plus_times with CuPy's product, which calls cuBLAS."""
    import cupy

    rows = []
    for dtype in ("float16", "float32", "float64"):
        for n in (min(256, options.size // 2), options.size // 2):
            A = cupy.random.random((n, n)).astype(dtype)
            label = f"matmul, plus_times, {dtype}, n = {n}"
            own = seconds(lambda A=A: sr.matmul(A, A, "plus_times", check=False), label, 5)  # type: ignore[misc]
            other = seconds(lambda A=A: cupy.matmul(A, A), burst=5)  # type: ignore[misc]
            rows.append((dtype, n, own * 1e6, format_number(other / own, 2)))
    return Table("plus_times", ("dtype", "n", "µs", "times as fast as cupy.matmul"), rows)


def stacks(options: argparse.Namespace) -> Table:
    """Measure many products in one call."""
    import cupy

    rows = []
    for count, n in ((options.stacked, 4), (options.stacked, 16), (options.stacked // 10, 64)):
        A = cupy.random.randint(0, 1000, (count, n, n)).astype(np.float32)
        for check in (False, True):
            label = f"{count:,} of {n} × {n}"
            said = f"matmul, {label}{', checked' * check}"
            taken = seconds(lambda A=A, check=check: sr.matmul(A, A, check=check), said)  # type: ignore[misc]
            rows.append((label, check, taken * 1e3, count * n**3 / taken / 1e12))
    return Table("Stacks, min_plus float32", ("products", "check", "ms", "T pairs/s"), rows)


def host(_: argparse.Namespace) -> Table:
    """Measure small calls on the host and on the device, in place or with ``out``, check=False."""
    import cupy

    rows = []
    for name, n in ((name, n) for name in ("min_plus", "max_min", "int32", "matmul") for n in (64, 256, 1024)):
        A = cupy.random.random((n, n)).astype(np.float32)
        out = cupy.empty_like(A)
        if name == "int32":
            A = (A * 100).astype(np.int32)
        if name == "matmul":
            label, call = name, lambda A=A, out=out: sr.matmul(A, A, out=out, check=False)
        else:
            semiring = "min_plus" if name == "int32" else name
            label = f"closure, {semiring}{', int32' * (name == 'int32')}"
            call = lambda A=A, semiring=semiring: sr.closure(A, semiring, out=A, check=False)  # noqa: E731
        rows.append((label, n, *enqueueing(f"{label}, n = {n}", call)))
    return Table("Small calls, float32", ("call", "n", "host, µs", "device, µs"), rows)


def enqueueing(label: str, call: Callable[[], Any], burst: int = 50) -> tuple[float, float]:
    """Return the microseconds of a call on the host and on the device, medians of short bursts."""

    def calls() -> None:
        for _ in range(burst):
            call()

    on_host = ours(label, calls, clock=by_enqueueing, repeats=9) / burst
    ahead = 2e3 * burst * on_host
    on_device = theirs(calls, clock=lambda calls: device_milliseconds(calls, ahead) / 1e3) / burst
    return 1e6 * on_host, 1e6 * on_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--size", type=int, default=8192, help="rows of the largest matrices (8192)")
        parser.add_argument("--small", type=int, nargs="*", default=[4, 64, 512, 1024, 2048], help="of `products`")
        parser.add_argument("--stacked", type=int, default=100_000, help="the most products in one call (100,000)")

    tables = {"passes": passes, "products": products, "plus_times": plus_times, "stacks": stacks, "host": host}
    return run("benchmarks.gpu.linalg", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
