"""Test `closure` of the name of a file that `read` reads: as the closure of the network in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import semiring as sr
from semiring.errors import DTypeError, FormatError, NegativeCycleError, StorageError

EDGES = "from,to,km,hours\nUlm,Kiel,7,1\nKiel,Jena,4,2\nUlm,Jena,12,9\n"


@pytest.fixture
def roads(tmp_path):
    path = tmp_path / "roads.csv"
    path.write_text(EDGES)
    return path


def assert_same(actual, expected):
    assert isinstance(actual, sr.Network)
    assert (actual.names, actual.title, actual.unit) == (expected.names, expected.title, expected.unit)
    np.testing.assert_array_equal(actual.matrix, expected.matrix)
    assert actual.matrix.dtype == expected.matrix.dtype


@pytest.mark.parametrize("form", [str, Path])
def test_the_closure_of_an_edge_list(roads, form):
    found = sr.closure(form(roads), weight="km")
    assert_same(found, sr.closure(sr.read(roads, weight="km")))
    assert found.names == ("Ulm", "Kiel", "Jena")
    assert found.matrix.tolist() == [[0, 7, 11], [np.inf, 0, 4], [np.inf, np.inf, 0]]


def test_options_of_reading_and_of_closing(roads):
    assert_same(
        sr.closure(roads, "max_min", weight="hours"), sr.closure(sr.read(roads, "max_min", weight="hours"), "max_min")
    )
    assert_same(
        sr.closure(roads, weight="km", columns=("to", "from")),
        sr.closure(sr.read(roads, weight="km", columns=("to", "from"))),
    )
    undirected = sr.closure(roads, weight="km", directed=False, reflexive=False)
    assert_same(undirected, sr.closure(sr.read(roads, weight="km", directed=False), reflexive=False))
    found, explanation = sr.closure(roads, weight="km", explain=True)
    assert_same(found, sr.closure(roads, weight="km"))
    assert "vertices have names" in str(explanation.chain)
    out = np.empty((3, 3))
    assert sr.closure(roads, weight="km", out=out) is out
    assert np.array_equal(out, found.matrix)


@pytest.mark.parametrize("ending", [".tsv", ".txt", ".edges", ".csv.gz", ".mtx", ".gr", ".json", ".npz"])
def test_other_formats(tmp_path, ending):
    path, A = tmp_path / f"roads{ending}", np.array([[np.inf, 7, 12], [np.inf, np.inf, 4], [2, np.inf, np.inf]])
    sr.write(path, A)
    assert_same(sr.closure(path), sr.closure(sr.read(path)))


def test_the_result_goes_to_an_npy_file(roads, tmp_path):
    """The closure of a network in memory is written to a .npy file too, as a matrix."""
    for given in (roads, sr.read(roads, weight="km")):
        reading = {"weight": "km"} if given is roads else {}
        found = sr.closure(given, out=tmp_path / "closed.npy", **reading)
        assert isinstance(found, np.memmap)
        assert np.array_equal(found, sr.closure(roads, weight="km").matrix)


def test_a_matrix_in_an_npy_file_stays_an_array(tmp_path):
    path, A = tmp_path / "A.npy", np.array([[np.inf, 7.0], [1.0, np.inf]])
    np.save(path, A)
    assert type(sr.closure(path)) is np.ndarray


def test_errors_say_what_to_give(roads, tmp_path):
    with pytest.raises(FormatError, match=r"roads\.csv"):  # kilometres, or hours
        sr.closure(roads)
    with pytest.raises(FileNotFoundError, match=r"roads\.tsv"):
        sr.closure(tmp_path / "roads.tsv")
    with pytest.raises(FormatError, match=r"roads\.xyz: the ending names no known format"):
        sr.closure(tmp_path / "roads.xyz")
    with pytest.raises(TypeError, match="pass its title"):
        sr.closure(roads, weight=lambda u, v, edge: 1)
    for options in ({"memory": "1 GiB"}, {"journal": "journal"}):
        with pytest.raises(StorageError, match="A is in another kind of file"):
            sr.closure(roads, weight="km", **options)
    with pytest.raises(DTypeError, match="pass it as semiring='max_min'"):
        sr.closure("max_min")
    (tmp_path / "cycle.csv").write_text("from,to,km\nUlm,Kiel,-7\nKiel,Ulm,4\n")
    with pytest.raises(NegativeCycleError, match="Ulm"):
        sr.closure(tmp_path / "cycle.csv")
