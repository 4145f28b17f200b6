"""Measure packed truth values on a GPU: products and closures, on tensor cores where they exist for bits.

    python -m benchmarks.gpu.bits [products] [transposes] [energy] [closures] [components] [peers] [million]
                                  [--sizes 4096 8192 ...]

Times are measured by device events, and the host enqueues ahead of the device. Entries are True with probability ½, the
density that costs the most power. Closures are computed in place, of random digraphs of 1.2 edges a vertex. Most of
their vertices reach no vertex or a large part of all vertices. Up to 32768 vertices the result is compared with the
closure by components.

`transposes`: the panel of 4096 rows that a product makes of its second operand, beside the driver's copy of as many
bytes. `peers`: by cuBLAS, as PyTorch calls it, and a kernel that packs what is not 0. `energy`: by the counter of the
GPU, over seconds of products. `million`: 1,000,000 vertices in 116 GiB, by components and by all pairs, some minutes.
64 rows of each closure equal breadth-first searches of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, device_milliseconds, format_number, ours, run, theirs
from benchmarks.packages import require
from semiring.arrays.bits import BitMatrix
from semiring.kernels import device_backend
from semiring.kernels.engine import make_plan

__all__ = ["main"]

BOOL = np.dtype(bool)
_AHEAD = 20.0  # milliseconds


def _seconds(call: Callable[[], Any], label: str = "", repeats: int = 5) -> float:
    clock = lambda call: device_milliseconds(call, _AHEAD) / 1e3  # noqa: E731
    return ours(label, call, clock=clock, repeats=repeats) if label else theirs(call, clock=clock)


def products(options: argparse.Namespace) -> Table:
    """Measure C ← C ⊕ A ⊗ B of packed truth values."""
    import cupy

    def random(rows: int, columns: int) -> Any:
        return cupy.random.randint(0, 2**32, (rows, columns // 32), dtype=np.uint32)

    rows = []
    for name in ("boolean", "xor_and"):
        semiring = sr.as_semiring(name)
        plan, backend = make_plan(semiring, BOOL, storage="bits"), device_backend(semiring, BOOL, "bits")
        shapes = [(n, n, n) for n in options.sizes]
        shapes += [(side, side, k) for side in options.panels for k in (2048, 4096)]
        for m, n, k in shapes:
            A, B, C = random(m, k), random(k, n), random(m, n)
            call = lambda: backend.multiply_add(plan, C, A, B)  # noqa: B023, E731
            taken = _seconds(call, f"{name}, {m} × {k} × {n}")
            rate = format_number(m * n * k / 1e12 / taken, 0, ",")
            rows.append([name, f"{m} × {k} × {n}", taken * 1e3, rate])
    columns = ["semiring", "m × k × n", "ms", "T bit pairs/s"]
    return Table("Products of packed bits on a GPU", columns, rows)


def _packing(type_name: str) -> Any:
    import cupy

    code = """extern "C" __global__ void pack(const ENTRY *entries, unsigned *words) {
        const long long i = blockIdx.x * 256ll + threadIdx.x;
        const unsigned word = __ballot_sync(~0u, entries[i] != 0);
        if (threadIdx.x % 32 == 0) words[i / 32] = word;
    }"""
    return cupy.RawKernel(code, "pack", (f"-DENTRY={type_name}",))


def peers(options: argparse.Namespace) -> Table:
    """Measure C ← A ⊗ B of packed truth values, and of values that cuBLAS counts in int8 or float8 and then packs."""
    require("torch")
    import cupy
    import torch

    plan, rows = make_plan(sr.boolean, BOOL, storage="bits"), []
    backend = device_backend(sr.boolean, BOOL, "bits")
    one, of_int32, of_bfloat16 = torch.ones((), device="cuda"), _packing("int"), _packing("unsigned short")
    for n in options.sizes:
        A, B, C = (cupy.random.randint(0, 2**32, (n, n // 32), dtype=np.uint32) for _ in range(3))
        call = lambda: backend.multiply(plan, C, A, B)  # noqa: B023, E731
        taken = [_seconds(call, f"{n}³ as bits")]
        a, b = (torch.randint(0, 2, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))
        b = b.T.contiguous().T
        x, y = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        for product, pack in (
            (lambda: torch._int_mm(a, b), of_int32),  # noqa: B023
            (lambda: torch._scaled_mm(x, y, one, one, out_dtype=torch.bfloat16), of_bfloat16),  # noqa: B023
        ):

            def multiply_by_counts(
                product: Any = product, pack: Any = pack, grid: int = n * n // 256, C: Any = C
            ) -> None:
                pack((grid,), (256,), (np.uint64(product().data_ptr()), C))

            taken.append(_seconds(multiply_by_counts))
        rows.append([n, *(format_number(n**3 / seconds / 1e12, 0, ",") for seconds in taken)])
    columns = ["n", "T bit pairs/s", "cuBLAS int8, packed", "cuBLAS float8, packed"]
    return Table("Products of truth values beside cuBLAS", columns, rows)


def transposes(options: argparse.Namespace) -> Table:
    """Measure the transposition of 4096 rows of bits into a panel."""
    import cupy

    from semiring.kernels.cuda.product.bit_kernels import DEPTH
    from semiring.kernels.cuda.product.bit_products import Panel

    rows = []
    for n in (*options.sizes, *options.wide):
        B = cupy.random.randint(0, 2**32, (DEPTH, n // 32), dtype=np.uint32)
        fill = Panel(DEPTH, n // 32).prepare_fill(B)
        taken, other = _seconds(lambda: fill(0), f"transpose, {DEPTH} × {n}"), cupy.empty_like(B)  # noqa: B023
        copied = _seconds(lambda: other.data.copy_from_device_async(B.data, B.nbytes))  # noqa: B023
        rows.append([f"{DEPTH} × {n}", taken * 1e6, *(2 * B.nbytes / seconds / 1e12 for seconds in (taken, copied))])
    columns = ["rows × columns", "µs", "TB/s", "a copy, TB/s"]
    return Table("Transposes of packed bits, read and written", columns, rows)


def _joules() -> Callable[[], float]:
    """Return the energy counter of the current GPU in joules."""
    import cupy

    require("pynvml")
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id)
    return lambda: float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3


def energy(options: argparse.Namespace) -> Table:
    """Measure the energy of products over two seconds each."""
    import cupy

    plan, backend = make_plan(sr.boolean, BOOL, storage="bits"), device_backend(sr.boolean, BOOL, "bits")
    counter, rows = _joules(), []
    for n in options.sizes[-2:]:
        A, B, C = (cupy.random.randint(0, 2**32, (n, n // 32), dtype=np.uint32) for _ in range(3))
        backend.multiply_add(plan, C, A, B)
        cupy.cuda.Device().synchronize()
        count, before, start = 0, counter(), time.perf_counter()
        while not count or time.perf_counter() - start < options.counted:
            for _ in range(8):
                backend.multiply_add(plan, C, A, B)
            cupy.cuda.Device().synchronize()
            count += 8
        spent = time.perf_counter() - start
        joules = counter() - before
        rows.append([n, joules / count / n**3 * 1e12, joules / spent])
    columns = ["n", "pJ a bit pair", "watts"]
    return Table("Energy of products of packed bits", columns, rows)


def _edges() -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        "int64 tail, int64 head, int64 words",
        "raw uint32 W",
        "atomicOr(&W[tail * words + head / 32], 1u << head % 32)",
        "edges",
    )


def closures(options: argparse.Namespace) -> Table:
    """Measure A ← A* in place by all pairs."""
    import cupy

    edges, rows = _edges(), []
    for n in (*options.sizes, *options.large):
        random = cupy.random.RandomState(n)
        tails, heads = random.randint(0, n, (2, int(1.2 * n)))
        words = cupy.zeros((n, -(-n // 32)), np.uint32)
        A = BitMatrix(words, (n, n))

        def call() -> None:
            words[...] = 0  # noqa: B023
            edges(tails, heads, words.shape[1], words)  # noqa: B023
            sr.closure(A, "boolean", out=A, structure=False)  # noqa: B023

        taken = _seconds(call, f"closure, n = {n}")
        if n <= 1 << 15:
            found = words.copy()
            words[...] = 0
            edges(tails, heads, words.shape[1], words)
            sr.closure(A, "boolean", out=A)
            assert bool((words == found).all())
        rows.append([n, taken * 1e3, format_number(n**3 / taken / 1e12, 0, ",")])
    columns = ["n", "ms, edges put in included", "T bit pairs/s"]
    return Table("Closures of packed bits on a GPU", columns, rows)


def components(options: argparse.Namespace) -> Table:
    """Measure A ← A* in place by strong components and by all n³ pairs. Each starts from the edges."""
    import cupy

    edges, n, rows = _edges(), options.vertices, []
    words = cupy.zeros((n, -(-n // 32)), np.uint32)
    A, random = BitMatrix(words, (n, n)), cupy.random.RandomState(n)
    tails, heads = cupy.sort(random.randint(0, n, (2, 10 * n)), axis=0)
    order = random.permutation(n)
    graphs = {
        "no cycle, 10 edges a vertex, in order": (tails, heads),
        "the same, hidden by a permutation": (order[tails], order[heads]),
        "random, 1.5 edges a vertex": random.randint(0, n, (2, 3 * n // 2)),
        "random, 100 edges a vertex": random.randint(0, n, (2, 100 * n)),
    }
    for kind, (tails, heads) in graphs.items():
        taken, found = [], []
        for structure in (True, False):

            def call(structure: bool = structure, tails: Any = tails, heads: Any = heads) -> None:
                words[...] = 0
                edges(tails, heads, words.shape[1], words)
                sr.closure(A, "boolean", out=A, structure=structure)

            taken.append(_seconds(call, f"closure, n = {n}, {kind}" if structure else "", repeats=3))
            found.append(words[:: max(1, n // 1024)].copy())
        assert bool((found[0] == found[1]).all())
        rows.append([kind, taken[0] * 1e3, taken[1] / taken[0]])
    return Table(f"Closures of {n} vertices by components", ["graph", "ms", "faster than by n³ pairs"], rows)


def _searches(tails: Any, heads: Any, n: int) -> Callable[[int], Any]:
    """Return a search that gives the reachable vertices of a vertex as packed bits."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    graph = coo_array((np.ones(len(tails), np.int8), (tails, heads)), shape=(n, n)).tocsr()

    def search(vertex: int) -> Any:
        found = np.zeros(n, np.bool_)
        found[breadth_first_order(graph, vertex, return_predecessors=False)] = True
        return np.packbits(found, bitorder="little")

    return search


def million(options: argparse.Namespace) -> Table:
    """Measure A ← A* in place and the memory beyond the matrix, and compare 64 rows with breadth-first searches."""
    import cupy

    n, rng, counter = options.million, np.random.default_rng(1), _joules()
    tails, heads = np.sort(rng.integers(0, n, (2, 10 * n)), axis=0)
    order, kept = rng.permutation(n), tails != heads
    random = rng.integers(0, n, (2, 3 * n // 2))
    acyclic = order[tails[kept]], order[heads[kept]]
    pool, words = cupy.get_default_memory_pool(), cupy.zeros((n, -(-n // 32)), np.uint32)
    A, edges, rows = BitMatrix(words, (n, n)), _edges(), []
    for kind, (tails, heads), structure in (
        ("random, 1.5 edges a vertex", random, True),
        ("no cycle, 10 edges a vertex, hidden", acyclic, True),
        ("random, by all pairs", random, False),
    ):
        words[...] = 0
        edges(cupy.asarray(tails), cupy.asarray(heads), words.shape[1], words)
        cupy.cuda.Device().synchronize()
        pool.free_all_blocks()
        held, joules, start = pool.total_bytes(), counter(), time.perf_counter()
        sr.closure(A, "boolean", out=A, structure=structure)
        cupy.cuda.Device().synchronize()
        taken, joules = time.perf_counter() - start, counter() - joules
        equal, reached = 0, _searches(tails, heads, n)
        for vertex in rng.integers(0, n, 64).tolist():
            found = words[vertex].get().view(np.uint8)[: -(-n // 8)]
            equal += np.array_equal(found, reached(vertex))
        more = (pool.total_bytes() - held) / A.nbytes
        rows.append([kind, taken, joules / 1e3, f"{format_number(100 * more, 1)} %", f"{equal} of 64", A.count()])
    columns = ["graph", "s", "kJ", "beside the matrix", "rows equal to searches", "bits"]
    return Table(f"Closures of {n} vertices", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, default=131072)
        parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192, 16384, 32768])
        parser.add_argument(
            "--panels", type=int, nargs="*", default=[131072], help="rows of products of 2048 and 4096 k"
        )
        parser.add_argument("--wide", type=int, nargs="*", default=[131072, 1 << 20], help="columns of `transposes`")
        parser.add_argument("--large", type=int, nargs="*", default=[65536, 131072], help="of `closures`")
        parser.add_argument("--counted", type=float, default=2.0, help="seconds over which energy is counted (2)")
        parser.add_argument("--million", type=int, default=1_000_000)

    tables = {"products": products, "transposes": transposes, "energy": energy, "closures": closures}
    tables |= {"components": components, "peers": peers, "million": million}
    return run("benchmarks.gpu.bits", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
