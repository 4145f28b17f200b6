"""Measure some numbers of `CpuSpeed` for `semiring tune`, one group after the other, on products that they affect.

The candidates of a group are compared with the best so far, alternating, by the fastest of some runs each. Other load
on the machine can only slow a run. A candidate that is not clearly faster is rejected. Numbers that are not measured
keep their former values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semiring.algebra.catalogue import log_plus, min_plus
from semiring.kernels import get_backend
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu import first_calls
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.engine import make_plan
from semiring.kernels.machines import cpu_speed, override_speed
from semiring.kernels.machines.speed_data import CpuSpeed

_RUNS = 5  # runs of each of the two candidates
_ACCEPTANCE_RATIO = 0.98  # a candidate must take at most this share of the time of the best so far


@dataclass(frozen=True)
class Step:
    """The measurement of one candidate."""

    names: tuple[str, ...]
    values: tuple[int, ...]
    seconds: float
    best_seconds: float  # the time of the best so far, measured alternating with the candidate
    is_accepted: bool


@dataclass(frozen=True)
class _TuningGroup:
    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    work: Callable[[int], Callable[[], None]]  # a function of the number of threads


def _product(semiring: Any, n: int, threads: int) -> Callable[[], None]:
    plan: KernelPlan = make_plan(semiring, np.float32, nonnegative=True, threads=threads)
    backend, rng = get_backend("cpu"), np.random.default_rng(n)
    first_calls.SECONDS = 0.0  # the measured kernels are compiled
    A, B, C = (rng.random((n, n), np.float32) for _ in range(3))
    return lambda: backend.multiply_add(plan, C, A, B)


def _groups(threads: int) -> Iterator[_TuningGroup]:
    tiles = ((6, 4), (4, 4), (5, 4), (8, 3), (9, 2), (12, 2), (14, 2), (4, 3), (4, 2), (3, 3), (6, 1), (8, 1))
    yield _TuningGroup(("rows", "vectors"), tiles, lambda _: _product(min_plus, 960, 1))
    small = ((4, 2), (2, 2), (3, 2), (2, 4), (6, 2), (4, 1), (8, 1))
    yield _TuningGroup(("heavy_rows", "heavy_vectors"), small, lambda _: _product(log_plus, 240, 1))
    cuts = tuple((depth, packed << 18) for depth in (256, 384, 512, 768) for packed in (1, 2, 4))
    yield _TuningGroup(("depth", "packed"), cuts, lambda _: _product(min_plus, 1536, 1))
    yield _TuningGroup(("blocks",), ((4,), (8,), (16,), (32,)), lambda _: _product(min_plus, 1536, 1))
    if threads > 1:
        yield _TuningGroup(("tasks",), ((1,), (2,), (4,), (8,)), lambda count: _product(min_plus, 1024, count))
        pairs = tuple((1 << power,) for power in range(17, 22))
        yield _TuningGroup(("task_pairs",), pairs, lambda count: _product(min_plus, 192, count))
        pairs = tuple((1 << power,) for power in range(18, 24))
        yield _TuningGroup(("parallel_pairs",), pairs, lambda count: _product(min_plus, 128, count))


def tune(threads: int, report: Callable[[Step], None]) -> CpuSpeed:
    """Return the best speed data that were measured, and call ``report`` with the measurement of each candidate.

    This takes about a minute.
    """
    best, target = cpu_speed(), host()
    for group in _groups(threads):
        work = group.work(threads)
        for values in group.values:
            candidate = replace(best, **dict(zip(group.names, values, strict=True)))
            if candidate == best or not candidate.is_valid(target.vector_bytes, target.registers):
                continue
            before, seconds = _fastest(work, (best, candidate))
            is_accepted = seconds < _ACCEPTANCE_RATIO * before
            report(Step(group.names, values, seconds, before, is_accepted))
            best = candidate if is_accepted else best
    return best


def _fastest(work: Callable[[], None], speeds: Sequence[CpuSpeed]) -> list[float]:
    """Return the fastest run of the work with each of the speeds, alternating, after one run that compiles."""
    times: list[list[float]] = [[] for _ in speeds]
    for run in range(_RUNS + 1):
        for speed, seconds in zip(speeds, times, strict=True):
            with override_speed(speed):
                start = time.perf_counter()
                work()
                if run:
                    seconds.append(time.perf_counter() - start)
    return [min(seconds) for seconds in times]
