"""Compare closures on a GPU: the look-ahead kernel, two launches a stage, and blocked Floyd-Warshall.

    python -m benchmarks.gpu.staged [--kinds min_plus/float64 ...] [--sizes 192 256 ...]

The measurements behind the sizes of `semiring.kernels.cuda.closing.look_ahead` and the change-over to blocked
Floyd-Warshall in `semiring.algorithms.schedule`. Medians in milliseconds, in place, of complete graphs: by events of
the device, which the host keeps ahead of, and by the clock of one call after the other. Blocked Floyd-Warshall is
replayed, as `semiring.closure` does up to n = 4096. The results of all three are compared: equal, as all weights are
whole.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import semiring as sr
from benchmarks.common import Table, by_device, by_synchronized_clock, format_number, ours, run
from benchmarks.gpu.rates import complete
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.kernels import get_backend
from semiring.kernels.cuda import closing as staged
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed

__all__ = ["main"]

KINDS = ("min_plus/float64", "max_min/float64", "min_plus/int64", "max_min/int16")
SIZES = (129, 192, 256, 384, 512, 768, 1024, 1408, 1536, 2048, 2560, 3072)
SECONDS = 0.15  # the number of closures of which the median counts


def ways(semiring: str, dtype: str) -> dict[str, Callable[[Any], None]]:
    """Return the three methods by name, each of which closes a matrix in place."""
    backend, plan = get_backend("cuda"), make_plan(sr.as_semiring(semiring), dtype, nonnegative=True)
    streams = backend.capabilities.streams
    assert streams is not None
    panel = closure_speed("cuda", plan.dtype).panel

    def close_blocked(A: Any) -> None:
        streams.replay(
            plan, A, lambda plan: Engine(backend, plan, panel, may_synchronize=False), blocked_floyd_warshall
        )

    return {
        "look-ahead": lambda A: staged.close(plan, A, look_ahead=True),
        "two launches a stage": lambda A: staged.close(plan, A[None]),
        "blocked": close_blocked,
    }


def row(kind: str, n: int) -> list[Any]:
    """Return the times of the three methods at one size."""
    semiring, dtype = kind.split("/")
    given = complete(n, dtype)
    work = given.copy()
    closed, by_events, by_clock = [], [], []

    def renew() -> None:
        work[...] = given

    for name, close in ways(semiring, dtype).items():
        renew()
        close(work)
        closed.append(work.copy())
        label, call = f"{name}, {kind}, n = {n}", partial(close, work)
        by_events.append(1e3 * ours(label, call, setup=renew, clock=by_device, repeats=12, seconds=SECONDS))
        by_clock.append(1e3 * ours(f"{label}, by the clock", call, clock=by_synchronized_clock, seconds=SECONDS))
    assert all(bool((one == closed[0]).all()) for one in closed), f"{kind}, n = {n}: other closures"
    return [semiring, dtype, n, *by_events, f"{format_number(by_events[0] / by_events[1], 2)}×", *by_clock]


def methods(options: argparse.Namespace) -> Table:
    """Measure all kinds and sizes."""
    names = list(ways("min_plus", "float64"))
    columns = ["semiring", "dtype", "n", *names, "look-ahead / stages", *(f"{name}, by the clock" for name in names)]
    return Table("One matrix, ms", columns, [row(kind, n) for kind in options.kinds for n in options.sizes])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--kinds", nargs="+", default=KINDS, help="semiring/dtype")
        parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)

    return run("benchmarks.gpu.staged", str(__doc__), {"methods": methods}, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
