"""Close small files by strips as large ones are closed: small blocks of pivots, and little memory."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import matrices
import numpy as np
import pytest

import semiring as sr
from semiring.algorithms import schedule
from semiring.out_of_core import strip_layout

METHOD = "blocked_floyd_warshall"


def make_small(patch):
    """Use blocks of 32 pivots, no overhead of memory, and no closure in memory."""
    for name in ("cpu", "reference"):
        patch.setitem(schedule._TABLE, name, replace(schedule._TABLE[name], pivots=((0, 32),)))
    for name in ("HOST", "DEVICE"):
        patch.setattr(
            strip_layout,
            name,
            replace(getattr(strip_layout, name), min_rows=2, overhead=0, bytes_per_thread=0, bit_bytes_per_thread=0),
        )
    patch.setattr(import_module("semiring.closures.files"), "_WORKSPACE", 1 << 60)


def rounding_matrix(rng, n, name, dtype):
    """Return entries whose closures round, if they are floats."""
    if np.dtype(dtype).kind != "f" and name != "xor_and":
        return matrices.matrix(rng, n, name, dtype)
    values = rng.random((n, n)) ** 3  # sums of random multiples of 2⁻⁵³ below 1 would not be rounded
    if name == "xor_and":
        return np.triu(matrices.matrix(rng, n, name, dtype), 1)
    if name == "plus_times":
        return (values / (2 * n)).astype(dtype)
    if name == "log_plus":
        return (np.log(values) - np.log(2 * n)).astype(dtype)
    if name == "max_plus":
        values = -values
    if name == "min_times":
        values = 1 / values
    values[rng.random((n, n)) < 0.5] = sr.as_semiring(name).zero_for(np.dtype(dtype))
    return values.astype(dtype)


def least_memory(given, name="min_plus", **options):
    """Return the least memory for the closure of a file, or of an array by strips on a GPU, as the error says."""
    usual = {"out": given.with_name("none.npy")} if isinstance(given, Path) else {"device": "cuda"}
    with pytest.raises(ValueError, match="too small") as caught:
        sr.closure(given, name, **usual | options, memory=1)
    size, unit = str(caught.value).rsplit("takes ", 1)[1].split()
    return int(size.replace(",", "")) * {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and np.asarray(x).tobytes() == np.asarray(y).tobytes()
