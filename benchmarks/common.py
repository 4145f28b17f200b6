"""What every benchmark shares: honest timing, the environment, and a table."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

__all__ = ["device_milliseconds", "environment", "median_seconds", "print_table", "random_matrix"]


def environment() -> str:
    """One line: processor, cores, versions. Absolute times mean nothing without it."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            cpu = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    import numba

    return (
        f"{cpu}, {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores, "
        f"Python {sys.version.split()[0]}, NumPy {np.__version__}, Numba {numba.__version__}"
    )


def median_seconds(
    call: Callable[[], Any], *, setup: Callable[[], Any] | None = None, repeats: int = 5, seconds: float = 2.0
) -> float:
    """The median time of ``call()``, repeated at least 3 and at most ``repeats`` times in about ``seconds``.

    Warmed up for 0.3 s first: compilation, page faults, clocks, and virtual machines that leave two threads on one core
    for the first tenths of a second. ``setup`` runs before each repetition, outside the clock.
    """
    times: list[float] = []
    warm = time.perf_counter() + 0.3
    while len(times) < 3 or (len(times) < repeats and sum(times) < seconds):
        if setup is not None:
            setup()
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        if start >= warm or end - start > 1.0:
            times.append(end - start)
    return statistics.median(times)


def device_milliseconds(call: Callable[[], Any], ahead: float = 0.0) -> float:
    """How long the current GPU is busy with what the call enqueues, by events of its own.

    ``ahead``: milliseconds that the device waits before, so that the host has enqueued much or all when it begins.
    """
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    if ahead:
        _waiting()((1,), (1,), (np.int64(ahead * 2e6),))  # cycles, of at most 2 GHz
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop))


@cache
def _waiting() -> Any:
    import cupy

    code = """extern "C" __global__ void wait(long long cycles) {
        for (long long start = clock64(); clock64() - start < cycles;) {}
    }"""
    return cupy.RawKernel(code, "wait")


def random_matrix(n: int, dtype: Any, *, seed: int = 0, high: int = 1000) -> np.ndarray:
    """Dense weights, whole numbers from 1 to ``high``: random data, because zeros run faster than anything real."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random((n, n)) < 0.5
    most = min(high, 255) if np.dtype(dtype) == np.uint8 else high
    return rng.integers(1, most, (n, n)).astype(dtype)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A Markdown table, so that what a run prints can be pasted into the documentation."""
    cells = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [
        max(len(str(column)), *(len(row[i]) for row in cells)) if cells else len(str(column))
        for i, column in enumerate(header)
    ]
    print(f"\n{title}\n")
    print("| " + " | ".join(str(column).ljust(width) for column, width in zip(header, widths, strict=True)) + " |")
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for row in cells:
        print("| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |", flush=True)
