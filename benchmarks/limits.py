"""Measure how many pairs a second the registers of this machine allow, for each semiring and dtype.

A *pair* is one ⊗ and one ⊕ on one element. Each measurement runs a loop of independent pairs whose operands never leave
the registers. It tries the instruction mixes that compute the same values and takes the fastest. Sums are additions or
multiply-adds. Minima of floats are in floating point or on their bits. Every other benchmark divides by these numbers,
measured in the same run, because absolute times drift from machine to machine.

The products of log_plus are products of numbers, scaled before and after. So the limit of log_plus is that of
plus_times, and no loop of exponentials.

    python -m benchmarks.limits [--threads 1]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache

from benchmarks.common import Table, comparing, run

__all__ = ["LIMITS", "limit", "limits", "main", "word_limit"]

#: What `limits` measures by default: (semiring, dtype).
LIMITS = (
    *(("min_plus", dtype) for dtype in ("float32", "float64", "int32", "int16", "int64")),
    *(("max_times", dtype) for dtype in ("float32", "float64")),
    *(("max_min", dtype) for dtype in ("float32", "float64", "int32", "uint8")),
    *(("lukasiewicz", dtype) for dtype in ("float32", "float64")),
    ("plus_times", "float32"),
    ("plus_times", "float64"),
    ("boolean", "bool"),
)


@cache
def limit(semiring: str, dtype: str, threads: int = 1) -> float:
    """Return the pairs a second of the fastest instruction mix, or NaN in a comparison."""
    if comparing():
        return float("nan")
    if semiring == "log_plus":
        return limit("plus_times", dtype, threads)
    from benchmarks.limit_loop import fastest_rate

    return fastest_rate(semiring, dtype, threads)


def word_limit(threads: int = 1) -> float:
    """Return the bit pairs a second of or-and on packed words."""
    return 8 * limit("boolean", "bool", threads)


def limits(options: argparse.Namespace) -> Table:
    """Measure the limits of all semirings and dtypes."""
    rows = [(semiring, dtype, limit(semiring, dtype, options.threads) / 1e9) for semiring, dtype in LIMITS]
    rows.append(("boolean", "packed bits", word_limit(options.threads) / 1e9))
    return Table(f"Register-only limits, threads: {options.threads}", ("semiring", "dtype", "G pairs/s"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--threads", type=int, default=1)

    return run("benchmarks.limits", str(__doc__), {"limits": limits}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
