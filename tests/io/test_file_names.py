"""Test the names of files, and networks that are stored sparsely, as operands of every function that takes a graph."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import semiring as sr
from semiring.errors import DTypeError, FormatError, NegativeCycleError, StorageError, TooLargeError

INF = np.inf
EDGES = {"von": ["a", "b", "c", "a"], "nach": ["b", "c", "d", "d"], "km": [3.0, 4.0, 0.0, 9.0], "lanes": [2, 2, 1, 1]}
OPTIONS = {"weight": "km", "directed": False, "columns": ("von", "nach")}

#: Every function that takes a graph, with a result that is compared.
FUNCTIONS = {
    "closure": lambda A, **more: sr.closure(A, **more).matrix,
    "shortest_paths": lambda A, **more: sr.shortest_paths(A, **more).matrix,
    "sources": lambda A, **more: sr.shortest_paths(A, sources=["d"], **more).matrix,
    "limit": lambda A, **more: sr.shortest_paths(A, sources=["a"], limit=5, **more).to_frame(),
    "best_paths": lambda A, **more: sr.best_paths(A, "max_min", **more).matrix,
    "longest_paths": lambda A, **more: sr.longest_paths(A, **{**more, "directed": None}).matrix,
    "widest_paths": lambda A, **more: sr.widest_paths(A, **more).path("a", "c"),
    "most_reliable_paths": lambda A, **more: sr.most_reliable_paths(A, **{**more, "weight": "p"}).matrix,
    "transitive_closure": lambda A, **more: sr.transitive_closure(A, **more).matrix,
    "transitive_closure of some": lambda A, **more: sr.transitive_closure(A, sources=["a"], **more).matrix,
    "transitive_reduction": lambda A, **more: sr.transitive_reduction(A, **{**more, "directed": None}).matrix,
    "condensation": lambda A, **more: sr.condensation(A, **more).reaches(["a", "d"], ["a", "c"]),
    "factor": lambda A, **more: sr.factor(A, **more).table(["a", "d"]),
    "as_network": lambda A, **more: sr.as_network(A, **more).matrix,
    "fixed_point": lambda A, **more: sr.fixed_point(A, [INF, 0.0, INF, INF], **more),
}


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(EDGES).assign(p=[0.5, 0.25, 1.0, 0.125])
    frame.to_csv("roads.csv", index=False)
    return frame


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_file_is_read_as_its_frame(frame, function):
    run = FUNCTIONS[function]
    np.testing.assert_array_equal(run("roads.csv", **OPTIONS), run(frame, **OPTIONS))


@pytest.mark.parametrize("function", ["closure", "shortest_paths", "transitive_closure", "condensation", "factor"])
def test_a_matrix_in_a_file_is_an_operand_too(tmp_path, function):
    A = np.array([[False, True], [False, False]])
    np.save(tmp_path / "A.npy", A)
    sr.write(tmp_path / "A.npz", A, "boolean", names=["a", "b"])
    semiring = ("boolean",) if function in ("closure", "factor") else ()
    for name in ("A.npy", "A.npz"):
        found = getattr(sr, function)(tmp_path / name, *semiring)
        assert len(found.matrix if isinstance(found, sr.Network) else found) == 2


@pytest.mark.parametrize("name", ["none.csv", "none.npy"])
@pytest.mark.parametrize("function", ["closure", "shortest_paths", "transitive_closure", "condensation", "factor"])
def test_a_missing_file_is_named(function, name):
    with pytest.raises(FileNotFoundError, match=name):
        getattr(sr, function)(name)


def test_errors_of_files_are_those_of_read(frame, tmp_path):
    for function in (sr.closure, sr.factor, sr.shortest_paths):
        with pytest.raises(FormatError, match=r"roads\.csv:1: the columns 'von', 'nach', 'km'"):
            function("roads.csv", weight="km")
        with pytest.raises(TypeError, match="the weights of a file are a column: pass its title"):
            function("roads.csv", weight=lambda u, v, edge: 1)
        with pytest.raises(TypeError, match="weight= is not an option"):
            function(np.eye(2), weight="km")
    (tmp_path / "cycle.csv").write_text("from,to,km\nUlm,Kiel,-7\nKiel,Ulm,4\n")
    with pytest.raises(NegativeCycleError, match="Ulm"):
        sr.shortest_paths(tmp_path / "cycle.csv")


@pytest.mark.parametrize("semiring", ["min_plus", "max_min", "plus_times", "boolean"])
@pytest.mark.parametrize("directed", [None, False])
def test_a_sparse_network_is_the_dense_one(frame, tmp_path, semiring, directed):
    options = {"weight": "km", "columns": ("von", "nach"), "directed": directed}
    dense, sparse = (sr.read("roads.csv", semiring, sparse=which, **options) for which in (False, True))
    assert isinstance(sparse.matrix, csr_array)
    assert (sparse.names, sparse.unit, sparse.directed) == (dense.names, dense.unit, dense.directed)
    for convert in (
        lambda network: network.to_frame().to_numpy(),
        lambda network: sorted(network.to_networkx().edges(data="weight")),
        lambda network: sr.as_network(network, "max_plus").to_frame().to_numpy(),
        lambda network: sr.as_network(network, directed=False).to_frame().to_numpy(),
        lambda network: sr.condensation(network).component,
        lambda network: sr.transitive_closure(network).matrix,
    ):
        np.testing.assert_array_equal(convert(sparse), convert(dense))
    assert "<table" in sparse._repr_html_()
    for name in ("x.csv", "x.json", "x.npz", "x.mtx", "x.gr"):
        sr.write(tmp_path / name, sparse)
        np.testing.assert_array_equal(sr.read(tmp_path / name, semiring, sparse=False).matrix, dense.matrix)


def test_few_edges_of_many_vertices_are_stored_sparsely(tmp_path):
    n = 20_000
    lines = "".join(f"a {i} {i + 1} {i}\n" for i in range(1, n))
    (tmp_path / "x.gr").write_text(f"p sp {n} {n - 1}\n{lines}")
    network = sr.read(tmp_path / "x.gr")
    assert (network.matrix.nnz, network.names[-1], network.matrix[0, 1]) == (n - 1, n, 1)
    assert sr.shortest_paths(network, sources=[1], targets=[4]).distance(1, 4) == 6
    graph = sr.as_network(pd.DataFrame({"u": range(n - 1), "v": range(1, n)}))
    assert graph.matrix.nnz == n - 1


@pytest.mark.parametrize("size", [30_000_000, 999_999_999, 1_000_000_000, 3_000_000_000, 10**12])
@pytest.mark.parametrize(
    "text", ["p sp {n} 1\na 1 2 3\n", "%%MatrixMarket matrix coordinate real general\n{n} {n} 1\n1 2 3\n"]
)
def test_a_header_of_more_vertices_than_are_numbered(tmp_path, size, text):
    path = tmp_path / ("x.gr" if text.startswith("p") else "x.mtx")
    path.write_text(text.format(n=size))
    with pytest.raises(TooLargeError, match="vertices"):
        sr.read(path)


@pytest.fixture
def roads(tmp_path):
    path = tmp_path / "roads.csv"
    path.write_text("from,to,km,hours\nUlm,Kiel,7,1\nKiel,Jena,4,2\nUlm,Jena,12,9\n")
    return path


def test_a_closure_of_a_file_is_a_network(roads, tmp_path):
    found, explanation = sr.closure(roads, weight="km", explain=True)
    assert (found.names, found.title, found.unit) == (("Ulm", "Kiel", "Jena"), "roads", "km")
    assert found.matrix.tolist() == [[0, 7, 11], [INF, 0, 4], [INF, INF, 0]]
    assert "vertices have names" in str(explanation.answers)
    out = np.empty((3, 3))
    assert sr.closure(str(roads), weight="km", out=out) is out
    assert np.array_equal(out, found.matrix)
    for given in (roads, sr.read(roads, weight="km")):
        reading = {"weight": "km"} if given is roads else {}
        mapped = sr.closure(given, out=tmp_path / "closed.npy", **reading)
        assert isinstance(mapped, np.memmap)
        assert np.array_equal(mapped, found.matrix)
    np.save(tmp_path / "A.npy", np.array([[INF, 7.0], [1.0, INF]]))
    assert type(sr.closure(tmp_path / "A.npy")) is np.ndarray


def test_options_that_files_do_not_take(roads, tmp_path):
    with pytest.raises(FormatError, match=r"roads\.csv"):  # kilometres, or hours
        sr.closure(roads)
    with pytest.raises(FormatError, match=r"roads\.xyz: the ending names no known format"):
        sr.closure(tmp_path / "roads.xyz")
    for options in ({"memory": "1 GiB"}, {"journal": "journal"}):
        with pytest.raises(StorageError, match="A is in another kind of file"):
            sr.closure(roads, weight="km", **options)
    with pytest.raises(DTypeError, match="pass it as semiring='max_min'"):
        sr.closure("max_min")
