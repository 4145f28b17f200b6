"""Test the NetworkX backend on a GPU without a GPU: what its configuration says, and which closures go there."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import fake_cupy
import networkx as nx
import pytest
from networkx_answers import WEIGHTED, WEIGHTS, answer, graph

from semiring.arrays import device as memory
from semiring.compat.networkx import graph as choice
from semiring.errors import DeviceError

KINDS = tuple(choice.LEAST_VERTICES)
LOADED = ("cupy", "torch", "jax_cuda12_plugin", "jax_cuda13_plugin")


@pytest.fixture
def gpu(monkeypatch):
    """Return the module and the backend that stand in for a GPU, which closes graphs of every size."""
    for kind in KINDS:
        monkeypatch.setitem(choice.LEAST_VERTICES, kind, 2)
    return fake_cupy.install(monkeypatch)


@pytest.fixture
def unload_libraries(monkeypatch):
    for name in LOADED:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("name", [*WEIGHTED, "floyd_warshall_numpy"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("directed", [False, True])
def test_whole_numbers_are_those_of_the_cpu(name, weights, directed, gpu):
    """Distances of whole numbers agree with the CPU, and of paths equal in length the same one is returned."""
    G = graph(20, 3, directed, weights)
    expected = answer(name, G, "cpu", weight="weight")
    assert gpu[1].calls == 0
    found = answer(name, G, "cuda", weight="weight")
    assert gpu[1].calls > 0
    assert str(found) == str(expected)


@pytest.mark.parametrize("name", ["all_pairs_shortest_path_length", "transitive_closure", "wiener_index"])
@pytest.mark.parametrize("directed", [False, True])
def test_hops_and_reachability(name, directed, gpu):
    G = graph(20, 3, directed, [1])
    expected = answer(name, G, "cpu")
    assert gpu[1].calls == 0
    assert answer(name, G, "cuda") == expected
    assert gpu[1].calls > 0


def test_paths_by_weights_of_both_signs_stay_on_the_cpu(gpu):
    """A CPU compares such paths under potentials, and a GPU could return other ones of the same length."""
    G = nx.DiGraph()
    G.add_weighted_edges_from([(0, 1, 3), (1, 2, -2), (0, 2, 1), (2, 3, 1)])
    assert answer("johnson", G, "cuda", weight="weight") == answer("johnson", G, "cpu", weight="weight")
    assert gpu[1].calls == 0


def test_floats_on_a_gpu(gpu):
    G = graph(20, 3, True, [0.5, 2.25, 1.0])
    expected = answer("floyd_warshall", G, "cpu", weight="weight")
    assert answer("floyd_warshall", G, "cuda", weight="weight") == expected
    assert gpu[1].calls > 0


def test_the_configuration_is_automatic_and_small_graphs_stay_on_the_cpu():
    assert nx.config.backends.semiring.device == "auto"
    for kind, least in choice.LEAST_VERTICES.items():
        assert least >= 1024
        with nx.config.backends.semiring(device="cuda"):
            assert choice.device_for(kind, least - 1) is None


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_imported_where_no_library_of_gpus_is_loaded(kind, monkeypatch, unload_libraries):
    def load():
        raise AssertionError("CuPy was looked for")

    monkeypatch.setattr(memory, "_probe_cupy", load)
    for device in ("auto", "cpu"):
        with nx.config.backends.semiring(device=device):
            assert choice.device_for(kind, 10**6) is None
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=None)))
    assert choice.device_for(kind, 10**6) is None


@pytest.mark.parametrize("library", LOADED)
def test_a_library_of_gpus_that_is_loaded(library, monkeypatch, unload_libraries):
    """A GPU is used where CuPy finds one."""
    module = SimpleNamespace(version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, library, module)
    monkeypatch.setattr(memory, "_probe_cupy", lambda: "CuPy, which is not installed")
    assert choice.device_for("distances", 10**6) is None
    monkeypatch.setattr(memory, "_probe_cupy", fake_cupy.Module)
    assert choice.device_for("distances", 10**6) == "cuda"
    with nx.config.backends.semiring(device="cpu"):
        assert choice.device_for("distances", 10**6) is None


def test_a_device_that_is_named(monkeypatch):
    monkeypatch.setattr(memory, "_probe_cupy", fake_cupy.Module)
    for device in ("cuda", "cuda:0", "cuda:*", ("cuda:0",)):
        with nx.config.backends.semiring(device=device):
            assert choice.device_for("reachability", 10**6) == device
    with nx.config.backends.semiring(device="cuda:1"), pytest.raises(DeviceError, match="there is no GPU cuda:1"):
        choice.device_for("reachability", 10**6)
    monkeypatch.setattr(memory, "_probe_cupy", lambda: "CuPy, which is not installed")
    with nx.config.backends.semiring(device="cuda"), pytest.raises(DeviceError, match="needs CuPy, which is not"):
        choice.device_for("distances", 10**6)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "CUDA", None, 1, ("cuda:0", "cpu"), ()])
def test_what_is_no_device(device):
    with nx.config.backends.semiring(device=device), pytest.raises(DeviceError, match="set 'auto', 'cpu', 'cuda', "):
        choice.device_for("distances", 2)
