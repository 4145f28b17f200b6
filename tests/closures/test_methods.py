"""Test methods of closure: the table and its traits, a user's own methods, and those of other packages."""

from __future__ import annotations

import pickle
import re
import sys
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest

import semiring as sr
from semiring.algorithms import methods
from semiring.algorithms.algorithm import Algorithm, Method
from semiring.algorithms.methods import (
    METHODS,
    check_method,
    method_named,
    register_method,
    takes_edges,
    unregister_method,
)
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.squaring import seed_diagonal
from semiring.cli import main
from semiring.errors import AlgebraError, DeviceError, MethodError, UnknownNameError
from semiring.kernels.contract import Capabilities

#: The algorithms of papers, as their authors describe them.
PAPERS = [
    *("harish_narayanan", "katz_kider", "lund_smith_unrolled", "lund_smith_registers", "lund_smith", "gaioso"),
    *("buluc_iterative", "rkleene_plain", "bertoldi_cuda_shared", "bertoldi_cuda"),
    *("bertoldi_openmp", "bertoldi_openmp_static", "row_broadcast"),
]
BUILT_IN = ["rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring", "staged", *PAPERS, "dense", "johnson"]
#: Those that close only matrices of graphs with some structure.
STRUCTURAL = [
    *("components", "undirected", "spanning_tree", "breadth_first_search", "supernodal", "purdom", "triangular"),
]


def series(engine, A):
    """Compute A ← A* in place by n - 1 products, for an idempotent ⊕."""
    edges = A.copy()
    seed_diagonal(engine, A)
    for _ in range(len(A) - 1):
        engine.multiply_add(A, A.copy(), edges)


@pytest.fixture
def register_temporarily():
    """Return `register_method`. The methods are unregistered after the test."""
    names = []

    def register(name, method, **traits):
        made = register_method(name, method, **traits)
        names.append(name)
        return made

    yield register
    for name in names:
        unregister_method(name)


@pytest.fixture
def graph(rng):
    """Return weights of both signs, without a negative cycle."""
    heights = rng.integers(0, 50, 40)
    weights = rng.integers(1, 9, (40, 40)) + heights - heights[:, None]
    return np.where(rng.random((40, 40)) < 0.2, weights, np.inf).astype(np.float64)


def test_the_table():
    assert list(METHODS) == ["auto", *BUILT_IN, *STRUCTURAL]
    assert len(METHODS) == 1 + len(BUILT_IN) + len(STRUCTURAL)
    assert repr(METHODS) == repr(("auto", *BUILT_IN, *STRUCTURAL))
    for method in map(method_named, [*BUILT_IN, *STRUCTURAL]):
        assert all((method.source, method.semirings, method.dtypes, method.devices, method.complexity)), method.name
        assert bool(method.requires) == (method.name in STRUCTURAL)
    assert "auto" in METHODS
    assert "magic" not in METHODS
    assert 3 not in METHODS
    assert [] not in METHODS  # what cannot be hashed
    traits = {name: method_named(name) for name in BUILT_IN}
    assert [name for name in BUILT_IN if getattr(traits[name], "recorded", False)] == BUILT_IN[:2]
    assert [name for name in BUILT_IN if "bits" in traits[name].storages] == [*BUILT_IN[:2], "squaring", "dense"]
    assert [name for name in BUILT_IN if traits[name].needs] == ["staged", *PAPERS[:-1]]
    assert [name for name in METHODS if takes_edges(name)] == ["johnson"]


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_a_method_of_ones_own_closes_whatever_closure_takes(register_temporarily, graph):
    made = register_temporarily("series", series, storages=("elements", "bits"))
    assert made == method_named("series")
    assert "series" in sr.METHODS
    for name in ("min_plus", "max_min"):
        np.testing.assert_array_equal(sr.closure(graph, name, method="series"), sr.closure(graph, name))
    stack = np.stack([graph, graph.T])
    np.testing.assert_array_equal(sr.closure(stack, method="series"), sr.closure(stack))
    plus = sr.closure(graph, method="series", reflexive=False)
    np.testing.assert_array_equal(plus, sr.closure(graph, method="rkleene", reflexive=False))
    out, steps = graph.copy(), []
    _, said = sr.closure(out, method="series", out=out, progress=lambda *step: steps.append(step), explain=True)
    np.testing.assert_array_equal(out, sr.closure(graph))
    assert said.method == "series"
    assert steps[-1] == (40**3,) * 2
    edges = sr.pack(np.isfinite(graph))
    assert sr.closure(edges, "boolean", method="series") == sr.closure(edges, "boolean")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_and_finds_paths(register_temporarily, graph):
    register_temporarily("series", series)
    found, expected = (sr.shortest_paths(graph, method=method) for method in ("series", "auto"))
    np.testing.assert_array_equal(found.matrix, expected.matrix)
    edges = graph[found.predecessors[0][1:], np.arange(1, 40)]
    np.testing.assert_array_equal(found.matrix[0, found.predecessors[0][1:]] + edges, found.matrix[0, 1:])
    for function in (sr.widest_paths, sr.transitive_closure):
        A = np.isfinite(graph) if function is sr.transitive_closure else graph
        np.testing.assert_array_equal(function(A, method="series").matrix, function(A).matrix)
    assert sr.shortest_paths(graph, method="series", predecessors=False).path(0, 5) == expected.path(0, 5)


def test_the_command_takes_it(register_temporarily, tmp_path, capsys):
    (tmp_path / "towns.csv").write_text("A,B,1\nB,C,2\nA,C,9\n")
    register_temporarily("series", series)
    assert main(["closure", str(tmp_path / "towns.csv"), "--method", "series", "--explain"]) == 0
    assert "  method   series" in capsys.readouterr().out
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    both, cpu, gpu = (line.split("  ") for line in lines[lines.index("methods of closure") + 1 :][:3])
    assert [row[1] for row in (both, cpu, gpu)] == ["CPU and GPU", "CPU only", "GPU only"]
    assert both[-1].split(", ")[-1] == "series"
    assert "johnson" in cpu[-1].split(", ")
    assert "lund_smith" in gpu[-1].split(", ")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Lund", "'lund_smith' (runs on a GPU), 'lund_smith_registers' (runs on a GPU) or 'lund_smith_unrolled' (runs"),
        ("bertoldi", "'bertoldi_cuda' (runs on a GPU), .*'bertoldi_openmp' (runs on the CPU) or 'bertoldi_openmp_stat"),
        ("lund_smiht", "'lund_smith' (runs on a GPU)?"),
        ("RKleene", "'rkleene'?"),
    ],
)
def test_an_unknown_name_finds_the_methods_of_both_devices(name, hint):
    pattern = re.escape(hint).replace(re.escape(".*"), ".*")
    for call in (sr.closure, sr.shortest_paths):
        with pytest.raises(UnknownNameError, match=f"Did you mean {pattern}") as caught:
            call([[0.0]], method=name)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("devices", ["CPU", "cpu", (), ("CPU",), ["cpu"]])
def test_devices_are_a_tuple_of_names(devices):
    said = re.escape(f"the closure method 'w2' has devices={devices!r}: give a tuple of 'cpu', 'cuda'")
    with pytest.raises(MethodError, match=said):
        register_method("w2", series, devices=devices)
    assert "w2" not in METHODS


@pytest.mark.parametrize(
    ("name", "method", "traits", "message"),
    [
        ("rkleene", series, {}, "'rkleene' is a closure method already"),
        ("auto", series, {}, "other than 'auto'"),
        ("", series, {}, "give a text"),
        (3, series, {}, "is 3: give a text"),
        ("mine", "series", {}, r"'mine' is 'series': give a function close\(engine, A\)"),
        ("mine", series, {"fast": True, "keep": 1}, "no trait fast, keep: its traits are storages"),
        ("mine", series, {"recorded": 1}, "recorded=1: give True or False"),
        (
            "mine",
            series,
            {"storages": ("tiles",)},
            r"storages=\('tiles',\): give a tuple of 'elements', 'bits'",
        ),
        ("mine", series, {"storages": ()}, r"storages=\(\): give a tuple of 'elements', 'bits'"),
        ("mine", series, {"needs": ("wings",)}, "give a tuple of optional operations .* such as 'close'"),
        ("mine", series, {"needs": "relax"}, "give a tuple of optional operations"),
        ("mine", series, {"pairs": 5}, r"pairs=5: give a function pairs\(n, width\), or None for n³"),
    ],
)
def test_what_cannot_be_registered(name, method, traits, message):
    before = list(METHODS)
    with pytest.raises(MethodError, match=message):
        register_method(name, method, **traits)
    assert list(METHODS) == before


def test_what_is_registered_can_be_forgotten(graph):
    register_method("series", series)
    with pytest.raises(MethodError, match="already"):
        register_method("series", series)
    unregister_method("series")
    assert "series" not in METHODS
    with pytest.raises(UnknownNameError, match="'series'"):
        sr.closure(graph, method="series")
    for name in ("series", "rkleene", "auto"):
        with pytest.raises(MethodError, match=f"'{name}' is not a registered closure method"):
            unregister_method(name)


def test_a_method_is_registered_under_another_name(register_temporarily):
    made = register_temporarily("whole", method_named("staged"), recorded=True)
    assert made == Method("whole", method_named("staged").close, recorded=True, needs=("close",))


def test_what_the_backend_lacks_is_named(register_temporarily, graph):
    register_temporarily("sweeps", series, needs=("relax", "find_tree"))
    before = graph.copy()
    with pytest.raises(
        DeviceError, match=r"sweeps needs the kernel operations relax and find_tree, .* closed by the cpu backend"
    ):
        sr.closure(graph, method="sweeps", out=graph)
    with pytest.raises(DeviceError, match=r"staged runs on a GPU, .* on the CPU: pass device='cuda', or use one"):
        sr.closure(sr.pack(before < 5), "boolean", method="staged")
    kernels = SimpleNamespace(relax=series, find_tree=series)
    able = SimpleNamespace(name="able", capabilities=Capabilities(passes=kernels, paths=kernels))
    assert check_method("sweeps", able, "elements") is None


def test_a_storage_that_is_not_taken_is_named(register_temporarily):
    register_temporarily("mine", series)
    edges, out = sr.pack(np.eye(40, dtype=bool)), sr.pack(np.zeros((40, 40), bool))
    for name in ("mine", "floyd_warshall", "johnson"):
        with pytest.raises(
            AlgebraError, match=f"{name} does not (take|close) packed bits: use rkleene, .* or squaring"
        ):
            sr.closure(edges, "boolean", method=name, out=out)
    assert out == sr.pack(np.zeros((40, 40), bool))


def test_a_method_says_how_many_pairs_there_may_be(register_temporarily, graph):
    """The total of progress is n³, unless a method names another bound."""

    def until_nothing_changes(engine, A):
        seed_diagonal(engine, A)
        before = np.empty_like(A)
        while not np.array_equal(before, A):
            before[...] = A
            engine.multiply(A, before.copy(), before)

    register_temporarily("until", until_nothing_changes, pairs=lambda n, width: n * n * n * width)
    steps = []
    closed = sr.closure(graph, method="until", progress=lambda *step: steps.append(step))
    np.testing.assert_array_equal(closed, sr.closure(graph))
    assert steps == sorted(steps)
    assert steps[-1] == (40**4, 40**4)


def test_edges_are_not_closed_with_predecessors(graph):
    with pytest.raises(
        UnknownNameError,
        match=r"On the CPU: auto, bertoldi_openmp, .* squaring\. On a GPU: auto, .*, squaring, staged\.$",
    ):
        sr.shortest_paths(graph, method="johnson")


class Diagonal(Algorithm):
    """Matrices of loops alone, which it closes in n steps: an algorithm of a user, which competes with the others."""

    name, complexity, source = "diagonal", "O(n)", "a test"

    def reason_against(self, p):
        return None if (np.asarray(p.facts.A)[~np.eye(p.n, dtype=bool)] == p.facts.none).all() else "edges"

    def cost(self, p):
        return float(p.n)

    def run(self, p, engine, D, entries):
        np.fill_diagonal(D, p.semiring.one_for(D.dtype))
        return D


def test_an_algorithm_of_ones_own_competes(register_temporarily, graph):
    register_temporarily("diagonal", Diagonal())
    loops = np.where(np.eye(40, dtype=bool), 3.0, np.inf)
    closed, said = sr.closure(loops, explain=True)
    assert said.method == "diagonal"
    assert "diagonal" in str(said)
    assert said.costs["diagonal"] == 40
    np.testing.assert_array_equal(closed, sr.closure(loops, method="rkleene"))
    assert sr.closure(graph, explain=True)[1].method != "diagonal"
    with pytest.raises(AlgebraError, match=r"diagonal closes other matrices, and does not close this matrix: edges\."):
        sr.closure(graph, method="diagonal")
    with pytest.raises(MethodError, match="an Algorithm has its own traits and name"):
        register_method("other", Diagonal())


@pytest.mark.parametrize(
    ("trait", "said", "error"),
    [
        ({"devices": ("cuda",)}, "it runs on a GPU", "diagonal runs on a GPU, and this matrix is closed on the CPU"),
        ({"needs": ("close",)}, "the backend has no close", "diagonal needs"),
        ({"storages": ("bits",)}, "the entries are no packed bits", "does not close this matrix: the entries are no"),
    ],
)
def test_an_algorithm_runs_where_its_traits_allow(register_temporarily, trait, said, error):
    register_temporarily("diagonal", type("Elsewhere", (Diagonal,), trait)())
    loops = np.where(np.eye(40, dtype=bool), 3.0, np.inf)
    why = sr.closure(loops, explain=True)[1]
    assert next(answer.why for answer in why.answers if answer.name == "diagonal") == said
    with pytest.raises((AlgebraError, DeviceError), match=error):
        sr.closure(loops, method="diagonal")


@pytest.fixture
def methods_package(monkeypatch, tmp_path):
    """Install a package that names three methods: one right, one that is no function, one that is missing."""
    (tmp_path / "others_methods.py").write_text(
        "from semiring.algorithms.algorithm import Method\n"
        "from semiring.algorithms.rkleene import rkleene\n\n\n"
        "def function(engine, A):\n    rkleene(engine, A)\n\n\n"
        "method = Method('whatever', rkleene, recorded=True)\n"
        "class Loops(type(method).__mro__[1]):\n    name = 'loops'\n"
        "loops = Loops()\n"
        "number = 3\n"
    )
    found = tmp_path / "others-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (found / "entry_points.txt").write_text(
        "[semiring.methods]\n"
        "theirs = others_methods:function\n"
        "theirs_too = others_methods:method\n"
        "squaring = others_methods:function\n"
        "number = others_methods:number\n"
        "loops = others_methods:loops\n"
        "gone = others_methods_that_are_not_there:function\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(methods, "_methods", dict(methods._methods))
    monkeypatch.setattr(methods, "_loaded", set())
    methods._find_installed.cache_clear()
    yield
    methods._find_installed.cache_clear()
    sys.modules.pop("others_methods", None)


def test_methods_of_other_packages(methods_package, graph):
    """Methods of other packages are listed, and imported on first use. They do not replace methods of the library."""
    assert set(METHODS) == {"auto", *BUILT_IN, *STRUCTURAL, "theirs", "theirs_too", "number", "gone", "loops"}
    assert "others_methods" not in sys.modules
    np.testing.assert_array_equal(sr.closure(graph, method="theirs"), sr.closure(graph, method="rkleene"))
    assert "others_methods" in sys.modules
    assert method_named("theirs_too") == Method("theirs_too", rkleene, recorded=True)
    assert method_named("theirs_too") is method_named("theirs_too")
    assert method_named("squaring").pairs is not None
    with pytest.raises(MethodError, match=r"'number' cannot be loaded from others_methods:number: .* a function"):
        sr.closure(graph, method="number")
    with pytest.raises(MethodError, match=r"'gone' cannot be loaded from others_methods_that_are_not_there:function"):
        sr.shortest_paths(graph, method="gone")
    with pytest.raises(MethodError, match="already"):
        register_method("theirs", series)
    assert method_named("loops").name == "loops"
    for name in ("theirs", "loops"):  # they do not compete, so that equal calls are equal before and after
        assert name not in [each.name for each in methods.candidates_in_order("auto")]


def test_nobody_looks_for_them_where_the_name_is_known(monkeypatch, graph):
    methods._find_installed.cache_clear()
    monkeypatch.setattr(metadata, "entry_points", lambda **_: pytest.fail("some milliseconds"))
    for name in BUILT_IN[:4]:
        assert sr.closure(graph, method=name).shape == (40, 40)
    methods._find_installed.cache_clear()


# ------------------------------------------------------------------------------------- methods that need some structure


def structured_case(rng, method, n):
    """Return (semiring, matrix) that the method closes, and one that it refuses."""
    A = np.where(rng.random((n, n)) < 0.3, rng.integers(1, 9, (n, n)), np.inf).astype(np.float64)
    np.fill_diagonal(A, np.inf)
    sparse = np.full((n, n), np.inf)
    sparse[np.arange(n - 1), np.arange(1, n)] = rng.integers(1, 9, n - 1)
    return {
        "components": (("min_plus", np.where(np.tri(n, dtype=bool), np.inf, A)), ("min_plus", A + 0)),
        "undirected": (("min_plus", np.minimum(A, A.T)), ("min_plus", A)),
        "spanning_tree": (("min_max", np.minimum(A, A.T)), ("min_max", A)),
        "breadth_first_search": (("min_plus", np.where(np.inf > A, 3.0, A)), ("min_plus", A)),
        "supernodal": (("min_plus", sparse), ("min_plus", A)),
        "purdom": (("boolean", np.inf > A), ("min_plus", A)),
        "triangular": (None, ("boolean", np.inf > A)),
    }[method]


@pytest.mark.parametrize("n", [60, 130])
@pytest.mark.parametrize("method", STRUCTURAL)
def test_a_method_that_needs_structure_closes_what_has_it_and_says_why_not(rng, method, n):
    closed, refused = structured_case(rng, method, n)
    if closed is not None:
        name, A = closed
        D, why = sr.closure(A, name, method=method, explain=True)
        np.testing.assert_array_equal(
            D, sr.closure(A, name, method="floyd_warshall" if name != "boolean" else "rkleene")
        )
        assert any(link.applies and method.split("_")[0] in (link.name + link.why + why.method) for link in why.answers)
    name, A = refused
    before = A.copy()
    said = "runs on a GPU, and this matrix" if closed is None else "closes .*, and does not close this matrix: "
    with pytest.raises((AlgebraError, DeviceError), match=f"{method} {said}"):
        sr.closure(A, name, method=method, out=A)
    assert np.array_equal(A, before)
