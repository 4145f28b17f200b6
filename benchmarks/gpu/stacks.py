"""Measure the paths of stacks of small graphs on a GPU: arrays on the device, by the clock, scans of the data included.

python -m benchmarks.gpu.stacks [--stack 512 24] [--searched 1000 100]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_synchronized_clock, comparing, format_number, ours, run
from benchmarks.small import GRAPHS, graph_stack

__all__ = ["main"]


def stacks(options: argparse.Namespace) -> Table:
    """Measure distances, predecessors and the array of all paths of two stacks."""
    import cupy

    rows = []
    for count, n in (options.stack, options.searched):
        for kind, edges in GRAPHS.items():
            A = graph_stack(count, n, edges)
            given = cupy.asarray(A)
            if not comparing():
                assert np.array_equal(sr.shortest_paths(given).matrix.get(), sr.closure(A)), "GPU and CPU disagree"
            calls: tuple[Callable[[], Any], ...] = (
                lambda given=given: sr.closure(given),  # type: ignore[misc]
                lambda given=given: sr.shortest_paths(given),  # type: ignore[misc]
                lambda given=given: sr.shortest_paths(given).to_array(),  # type: ignore[misc]
            )
            titles = "distances", "predecessors", "array"
            seconds = [
                ours(f"{count} × {n}, {kind}: {title}", call, clock=by_synchronized_clock, repeats=25)
                for title, call in zip(titles, calls, strict=True)
            ]
            rows.append([f"{count} × {n}", kind, *(format_number(1e3 * each, 3) for each in seconds)])
    columns = ["stack", "graphs", "distances, ms", "and predecessors, ms", "and the array of all paths, ms"]
    return Table("Stacks of graphs, float32, on the GPU", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--stack", type=int, nargs=2, default=(512, 24), help="graphs and vertices")
        parser.add_argument("--searched", type=int, nargs=2, default=(1000, 100), help="graphs and vertices")

    return run("benchmarks.gpu.stacks", str(__doc__), {"stacks": stacks}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
