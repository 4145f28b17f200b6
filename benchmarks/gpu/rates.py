"""Compare closures on a GPU, with predecessors and in stacks, with the product that they call.

    python -m benchmarks.gpu.rates [closures] [stacks] [predecessors] [--sizes 256 ... 32768] [--peers DIR]

`semiring.closure` chooses the method, in place, with ``check=False``. One time is the median by events of the device. A
kernel that waits goes first, so that the host enqueues in advance. The other time is by the clock of one call after the
other. The share is of the rate of a product of 8192 × 8192 matrices in the same semiring, dtype and run. Complete
graphs with whole-numbered weights from 1 to 1000. With predecessors, of weights with halves, which no narrower dtype
holds, the clock of the host counts, as numbers go back and forth. ``--peers``: see `benchmarks.gpu.peers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_device, by_synchronized_clock, comparing, format_number, ours, run, theirs
from benchmarks.gpu.peers import Peer, peers

__all__ = ["main"]

SIZES = (256, 1024, 2048, 2560, 3072, 4096, 8192, 16384, 32768)
STACKS = ((1000, 100), (10_000, 32), (100, 129), (100, 256), (20, 512), (4, 1024))
KINDS = (("min_plus", "float32"), ("min_plus", "int32"), ("max_min", "float32"))
NO_EDGE = 2**29  # the file name of the peer that computes predecessors
PRODUCT = 8192


def complete(n: int, dtype: str, copies: int = 0) -> Any:
    """Return weights from 1 to 1000 on the device: a matrix, or a stack of them."""
    import cupy

    shape = (copies, n, n) if copies else (n, n)
    return cupy.random.RandomState(n).randint(1, 1001, shape, dtype=np.int32).astype(dtype, copy=False)


def closing(label: str, work: Any, source: Any, semiring: str = "min_plus") -> float:
    """Return milliseconds of the device to close a copy of ``source`` in ``work``, as `semiring.closure` chooses."""

    def renew() -> None:
        work[...] = source

    def close() -> None:
        sr.closure(work, semiring, out=work, check=False)

    return 1e3 * ours(label, close, setup=renew, clock=by_device, repeats=12, seconds=0.5)


def product_rate(semiring: str, dtype: str) -> float:
    """Return pairs a second of C ← C ⊕ A ⊗ B at n = 8192, with the facts of the closures, or NaN in a comparison."""
    if comparing():
        return float("nan")
    from semiring.kernels import get_backend
    from semiring.kernels.engine import make_plan

    backend, plan = get_backend("cuda"), make_plan(sr.as_semiring(semiring), dtype, nonnegative=True)
    A, B, C = (complete(PRODUCT, dtype) for _ in range(3))
    return PRODUCT**3 / theirs(lambda: backend.multiply_add(plan, C, A, B), clock=by_device, seconds=0.5)


def closures(options: argparse.Namespace) -> Table:
    """Measure milliseconds of one matrix, and the share of the product's rate."""
    cells: dict[int, list[Any]] = {n: [n] for n in options.sizes}
    for semiring, dtype in KINDS:
        rate = product_rate(semiring, dtype)
        for n, row in cells.items():
            given = complete(n, dtype)
            elapsed = closing(f"closure, {semiring}, {dtype}, n = {n}", given.copy(), given, semiring)
            row += [elapsed, f"{format_number(100 * n**3 / elapsed * 1e3 / rate, 0)} %"]
            del given
    columns = ["n", *(cell for semiring, dtype in KINDS for cell in _columns(semiring, dtype))]
    return Table(
        f"Closures in place, beside the products of {PRODUCT} × {PRODUCT} matrices", columns, list(cells.values())
    )


def _columns(semiring: str, dtype: str) -> tuple[str, str]:
    kind = f"{semiring} {dtype}"
    return f"{kind}, ms", f"{kind}, of its product"


def stacks(options: argparse.Namespace) -> Table:
    """Measure many graphs in one call, and at most 100 one by one, scaled, by the clock of the host."""
    rows = []
    for count, n in options.stack or STACKS:
        given = complete(n, "float32", count)
        work = given.copy()

        def one_by_one(work: Any = work) -> None:
            for matrix in work[:100]:
                sr.closure(matrix, out=matrix, check=False)

        label = f"{count:,} of n = {n}"
        elapsed = closing(f"closure, {label}", work, given)
        separate = ours(f"one after the other, {label}", one_by_one, clock=by_synchronized_clock)
        ms = separate * 1e3 * max(1.0, count / 100)
        rows.append([count, n, elapsed, count * n**3 / elapsed / 1e9, ms])
    columns = ["graphs", "vertices", "ms", "T pairs/s", "one call after the other, ms"]
    return Table("Stacks of graphs, min-plus float32", columns, rows)


def predecessors(options: argparse.Namespace) -> Table:
    """Measure the price of predecessors, on the device and with transfers, beside a peer that computes them."""
    others = [peer for peer in peers(options.peers) if peer.closure_on_host() is not None]
    rows = []
    for n in options.paths:
        A = complete(n, "float32") + np.float32(0.5)
        on_host = A.get()

        def milliseconds(label: str, A: Any, n: int = n, **keywords: Any) -> float:
            call = lambda: sr.shortest_paths(A, **keywords)  # noqa: E731
            return 1e3 * ours(f"{label}, n = {n}", call, clock=by_synchronized_clock, seconds=0.5)

        distances = milliseconds("distances", A, predecessors=False)
        both = milliseconds("with predecessors", A)
        moved = milliseconds("from the host and back", on_host, device="cuda")
        found = [] if comparing() else [_of_peer(peer, np.floor(on_host)) for peer in others]
        rows.append([n, distances, both, f"{format_number(both / distances, 2)}×", moved, *found])
    columns = ["n", "distances, ms", "with predecessors, ms", "ratio", "from the host and back, ms"]
    if not comparing():
        columns += [f"{peer.name}, from the host and back, ms" for peer in others]
    return Table("Predecessors, min-plus float32", columns, rows)


def _of_peer(peer: Peer, A: np.ndarray) -> float:
    """Return the median milliseconds of three closures with predecessors, whose distances must be ours."""
    close = peer.closure_on_host()
    assert close is not None
    weights = A.astype(np.int32)
    np.fill_diagonal(weights, 0)
    edges = (weights < NO_EDGE) & ~np.eye(len(A), dtype=bool)
    before = np.where(edges, np.arange(len(A), dtype=np.int32)[:, None], np.int32(-1))
    times = []
    for _ in range(3):
        D, P = weights.copy(), before.copy()
        start = time.perf_counter()
        close(D, P)
        times.append((time.perf_counter() - start) * 1e3)
    expected = sr.closure(A, device="cuda")
    assert (expected == D).all(), f"{peer.name} found other distances"
    return float(np.median(times))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
        parser.add_argument(
            "--paths", type=int, nargs="+", default=[2048, 2560, 3072, 4096, 8192], help="with predecessors"
        )
        parser.add_argument("--stack", type=int, nargs=2, action="append", metavar=("COUNT", "N"), help="of `stacks`")
        parser.add_argument("--peers", help="a folder of shared libraries")

    tables = {"closures": closures, "stacks": stacks, "predecessors": predecessors}
    return run("benchmarks.gpu.rates", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
