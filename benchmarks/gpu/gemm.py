"""Measure products on a GPU: T pairs/s of C ← C ⊕ A ⊗ B, row-major, random data, operands beyond the cache.

    python -m benchmarks.gpu.gemm [TABLE ...] [--rows SUBSTRING] [--peers FOLDER]

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

import semiring as sr
from benchmarks.common import (
    Table,
    by_enqueueing,
    comparing,
    device_milliseconds,
    format_number,
    format_seconds,
    ours,
    run,
    theirs,
)
from benchmarks.gpu.peers import peers as libraries
from benchmarks.packages import has, require
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import make_plan

if TYPE_CHECKING:
    from semiring.kernels.cuda.product.launches import Launch

# Operands are copied until all copies exceed this many bytes, at most 8 times, so that calls miss the cache.
CACHE = 120 << 20
Shape = tuple[int, ...]  # m, n, k, and how many of them


@dataclass(frozen=True)
class Row:
    """A kind of product, with its operands, its kernel and its limit."""

    semiring: str
    dtype: str
    qualifier: str = ""  # a word that distinguishes products of one semiring
    nonnegative: bool = False
    kernel: str = "multiply_add"
    n: int = 8192
    largest: int = 1000  # the greatest size of an entry
    pairs: float | None = None  # pairs per clock that the pipes or the issue of a multiprocessor allow (sm_90)

    @property
    def title(self) -> str:
        return f"{self.semiring}{self.qualifier}"

    @property
    def plan(self) -> KernelPlan:
        packed = self.dtype == "bits"
        dtype = "bool" if packed else self.dtype
        storage: Any = "bits" if packed else "elements"
        return make_plan(sr.as_semiring(self.semiring), dtype, nonnegative=self.nonnegative, storage=storage)


MAIN = Row("min_plus", "float32", ", non-negative", True, pairs=256 / 3)  # 2 FADD and a VIMNMX3
ROWS = [
    MAIN,
    Row("min_plus", "float32", ", any signs", pairs=64),  # FMNMX
    Row("min_plus", "int32", "", True, pairs=96),  # one third VIADDMNMX, two thirds IMAD and VIMNMX3
    Row("min_plus", "int16", "", True, pairs=128),  # VIADDMNMX of pairs
    Row("min_plus", "float16", "", True, pairs=512 / 3),  # 2 HADD2 and a VHMNMX
    Row("min_plus", "float64", "", True, n=4096, pairs=32),  # DADD and DSETP
    Row("max_min", "float32", pairs=128 / 3),  # 2 VIMNMX and a VIMNMX3, as integers
    Row("max_min", "int16", "", True, pairs=256 / 3),
    Row("max_min", "float16", "", True, pairs=256 / 3),
    Row("max_times", "float32", pairs=64),
    Row("lukasiewicz", "float32", pairs=128 / 3),  # 2 FADD and an FMNMX
    Row("plus_times", "float32", " (cuBLAS)", pairs=128),  # FFMA
    Row("log_plus", "float32", " (cuBLAS)"),
    Row("log_plus", "float32", ", underflow everywhere", largest=400_000),
    Row("min_plus", "float32", " with witness", True, "multiply_add_witness", pairs=256 / 3),
    Row("boolean", "bits", ", packed bits", n=32768, pairs=32768),  # 1-bit tensor cores: eight times the pairs of int8
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

SUMS: dict[str, Shape] = {
    "64 × 64 × 64": (64, 64, 64, 1),
    "256 × 256 × 256": (256, 256, 256, 1),
    "512 × 512 × 512": (512, 512, 512, 1),
    "2048 × 2048 × 2048": (2048, 2048, 2048, 1),
    "300 × 300, 8192 of k": (300, 300, 8192, 1),
    "10,000 of 64 × 64 × 64": (64, 64, 64, 10_000),
    "100 of 300 × 300 × 300": (300, 300, 300, 100),
    "A ⊗ x, 8192 × 8192": (8192, 1, 8192, 1),
    "x ⊗ A, 8192 × 8192": (1, 8192, 8192, 1),
}


def _cut(shape: Shape, options: argparse.Namespace) -> Shape:
    """Return the shape with its sizes divided by ``--divide``, but for those of vectors."""
    *sizes, count = shape
    return *(size if size == 1 else max(32, size // options.divide) for size in sizes), max(1, count // options.divide)


def operand(shape: Shape, row: Row) -> Any:
    """Return random entries on the device."""
    import cupy

    if row.dtype == "bits":
        return cupy.random.randint(-(2**31), 2**31 - 1, (*shape[:-1], shape[-1] // 32)).astype(cupy.int32)
    if row.semiring in ("lukasiewicz", "max_times"):
        return cupy.random.random(shape).astype(row.dtype)
    return cupy.random.randint(0 if row.nonnegative else -row.largest, row.largest, shape).astype(row.dtype)


def in_bursts(call: Callable[[int], None], burst: int) -> Callable[[], None]:
    """Return a function that makes a burst of calls, which are numbered."""

    def calls() -> None:
        for number in range(burst):
            call(number)

    return calls


def by_events(calls: Callable[[], Any]) -> float:
    """Return the seconds of the device, which begins at once."""
    return device_milliseconds(calls) / 1e3


def operands(row: Row, shape: Shape) -> list[list[Any]]:
    """Return C, A, B, and as many copies as exceed the cache together."""
    m, n, k, count = shape
    shapes = [(m, n), (m, k), (k, n)] if count == 1 else [(count, m, n), (count, m, k), (count, k, n)]
    first = [operand(size, row) for size in shapes]
    rounds = min(8, 1 + CACHE // sum(array.nbytes for array in first))
    return [first, *([operand(size, row) for size in shapes] for _ in range(rounds))]


@cache
def rate(row: Row, shape: Shape) -> tuple[float, Launch | None]:
    """Return T pairs/s and the launch that computed them, or None for a library."""
    import cupy

    from semiring.kernels.cuda import CudaBackend
    from semiring.kernels.cuda.product.launches import Launch
    from semiring.kernels.cuda.product.product_routes import routes_of

    plan, sets, (m, n, k, count) = row.plan, operands(row, shape), shape
    marks = [] if row.kernel == "multiply_add" else [cupy.full((m, n), -1, np.int32)]
    run = getattr(CudaBackend(), row.kernel)
    routes_of(plan).clear()

    def call(number: int) -> None:
        C, A, B = sets[number % len(sets)]
        run(plan, C, *marks, A, B, *([0] if marks else []))

    burst = max(2, min(20, 8192**3 // (m * n * k * count)))
    label = f"{row.title}, {row.dtype}, {m} × {k} × {n}{f', {count:,} of them' * (count > 1)}"
    elapsed = 1e3 * ours(label, in_bursts(call, burst), clock=by_events, repeats=7) / burst
    launches = [route for route in routes_of(plan).values() if isinstance(route, Launch)]
    return m * n * k * count / elapsed / 1e9, launches[-1] if launches else None


def products(options: argparse.Namespace) -> Table:
    """Measure the products of `ROWS`, and compare them with the inner loop alone and with the pipes at full clock."""
    import cupy

    from benchmarks.gpu.limits import limit

    attributes = cupy.cuda.Device().attributes
    clocks = attributes["MultiProcessorCount"] * attributes["ClockRate"] / 1e9  # 10¹² a second
    rows = []
    for row in (row for row in ROWS if options.rows in f"{row.title} {row.dtype}"):
        shape = _cut((row.n, row.n, row.n, 1), options)
        found, launch = rate(row, shape)
        loop = most = "—"
        if launch is not None and not comparing():
            loop = f"{format_number(100 * found / limit(replace(launch.product, record=False), launch.tile), 0)} %"
        if row.pairs is not None:
            most = f"{format_number(100 * found / row.pairs / clocks, 0)} %"
        rows.append((row.title, row.dtype, shape[0], found, loop, most))
    columns = ("semiring", "dtype", "n", "T pairs/s", "of the loop alone", "of the pipes' rate")
    return Table("Products", columns, rows)


def shapes(options: argparse.Namespace) -> Table:
    """Measure products of other shapes of the first kind, against its rate at n = 8192."""
    best, _launch = rate(MAIN, _cut((8192, 8192, 8192, 1), options))
    rows = []
    for title, shape in SHAPES.items():
        found, _launch = rate(MAIN, _cut(shape, options))
        rows.append((title, found, f"{format_number(100 * found / best, 0)} %"))
    return Table(f"{MAIN.title}: shapes", ("shape", "T pairs/s", "of n = 8192"), rows)


def sums(options: argparse.Namespace) -> Table:
    """Measure smaller products of log_plus, stacks of them, and products with vectors."""
    rows = []
    for title, shape in SUMS.items():
        m, n, k, count = _cut(shape, options)
        rates = [rate(Row("log_plus", dtype), (m, n, k, count))[0] for dtype in ("float32", "float64")]
        rows.append((title, *(figure for found in rates for figure in (m * n * k * count / found / 1e6, found))))
    columns = ("product", "float32, µs", "T pairs/s", "float64, µs", "T pairs/s ")
    return Table("log_plus: smaller products", columns, rows)


def log_peers(options: argparse.Namespace) -> Table:
    """Measure log_plus beside PyTorch code, and mm-kermac (PyPI), which sums exponentials without a maximum."""
    require("torch")
    import torch

    from benchmarks.log_plus import error_of, kinds_of_data

    def by_hand(A: Any, B: Any) -> Any:
        u, w = A.amax(1, keepdim=True), B.amax(0, keepdim=True)
        return ((A - u).exp() @ (B - w).exp()).log() + u + w

    def measure(A: Any, B: Any) -> Any:
        return torch.logsumexp(A[:, :, None] + B[None], 1)

    large, small, _ = _cut((4096, 1024, 1), options)
    calls: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
        "semiring": (large, lambda A, B: sr.matmul(A, B, "log_plus", check=False)),
        "shift, exp, cuBLAS in float32, log (PyTorch)": (large, by_hand),
        "torch.logsumexp of a broadcast": (small, measure),
    }
    kernel = kermac(
        lambda Do: lambda a, b, c, _: [a, b, Do.add_ftz_f32, Do.ex2_approx_ftz_f32, c, Do.add_ftz_f32],
        lambda Do: lambda e, _: [e, Do.lg2_approx_ftz_f32],
    )
    if kernel is not None:
        bits = float(np.log2(np.e))
        calls["mm-kermac 1.0"] = (large, lambda A, B: kernel(A * bits, B * bits) / bits)
    chosen = ("normal", "the same in a corner")
    data = {n: [each for each in kinds_of_data(n) if each[0] in chosen] for n in {n for n, _ in calls.values()}}
    rows = []
    for who, (n, call) in calls.items():
        found = {}
        for kind, A, B in data[n]:
            a, b = (torch.from_numpy(X).cuda() for X in (A, B))
            found[kind] = error_of(A, B, call(a, b).cpu().numpy())
            if kind == "normal":
                run_once = lambda call=call, a=a, b=b: call(a, b)  # noqa: E731
                if who == "semiring":
                    seconds = ours("log_plus beside peers", run_once, clock=by_events)
                else:
                    seconds = theirs(run_once, clock=by_events)
        rows.append((who, n, n**3 / seconds / 1e12, *found.values()))
    columns = ("who", "n", "T pairs/s", "error on normal data, u", "error where maxima never meet in a corner, u")
    return Table("log_plus, float32, side by side", columns, rows)


def kermac(term: Callable[[Any], Any], last: Callable[[Any], Any]) -> Callable[[Any, Any], Any] | None:
    """Multiply tensors of PyTorch by mm-kermac (PyPI), whose sums start at 0, or return None if it is not installed.

    ``term`` and ``last`` take the instruction set of mm-kermac. ``term`` returns the function that adds a term to a
    sum, and ``last`` the function that is applied to the finished sum.
    """
    if not has("mm_kermac"):
        return None
    Do: Any = import_module("mm_kermac").PtxInstruction
    of_instructions: Any = import_module("mm_kermac.hyper_semiring").HyperSemiringKernel
    kernel = of_instructions(term(Do), last(Do))
    return lambda A, B: kernel(A, B.T.contiguous()).reshape(-1, B.shape[1])


def custom_peers(options: argparse.Namespace) -> Table:
    """Measure max_plus of weights ≥ 0, the tropical product of mm-kermac: its maxima start at 0."""
    require("torch")
    import cupy
    import torch

    shape = _cut((8192, 8192, 8192, 1), options)
    n = shape[0]
    C, A, B = operands(Row("max_plus", "float32"), shape)[0]
    for X in (A, B):
        cupy.absolute(X, out=X)
    best = n**3 / ours("max_plus", lambda: sr.matmul(A, B, "max_plus", out=C, check=False), clock=by_events) / 1e12
    rows: list[tuple[Any, ...]] = [("semiring", n, best, "1.00×")]
    # Its maximum takes one operand, so it is written as a choice.
    kernel = kermac(
        lambda Do: (
            lambda a, b, c, _: [
                *(a, b, Do.add_ftz_f32, c),
                *(a, b, Do.add_ftz_f32, c, Do.setp_gt_ftz_f32, Do.selp_f32),
            ]
        ),
        lambda Do: lambda e, _: [e],
    )
    if kernel is not None:
        a, b = torch.from_dlpack(A), torch.from_dlpack(B)
        assert bool(torch.equal(kernel(a, b), torch.from_dlpack(C)))
        found = n**3 / theirs(lambda: kernel(a, b), clock=by_events) / 1e12
        rows.append(("mm-kermac 1.0", n, found, f"{format_number(best / found, 2)}×"))
    columns = ("who", "n", "T pairs/s", "semiring is faster by")
    return Table("max_plus, float32, weights from 0 on, side by side", columns, rows)


def peers(options: argparse.Namespace) -> Table:
    """Measure float32 min-plus by other libraries and the multiply-add of cuBLAS, on the same matrices in one run."""
    import cupy

    shape = _cut((8192, 8192, 8192, 1), options)
    n, small = shape[0], _cut((2048, 2048, 2048, 1), options)
    best, _launch = rate(MAIN, shape)
    rows: list[tuple[Any, ...]] = [("semiring", n, best, "1.00×")]
    C, A, B = operands(MAIN, shape)[0]

    def add(label: str, n: int, speed: float, own_speed: float = best) -> None:
        rows.append((label, n, speed, f"{format_number(own_speed / speed, 2)}×"))

    def measure(call: Callable[[int], None], burst: int) -> float:
        return n**3 / theirs(in_bursts(call, burst), clock=by_events) * burst / 1e12

    for peer in libraries(options.peers):
        product = peer.product()
        if product is not None:
            add(peer.name, n, measure(lambda _, product=product: product(A, B, C), 2))  # type: ignore[misc]
    add("cuBLAS sgemm, ordinary product", n, measure(lambda _: cupy.matmul(A, B, out=C), 3))
    compiled = None if comparing() else torch_compiled(small[0])
    if compiled is not None:
        add("torch.compile of a broadcast", small[0], compiled, rate(MAIN, small)[0])
    columns = ("who", "n", "T pairs/s", "semiring is faster by")
    return Table("min_plus, float32, side by side", columns, rows)


def torch_compiled(n: int) -> float | None:
    """Return T pairs/s of PyTorch's compiler on the broadcast expression, or None without PyTorch."""
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
from semiring.kernels.engine import make_plan
A = cupy.zeros((256, 256), np.float32)
C, backend, plan = A.copy(), CudaBackend(), make_plan(min_plus, "float32", nonnegative=True)
cupy.cuda.Device().synchronize()
start = time.perf_counter()
backend.multiply_add(plan, C, A, A)
cupy.cuda.Device().synchronize()
print(time.perf_counter() - start)
"""


def starting(_: argparse.Namespace) -> Table:
    """Measure the first product of a process beyond imports, and the cost of a launch to Python."""
    from semiring.kernels.cuda import CudaBackend

    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"SEMIRING_CACHE_DIR": folder}
        for title in () if comparing() else ("first product, compiled", "first product, from disk"):
            done = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True)
            if done.returncode == 0:
                rows.append((title, format_seconds(float(done.stdout))))
            else:
                print(f"{title}: {done.stderr.strip().splitlines()[-1]}")
    plan, multiply = MAIN.plan, CudaBackend().multiply_add
    C, A, B = (operand((16, 16), MAIN) for _ in range(3))
    launch = ours("a launch", in_bursts(lambda _: multiply(plan, C, A, B), 100), clock=by_enqueueing) / 100
    rows.append(("a launch, in Python", format_seconds(launch)))
    return Table("Latencies", ("what", "takes"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rows", default="", help="only the kinds of product whose name holds this")
        parser.add_argument("--divide", type=int, default=1, help="all sizes by this number (1)")
        parser.add_argument("--peers", help="a folder of other people's libraries: see benchmarks/gpu/peers.py")

    tables = {
        "products": products,
        "shapes": shapes,
        "sums": sums,
        "log_peers": log_peers,
        "custom_peers": custom_peers,
        "peers": peers,
        "starting": starting,
    }
    return run("benchmarks.gpu.gemm", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
