"""Compare the times of public calls on CuPy arrays with those of an earlier library.

    python -m benchmarks.gpu.regression [TABLE ...] --compare REV_OR_FOLDER [--sizes 256 1024 ...]

Products, closures, paths and stacks may take 1.02 times as long as with the earlier library. Events of the device give
the time, with the calls enqueued in advance. Calls that wait for the device are timed by the clock of the host.
``host``: how long asynchronous calls occupy the host. A closure should occupy it for at most 60 µs, whatever the
earlier library took. The exit status is 1 where a call takes longer beyond doubt. See `benchmarks.regression` and
`benchmarks.compare`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import by_device, by_enqueueing, by_synchronized_clock, run
from benchmarks.regression import Call, max_ratio_for, tables_of

__all__ = ["main"]

KINDS = (
    *((name, dtype) for name in ("min_plus", "max_plus", "max_min") for dtype in ("float32", "int32")),
    *(("min_plus", "float64"), ("min_plus", "float16"), ("min_plus", "int16"), ("min_plus", "int64")),
    *(("plus_times", "float32"), ("boolean", "bool")),
)
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
STACKS = ((1000, 32), (1000, 100), (100, 256), (20, 512))
LARGE = 8192  # from this size on only elements of at most 4 bytes are closed, because wider ones take seconds


def operand(semiring: str, dtype: str, *shape: int) -> Any:
    """Return random entries (..., n, n) on the device, of which the semiring has a closure."""
    import cupy

    random, n = cupy.random.RandomState(shape[-1]), shape[-1]
    if dtype == "bool":
        return random.random_sample(shape, dtype=np.float32) < 2 / n
    if semiring == "plus_times":
        return random.random_sample(shape, dtype=np.float32) / np.float32(n)
    weights = random.randint(1, 1001, shape, dtype=np.int32)
    return (-weights if semiring == "max_plus" else weights).astype(dtype)


def _of_sizes(sizes: Sequence[int]) -> Iterator[tuple[str, int, str, Any]]:
    for n in sizes:
        for name, dtype in KINDS:
            if n <= LARGE or np.dtype(dtype).itemsize <= 4:
                yield f"{name}, {dtype}, n = {n}", n, name, operand(name, dtype, n, n)


def products(options: argparse.Namespace) -> Iterator[Call]:
    for said, n, name, A in _of_sizes(options.sizes):
        C = A.copy()
        call = lambda A=A, C=C, name=name: sr.matmul(A, A, name, out=C, check=False)  # noqa: E731
        yield f"matmul, {said}", max_ratio_for(n), call


def closures(options: argparse.Namespace) -> Iterator[Call]:
    """Yield closures in place of one matrix, whose closure is itself except for plus_times."""
    for said, n, name, A in _of_sizes(options.sizes):
        if name != "plus_times":
            yield f"closure, {said}", max_ratio_for(n), lambda A=A, name=name: sr.closure(A, name, out=A, check=False)


def stacks(options: argparse.Namespace) -> Iterator[Call]:
    for count, n in options.stack or STACKS:
        for name, dtype in KINDS[:3]:
            A = operand(name, dtype, count, n, n)
            call = lambda A=A, name=name: sr.closure(A, name, out=A, check=False)  # noqa: E731
            yield f"closure, {name}, {dtype}, {count:,} of n = {n}", 1.02, call


def checked(options: argparse.Namespace) -> Iterator[Call]:
    """Yield calls that scan their entries and may choose another dtype for them."""
    for said, n, name, A in _of_sizes(options.sizes):
        if name != "plus_times":
            D = A.copy()
            yield f"closure, checked, {said}", max_ratio_for(n), lambda A=A, D=D, name=name: sr.closure(A, name, out=D)


def paths(options: argparse.Namespace) -> Iterator[Call]:
    for n in options.sizes:
        if n <= LARGE:
            for said, A in (
                ("whole numbers", operand("min_plus", "float32", n, n)),
                ("halves", operand("min_plus", "float32", n, n) + np.float32(0.5)),
            ):
                yield f"shortest_paths, float32, {said}, n = {n}", max_ratio_for(n), lambda A=A: sr.shortest_paths(A)


def host(options: argparse.Namespace) -> Iterator[Call]:
    for n in options.small:
        for name, dtype in (("min_plus", "float32"), ("min_plus", "int32"), ("max_min", "float32")):
            A = operand(name, dtype, n, n)
            C, said = A.copy(), f"{name}, {dtype}, n = {n}"
            closed = lambda A=A, name=name: sr.closure(A, name, out=A, check=False)  # noqa: E731
            multiplied = lambda A=A, C=C, name=name: sr.matmul(A, A, name, out=C, check=False)  # noqa: E731
            yield f"closure in place, {said}", 1.0, closed
            yield f"closure, {said}", 1.0, lambda A=A, name=name: sr.closure(A, name, check=False)
            yield f"matmul, {said}", 1.25, multiplied


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or compare."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
        parser.add_argument("--small", type=int, nargs="+", default=[64, 256, 512, 1024], help="of `host`")
        parser.add_argument("--stack", type=int, nargs=2, action="append", metavar=("COUNT", "N"), help="of `stacks`")
        parser.add_argument("--calls", default="", metavar="TEXT", help="those whose name has it")

    tables = (
        tables_of([products, closures, stacks], by_device)
        | tables_of([checked, paths], by_synchronized_clock)
        | tables_of([host], by_enqueueing)
    )
    return run("benchmarks.gpu.regression", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
