"""Test every table of every benchmark for a GPU, at a tiny size, by its command line. No test checks a time."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest
import table_checks

import semiring as sr

pytestmark = [pytest.mark.gpu, pytest.mark.full]

#: The options that make all tables of a module small.
SMALL = {
    "benchmarks.gpu.bits": (
        "--sizes 512 --panels 512 --wide 1024 --large 1024 --vertices 2048 --million 4096 --counted 0.2"
    ),
    "benchmarks.gpu.centrality": "--graph 200 800 --sources 20 --dense 60 --changed 100 300 --changes 3",
    "benchmarks.gpu.closure": "--sizes 640 --energy 512 --counted 0.2",
    "benchmarks.gpu.compat": "--vertices 64 200",
    "benchmarks.gpu.gemm": "--divide 16",
    "benchmarks.gpu.large": "--n 1024 --rows 4",
    "benchmarks.gpu.larger": "--n 8192 --memory 250MiB --rows array file journal",
    "benchmarks.gpu.linalg": "--size 512 --small 4 64 --stacked 100",
    "benchmarks.gpu.narrow": "--sizes 512",
    "benchmarks.gpu.rates": "--sizes 256 --paths 256 --stack 10 32",
    "benchmarks.gpu.regression": "--sizes 256 --small 64 --stack 10 32",
    "benchmarks.gpu.several": "--n 512 --bits 1024 --paths 512 --stack 8 40 --rows 4",
    "benchmarks.gpu.stacks": "--stack 5 6 --searched 3 40",
    "benchmarks.gpu.sparse_products": "--vertices 2000 100 --scale 6 --layer 30 90 4 --batch 2",
    "benchmarks.gpu.staged": "--sizes 129",
    "benchmarks.gpu.structure": "--vertices 512 --complete 256",
}

#: The tables that run only where a package is installed that the extras for a GPU do not install.
NEEDS = {
    ("benchmarks.gpu.compat", "functions"): "networkx",
    ("benchmarks.gpu.bits", "energy"): "pynvml",
    ("benchmarks.gpu.bits", "million"): "pynvml",
    ("benchmarks.gpu.bits", "peers"): "torch",
    ("benchmarks.gpu.closure", "energy"): "pynvml",
    ("benchmarks.gpu.gemm", "custom_peers"): "torch",
    ("benchmarks.gpu.gemm", "log_peers"): "torch",
    ("benchmarks.gpu.several", "closures"): "pynvml",
    **{("benchmarks.gpu.sparse_products", name): "torch" for name in ("products", "dense", "triangles", "layers")},
}

#: The tables that need more than one GPU.
SEVERAL = {("benchmarks.gpu.several", name) for name in ("bits", "paths", "stacks")}

#: The columns that some rows leave empty, with the reason.
PARTLY = {
    ("benchmarks.gpu.centrality", "centrality"): "NetworKit",
    ("benchmarks.gpu.closure", "edges-60"): ".",  # a method that would take too long, one size, and kernel 1b
    ("benchmarks.gpu.closure", "edges-6"): ".",
    ("benchmarks.gpu.closure", "edges-600"): ".",
    ("benchmarks.gpu.gemm", "products"): "of the loop alone|of the pipes' rate",  # products of cuBLAS
    ("benchmarks.gpu.larger", "larger"): "rounds|moved|of the model's|of the bound",  # an array, and what is in memory
    ("benchmarks.gpu.several", "closures"): ".",  # one GPU copies nothing
}


def partly(module, name):
    pattern = PARTLY.get((module, name))
    return None if pattern is None else re.compile(pattern)


def several_gpus():
    import cupy

    return cupy.cuda.runtime.getDeviceCount() > 1


def check(module, run, missing):
    assert set(run.left_out) == missing, run.left_out
    for name, table in run.tables.items():
        table_checks.check(f"{module} {name}", table, partly(module, name))


def test_no_benchmark_of_a_gpu_is_forgotten():
    assert set(SMALL) == set(table_checks.scripts(table_checks.FOLDER / "gpu"))


@pytest.mark.parametrize("module", SMALL)
def test_every_table_of_a_gpu_is_filled(module, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "0")
    if module == "benchmarks.gpu.compat" and find_spec("networkx") is not None:
        import networkx as nx

        if not hasattr(nx.config.backends, "semiring"):
            pytest.skip("NetworkX finds installed backends alone: pip install -e .")
    missing = {name for (of, name), need in NEEDS.items() if of == module and find_spec(need) is None}
    missing |= {name for of, name in SEVERAL if of == module and not several_gpus()}
    check(module, table_checks.ran(module, SMALL[module], tmp_path, capsys), missing)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("benchmarks.factor", "device --vertices 256"),
        ("benchmarks.autodiff", "--n 16 --device cuda"),
        ("benchmarks.papers", "gpu --sizes 640 704 --counted 0"),
    ],
)
def test_tables_of_other_benchmarks_run_on_a_gpu(module, arguments, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "0")
    before = sr.get_threads()
    try:
        found = table_checks.ran(module, arguments, tmp_path, capsys)
    finally:
        sr.set_threads(before)
    if module == "benchmarks.papers":
        table_checks.check("gpu", found.tables["gpu"])
    elif module == "benchmarks.factor":
        assert list(found.tables) == ["device"]
        table_checks.check("device", found.tables["device"], re.compile("distances/s"))  # there are none of `refactor`
    else:
        check(module, found, set() if find_spec("torch") else {"product", "closure"})
