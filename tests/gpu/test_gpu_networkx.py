"""Test the NetworkX backend on a GPU: bitwise the CPU for whole numbers, otherwise NetworkX up to rounding."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from networkx_answers import WEIGHTED, WEIGHTS, answer, graph

from _semiring_networkx import interface
from semiring.compat.networkx import graph as choice

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not hasattr(nx.config.backends, "semiring"), reason="NetworkX finds installed backends alone: pip install -e ."
    ),
]

PLAIN = ["all_pairs_shortest_path_length", "transitive_closure", "wiener_index", "closeness_centrality"]


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    """Send graphs of every size to the GPU."""
    for kind in choice.LEAST_VERTICES:
        monkeypatch.setitem(choice.LEAST_VERTICES, kind, 1)


@pytest.mark.parametrize("name", [*WEIGHTED, "all_pairs_bellman_ford_path_length"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("directed", [False, True])
def test_whole_numbers(name, weights, directed):
    for n in (2, 33, 200):
        G = graph(n, 4, directed, weights)
        expected = answer(name, G, "cpu", weight="weight")
        for device in ("cuda", "cuda:0", "cuda:*"):
            assert str(answer(name, G, device, weight="weight")) == str(expected)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("directed", [False, True])
def test_hops_and_reachability(name, directed):
    for n in (2, 33, 200):
        G = graph(n, 4, directed, [1])
        expected = answer(name, G, "cpu")
        for device in ("cuda", "cuda:*"):
            assert answer(name, G, device) == expected


def test_large_graphs_with_structure(rng):
    """The CPU analyses the structure of graphs of these sizes, and finds predecessors as well."""
    for G in (nx.grid_2d_graph(40, 40), nx.random_labeled_tree(1600, seed=1), nx.gnp_random_graph(1600, 0.002, seed=1)):
        for _, _, attributes in G.edges(data=True):
            attributes["weight"] = int(rng.integers(1, 4))
        name = "floyd_warshall_predecessor_and_distance"
        assert answer(name, G, "cuda", weight="weight") == answer(name, G, "cpu", weight="weight")


def test_floats(rng):
    G = graph(200, 4, True, rng.random(50).tolist())
    with nx.config.backends.semiring(device="cuda"):
        encoded = interface.convert_from_nx(G, edge_attrs={"weight": 1})
        found = interface.floyd_warshall_numpy(encoded)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, nx.floyd_warshall_numpy(G, backend="networkx"), rtol=1e-12)
    lengths = dict(answer("all_pairs_dijkstra_path_length", G, "cuda", weight="weight"))
    for node, (distances, paths) in answer("all_pairs_dijkstra", G, "cuda", weight="weight"):
        assert distances == lengths[node]
        for target, path in paths.items():
            assert nx.path_weight(G, path, "weight") == pytest.approx(distances[target], rel=1e-12)


def test_automatic_choice():
    """Once CuPy is loaded, a GPU closes graphs, unless the configuration says otherwise."""
    import cupy

    assert cupy.cuda.runtime.getDeviceCount()
    assert choice.device_for("distances", 100) == "cuda"
    with nx.config.backends.semiring(device="cpu"):
        assert choice.device_for("distances", 100) is None
