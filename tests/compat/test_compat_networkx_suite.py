"""Run NetworkX's own tests with the backend switched on, and a user's script that does not mention it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import full

from _semiring_networkx import FUNCTIONS
from tools.networkx_suite import install_entry_points

ROOT = Path(__file__).parents[2]


def run(*command, **environment) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=variables)


@pytest.mark.full
@pytest.mark.parametrize(
    "selection",
    full(bool, [["-k", "not use_bounds"], []]),  # 500 random graphs, with the same four measures of each
    ids=["without random graphs", "all"],
)
def test_the_tests_of_networkx_pass_and_run_our_functions(tmp_path, selection):
    done = run(str(ROOT / "tools" / "networkx_suite.py"), "--json", str(tmp_path / "counts.json"), "--", *selection)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert set(counts["outcomes"]) <= {"passed", "skipped", "xfailed"}
    assert counts["outcomes"]["passed"] > 300
    # NetworkX tests barycenters of trees by hops, which the backend leaves to it.
    assert [name for name in FUNCTIONS if not counts["tests"][name]] in ([], ["barycenter"])


def test_what_networkx_loads_to_decide_is_the_standard_library():
    code = (
        "import sys, _semiring_networkx as info, _semiring_networkx.interface as backend\n"
        "assert info.get_info()['functions'].keys() <= set(dir(backend))\n"
        "backend.can_run('diameter', ({},), {}), backend.should_run('diameter', ({},), {}), backend.convert_to_nx(1)\n"
        "print(*sys.modules)"
    )
    done = run("-W", "error", "-c", code)
    assert done.stderr == ""
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "_semiring_networkx" in loaded
    assert not loaded & {"semiring", "numpy", "numba", "scipy", "sympy", "networkx"}


SCRIPT = """
import logging, sys, networkx as nx
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
G = nx.random_regular_graph(6, 300, seed=1)
for number, (u, v, data) in enumerate(G.edges(data=True)):
    data["weight"] = 1 + number % 7
print(sum(map(sum, (row.values() for row in nx.floyd_warshall(G).values()))))  # worth starting the compiler
print(nx.diameter(G), nx.wiener_index(G), nx.average_shortest_path_length(G, weight="weight"))
print(sum(sum(row.values()) for _, row in nx.all_pairs_dijkstra_path_length(G)))
print(nx.floyd_warshall_numpy(G).sum(), nx.transitive_closure(G).size(), nx.shortest_path_length(G, 1, 2))
G.add_edge(0, 150, weight=0)
for _, _, data in G.edges(data=True):
    data["weight"] *= 2
print(nx.average_shortest_path_length(G, weight="weight"))
print(nx.wiener_index(G), nx.is_connected(G), nx.diameter(nx.path_graph(5)))
try:
    nx.diameter(nx.empty_graph(100))
except nx.NetworkXError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def script_without_the_backend():
    return run("-c", SCRIPT, NETWORKX_BACKEND_PRIORITY="", NETWORKX_BACKEND_PRIORITY_GENERATORS="").stdout


@pytest.mark.full
def test_a_script_runs_as_it_is(tmp_path, monkeypatch, script_without_the_backend):
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "entry points"
    folder.mkdir()
    install_entry_points(str(folder))
    done = run(
        *("-c", SCRIPT),
        PYTHONPATH=os.pathsep.join([str(ROOT), str(folder)]),
        NETWORKX_BACKEND_PRIORITY="semiring",
        NETWORKX_BACKEND_PRIORITY_GENERATORS="semiring",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == script_without_the_backend
    for name in ("diameter", "wiener_index", "all_pairs_dijkstra_path_length", "floyd_warshall", "transitive_closure"):
        assert f"Using backend 'semiring' for call to '{name}'" in done.stderr
    assert ("Using backend 'semiring' for call to 'shortest_path_length'") not in done.stderr
    assert "cached" not in done.stderr
