"""Semiring products on a GPU: T pairs/s, C ← C ⊕ A ⊗ B, row-major, random data, operands rotated past the cache.

    python -m benchmarks.gpu_gemm [substring of a row's name ...]

A pair is one ⊗ and one ⊕. The last column: the share of the issue or pipe limit of the instruction mix on an H200 (132
multiprocessors at 1,980 MHz). Medians of bursts of launches (one at 8192), timed by events of the device.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import semiring as sr
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.engine import make_plan

#: name, semiring, dtype, non-negative, kernel, limit in T pairs/s.
ROWS = [
    ("float32 min-plus, non-negative", "min_plus", "float32", True, "multiply_add", 22.3),
    ("float32 min-plus, any signs", "min_plus", "float32", False, "multiply_add", 16.7),
    ("int32 min-plus", "min_plus", "int32", True, "multiply_add", 16.7),
    ("int16 min-plus", "min_plus", "int16", True, "multiply_add", 33.4),
    ("float16 min-plus", "min_plus", "float16", True, "multiply_add", 44.5),
    ("float64 min-plus", "min_plus", "float64", True, "multiply_add", None),
    ("float32 max-min, any signs", "max_min", "float32", False, "multiply_add", 11.1),
    ("int16 max-min", "max_min", "int16", True, "multiply_add", 22.3),
    ("float32 max-times", "max_times", "float32", False, "multiply_add", 16.7),
    ("float32 Łukasiewicz", "lukasiewicz", "float32", False, "multiply_add", 11.1),
    ("float32 plus-times (FFMA)", "plus_times", "float32", False, "multiply_add", 33.4),
    ("float32 log-plus", "log_plus", "float32", False, "multiply_add", None),
    ("float32 min-plus with pivots", "min_plus", "float32", True, "multiply_add_pivots", 22.3),
    ("float32 min-plus with witness", "min_plus", "float32", True, "multiply_add_witness", 22.3),
    ("boolean, packed bits", "boolean", "bits", False, "multiply_add", 535.0),
]
SHAPES = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024)]
SKINNY = [(8192, 8192, 64), (64, 8192, 8192)]
CACHE = 120 << 20  # bytes that the operands of one round exceed


def operand(shape: tuple[int, int], name: str, dtype: str, nonnegative: bool) -> Any:
    import cupy

    if dtype == "bits":
        return cupy.random.randint(-(2**31), 2**31 - 1, (shape[0], shape[1] // 32)).astype(cupy.int32)
    if name in ("lukasiewicz", "max_times"):
        return cupy.random.random(shape).astype(dtype)
    return cupy.random.randint(0 if nonnegative else -1000, 1000, shape).astype(dtype)


def rate(name: str, dtype: str, nonnegative: bool, kernel: str, shape: tuple[int, int, int]) -> float:
    """T pairs/s, the median."""
    import cupy

    m, n, k = shape
    bits = dtype == "bits"
    plan = make_plan(
        sr.as_semiring(name), "bool" if bits else dtype, nonnegative=nonnegative, storage="bits" if bits else "elements"
    )
    first = [operand(size, name, dtype, nonnegative) for size in ((m, n), (m, k), (k, n))]
    rounds = min(8, 1 + CACHE // sum(array.nbytes for array in first))
    operands = [
        first,
        *([operand(s, name, dtype, nonnegative) for s in ((m, n), (m, k), (k, n))] for _ in range(rounds)),
    ]
    marks = [cupy.full((m, n), -1, np.int32)] if kernel != "multiply_add" else []
    run, times = getattr(CudaBackend(), kernel), []
    burst = max(1, min(20, 8192**3 // (m * n * k)))
    for trial in range(8):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for launch in range(burst if trial else 1):
            C, A, B = operands[launch % len(operands)]
            run(plan, C, *marks, A, B, *([0] if marks else []))
        stop.record()
        stop.synchronize()
        if trial:  # the first one compiles
            times.append(cupy.cuda.get_elapsed_time(start, stop) / burst)
    return m * n * k / float(np.median(times)) / 1e9


def main() -> None:
    """Print the table."""
    chosen = [row for row in ROWS if not sys.argv[1:] or any(part in row[0] for part in sys.argv[1:])]
    for title, name, dtype, nonnegative, kernel, limit in chosen:
        shapes = [(32768, 32768, 32768)] if dtype == "bits" else SHAPES
        if title == ROWS[0][0]:
            shapes = [*SHAPES, *SKINNY]
        if dtype == "float64" or name == "log_plus":
            shapes = SHAPES[1:]
        rates = [rate(name, dtype, nonnegative, kernel, shape) for shape in shapes]
        share = f"  {100 * rates[0] / limit:3.0f} % of {limit}" if limit else ""
        columns = "  ".join(
            f"{'×'.join(map(str, shape)):>14} {value:7.2f}" for shape, value in zip(shapes, rates, strict=True)
        )
        print(f"{title:32} {columns}{share}", flush=True)


if __name__ == "__main__":
    main()
