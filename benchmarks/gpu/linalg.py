"""What a call on GPU arrays costs beside its kernel: the look at the operands, entrywise operations, small products.

    python -m benchmarks.gpu.linalg [passes] [calls] [host]

Medians on the current GPU, of all tables or of those that are named. The yardstick of a pass over memory is CuPy's copy
of a matrix in the same run, in bytes read and written; that of plus_times is `cupy.matmul`. ``host``: how long calls
that wait for nothing keep the host, which goes on before the device does, and how long they keep the device.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import device_milliseconds, print_table
from semiring.arrays.entries import check_entries

N = 8192


def seconds(call: Callable[[], Any], repeats: int = 7, burst: int = 1) -> float:
    """Median time of a call on the device and the host, of bursts of them."""
    import cupy

    call()
    cupy.cuda.Device().synchronize()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(burst):
            call()
        cupy.cuda.Device().synchronize()
        times.append((time.perf_counter() - start) / burst)
    return statistics.median(times)


def passes() -> None:
    """Operations bound by memory: GB/s of what they must read and write."""
    import cupy

    rows = []
    for dtype in ("float32", "int16", "float64"):
        A = cupy.random.randint(0, 1000, (N, N)).astype(dtype)
        out = cupy.empty_like(A)
        one = A.nbytes / 1e9
        limit = 2 * one / seconds(lambda A=A, out=out: cupy.copyto(out, A), burst=5)
        for name, call, bytes_moved in (
            ("look", lambda A=A: check_entries(A, sr.min_plus), one),
            ("look at a part", lambda A=A: check_entries(A[:, : N // 2], sr.min_plus), one / 2),
            ("add", lambda A=A: sr.add(A, A.T, check=False), 3 * one),
            ("multiply", lambda A=A: sr.multiply(A, A, check=False), 3 * one),
            ("reduce, all", lambda A=A: sr.reduce(A, check=False), one),
            ("reduce, columns", lambda A=A: sr.reduce(A, axis=0, check=False), one),
            ("reduce, rows", lambda A=A: sr.reduce(A, axis=1, check=False), one),
        ):
            rate = bytes_moved / seconds(call, burst=3)
            rows.append((name, dtype, rate, f"{rate / limit:.0%}"))
    print_table(f"one pass over {N} × {N}", ("operation", "dtype", "GB/s", "of a copy"), rows)


def calls() -> None:
    """Whole calls, in microseconds."""
    import cupy

    rows = []
    for n in (4, 64, 512, 1024, 2048, N):
        A = cupy.random.randint(0, 1000, (n, n)).astype(np.float32)
        out = cupy.empty_like(A)
        repeats, burst = (5, 1) if n == N else (7, 10)
        unchecked = seconds(lambda A=A, out=out: sr.matmul(A, A, out=out, check=False), repeats, burst)
        checked = seconds(lambda A=A, out=out: sr.matmul(A, A, out=out), repeats, burst)
        rows.append((n, unchecked * 1e6, checked * 1e6, f"{checked / unchecked:.2f}", n**3 / checked / 1e12))
    print_table("matmul, min_plus float32", ("n", "check=False, µs", "checked, µs", "ratio", "T pairs/s checked"), rows)
    rows = []
    for dtype in ("float16", "float32", "float64"):
        for n in (256, 4096):
            A = cupy.random.random((n, n)).astype(dtype)
            own = seconds(lambda A=A: sr.matmul(A, A, "plus_times", check=False), burst=5)
            rows.append((dtype, n, own * 1e6, f"{seconds(lambda A=A: cupy.matmul(A, A), burst=5) / own:.2f}"))
    print_table("plus_times", ("dtype", "n", "µs", "times as fast as cupy.matmul"), rows)
    rows = []
    for count, n in ((100_000, 4), (100_000, 16), (10_000, 64)):
        A = cupy.random.randint(0, 1000, (count, n, n)).astype(np.float32)
        for check in (False, True):
            time_taken = seconds(lambda A=A, check=check: sr.matmul(A, A, check=check))
            rows.append((f"{count:,} of {n} × {n}", check, time_taken * 1e3, count * n**3 / time_taken / 1e12))
    print_table("stacks, min_plus float32", ("products", "check", "ms", "T pairs/s"), rows)


def host() -> None:
    """What small calls cost the host, and the device."""
    import cupy

    rows = []
    for n in (64, 256, 512, 1024):
        A = cupy.random.random((n, n)).astype(np.float32)
        whole, out = (A * 100).astype(np.int32), cupy.empty_like(A)
        for name, call in (
            ("closure in place, min_plus", lambda A=A: sr.closure(A, out=A, check=False)),
            ("closure in place, max_min", lambda A=A: sr.closure(A, "max_min", out=A, check=False)),
            ("closure in place, int32", lambda A=whole: sr.closure(A, out=A, check=False)),
            ("closure", lambda A=A: sr.closure(A, check=False)),
            ("matmul", lambda A=A: sr.matmul(A, A, check=False)),
            ("matmul into out", lambda A=A, out=out: sr.matmul(A, A, out=out, check=False)),
        ):
            rows.append((name, n, *enqueueing(call)))
    print_table("small calls with check=False, float32", ("call", "n", "host, µs", "device, µs"), rows)


def enqueueing(call: Callable[[], Any], burst: int = 50) -> tuple[float, float]:
    """(Microseconds of the host, of the device) for a call: medians of bursts, too short to fill the device's queue."""
    import cupy

    def calls() -> None:
        for _ in range(burst):
            call()

    calls()
    on_host = []
    for _ in range(9):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        calls()
        on_host.append((time.perf_counter() - start) / burst)
    ahead = 2e3 * burst * statistics.median(on_host)
    on_device = [device_milliseconds(calls, ahead) / burst for _ in range(5)]
    return 1e6 * statistics.median(on_host), 1e3 * statistics.median(on_device)


if __name__ == "__main__":
    tables = {"passes": passes, "calls": calls, "host": host}
    for title in sys.argv[1:] or tables:
        tables[title]()
