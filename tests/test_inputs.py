"""What may be given: frames with labels, lists of edges, graphs of other libraries; and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import coo_array

import semiring as sr
from semiring.errors import DTypeError, ShapeError
from semiring.scatter import scatter

INF = math.inf


# ------------------------------------------------------------------------------------------- what is listed twice


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "plus_times", "max_min", "log_plus", "boolean", "xor_and"])
@pytest.mark.parametrize("edges", [0, 1, 7, 300])
@pytest.mark.parametrize("cells", [1, 3, 40])
def test_entries_listed_again_are_added(rng, name, edges, cells):
    semiring = sr.as_semiring(name)
    dtype = np.dtype("bool") if name in ("boolean", "xor_and") else np.dtype("float64")
    rows, columns = rng.integers(0, cells, edges), rng.integers(0, cells + 1, edges)
    values = rng.integers(0, 2 if dtype.kind == "b" else 9, edges).astype(dtype)
    expected = np.full((cells, cells + 1), semiring.zero_for(dtype), dtype)
    for i, j, value in zip(rows, columns, values, strict=True):
        expected[i, j] = semiring.add(expected[i, j], value)
    found = np.full(expected.shape, semiring.zero_for(dtype), dtype)
    given = [array.copy() for array in (rows, columns, values)]
    scatter(found, *given, semiring)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    for before, after in zip((rows, columns, values), given, strict=True):
        np.testing.assert_array_equal(before, after)


def test_entries_are_added_in_their_order():
    """Visible where rounding is: neighbours first, so the two large ones cancel."""
    matrix = np.zeros((1, 1))
    scatter(matrix, np.zeros(4, int), np.zeros(4, int), np.array([1e30, -1e30, 1.0, 2.0]), sr.plus_times)
    assert matrix == 3


def test_a_sparse_matrix_with_entries_stored_twice():
    sparse = coo_array(([3.0, 5.0, 1.0, 2.0], ([0, 0, 1, 0], [1, 1, 0, 1])), shape=(2, 2))
    np.testing.assert_array_equal(sr.closure(sparse), [[0, 2], [1, 0]])
    np.testing.assert_array_equal(sr.matmul(sparse, np.eye(2), "plus_times"), [[0, 10], [1, 0]])


# ------------------------------------------------------------------------------------------- what is no matrix

STRANGE = [
    (None, "A is of type NoneType"),
    ("network.csv", r"A is of type str.*semiring.read\('network.csv'\)"),
    ({1: 2}, "A is of type dict"),
    (np.array([["1", "2"], ["3", "4"]]), "A holds text .<U1., not real numbers"),
    ([["a", "b"], ["c", "d"]], "A holds text"),
    ([[1, None], [2, 3]], r"A\[0, 1\] is None, not a real number"),
    (np.array([[1, 2], [3, "x"]], object), r"A\[1, 1\] is 'x', not a real number"),
    (np.array([[1, 2], [3, 4]], object), "A holds numbers as Python objects: convert them"),
    (np.zeros((2, 2), complex), "A holds complex128"),
    (np.zeros((2, 2), "M8[s]"), "A holds datetime64"),
]


@pytest.mark.parametrize(("given", "message"), STRANGE, ids=[str(given)[:20] for given, _ in STRANGE])
def test_what_is_no_matrix_is_named(given, message):
    functions = [
        sr.closure,
        sr.shortest_paths,
        sr.transitive_closure,
        lambda A: sr.matmul(A, A),
        lambda A: sr.add(A, A),
    ]
    for function in functions:
        with pytest.raises(DTypeError, match=message):
            function(given)


def test_rows_of_different_lengths():
    for function in (sr.closure, sr.shortest_paths, sr.transitive_closure):
        with pytest.raises(ShapeError, match="parts differ in length"):
            function([[1, 2], [3]])


# ------------------------------------------------------------------------------------------- undirected


def test_an_edge_from_a_vertex_to_itself_has_one_direction():
    from semiring.io.network import both_directions

    matrix = np.array([[5.0, 1.0], [2.0, 0.0]])
    np.testing.assert_array_equal(both_directions(matrix, sr.plus_times), [[5, 3], [3, 0]])
    np.testing.assert_array_equal(matrix, [[5, 1], [2, 0]])


def test_the_command_takes_a_network_of_the_library_as_undirected(monkeypatch, capsys):
    from semiring import cli
    from semiring.cli import common

    loops = np.array([[0.5, 0.25], [0.0, 0.125]])
    monkeypatch.setattr(common, "load_network", lambda name, semiring, dtype=None: sr.Network(loops, title=name))
    assert cli.main(["closure", "us-flights", "-s", "plus_times", "--undirected"]) == 0
    both = np.array([[0.5, 0.25], [0.25, 0.125]])
    assert f"{np.linalg.inv(np.eye(2) - both).max():.4f}" in capsys.readouterr().out
