"""Measure the algorithms of papers on the current GPU, for the tables of `benchmarks.papers`.

Min-plus in float32 without a negative weight, whole-numbered weights, as in `benchmarks.gpu.closure`. The graphs are
made on the device: each edge is there with the same probability.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import device_milliseconds
from benchmarks.packages import require
from semiring.kernels import get_backend
from semiring.kernels.cuda import closing as staged
from semiring.kernels.cuda.closing import paper_kernels as papers
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, multiprocessors, resident_blocks
from semiring.kernels.cuda.closing.paper_kernels import KERNELS
from semiring.kernels.engine import make_plan

__all__ = ["KERNELS", "bandwidth", "board_joules", "closing_of", "graph", "product_rate", "resources", "seconds"]

_AHEAD = 10.0  # milliseconds that the device waits while the host enqueues a closure


@cache
def _plan() -> Any:
    return make_plan(sr.min_plus, "float32", nonnegative=True)


def graph(n: int, edges: float = 60) -> Any:
    """Return the matrix of a random graph on the device, so many edges a vertex in the mean, its diagonal 0."""
    import cupy

    random = cupy.random.RandomState(n)
    A = random.randint(1, 1000, (n, n), dtype=np.int32).astype(np.float32)
    A[random.random_sample((n, n), dtype=np.float32) >= edges / n] = np.inf
    cupy.fill_diagonal(A, 0)
    return A


def closing_of(name: str, **options: Any) -> Callable[[Any], Any]:
    """Return what closes a matrix of the device in place: a kernel of a paper, or a method of the library.

    The kernels of papers run without the scan of a call, in the arithmetic of weights that are not negative.
    """
    if name in KERNELS:
        return lambda A: papers.close(_plan(), A, name, **options)
    return lambda A: sr.closure(A, method=name, method_options=options or None, out=A, check=False)


def _verify(name: str, n: int = 320, **options: Any) -> None:
    """Compare the closure of a small graph with that of the library's own kernel, or raise `AssertionError`."""
    if (name, *options.items()) in _verified:
        return
    A = graph(n)
    work = A.copy()
    closing_of(name, **options)(work)
    staged.close(_plan(), A, look_ahead=True)
    assert bool((work == A).all()), f"{name} with {options} finds other distances"
    _verified.add((name, *options.items()))


_verified: set[tuple[Any, ...]] = set()


def seconds(name: str, n: int, edges: float = 60, **options: Any) -> float:
    """Return the time of one closure by events of the device: the median of up to five, of one that takes a second."""
    _verify(name, **options)
    given, close = graph(n, edges), closing_of(name, **options)
    work, times = given.copy(), []
    # A long closure reaches its clock rate by itself. But the tile of a product depends on n, so a first call compiles.
    if n <= 4096 or name not in KERNELS:
        close(work)
    while len(times) < 5 and sum(times) < 0.2:
        work[...] = given
        times.append(device_milliseconds(partial(close, work), _AHEAD) / 1e3)
    return float(np.median(times))


def resources(name: str, **options: Any) -> dict[str, float]:
    """Return what a block of the last phase of a tiled kernel takes, and how many run on a multiprocessor at once."""
    kernel = KERNELS[name].with_options(**options)
    threads = kernel.last_threads or kernel.threads
    function = compile_kernel(kernel.file, "doubly_dependent", arithmetic_of(_plan()), kernel.defines)
    blocks = resident_blocks(function, threads, 0) / multiprocessors()
    return {"registers": function.num_regs, "blocks": blocks, "threads": threads}


def bandwidth() -> float:
    """Return the bytes that a copy within the device's memory reads and writes in a second."""
    import cupy

    source = cupy.zeros(1 << 28, np.float32)
    target = cupy.empty_like(source)

    def copy() -> None:
        target[...] = source

    copy()
    return 2 * source.nbytes / min(device_milliseconds(copy) for _ in range(5)) * 1e3


def product_rate(n: int) -> float:
    """Return the pairs that a min-plus product of n × n matrices makes in a second."""
    A = graph(n)
    C = A.copy()
    multiply = partial(get_backend("cuda").multiply_add, _plan(), C, A, A)
    multiply()
    return n**3 / min(device_milliseconds(multiply) for _ in range(3)) * 1e3


def board_joules(name: str, n: int, measured_seconds: float) -> dict[str, float]:
    """Return the joules of one closure by the energy counter of the board, over so many seconds of closures."""
    import cupy

    require("pynvml")
    import pynvml

    pynvml.nvmlInit()
    # The address identifies the GPU, because CUDA_VISIBLE_DEVICES makes CUDA's numbers differ from those of NVML.
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id)
    given, close = graph(n), closing_of(name)
    work = given.copy()
    close(work)
    cupy.cuda.Device().synchronize()
    count, before, start = 0, pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), time.perf_counter()
    while not count or time.perf_counter() - start < measured_seconds:
        work[...] = given
        close(work)
        cupy.cuda.Device().synchronize()
        count += 1
    return {"J": float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before) / 1e3 / count}
