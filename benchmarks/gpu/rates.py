"""Closures on a GPU beside the product they stand on; with predecessors; in stacks.

    python -m benchmarks.gpu.rates [--sizes 256 ... 32768] [--peers DIR]

What `semiring.closure` chooses by itself, in place, ``check=False``: medians by events of the device, which the host
keeps ahead of (a kernel that waits goes first), and by the clock of one call after the other; and the share of the rate
of a product of 8192 × 8192 matrices in the same semiring, dtype and run. Complete graphs with whole-numbered weights
from 1 to 1000. With predecessors, of weights with halves, which no narrower dtype holds, the clock of the host counts,
as numbers go back and forth. ``--peers``: see `benchmarks.gpu.peers`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import device_milliseconds, print_table
from benchmarks.gpu.peers import Peer, peers
from semiring.kernels import get_backend
from semiring.kernels.engine import make_plan

__all__ = ["main"]

SIZES = (256, 1024, 2048, 4096, 8192, 16384, 32768)
STACKS = ((1000, 100), (10_000, 32), (100, 129), (100, 256), (20, 512), (4, 1024))
KINDS = (("min_plus", "float32"), ("min_plus", "int32"), ("max_min", "float32"))
NO_EDGE = 2**29  # of the peer that keeps predecessors
AHEAD = 2.0  # milliseconds that the device waits while the host enqueues a call
PRODUCT = 8192


def complete(n: int, dtype: str, copies: int = 0) -> Any:
    """Weights from 1 to 1000 on the device: a matrix, or a stack of them."""
    import cupy

    shape = (copies, n, n) if copies else (n, n)
    return cupy.random.RandomState(n).randint(1, 1001, shape, dtype=np.int32).astype(dtype, copy=False)


def events(call: Callable[[], None], before: Callable[[], None], seconds: float = 0.5) -> float:
    """The median time of the device for some calls in milliseconds, after two that compile and record; ``before`` each,
    not counted.
    """
    for _ in range(2):
        before()
        call()
    times: list[float] = []
    while len(times) < 2 or (len(times) < 12 and sum(times) < seconds * 1e3):
        before()
        times.append(device_milliseconds(call, AHEAD))
    return float(np.median(times))


def clock(call: Callable[[], Any], repeats: int = 4) -> float:
    """The median of some calls in milliseconds by the clock of the host, after one that warms up."""
    import cupy

    times = []
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        call()
        cupy.cuda.Device().synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return float(np.median(times[1:]))


def product_rate(semiring: str, dtype: str) -> float:
    """Pairs a second of C ← C ⊕ A ⊗ B at n = 8192, as the closures below ask for it."""
    backend, plan = get_backend("cuda"), make_plan(sr.as_semiring(semiring), dtype, nonnegative=True)
    A, B, C = (complete(PRODUCT, dtype) for _ in range(3))
    return PRODUCT**3 / events(lambda: backend.multiply_add(plan, C, A, B), lambda: None) * 1e3


def shares(sizes: Sequence[int]) -> None:
    """One row a semiring and dtype: milliseconds, and the share of the product's rate."""
    rows = []
    for semiring, dtype in KINDS:
        rate = product_rate(semiring, dtype)
        for n in sizes:
            given = complete(n, dtype)
            work = given.copy()

            def close(work: Any = work, semiring: str = semiring) -> None:
                sr.closure(work, semiring, out=work, check=False)

            def renew(work: Any = work, given: Any = given) -> None:
                work[...] = given

            elapsed = events(close, renew)
            speed = n**3 / elapsed * 1e3
            share = f"{100 * speed / rate:.0f} %"
            rows.append([semiring, dtype, n, elapsed, speed / 1e12, share, clock(close, 7 if n < PRODUCT else 2)])
            del given, work, close, renew
    header = ["semiring", "dtype", "n", "ms", "T pairs/s", f"of the product at {PRODUCT}", "ms by the clock"]
    print_table("Closures in place", header, rows)


def stacks() -> None:
    """Many graphs in one call, and one call after the other, by the clock of the host: of at most 100, scaled."""
    rows = []
    for count, n in STACKS:
        given = complete(n, "float32", count)
        work = given.copy()

        def together(work: Any = work) -> None:
            sr.closure(work, out=work, check=False)

        def one_by_one(work: Any = work) -> None:
            for matrix in work[:100]:
                sr.closure(matrix, out=matrix, check=False)

        elapsed = events(together, lambda work=work, given=given: work.__setitem__(..., given))  # type: ignore[misc]
        all_in_one, separate = clock(together), clock(one_by_one) * max(1.0, count / 100)
        ratio = f"{separate / all_in_one:.1f}×"
        rows.append([count, n, elapsed, count * n**3 / elapsed / 1e9, all_in_one, separate, ratio])
    header = ["graphs", "vertices", "ms", "T pairs/s", "ms by the clock", "one after the other", "ratio"]
    print_table("Stacks of graphs, min-plus float32", header, rows)


def predecessors(sizes: Sequence[int], folder: str | None) -> None:
    """The price of predecessors, on the device and from the host and back, beside a peer that keeps them."""
    others = [peer for peer in peers(folder) if peer.closure_on_host() is not None]
    rows = []
    for n in sizes:
        A = complete(n, "float32") + np.float32(0.5)
        distances = clock(lambda A=A: sr.shortest_paths(A, predecessors=False))  # type: ignore[misc]
        both = clock(lambda A=A: sr.shortest_paths(A))  # type: ignore[misc]
        on_host = A.get()
        moved = clock(lambda A=on_host: sr.shortest_paths(A, device="cuda"), 3)  # type: ignore[misc]
        theirs = [_of_peer(peer, np.floor(on_host)) for peer in others]
        rows.append([n, distances, both, f"{both / distances:.2f}×", moved, *theirs])
    header = ["n", "distances, ms", "with predecessors, ms", "ratio", "from the host and back, ms"]
    print_table("Predecessors, min-plus float32", [*header, *(f"{peer.name}, int32, ms" for peer in others)], rows)


def _of_peer(peer: Peer, A: np.ndarray) -> float:
    """Milliseconds of one closure with predecessors, of three the median; its distances are ours."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--peers", help="a folder of shared libraries")
    options = parser.parse_args(arguments)
    import cupy

    print(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    shares(options.sizes)
    stacks()
    predecessors([n for n in options.sizes if 2048 <= n <= PRODUCT], options.peers)


if __name__ == "__main__":
    main()
