"""Semiring products on a GPU: T pairs/s, C ← C ⊕ A ⊗ B, row-major, random data, operands rotated past the cache.

    python -m benchmarks.gpu.gemm [--rows SUBSTRING] [--peers FOLDER]

A pair is one ⊗ and one ⊕. Medians of bursts of launches, timed by events of the device. Limits are measured in the
same run (`benchmarks.gpu.limits`): the loop of the kernel without copies, barriers and edges. The folder holds other
people's libraries (`benchmarks.gpu.peers`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import device_milliseconds, print_table
from benchmarks.gpu.limits import limit
from benchmarks.gpu.peers import peers
from semiring.kernels.contract import Plan
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.cuda.product.launches import Launch
from semiring.kernels.cuda.product.operations import routes_of
from semiring.kernels.engine import make_plan

CACHE = 120 << 20  # bytes that the operands of one round exceed
Shape = tuple[int, ...]  # m, n, k, and how many of them


@dataclass(frozen=True)
class Row:
    """One kind of product."""

    title: str
    semiring: str
    dtype: str
    nonnegative: bool = False
    kernel: str = "multiply_add"
    n: int = 8192
    pairs: float | None = None  # that the pipes or the issue of a multiprocessor take in a clock (sm_90)

    @property
    def plan(self) -> Plan:
        packed = self.dtype == "bits"
        dtype = "bool" if packed else self.dtype
        storage: Any = "bits" if packed else "elements"
        return make_plan(sr.as_semiring(self.semiring), dtype, nonnegative=self.nonnegative, storage=storage)


MAIN = Row("float32 min-plus, non-negative", "min_plus", "float32", True, pairs=256 / 3)  # 2 FADD and a VIMNMX3
ROWS = [
    MAIN,
    Row("float32 min-plus, any signs", "min_plus", "float32", pairs=64),  # FMNMX
    Row("int32 min-plus", "min_plus", "int32", True, pairs=96),  # a third VIADDMNMX, the rest IMAD and VIMNMX3
    Row("int16 min-plus", "min_plus", "int16", True, pairs=128),  # VIADDMNMX of pairs
    Row("float16 min-plus", "min_plus", "float16", True, pairs=512 / 3),  # 2 HADD2 and a VHMNMX
    Row("float64 min-plus", "min_plus", "float64", True, n=4096, pairs=32),  # DADD and DSETP
    Row("float32 max-min, any signs", "max_min", "float32", pairs=128 / 3),  # 2 VIMNMX and a VIMNMX3, as integers
    Row("int16 max-min", "max_min", "int16", True, pairs=256 / 3),
    Row("float16 max-min", "max_min", "float16", True, pairs=256 / 3),
    Row("float32 max-times", "max_times", "float32", pairs=64),
    Row("float32 Łukasiewicz", "lukasiewicz", "float32", pairs=128 / 3),  # 2 FADD and an FMNMX
    Row("float32 plus-times (FFMA)", "plus_times", "float32", pairs=128),  # cuBLAS
    Row("float32 log-plus", "log_plus", "float32", n=4096),
    Row("float32 min-plus with pivots", "min_plus", "float32", True, "multiply_add_pivots", pairs=256 / 3),
    Row("float32 min-plus with witness", "min_plus", "float32", True, "multiply_add_witness", pairs=256 / 3),
    Row("boolean, packed bits", "boolean", "bits", n=32768, pairs=2048),  # LOP3
]
SHAPES: dict[str, Shape] = {
    "n = 4096": (4096, 4096, 4096, 1),
    "n = 2048": (2048, 2048, 2048, 1),
    "n = 1024": (1024, 1024, 1024, 1),
    "n = 512": (512, 512, 512, 1),
    "m = n = 8192, k = 64": (8192, 8192, 64, 1),
    "m = 64, n = k = 8192": (64, 8192, 8192, 1),
    "10,000 of 64×64×64": (64, 64, 64, 10_000),
    "100,000 of 32×32×32": (32, 32, 32, 100_000),
}


def operand(shape: Shape, row: Row) -> Any:
    """Random entries on the device."""
    import cupy

    if row.dtype == "bits":
        return cupy.random.randint(-(2**31), 2**31 - 1, (*shape[:-1], shape[-1] // 32)).astype(cupy.int32)
    if row.semiring in ("lukasiewicz", "max_times"):
        return cupy.random.random(shape).astype(row.dtype)
    return cupy.random.randint(0 if row.nonnegative else -1000, 1000, shape).astype(row.dtype)


def milliseconds(call: Callable[[int], None], burst: int, repeats: int = 7) -> float:
    """The median time of one of a burst of calls, which are numbered; the first compiles and is not counted."""

    def calls() -> None:
        for number in range(burst):
            call(number)

    call(0)
    return float(np.median([device_milliseconds(calls) / burst for _ in range(repeats)]))


def operands(row: Row, shape: Shape) -> list[list[Any]]:
    """C, A, B, and as many more as exceed the cache together."""
    m, n, k, count = shape
    shapes = [(m, n), (m, k), (k, n)] if count == 1 else [(count, m, n), (count, m, k), (count, k, n)]
    first = [operand(size, row) for size in shapes]
    rounds = min(8, 1 + CACHE // sum(array.nbytes for array in first))
    return [first, *([operand(size, row) for size in shapes] for _ in range(rounds))]


@cache
def rate(row: Row, shape: Shape) -> tuple[float, Launch | None]:
    """T pairs/s, and the launch that did it; None where that was a library's."""
    import cupy

    plan, sets, (m, n, k, count) = row.plan, operands(row, shape), shape
    marks = [] if row.kernel == "multiply_add" else [cupy.full((m, n), -1, np.int32)]
    run = getattr(CudaBackend(), row.kernel)
    routes_of(plan).clear()

    def call(number: int) -> None:
        C, A, B = sets[number % len(sets)]
        run(plan, C, *marks, A, B, *([0] if marks else []))

    burst = max(2, min(20, 8192**3 // (m * n * k * count)))
    elapsed = milliseconds(call, burst)
    launches = [route for route in routes_of(plan).values() if isinstance(route, Launch)]
    return m * n * k * count / elapsed / 1e9, launches[-1] if launches else None


def kinds(chosen: list[Row]) -> None:
    """The products of `ROWS` beside their limits: of the loop alone, and of the pipes at the highest clock."""
    import cupy

    attributes = cupy.cuda.Device().attributes
    clocks = attributes["MultiProcessorCount"] * attributes["ClockRate"] / 1e9  # 10¹² a second
    rows = []
    for row in chosen:
        found, launch = rate(row, (row.n, row.n, row.n, 1))
        loop = ("", "")
        if launch is not None:
            alone = limit(replace(launch.product, record=False), launch.tile)
            loop = (alone, f"{100 * found / alone:.0f} %")
        most = ("", "") if row.pairs is None else (row.pairs * clocks, f"{100 * found / row.pairs / clocks:.0f} %")
        rows.append((row.title, row.n, found, *loop, *most))
    header = ("product", "n", "T pairs/s", "loop alone", "of it", "pipes", "of them")
    print_table("Products", header, rows)


def shapes() -> None:
    """Other shapes of the first kind, against its rate at n = 8192."""
    best, _ = rate(MAIN, (8192, 8192, 8192, 1))
    rows = []
    for title, shape in SHAPES.items():
        found, launch = rate(MAIN, shape)
        assert launch is not None
        parts = -(-launch.sizes[2] // launch.sizes[3])
        rows.append((title, found, f"{100 * found / best:.0f} %", f"{launch.tile.tile_m}×{launch.tile.tile_n}", parts))
    print_table(f"{MAIN.title}: shapes", ("shape", "T pairs/s", "of n = 8192", "tile", "parts of k"), rows)


def side_by_side(folder: str | None) -> None:
    """float32 min-plus by others, and the multiply-add of cuBLAS: the same matrices, the same run."""
    import cupy

    ours, _ = rate(MAIN, (8192, 8192, 8192, 1))
    rows: list[tuple[Any, ...]] = [("semiring", 8192, ours, 1.0)]
    C, A, B = operands(MAIN, (8192, 8192, 8192, 1))[0]
    for peer in peers(folder):
        product = peer.product()
        if product is not None:
            found = 8192**3 / milliseconds(lambda _, product=product: product(A, B, C), 2, 5) / 1e9
            rows.append((peer.name, 8192, found, ours / found))
    found = 8192**3 / milliseconds(lambda _: cupy.matmul(A, B, out=C), 3) / 1e9
    rows.append(("cuBLAS sgemm (FFMA)", 8192, found, ours / found))
    compiled = torch_compiled(2048)
    if compiled is not None:
        at_2048, _ = rate(MAIN, (2048, 2048, 2048, 1))
        rows.append(("torch.compile of a broadcast", 2048, compiled, at_2048 / compiled))
    print_table("float32 min-plus, side by side", ("who", "n", "T pairs/s", "semiring is times as fast"), rows)


def torch_compiled(n: int) -> float | None:
    """T pairs/s of PyTorch's compiler on the broadcast expression; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    A, B = (torch.rand(n, n, device="cuda") for _ in range(2))
    product = torch.compile(lambda A, B: (A[:, :, None] + B[None]).amin(1))
    product(A, B)
    times = []
    for _ in range(5):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        product(A, B)
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return n**3 / float(np.median(times)) / 1e9


FIRST = """
import time
import cupy
import numpy as np
from semiring import min_plus
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.engine import make_plan
A = cupy.zeros((256, 256), np.float32)
C, backend, plan = A.copy(), CudaBackend(), make_plan(min_plus, "float32", nonnegative=True)
cupy.cuda.Device().synchronize()
start = time.perf_counter()
backend.multiply_add(plan, C, A, A)
cupy.cuda.Device().synchronize()
print(time.perf_counter() - start)
"""


def first_calls() -> None:
    """The first product of a process beyond imports, and the cost of a launch to Python."""
    import cupy

    rows: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"SEMIRING_CACHE_DIR": folder}
        for title in ("first call, compiled: s", "first call, from disk: s"):
            done = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True)
            if done.returncode == 0:
                rows.append((title, float(done.stdout)))
            else:
                print(f"{title}: {done.stderr.strip().splitlines()[-1]}")
    plan, run = MAIN.plan, CudaBackend().multiply_add
    C, A, B = (operand((16, 16), MAIN) for _ in range(3))
    run(plan, C, A, B)
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(500):
        run(plan, C, A, B)
    rows.append(("a launch: µs of Python", (time.perf_counter() - start) * 1e6 / 500))
    print_table("Latencies", ("what", "measured"), rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Semiring products on a GPU")
    parser.add_argument("--rows", default="", help="only the kinds of product whose name holds this")
    parser.add_argument("--peers", help="a folder of other people's libraries: see benchmarks/gpu/peers.py")
    given = parser.parse_args()
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    driver = cupy.cuda.runtime.driverGetVersion()
    print(f"{properties['name'].decode()}, CUDA driver {driver}, CuPy {cupy.__version__}")
    kinds([row for row in ROWS if given.rows in row.title])
    if not given.rows:
        shapes()
        side_by_side(given.peers)
        first_calls()


if __name__ == "__main__":
    main()
