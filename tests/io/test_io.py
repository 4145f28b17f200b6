"""Test files in and out: round trips, what each format means, malformed input, and writing whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import stat
import zipfile
from dataclasses import replace
from functools import partial

import ml_dtypes
import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import semiring
import semiring.io as sio
from semiring.algebra.catalogue import as_semiring
from semiring.arrays import memory
from semiring.data import NETWORKS, load_network
from semiring.errors import (
    DomainError,
    DTypeError,
    FormatError,
    SemiringError,
    ShapeError,
    TooLargeError,
    UnknownNameError,
    VertexError,
)
from semiring.paths import shortest_paths

INF = float("inf")
TEXT = [".csv", ".tsv", ".txt", ".gr", ".mtx", ".json", ".csv.gz", ".gr.gz", ".mtx.gz", ".json.gz"]
NAMED = [".npz", ".csv", ".tsv", ".txt", ".edges", ".json", ".csv.gz"]
ALL = [".npy", ".npz", *TEXT]

AWKWARD = np.array(
    [
        [INF, 0.1, 1 / 3, -2.5, INF],
        [0.0, INF, 1e-300, INF, INF],
        [1e300, 5.0, -0.0, INF, INF],
        [123456789.125, INF, 7.0, 2.0**-1074, INF],
        [INF, INF, INF, INF, INF],  # a vertex without an edge
    ]
)


# ------------------------------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize("ending", ALL)
def test_a_float_matrix_comes_back_bit_for_bit(tmp_path, ending):
    path = tmp_path / f"net{ending}"
    sio.write(path, AWKWARD)
    back = sio.read(path)
    assert back.matrix.dtype == np.float64
    assert back.matrix.tobytes() == AWKWARD.tobytes()
    assert back.names == (tuple(range(1, 6)) if {".gr", ".mtx"} & set(path.suffixes) else None)
    assert back.title == "net"


@pytest.mark.parametrize("ending", ALL)
@pytest.mark.parametrize("dtype", ["float32", "int16", "int32", "int64"])
def test_other_dtypes_come_back_bit_for_bit(tmp_path, rng, ending, dtype):
    n = 7
    none = INF if dtype == "float32" else np.iinfo(dtype).max
    matrix = rng.integers(-1000, 1000, (n, n)).astype(dtype)
    if dtype == "float32":
        matrix = matrix * np.float32(0.1)
    if dtype == "int64":
        matrix[0, 1] = 2**62 + 1  # beyond what a float64 holds
    matrix[rng.random((n, n)) < 0.5] = none
    path = tmp_path / f"net{ending}"
    sio.write(path, matrix)
    back = sio.read(path, dtype=None if ending in (".npy", ".npz") else dtype).matrix
    assert back.dtype == matrix.dtype
    assert back.tobytes() == matrix.tobytes()


@pytest.mark.parametrize("ending", [*ALL, ".edges"])
def test_truths_come_back_and_packed_bits_are_written_as_their_matrix(tmp_path, rng, ending):
    entries = rng.random((40, 40)) < 0.04
    entries[7] = entries[:, 7] = False
    for name, matrix in (("entries", entries), ("packed", semiring.pack(entries))):
        sio.write(tmp_path / f"{name}{ending}", matrix, "boolean")
    assert (tmp_path / f"packed{ending}").read_bytes() == (tmp_path / f"entries{ending}").read_bytes()
    back = sio.read(tmp_path / f"packed{ending}", "boolean").matrix
    assert back.dtype == bool
    assert (back == entries).all()


@pytest.mark.parametrize("ending", ALL)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_networks(tmp_path, ending, n):
    for matrix in (np.full((n, n), INF), np.arange(n * n, dtype=float).reshape(n, n)):
        sio.write(tmp_path / f"x{ending}", matrix)
        back = sio.read(tmp_path / f"x{ending}").matrix
        assert back.shape == (n, n)
        assert (back == matrix).all()


AWKWARD_NAMES = ("a b", "#hash", "%", "Köln", 'quo"te', "com,ma", "semi;colon", " blank ", "7", "источник", "→")


@pytest.mark.parametrize("ending", NAMED)
@pytest.mark.parametrize("names", [tuple(f"v{i}" for i in range(99, -1, -1)), ("v2", "v1", "v0"), AWKWARD_NAMES])
def test_names_come_back_in_their_order(tmp_path, ending, names):
    """Vertices keep their order if the edges name them in another, and if the first, a middle or the last has no
    edge."""
    n = len(names)
    backwards, sparse, cycle = (np.full((n, n), INF) for _ in range(3))
    backwards[0, n - 1], backwards[n - 1, 0] = 3, 4
    sparse[1, 1] = 5
    cycle[range(n), np.arange(n) * 3 % n] = range(n)
    for matrix in (backwards, sparse, cycle, np.full((n, n), INF)):
        network = semiring.Network(matrix, names=names, unit="km")
        sio.write(tmp_path / f"x{ending}", network)
        back = sio.read(tmp_path / f"x{ending}")
        assert back.names == names
        assert (back.matrix == matrix).all()


@given(
    names=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1),
        min_size=2,
        unique=True,
    ),
    ending=st.sampled_from([".csv", ".tsv"]),
)
def test_any_names_survive(tmp_path_factory, names, ending):
    names = [name for name in names if name.strip()]
    n = len(names)
    matrix = np.full((n, n), INF)
    for i in range(n):
        matrix[i, (i + 1) % n] = i
    path = tmp_path_factory.mktemp("names") / f"x{ending}"
    sio.write(path, matrix, names=names)
    back = sio.read(path)
    found = back.names if back.names is not None else tuple(map(str, range(n)))
    assert sorted(found) == sorted(names)
    for i in range(n):
        assert back.matrix[found.index(names[i]), found.index(names[(i + 1) % n])] == i


@given(
    st.lists(st.floats(allow_nan=False, width=32), min_size=4, max_size=4),
    st.lists(st.floats(allow_nan=False, width=64), min_size=4, max_size=4),
    st.sampled_from([".csv", ".gr", ".mtx"]),
)
def test_any_float_survives_as_text(tmp_path_factory, narrow, wide, ending):
    path = tmp_path_factory.mktemp("floats") / f"x{ending}"
    for dtype, values in (("float32", narrow), ("float64", wide)):
        matrix = np.array(values, dtype).reshape(2, 2)
        sio.write(path, matrix, "max_min")
        assert sio.read(path, "max_min", dtype=dtype).matrix.tobytes() == matrix.tobytes()


#: Floats that a text or its reader may spoil: signed zeros, subnormals, the ends of the range, and the float32 whose
#: shortest text leads to its neighbour when it is rounded to float64 first.
FLOATS = {
    "float64": [0.0, -0.0, 5e-324, -5e-324, 2.225073858507201e-308, 1.7976931348623157e308, INF, -INF, 2.0**53, 0.1],
    "float32": [0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38, INF, -INF, 16777216.0, 0.1],
}
SPOILT_TWICE = np.array([0x15AE43FD], np.uint32).view(np.float32)[0]  # its text is 7.038531e-26


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "semiring", ["min_plus", "max_plus", "max_min", "min_max", "plus_times", "max_times", "lukasiewicz", "log_plus"]
)
@pytest.mark.parametrize("ending", ALL)
def test_every_float_comes_back_bit_for_bit(tmp_path, ending, semiring, dtype):
    algebra = as_semiring(semiring)
    zero = algebra.zero_for(np.dtype(dtype))
    values = np.array([*FLOATS[dtype], SPOILT_TWICE], dtype)
    values = values[algebra.domain.contains(values) | (values == zero)]
    matrix = np.array([np.roll(values, shift) for shift in range(len(values))])
    sio.write(tmp_path / f"x{ending}", matrix, semiring)
    back = sio.read(tmp_path / f"x{ending}", semiring, dtype=dtype).matrix
    assert back.tobytes() == matrix.tobytes()


@pytest.mark.parametrize("ending", TEXT)
def test_a_vertex_whose_only_entries_are_negative_zeros_is_written_once(tmp_path, ending):
    matrix = np.array([[0.0, 0.0, 2.0], [0.0, -0.0, 0.0], [0.0, 0.0, 0.0]])
    sio.write(tmp_path / f"x{ending}", matrix, "plus_times")
    assert sio.read(tmp_path / f"x{ending}", "plus_times").matrix.tobytes() == matrix.tobytes()


LAYOUTS = {
    "F": np.asfortranarray,
    "strided": lambda matrix: np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda matrix: matrix[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda matrix: np.frombuffer(matrix.tobytes()).reshape(matrix.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ending", ALL)
def test_any_memory_order_is_written(tmp_path, ending, layout):
    sio.write(tmp_path / f"x{ending}", LAYOUTS[layout](AWKWARD))
    assert (sio.read(tmp_path / f"x{ending}").matrix == AWKWARD).all()


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".mtx", ".csv.gz"])
def test_the_zero_of_another_semiring_is_refused_unless_one_is_named(tmp_path, ending):
    path, matrix = tmp_path / f"a{ending}", np.array([[INF, 3.0], [-INF, INF]])
    with pytest.raises(DomainError, match=r"the matrix holds -inf, at \[1, 0\].*write\(path, matrix, \"max_min\"\)"):
        sio.write(path, matrix)
    with pytest.raises(DomainError, match="the matrix holds -inf"):
        sio.write(path, matrix.astype(ml_dtypes.bfloat16))
    assert not path.exists()
    for name in ("max_min", "min_plus"):
        sio.write(path, matrix, name)
        assert sio.read(path, name).matrix.tolist() == matrix.tolist()
    sio.write(tmp_path / "a.npy", matrix)
    assert sio.read(tmp_path / "a.npy", "max_min").matrix.tolist() == matrix.tolist()


def test_a_network_is_written_with_its_names_and_unit(tmp_path):
    matrix = np.array([[-INF, 3], [-INF, -INF]])
    network = sio.Network(matrix, names=("a", "b"), unit="km", semiring=semiring.max_min)
    sio.write(tmp_path / "x.csv", network)
    assert (tmp_path / "x.csv").read_text() == "source,target,km\na,b,3\n"
    sio.write(tmp_path / "x.npz", network, names=("c", "d"))
    again = sio.read(tmp_path / "x.npz", "max_min")
    assert (again.names, again.matrix.tolist()) == (("c", "d"), matrix.tolist())
    sio.write(tmp_path / "x.npy", network, "min_plus")
    assert np.load(tmp_path / "x.npy").tolist() == [[INF, 3], [INF, INF]], "its “no edge” is that of the semiring"
    sio.write(tmp_path / "x.npy", sio.Network(matrix))
    assert np.load(tmp_path / "x.npy").tolist() == matrix.tolist()


def test_the_name_of_a_file_comes_first(tmp_path):
    network = semiring.Network(np.zeros((2, 2)))
    for call in (lambda: sio.write(shortest_paths(network), "p.csv"), lambda: sio.read(network)):
        with pytest.raises(TypeError, match=r"the name of a file, .* not a (Paths|Network)$"):
            call()


def test_what_is_written_is_a_matrix(tmp_path):
    sparse = scipy.sparse.csr_array(np.array([[0, 3.0], [0, 0]]))
    sio.write(tmp_path / "x.npy", sparse)
    assert sio.read(tmp_path / "x.npy").matrix.tolist() == [[INF, 3], [INF, INF]], "not stored is no edge"
    for wrong in ("us-flights", [["a"]]):
        with pytest.raises(DTypeError, match="the matrix"):
            sio.write(tmp_path / "y.npz", wrong)
    assert not (tmp_path / "y.npz").exists()


# ------------------------------------------------------------------------------------------- what the formats mean


def edge_list(tmp_path, text, name="net.csv", semiring="min_plus", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return sio.read(path, semiring, **options)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def edges_of(network, semiring="min_plus"):
    """Return the edges as texts "tail head weight", sorted."""
    zero = as_semiring(semiring).zero_for(network.matrix.dtype)
    names = network.names or range(len(network.matrix))
    return sorted(f"{names[i]} {names[j]} {float(w):g}" for (i, j), w in np.ndenumerate(network.matrix) if w != zero)


H, NO_H = {"header": True}, {"header": False}
TABLE = "from,to,km\na,b,2\n"
DATED = "date,from_city,to_city,source,km\n2020,A,B,x,5\n2021,B,C,y,6\n"
CITIES = {"columns": ("from_city", "To_City")}
BARE, BARE_ENDS = "7,A,B,5\n8,B,C,6\n", {"columns": ("2", "3"), "header": False}
SEVERAL = "from,to,km_road,minutes,name\na,b,3,5,x\nb,c,4,6,y\n"
COMMA = {"decimal": ","}
KONECT = "% 3 3 3\n1 2 5 1082008561\n2 3\t7\t1082008562\n"
MARKET = "%%MatrixMarket matrix coordinate "
GR, MTX, GML = {"name": "x.gr"}, {"name": "x.mtx"}, {"name": "x.gml"}
MTX_MAX, MAX_TIMES = {"name": "x.mtx", "semiring": "max_plus"}, {"semiring": "max_times"}

#: Texts, options, and the edges that they list: tail, head and weight, and the unit of the weights.
EDGE_LISTS = [
    ("# roads\n\nA,B,2\nB,C,0\n% more\nA,B,1.5\nC,C,4\n", {}, "A B 1.5 | B C 0 | C C 4"),
    ("A,B,2\nB,C,3\n", {}, "A B 2 | B C 3"),
    ("A;B;2\nB;C;3\n", {}, "A B 2 | B C 3"),
    ("A\tB\t2\nB\tC\t3\n", {}, "A B 2 | B C 3"),
    ("A\tB\t2\nB\tC\t3", {"name": "a.tsv"}, "A B 2 | B C 3"),
    ("A B 2\nB   C 3\n", {"name": "a.txt"}, "A B 2 | B C 3"),
    ("  A B 2  \n B C 3\n", {"name": "a.edgelist"}, "A B 2 | B C 3"),
    ("\ufeffA,B,2\nB,C,3\n", {}, "A B 2 | B C 3"),
    ("A,B,2\r\nB,C,3\r\n", {}, "A B 2 | B C 3"),
    ('"A","B",2\n"B","C",3\n', {}, "A B 2 | B C 3"),
    (" A , B , 2 \nB,C, 3\n", {}, "A B 2 | B C 3"),
    ("source,target,weight\nA,B,2\nB,C,3\n", {}, "A B 2 | B C 3"),
    ("weight,to,from\n2,B,A\n3,C,B\n", {}, "A B 2 | B C 3"),
    ("From,To,Name,Length\nA,B,x y,2\nB,C,z,3\n", {}, "A B 2 | B C 3"),
    # weights that are absent, ids, or truths
    ("a,b\nb,a\n", {}, "a b 1 | b a 1"),
    ("a,b\n", {"semiring": "max_times"}, "a b 1"),
    ("a,b\n", {"semiring": "boolean"}, "a b 1"),
    ("a,b,0\nb,c,7.5\n", {"semiring": "boolean"}, "a b 1 | b c 1"),
    ("id,from,to,km\n7,a,b,5\n8,b,c,6\n", {}, "a b 5 | b c 6 in km"),
    ("from,to,ID\na,b,7\nb,c,8\n", {}, "a b 1 | b c 1"),
    ("from,to,id\na,b,7\nb,c,8\n", {"weight": "id"}, "a b 7 | b c 8 in id"),
    # three lines that are no matrix, or said to be edges
    ("0,3,9\n3,0,2\n9,2,0\n", NO_H, "0 3 9 | 3 0 2 | 9 2 0"),
    ("0 1.5 9\n3 0.0 2\n9 2 0.0\n", NO_H, "0 1.5 9 | 3 0.0 2 | 9 2 0"),
    ("0,3,9\n3,0,2\n9,2,1\n", {}, "0 3 9 | 3 0 2 | 9 2 1"),
    ("0,3,9\n3,0,2\n9,2,0\n0,4,1\n", {}, "0 3 9 | 0 4 1 | 3 0 2 | 9 2 0"),
    ("0,b,9\nb,0,2\n9,2,0\n", {}, "0 b 9 | 9 2 0 | b 0 2"),
    # columns that are named, by titles or by numbers, and columns whose roles are certain
    (DATED, {**CITIES, "weight": "km"}, "A B 5 | B C 6 in km"),
    ("1,2\n1,3\n", {"columns": ("2", "1")}, "3 1 1"),
    ("von,nach,km\nA,B,5\n", H, "A B 5 in km"),
    ("von,nach,km\nA,7,5\nA,B,6\n", H, "A 7 5 | A B 6 in km"),
    ("a,b,travel_time\n1,2,5\n2,3,6\n", H, "1 2 5 | 2 3 6 in travel_time"),
    ("km,von,nach\n5,1,2\n6,2,3\n", {"weight": "km", **H}, "1 2 5 | 2 3 6 in km"),
    (BARE, {**BARE_ENDS, "weight": "4"}, "A B 5 | B C 6"),
    ("5 1 2\n6 2 3\n", {"name": "net.txt", "weight": "1", **NO_H}, "1 2 5 | 2 3 6"),
    ("from,to,2019,2020\na,b,3,4\n", {"weight": "2019"}, "a b 3 in 2019"),
    ("from,to,2019\na,b,3\n", {"weight": "2019"}, "a b 3 in 2019"),
    (SEVERAL, {"weight": "minutes"}, "a b 5 | b c 6 in minutes"),
    ("from,to,name,minutes\na,,,\na,b,x,5\n", {}, "a b 5 in minutes"),
    # both directions
    ("a,b,5\nb,a,3\nb,c,2\nc,c,9\n", {"directed": False}, "a b 3 | b a 3 | b c 2 | c b 2 | c c 9"),
    ("a,a,2\na,b,3\n", {"directed": False, "semiring": "plus_times"}, "a a 2 | a b 3 | b a 3"),
    # decimal commas
    ("a;b;3,5\nb;c;1,5\n", COMMA, "a b 3.5 | b c 1.5"),
    ("from;to;km\na;b;1,5\n", COMMA, "a b 1.5 in km"),
    ('a;b;"3,5"\n', COMMA, "a b 3.5"),
    ("Ulm Kiel 3,5\n", COMMA, "Ulm Kiel 3.5"),
    # the first line of KONECT
    ("% sym positive\n" + KONECT, {"name": "x.txt"}, "1 2 5 | 2 1 5 | 2 3 7 | 3 2 7"),
    ("% asym positive\n" + KONECT, {"name": "x.txt"}, "1 2 5 | 2 3 7"),
    ("% asym unweighted\n1 2\n2 3\n", {"name": "x.txt"}, "1 2 1 | 2 3 1"),
    # DIMACS, Matrix Market and GML
    ("c 9th DIMACS\np sp 4 3\nc arcs\na 1 2 803\na 2 1 803\na 4 3 158\n", GR, "1 2 803 | 2 1 803 | 4 3 158"),
    (MARKET + "pattern symmetric\n3 3 2\n2 1\n3 3\n", MTX, "1 2 1 | 2 1 1 | 3 3 1"),
    (
        MARKET + "real symmetric\n%\n\n 3 3 3 \n1 2 -inf\n\t2 3   .5e-1\t\n3 3 7.",
        MTX_MAX,
        "2 3 0.05 | 3 2 0.05 | 3 3 7",
    ),
    (MARKET + "real general\n2 2 2\n1 2 5D0\n2 1 -.25d-1\n", MTX, "1 2 5 | 2 1 -0.025"),
    ("\ufeff" + MARKET + "real general\n2 2 2\n1 2 5D0\n2 1 -.25d-1\n", MTX, "1 2 5 | 2 1 -0.025"),
    ("%%MatrixMarket matrix array integer general\n2 2\n1\n2\n-3\n4", MTX, "1 1 1 | 1 2 -3 | 2 1 2 | 2 2 4"),
    ("%%MatrixMarket matrix array real general\n0 0\n", MTX, ""),
    (MARKET + "real general\n0 0 0\n", MTX, ""),
    ("graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 value 3 ] ]", GML, "1 2 3 | 2 1 3"),
]


@pytest.mark.parametrize(("text", "options", "expected"), EDGE_LISTS)
def test_the_edges_that_a_text_lists(tmp_path, text, options, expected):
    network = edge_list(tmp_path, text, **options)
    edges, _, unit = expected.partition(" in ")
    assert " | ".join(edges_of(network, options.get("semiring", "min_plus"))) == edges
    assert network.unit == unit


#: Texts, options, and the names of the vertices in their order.
VERTICES = [
    ("# roads\n\nA,B,2\nB,C,0\n% more\nA,B,1.5\nC,C,4\n", {}, ("A", "B", "C")),
    # integers are in numerical order, and those from 0 on are no names
    ("10,9,1\n9,2,1\n", {}, ("2", "9", "10")),
    ("2,1,5\n1,0,6\n", {}, None),
    ("02,1,5\n", {}, ("02", "1")),  # a leading zero is part of a name
    ("km,von,nach\n", H, None),
    ("c 9th DIMACS\np sp 4 1\na 1 2 803\n", GR, (1, 2, 3, 4)),
    ("%%MatrixMarket matrix array real general\n0 0\n", MTX, None),
    (MARKET + "real general\n0 0 0\n", MTX, None),
    # the first line names the columns
    ("Abfahrt,Ankunft,Minuten\na,b,3\n", H, ("a", "b")),
    ("Abfahrt,Ankunft\na,b\n", H, ("a", "b")),
    ("n1,n2,Weight\na,b,3\n", {}, ("a", "b")),  # a weight is no title
    ("source,target,weight\nsource,target,3\n", {}, ("source", "target")),
    ("From,to\nx,y\n", {}, ("x", "y")),
    # the first line is an edge
    ("from,to\n", NO_H, ("from", "to")),
    ("u,v\nv,w\nw,u\n", NO_H, ("u", "v", "w")),
    ("app,dep\n", {}, ("app", "dep")),
    ("app,dep\nweb,app\n", {}, ("app", "dep", "web")),
    ("app,dep\nweb,db\ndep,os\n", {}, ("app", "dep", "web", "db", "os")),
    ("app,dep\nweb,db\ndep,\n", {}, ("app", "dep", "web", "db")),
    ("app,app\nweb,db\n", {}, ("app", "web", "db")),
    ("7,8\n2,3\n", {}, ("2", "3", "7", "8")),
    ("1a,8\nx,y\n", {}, ("1a", "8", "x", "y")),
    # comments that are no edges
    ("# from, to, cost\nA,B,5\n", {}, ("A", "B")),
    ("#from,to,cost\nA,B,5\n", {}, ("A", "B")),
    ("#from,to\nA,B\n", {}, ("A", "B")),
    ("#from to\nA B\n", {}, ("A", "B")),
    ("## x\nA B\n", {}, ("A", "B")),
    ("A B\n%%\n", {}, ("A", "B")),
    ("#from,to,km\nA,B\n", {}, ("A", "B")),
    ("#made by hand\nA B\n", {}, ("A", "B")),
    ("#2,C,5\nA,B,3\n", {}, ("A", "B")),
    ("A,B,5\n#C,D\n", {}, ("A", "B")),
    ("# A,B,6\nA,B,5\n", {}, ("A", "B")),
    ('"#A",B,5\n', {}, ("#A", "B")),
    # blanks in names, and around fields beside quotes
    ("Pier 1,Pier 2\n", {"name": "net.txt"}, ("Pier 1", "Pier 2")),
    ("1, 2\n", {"name": "net.txt"}, ("1", "2")),
    ("New York,Boston\n", {"name": "net.txt"}, ("New York", "Boston")),
    ('"Ulm,Nord" Kiel 3\n', {"name": "net.txt"}, ("Ulm,Nord", "Kiel")),
    ('"Ulm","Nord Kiel 3"\n', {"name": "net.txt"}, ("Ulm", "Nord Kiel 3")),
    ("Ulm Kiel\tBonn am Rhein\n", {"name": "net.txt"}, ("Ulm Kiel", "Bonn am Rhein")),
    ('A , "B,C" , 3\n', {}, ("A", "B,C")),
    ('  " A "  ,B, 3\n', {}, (" A ", "B")),
    ('"A ""x""" , B,3 \n', {}, ('A "x"', "B")),
    ("Köln; Nord,Bonn,4\n", {}, ("Köln; Nord", "Bonn")),
    ('"a;b;c;d",Bonn,4\n', {}, ("a;b;c;d", "Bonn")),
    ("Köln, Nord;Bonn;4\n", {}, ("Köln, Nord", "Bonn")),
]


@pytest.mark.parametrize(("text", "options", "names"), VERTICES)
def test_the_vertices_that_a_text_names(tmp_path, text, options, names):
    assert edge_list(tmp_path, text, **options).names == names


#: Texts, options, and what the error says.
REFUSED = [
    ("Abfahrt,Ankunft,Minuten\na,b,3\n", {}, r"the weight 'Minuten' is not a number.*If the line names.*header=True"),
    ("u,v\nv,w\nw,u\n", {}, r"net.csv:1: the first line reads like a header, but 'u' is also a vertex"),
    ("source,target,km\nsource,b,3\n", {}, "reads like a header, but 'source' is also a vertex"),
    ("1,2,x1\n2,3,2\n", {}, r"net.csv:1: the weight 'x1' is not a number"),
    (b"A,B,O.5\n" + b"C,B,3\n" * 70 + b"K\xf6ln,B,3\n", {}, r"net.csv:1: the weight 'O.5' is not a number"),
    *(
        (text, {"name": "net.txt"}, r"net.txt:1: the weight 'O.5' is not a number, in column 3. If the line names")
        for text in ("A B O.5\nC D 3\n", '"A" "B" "O.5"\n"C" "D" "3"\n', '"A","B","O.5"\n"C","D","3"\n')
    ),
    *(
        (text, {}, r"net.csv:1: three lines .* may be a matrix, .*header=False.*npy")
        for text in ("0,3,9\n3,0,2\n9,2,0\n", "0 1.5 9\n3 0.0 2\n9 2 0.0\n")
    ),
    # columns
    ("a,b,3\nb,c,4\n", {"weight": "b"}, r"net.csv:1: no header names a column 'b'"),
    (DATED, {"columns": ("date", "town")}, "no column is named 'town': there are date, from_city"),
    ("a,b,3\n", {"columns": ("a", "b"), **NO_H}, r"no column is named 'a': there are 1, 2, 3$"),
    ("a,b,3\n", {"columns": ("1", "2")}, r"named '1': there are a, b, 3\. .* header=False, '1' is the first"),
    (DATED, {"columns": ("from_city", "From_City")}, "columns= names the column 'from_city' twice"),
    (DATED, {**CITIES, "weight": "FROM_CITY"}, "the column 'from_city' holds vertices: name another by weight="),
    (DATED, {**CITIES, "weight": "to_city"}, "the column .* holds vertices: name another by weight="),
    ("from,to,km,km\na,b,3,4\n", {}, r"'km', 'km': name one by weight=\. Rename"),
    ("from,to,km,km\na,b,3,4\n", {"weight": "km"}, r"several .* 'km': .* Rename"),
    (TABLE, {"weight": "kms"}, r"no column is named 'kms': there are from, to, km. Did you mean 'km'\?"),
    (TABLE, {"weight": "time"}, "no column is named 'time': there are from, to, km"),
    (BARE, {**BARE_ENDS, "weight": "5"}, r"net.csv:1: no column is named '5': there are 1, 2, 3, 4.*'1' is the first"),
    (BARE, BARE_ENDS, "the weights may be any of the columns '1', '4': name one by weight="),
    ("a,b,5\nb,c,4\n", {"weight": "3"}, r"no header names a column '3': .* header=False and the number of the column"),
    ("from,to,date,km\na,b,2020-01-02,3\n", {}, "may be any of the columns 'date', 'km'"),
    (SEVERAL, {}, r"net.csv:1: the weights may be any of .*'km_road', 'minutes': name"),
    ("from,to,toll,distance\na,b,3,5\n", {}, "may be any of the columns 'toll', 'distance'"),
    # decimal commas
    ("a;b;3,5\nb;c;1,5\n", {}, r"net.csv:1: the weight '3,5' is not a number.*pass decimal=','"),
    ("from;to;km\na;b;1,5\n", {}, r"net.csv:2: the weight '1,5' is not a number.*pass decimal=','"),
    ('a,b,"3,5"\n', {}, r"net.csv:1: the weight '3,5' is not a number.*pass decimal=','"),
    ("Köln, Nord;Bonn;4,5\n", {}, r":1: the line has as many commas as semicolons.*decimal=','"),
    ("Ulm Kiel 3,5\n", {}, r":1: 'Ulm Kiel 3,5' has a decimal comma, or two fields: pass decimal=','"),
    ("Ulm Kiel 1.5\n", COMMA, r"the weight '1\.5' is not a number"),
    ("% bip unweighted\n1 1\n", {"name": "x.txt"}, "a bipartite network of KONECT numbers both sides from 1 on"),
    # weights that the dtype or the domain does not hold
    (f"a,b,{2**63 - 1}\n", {"dtype": "int64"}, "no wider integer dtype exists"),
    ("a,b,1\na,c,1.5\n", {"dtype": "int32"}, r"net\.csv:2: the weight 1\.5 is not an int32$"),
    ("a,b,40000\n", {"dtype": "int16"}, r"net\.csv:1: the weight 40000 is not an int16$"),
    ("a,b,-inf\n", {"dtype": "int16"}, r"net\.csv:1: the weight -inf is not an int16$"),
    ("a,b,32767\n", {"dtype": "int16"}, r"csv:1: the weight 32767 means “no edge” in int16: use a wider dtype$"),
    ("a,b,1e39\n", {"dtype": "float32"}, r"net\.csv:1: the weight 1e\+39 does not fit float32$"),
    ("a,b,1\na,c,-0.5\n", MAX_TIMES, r"csv:2: the weight -0\.5 lies outside the domain \[0, inf\) of max_times$"),
    ("a,b,1\n", {**MAX_TIMES, "dtype": "int32"}, "max_times is not defined on int32"),
    (npy(np.array([[0.5]])), {"name": "x.npy", "semiring": "boolean"}, r"x\.npy: entry \(0, 0\): 0\.5 is not a truth"),
]


@pytest.mark.parametrize(("text", "options", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_texts_that_are_refused(tmp_path, text, options, message):
    error = DomainError if "domain" in message else DTypeError if "not defined" in message else FormatError
    with pytest.raises(error, match=message):
        edge_list(tmp_path, text, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(({"columns": columns}, TypeError, "columns are the titles of two") for columns in ("from", 3, ("date",), ())),
        ({"columns": (1, 2)}, TypeError, r"the title of a column is a text, .* not 1"),
        *(({"decimal": mark}, ValueError, "decimal=") for mark in (";", "", None)),
    ],
)
def test_options_of_another_kind(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        edge_list(tmp_path, TABLE, **options)


MISTYPED = ["O.5", "O_5", "OO", "x1", "USD 12.50", "~5", "$5", "½", "NA", "#N/A", "null", "true", "Inf.", "infty"]


@pytest.mark.parametrize("weight", MISTYPED)
@pytest.mark.parametrize(("mark", "name"), [(";", "net.csv"), ("\t", "net.tsv")])
def test_an_edge_whose_weight_is_mistyped_is_no_header(tmp_path, weight, mark, name):
    """A first line with a mistyped weight raises, because reading it as a header would lose the edge."""
    lines = [("# the first line that counts",), ("A", "B", weight), ("C", "D", "3")]
    text = "\n".join(mark.join(fields) for fields in lines)
    said = f"{name}:2: the weight {weight!r} is not a number, in column 3"
    for options, remedy in (({}, ". If the line names the columns, pass header=True"), (NO_H, "")):
        with pytest.raises(FormatError) as raised:
            edge_list(tmp_path, text, name, **options)
        assert str(raised.value).endswith(said + remedy)
    declared = edge_list(tmp_path, text, name, header=True)
    assert (edges_of(declared), declared.unit) == (["C D 3"], weight)


@pytest.mark.parametrize(
    "titles",
    ["app,dep", "package,needs", "module,imports", "task,after", "parent,child", "node1,node2", "id1,id2", "a b"],
)
def test_two_names_that_occur_nowhere_else_may_be_titles(tmp_path, titles):
    mark = "," if "," in titles else " "
    text = f"# made by hand\n{titles}\n" + "web,db\ndb,os\n".replace(",", mark)
    with pytest.raises(FormatError, match=r"net\.csv:2: .*pass header=True or header=False"):
        edge_list(tmp_path, text)
    assert edge_list(tmp_path, text, header=True).names == ("web", "db", "os")
    assert edge_list(tmp_path, text, header=False).names == (*titles.split(mark), "web", "db", "os")


@pytest.mark.parametrize("title", ["t1", "x", "O.5"])
def test_a_weight_that_is_asked_for_makes_a_header(tmp_path, title):
    for more, text in (({"columns": ("Ab", "an")}, f"ab,an,x1,{title}\nA,B,5,3\n"), ({}, f"ab,an,{title}\nA,B,3\n")):
        assert edges_of(edge_list(tmp_path, text, weight=title.upper(), **more)) == ["A B 3"]


@pytest.mark.parametrize("first", ["u,v,3", "source,target,0.5", "v,u,inf", "start,end,-1e3"])
def test_usual_titles_above_a_number_may_be_an_edge(tmp_path, first):
    """A first line of usual titles above a number raises, because reading it as a header may lose an edge."""
    text = f"{first}\nx,y,4\n"
    with pytest.raises(FormatError, match=r"csv:1: the first line reads like a header, but '.*' may be the weight of"):
        edge_list(tmp_path, text)
    assert sorted(edge_list(tmp_path, text, header=True).names) == ["x", "y"]
    assert edge_list(tmp_path, text, header=False).names == (*first.split(",")[:2], "x", "y")


@pytest.mark.parametrize(
    "text",
    [
        "km,von,nach\n5,1,2\n6,2,3\n",
        "n1,n2,km\n1,2,5\n2,3,6\n",
        "from,km,Ziel\n1,5,2\n",
        "Absender,from,km\n7,1,5\n",
        "length,n1,time\n7,1,5\n",
        "user,item,rating\n7,x,5\n",
        "distance,nach\n5,A\n",
        "cost,to\n5,A\n",
        "Ulm,Kiel,Jena\nKiel,Bonn,Hof\n",
    ],
)
def test_columns_whose_roles_are_a_guess_are_asked_for(tmp_path, text):
    """Numbers in all columns raise, because reading them could take the wrong ones as weights."""
    with pytest.raises(FormatError, match=r"net.csv:1: the columns .* are titled like no source .*\. Pass columns=\("):
        edge_list(tmp_path, text, header=True)
    titles = text.split("\n")[0].split(",")
    if "Hof" not in text:
        assert edge_list(tmp_path, text, columns=titles[1::-1]).names


@pytest.mark.parametrize("weight", ["2,30", "1.500,00", "5 km", "12%", "€ 5", "$5"])
@pytest.mark.parametrize(
    ("title", "message"),
    [("km", r":1: the weights may be any of the columns 'lanes', 'km'"), ("weight", ":2: the weight .* is not a")],
)
def test_weights_that_are_no_numbers_are_not_passed_over(tmp_path, title, message, weight):
    """A column of weights that are no numbers raises, instead of reading the lanes as weights."""
    with pytest.raises(FormatError, match=message):
        edge_list(tmp_path, f'from,to,lanes,{title}\na,b,2,"{weight}"\n')


@pytest.mark.parametrize("delimiter", [" ", ","])
def test_an_edge_list_of_networkx_with_dictionaries_says_what_to_write(tmp_path, delimiter):
    for attributes in ({"weight": 5, "km": 3}, {"weight": 5}, {}):
        nx.write_edgelist(nx.DiGraph([("a", "b", attributes)]), tmp_path / "x.txt", delimiter=delimiter)
        with pytest.raises(FormatError, match=r":1: an edge with a dictionary, .*networkx.write_weighted_edgelist"):
            sio.read(tmp_path / "x.txt")
    nx.write_weighted_edgelist(nx.DiGraph([("a", "b", {"weight": 5})]), tmp_path / "x.txt", delimiter=delimiter)
    assert sio.read(tmp_path / "x.txt").matrix[0, 1] == 5


@pytest.mark.parametrize("unit", ["2019", "inf", "-1", "km", "x", "O.5", "NA", ' "', ";;", ";;;,", "a,b"])
@pytest.mark.parametrize("matrix", [[[INF, 3], [INF, INF]], [[INF, INF], [INF, INF]], []])
def test_any_unit_is_read_back(tmp_path, unit, matrix):
    matrix = np.array(matrix).reshape(len(matrix), len(matrix))
    for names in (["a", "b"][: len(matrix)], None):
        sio.write(tmp_path / "x.csv", matrix, names=names, unit=unit)
        back = sio.read(tmp_path / "x.csv")
        assert (back.unit, back.matrix.tolist()) == (unit, matrix.tolist())
    sio.write_vertices(tmp_path / "x.csv", np.zeros((len(matrix), len(matrix)), int), title="via", none=1)
    assert sio.read(tmp_path / "x.csv").unit == "via"


def test_a_matrix_that_is_read_as_undirected_is_symmetric(tmp_path):
    np.save(tmp_path / "d.npy", np.array([[7, 5.0], [3, INF]]))
    assert sio.read(tmp_path / "d.npy", directed=False).matrix.tolist() == [[7, 3], [3, INF]]


@pytest.mark.parametrize(
    ("semiring", "expected"),
    [("min_plus", 2.0), ("max_plus", 9.0), ("plus_times", 18.0), ("max_min", 9.0), ("min_max", 2.0)],
)
def test_duplicate_edges_combine_by_the_addition(tmp_path, semiring, expected):
    text = "a,b,4\nx,y,1\na,b,9\na,b,2\na,b,3\n"
    assert edge_list(tmp_path, text, semiring=semiring).matrix[0, 1] == expected
    (tmp_path / "d.gr").write_text("c dup\np sp 2 4\na 1 2 4\na 1 2 9\na 1 2 2\na 1 2 3\n")
    assert sio.read(tmp_path / "d.gr", semiring).matrix[0, 1] == expected
    matrix = scipy.sparse.coo_array(([4.0, 9, 2, 3], ([0] * 4, [1] * 4)), shape=(2, 2))
    scipy.sparse.save_npz(tmp_path / "d.npz", matrix)
    assert sio.read(tmp_path / "d.npz", semiring).matrix[0, 1] == expected
    head = "%%MatrixMarket matrix coordinate integer general\n2 2 4\n"
    (tmp_path / "d.mtx").write_text(head + "1 2 4\n1 2 9\n1 2 2\n1 2 3\n")
    assert sio.read(tmp_path / "d.mtx", semiring).matrix[0, 1] == expected


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")  # of the last line's mmread
def test_matrix_market_of_scipy(tmp_path, rng):
    dense = np.round(rng.random((5, 5)), 3)
    scipy.io.mmwrite(tmp_path / "d.mtx", dense)
    assert (sio.read(tmp_path / "d.mtx").matrix == dense).all(), "an array file holds elements"
    symmetric = np.tril(dense)
    symmetric = symmetric + np.tril(symmetric, -1).T
    scipy.io.mmwrite(tmp_path / "s.mtx", scipy.sparse.coo_array(symmetric), symmetry="symmetric")
    assert (sio.read(tmp_path / "s.mtx").matrix == symmetric).all()

    sio.write(tmp_path / "back.mtx", dense, "plus_times")
    assert (scipy.io.mmread(tmp_path / "back.mtx").toarray() == dense).all(), "SciPy reads what is written"
    stored = scipy.sparse.coo_array(([0.0, 3.0], ([0, 1], [1, 0])), shape=(2, 2))
    scipy.sparse.save_npz(tmp_path / "z.npz", stored)
    scipy.io.mmwrite(tmp_path / "z.mtx", stored)
    for name in ("z.npz", "z.mtx"):
        assert sio.read(tmp_path / name).matrix.tolist() == [[INF, 0], [3, INF]], "a stored zero is an edge"


def test_dense_npz_of_other_makers(tmp_path):
    np.savez(tmp_path / "one.npz", np.eye(2))
    assert sio.read(tmp_path / "one.npz").matrix.tolist() == [[1, 0], [0, 1]]
    np.savez(tmp_path / "two.npz", x=np.eye(2), y=np.eye(3))
    with pytest.raises(FormatError, match=r"two.npz: holds x, y; the matrix is the array 'matrix'"):
        sio.read(tmp_path / "two.npz")


def test_byte_orders_and_narrow_dtypes_are_widened(tmp_path):
    np.save(tmp_path / "big.npy", np.array([[1.5, 2], [3, 4]], ">f4"))
    assert sio.read(tmp_path / "big.npy").matrix.dtype == np.dtype("=f4")
    np.save(tmp_path / "half.npy", np.array([[1.5, INF], [3, 4]], "f2"))
    assert sio.read(tmp_path / "half.npy").matrix.tolist() == [[1.5, INF], [3, 4]]
    np.save(tmp_path / "byte.npy", np.array([[1, 2], [3, 255]], "u1"))
    assert sio.read(tmp_path / "byte.npy").matrix.tolist() == [[1, 2], [3, 255]]


def test_no_edge_stays_no_edge_from_dtype_to_dtype(tmp_path):
    top = np.iinfo(np.int32).max
    np.save(tmp_path / "i.npy", np.array([[top, 5], [-3, top]], np.int32))
    for dtype, none in [("float64", INF), ("int64", np.iinfo(np.int64).max), ("int16", np.iinfo(np.int16).max)]:
        assert sio.read(tmp_path / "i.npy", dtype=dtype).matrix.tolist() == [[none, 5], [-3, none]]
    np.save(tmp_path / "f.npy", np.array([[INF, 5], [-3, INF]]))
    assert sio.read(tmp_path / "f.npy", dtype="int32").matrix.tolist() == [[top, 5], [-3, top]]
    np.save(tmp_path / "w.npy", np.array([[INF, 5], [-3, -INF]]))
    low = np.iinfo(np.int32).min
    assert sio.read(tmp_path / "w.npy", "max_min", dtype="int32").matrix.tolist() == [[top, 5], [-3, low]]


def test_default_dtypes_of_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,1\n")
    expected = {"min_plus": "float64", "boolean": "bool", "xor_and": "int64", "lukasiewicz": "float64"}
    assert {name: sio.read(tmp_path / "a.csv", name).matrix.dtype.name for name in expected} == expected


def test_standard_input(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(b"a b 3\nb a 4\n"))
    monkeypatch.setattr("sys.stdin", stream)
    net = sio.read("-")
    assert net.matrix.tolist() == [[INF, 3], [4, INF]]
    assert net.title == "stdin"


# ---------------------------------------------------------------------------------------------------- node-link JSON


def node_links(tmp_path, data, **options):
    (tmp_path / "net.json").write_text(json.dumps(data))
    return sio.read(tmp_path / "net.json", **options)


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
@pytest.mark.parametrize("key", ["edges", "links"])
def test_graphs_of_networkx_go_through_node_link_files(tmp_path, rng, kind, key):
    graph = getattr(nx, kind)()
    graph.add_nodes_from(["alone", "Köln", (1, 2), 7, "late"])
    nodes = list(graph)
    for weight in rng.integers(-5, 9, 30).tolist():
        i, j = rng.integers(1, 5, 2)
        graph.add_edge(nodes[i], nodes[j], weight=float(weight))
    data = nx.node_link_data(graph, edges=key)
    for algebra in ("min_plus", "max_min", "plus_times"):
        found = node_links(tmp_path, data, semiring=algebra)
        assert found.names == ("alone", "Köln", (1, 2), 7, "late")
        assert found.matrix.tobytes() == sio.as_network(graph, algebra).matrix.tobytes()


def test_networkx_reads_the_node_link_files_that_are_written(tmp_path):
    matrix = np.array([[INF, 2.5, INF], [-INF, INF, -0.0], [INF, INF, INF]])
    names = ("Köln", 'quo"te', "\ud800")
    sio.write(tmp_path / "x.json", matrix, "min_plus", names=names, unit="km")
    text = (tmp_path / "x.json").read_text("utf-8")
    assert '"Köln"' in text
    graph = nx.node_link_graph(json.loads(text, parse_constant=pytest.fail), edges="edges")  # no Infinity
    assert graph.graph == {"unit": "km"}
    assert tuple(graph) == names
    assert list(graph.edges(data="weight")) == [
        (names[0], names[1], 2.5),
        (names[1], names[0], -INF),
        (names[1], names[2], 0.0),
    ]
    back = sio.read(tmp_path / "x.json")
    assert (back.names, back.unit) == (names, "km")
    assert back.matrix.tobytes() == matrix.tobytes()


def test_ids_of_node_link_files_are_named_in_one_way(tmp_path):
    edges = [{"source": {"b": "ö", "a": 1}, "target": 7, "weight": 2}]
    found = node_links(tmp_path, {"nodes": [{"id": {"a": 1, "b": "ö"}}, {"id": 7}], "edges": edges})
    assert found.names == ('{"a": 1, "b": "ö"}', 7)


def test_ids_of_json_keep_their_kind_and_undirected_graphs_theirs(tmp_path):
    graph = nx.Graph()
    graph.add_weighted_edges_from([(10, "x", 3), ((1, "q"), "x", 2.5), (2.5, 10, 4), ("x", "x", 1)])
    (tmp_path / "g.json").write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    found = sio.read(tmp_path / "g.json")
    assert found.names == (10, "x", (1, "q"), 2.5)
    assert shortest_paths(found).path(2.5, (1, "q")) == [2.5, 10, "x", (1, "q")]
    sio.write(tmp_path / "again.json", found)
    data = json.loads((tmp_path / "again.json").read_text())
    assert (data["directed"], len(data["edges"])) == (False, 4)
    again = nx.node_link_graph(data, edges="edges")
    assert nx.utils.graphs_equal(again, graph)
    assert nx.utils.edges_equal(found.to_networkx().edges(data=True), graph.edges(data=True))
    sio.write(tmp_path / "closed.json", semiring.closure(found))
    assert sio.read(tmp_path / "closed.json").matrix.tolist() == semiring.closure(found).matrix.tolist()
    bent = replace(found, matrix=np.triu(np.ones((4, 4))))  # not what was read any more
    assert bent.to_networkx().is_directed()


def test_positions_of_vertices_that_are_no_texts(tmp_path):
    (tmp_path / "g.json").write_text('{"nodes": [{"id": 10}, {"id": "x"}], "edges": [{"source": 10, "target": "x"}]}')
    (tmp_path / "at.csv").write_text("name,x,y\nx,1,2\n10,3,4\n")
    assert sio.with_positions(sio.read(tmp_path / "g.json"), tmp_path / "at.csv").positions.tolist() == [[3, 4], [1, 2]]


def _tell(reports, done, total):
    reports.append((done, total))


def test_writing_tells_how_far_it_is(tmp_path):
    for name in ("a.csv", "a.mtx", "a.gr", "a.json", "a.npy"):
        told, edges = [], np.eye(3000, k=1, dtype=bool)
        sio.write(tmp_path / name, semiring.pack(edges), "boolean", progress=partial(_tell, told))
        assert all(0 <= done < total for done, total in told[:-1])
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] > 0
        assert len(told) > 3 or name == "a.npy"


def test_vertices_of_node_link_files(tmp_path):
    edges = [{"source": 2, "target": 0, "length": 4}, {"source": 0, "target": 1, "length": 3, "value": "x"}]
    found = node_links(tmp_path, {"directed": True, "nodes": [{"id": 2}, {"id": 0}, {"id": 1}], "links": edges})
    assert found.names is None
    assert found.matrix.tolist() == [[INF, 3, INF], [INF, INF, INF], [4, INF, INF]]
    found = node_links(tmp_path, {"nodes": [{"id": 20}, {"id": 2}, {"id": 0}, {"id": 1}], "links": edges})
    assert found.names == (0, 1, 2, 20)
    assert found.matrix[:3, :3].tolist() == [[INF, 3, 4], [3, INF, INF], [4, INF, INF]]  # undirected unless it is said


@pytest.mark.parametrize("ids", [[2**64 - 1, 2**64 - 2, 7], [10**22 + 1, -(2**63) - 1, "x"], [2**63, 2**63 - 1, 0]])
def test_integer_ids_of_any_size_are_exact(tmp_path, ids):
    edges = [
        {"source": ids[0], "target": ids[1], "weight": 2**64 - 1},
        {"source": ids[1], "target": ids[2], "weight": 3},
    ]
    found = node_links(tmp_path, {"directed": True, "nodes": [{"id": name} for name in ids], "edges": edges})
    assert sorted(found.names, key=str) == sorted(ids, key=str)
    assert {type(name) for name in found.names} <= {int, str}
    assert found.matrix.dtype == np.float64  # weights are numbers of 64 bits, or floats
    paths = shortest_paths(found)
    assert paths.path(ids[0], ids[2]) == ids
    assert paths.distance(ids[0], ids[1]) == 2.0**64
    sio.write(tmp_path / "again.json", found)
    again = sio.read(tmp_path / "again.json")
    assert again.names == found.names
    assert again.matrix.tolist() == found.matrix.tolist()


def test_integers_beyond_float64_are_no_ids_and_no_weights(tmp_path):
    for nodes, weight in (([10**400, 1], 1), ([0, 1], 10**400)):
        edges = [{"source": nodes[0], "target": nodes[1], "weight": weight}]
        with pytest.raises(FormatError, match="beyond the range of float64"):
            node_links(tmp_path, {"nodes": [{"id": name} for name in nodes], "edges": edges})


@pytest.mark.parametrize("ending", ["csv", "tsv", "npz", "json"])
def test_integers_mean_the_ids_of_a_file(tmp_path, ending):
    A = np.array([[INF, 5.0, INF], [INF, INF, 7.0], [INF, INF, INF]])
    sio.write(tmp_path / f"x.{ending}", A, names=[1, 2, 3])
    found = sio.read(tmp_path / f"x.{ending}")
    path = [1, 2, 3] if ending == "json" else ["1", "2", "3"]
    everything, some = shortest_paths(found), shortest_paths(found, sources=[1], targets=np.array([2, 3]))
    for paths in (everything, some):
        assert paths.distance(1, 2) == 5
        assert paths.path(1, np.int64(3)) == path
    assert some.matrix.tolist() == [[5, 12]]
    factor = semiring.factor(found)
    assert (factor.distance(1, 2), factor.update([(1, 2, 4.0)]).distance(1, 3)) == (5, 11)
    assert semiring.condensation(found).reaches([1, 3], 2).tolist() == [True, False]
    with pytest.raises(VertexError, match="no vertex is named 0"):
        everything.path(0, 1)


def test_edges_of_an_undirected_node_link_file_are_taken_both_ways_once(tmp_path):
    edges = [{"source": "a", "target": "b", "w": 2}, {"source": "b", "target": "b", "w": 5}]
    data = {"directed": False, "nodes": [{"id": "a"}, {"id": "b"}], "edges": edges}
    for directed in (None, False):
        found = node_links(tmp_path, data, semiring="plus_times", directed=directed)
        assert found.matrix.tolist() == [[0, 2], [2, 5]]
    with pytest.raises(ValueError, match="the edges are undirected: leave directed=True out"):
        node_links(tmp_path, data, directed=True)


def test_the_weights_of_node_link_files(tmp_path):
    edges = [{"source": 0, "target": 1, "cost": 3, "weight": 7, "name": "A1"}]
    data = {"directed": True, "nodes": [{"id": 0}, {"id": 1}], "edges": edges}
    assert node_links(tmp_path, data).matrix[0, 1] == 7
    assert node_links(tmp_path, data, weight="cost").matrix[0, 1] == 3
    with pytest.raises(FormatError, match=r"net\.json: no edge has a weight 'km': .* 'cost', 'weight'"):
        node_links(tmp_path, data, weight="km")
    del edges[0]["cost"], edges[0]["weight"]
    assert node_links(tmp_path, data).matrix[0, 1] == 1
    edges.append({"source": 1, "target": 0, "weight": 2})
    with pytest.raises(FormatError, match="the edge 0 → 1 has no weight 'weight', and other edges have one"):
        node_links(tmp_path, data)
    with pytest.raises(FormatError, match="are for edge lists"):
        node_links(tmp_path, data, header=True)


# --------------------------------------------------------------------------------------------------- malformed input

COORDINATE = "%%MatrixMarket matrix coordinate real general\n"
COMPLEX = COORDINATE.replace("real", "complex")
SQUARE = "the matrix of a network is square"
NODES = '{"nodes": [{"id": "a"}, {"id": "b"}], "edges": '
EDGE = '[{"source": "a", "target": "b", "weight": '
NO_GRAPH = (
    "not a node-link graph, an object with the lists 'nodes' and 'edges' (or 'links'), as networkx.node_link_data makes"
)
QUOTE = "a double quote is not closed in its line (write a quote inside quotes twice; names have no line ends)"
UTF_8 = "not UTF-8 text: pass encoding='latin-1' or the encoding that it has, or save it as UTF-8"
AS_NPY = (
    "A text file is a list of edges: give a matrix as .npy, or with names by pandas, "
    "semiring.closure(pandas.read_csv(FILE, index_col=0))"
)
BY_NUMBER = "pass header=False, columns=('1', '2'), weight='3'"
FIRST = "where the first line has {}: put names with the delimiter into double quotes"
HEADER = "is not a number, in column 3. If the line names the columns, pass header=True"
MALFORMED = [
    ("x.csv", "a,b,1\nb,c\n", "x.csv:2: 2 fields where the first line has 3: complete the line, or remove it"),
    ("x.csv", "a,b,1\nb,c,1,2\n", "x.csv:2: 4 fields " + FIRST.format(3)),
    ("x.csv", "a,b,1\n\n# c\nb,c,1x\n", "x.csv:4: the weight '1x' is not a number, in column 3"),
    (
        *("x.csv", "1,2,3,4\n"),
        "x.csv:1: 4 fields where an edge is source, target[, weight]. Name the columns in a header, or "
        f"{BY_NUMBER}. {AS_NPY}",
    ),
    ("x.csv", ",A,B\nA,0,3\nB,4,0\n", f"x.csv:1: the source is empty, as in the corner of a matrix. {AS_NPY}"),
    ("x.csv", "Ulm,Kiel,Jena\n0,3,8\n3,0,2\n8,2,0\n", f"x.csv:1: the weight 'Jena' {HEADER}"),
    ("x.csv", "", "x.csv: the file is empty, 0 bytes: write it again, or give another file"),
    ("x.gr", "", "x.gr: the file is empty, 0 bytes: write it again, or give another file"),
    ("x.json", "", "x.json: the file is empty, 0 bytes: write it again, or give another file"),
    ("x.csv", "# A B\n", "x.csv: holds comments alone: an empty network has the line source,target,weight"),
    (
        *("x.csv", "abc\n"),
        "x.csv:1: 1 field where an edge is source, target[, weight]. Separate fields by commas, semicolons, tabs "
        "or blanks",
    ),
    (
        *("x.csv", "from,to,u,v,km\na,b,x,y,3\n"),
        "x.csv:1: the columns 'from' and 'u' are both titled like a source: pass columns=(SOURCE, TARGET), two "
        "titles",
    ),
    (
        *("x.csv", "from,to,note,km\na,b,x,3 km\n"),
        "x.csv:2: the weight '3 km' is not a number, in column 4 (km)",
    ),
    ("x.csv", "a,b,nan\n", "x.csv:1: the weight is not a number (NaN)"),
    ("x.csv", "a,b,1\na,c,NaN\n", "x.csv:2: the weight is not a number (NaN)"),
    ("x.csv", "a,b,1\na,c,\n", "x.csv:2: the weight is missing, in column 3"),
    ("x.csv", "a,b,1\n,c,2\n", "x.csv:2: the source is empty"),
    ("x.csv", "a,b,1\nc,,2\n", "x.csv:2: the target is empty (a vertex without edges has no weight either)"),
    ("x.csv", "a,b,1_000\n", f"x.csv:1: the weight '1_000' {HEADER}"),
    ("x.csv", "a,b,1\na,c,1e999\n", "x.csv:2: the weight '1e999' is beyond the range of float64, in column 3"),
    (
        *("x.csv", "a,b," + "9" * 400 + "\n"),
        f"x.csv:1: the weight '{'9' * 17}...{'9' * 18}' is beyond the range of float64, in column 3. If the line "
        "names the columns, pass header=True",
    ),
    ("x.csv", 'a,b,1\n"a,c,2\n', f"x.csv:2: {QUOTE}"),
    ("x.csv", 'from,to,km\n"K\nln",Bonn,3\n', f"x.csv:2: {QUOTE}"),
    ("x.csv", "3,Kiel,Bonn\n5,Bonn,Ulm\n", f"x.csv:1: the weight 'Bonn' {HEADER}"),
    ("x.csv", b"a,b,1\nK\xf6ln,b,2\n", f"x.csv:2: {UTF_8}"),
    ("x.csv", "a,b,1\n".encode("utf-16"), f"x.csv:1: {UTF_8}"),
    ("x.csv", b"a,b,1\na\0,c,1\n", "x.csv:2: holds a zero byte, so it is no text"),
    ("x.txt", "a b 1\na b c d\n", "x.txt:2: 4 fields " + FIRST.format(3)),
    ("x.gr", "p sp 2 1\na 1 3 5\n", "x.gr:2: the vertex '3' is not one of 1 … 2"),
    ("x.gr", "p sp 2 1\na 0 1 5\n", "x.gr:2: the vertex '0' is not one of 1 … 2"),
    ("x.gr", "p sp 2 1\na 1 2\n", "x.gr:2: expected 'a <tail> <head> <weight>'"),
    ("x.gr", "p sp 2 1\na 1 2 z\n", "x.gr:2: the weight 'z' is not a number"),
    ("x.gr", "p sp 2 1\na 1 2 nan\n", "x.gr:2: the weight is not a number (NaN)"),
    ("x.gr", "p max 2 1\n", "x.gr:1: expected 'p sp <vertices> <arcs>'"),
    ("x.gr", f"p sp {'9' * 5000} 1\n", "x.gr:1: expected 'p sp <vertices> <arcs>'"),
    ("x.gr", f"p sp 2 1\na 1 {'9' * 5000} 5\n", f"x.gr:2: the vertex '{'9' * 7}...{'9' * 8}' is not one of 1 … 2"),
    ("x.gr", "p sp 2 0\np sp 2 0\n", "x.gr:2: a second 'p' line"),
    ("x.gr", "a 1 2 3\n", "x.gr:1: an arc before the line 'p sp <vertices> <arcs>'"),
    ("x.gr", "p sp 2 2\na 1 2 3\n", "x.gr: 1 arcs, and the 'p' line promises 2"),
    ("x.gr", "c nothing\n", "x.gr: no line 'p sp <vertices> <arcs>'"),
    ("x.gr", "hello\n", "x.gr:1: a line begins with c, p or a, not 'hello'"),
    ("x.mtx", "garbage\n", "x.mtx:1: not a Matrix Market file. Missing banner"),
    ("x.mtx", "", "x.mtx: the file is empty, 0 bytes: write it again, or give another file"),
    ("x.mtx", COORDINATE + "2 3 1\n1 1 1\n", "x.mtx: the array is 2 × 3: " + SQUARE),
    ("x.mtx", COORDINATE + "2 2 1\n3 1 1\n", "x.mtx:3: row index out of bounds"),
    ("x.mtx", COORDINATE + "2 2 2\n1 1 1\n", "x.mtx: truncated file. Expected another 1 lines"),
    ("x.mtx", COORDINATE + "2 2 99999999999\n1 1 1\n", "x.mtx: 99999999999 entries promised by a file of 68 bytes"),
    ("x.mtx", COMPLEX + "1 1 1\n1 1 1 0\n", "x.mtx: holds complex numbers, not real ones"),
    ("x.mtx", COORDINATE + "2 2 1\n1 2 nan\n", "x.mtx: entry (1, 2): the weight is not a number (NaN)"),
    ("x.json", '{"nodes":\n [}', "x.json:2: not JSON: expecting value"),
    ("x.json", b'{"nodes": ["K\xf6ln"]}', f"x.json: {UTF_8}"),
    ("x.json", "[" * 100_000, "x.json: not JSON: nested too deeply"),
    ("x.json", "[]", "x.json: " + NO_GRAPH),
    ("x.json", '{"nodes": []}', "x.json: " + NO_GRAPH),
    ("x.json", '{"nodes": [1], "edges": []}', "x.json: node 0 has no 'id'"),
    ("x.json", '{"nodes": [{"id": 1}, {"id": 1.0}], "edges": []}', "x.json: two nodes have the id 1"),
    ("x.json", NODES + '[{"source": "a"}]}', "x.json: edge 0 has no 'target'"),
    ("x.json", NODES + '[7]}', "x.json: edge 0 has no 'source'"),
    ("x.json", NODES + '[], "directed": "true"}', "x.json: 'directed' is \"true\", give true or false"),
    ("x.json", NODES + EDGE + '1}, {"source": "c"}]}', "x.json: edge 1: its source 'c' is the id of no node"),
    (
        "x.json",
        NODES + EDGE + '"5"}]}',
        "x.json: the edge a → b: the weight 'weight' is '5', not a real number: convert such weights to numbers, and "
        "leave out rows without a weight",
    ),
    ("x.json", NODES + EDGE + "NaN}]}", "x.json: the edge a → b: the weight is not a number (NaN)"),
    ("x.json", NODES + EDGE + "1e400}]}", "x.json: a number is beyond the range of float64"),
    ("x.npy", "not numpy", "x.npy: not a .npy file, or the result of a run that has not finished"),
    ("x.npz", "not a zip", "x.npz: not a .npz file: give one that numpy.savez or scipy.sparse.save_npz wrote"),
    ("x.csv.gz", "not gzip", "x.csv.gz: damaged gzip data: Not a gzipped file (b'no')"),
]  # fmt: skip


ARRAYS = [
    (np.zeros((2, 3)), "the array is 2 × 3: the matrix of a network is square"),
    (np.zeros(4), "the array is 4: the matrix of a network is square"),
    (np.float64(1), "the array is a single number: the matrix of a network is square"),
    (np.zeros((2, 2, 2)), "the array is 2 × 2 × 2: the matrix of a network is square"),
    (np.array([[0, 1], [np.nan, 2]]), "entry (1, 0): the weight is not a number (NaN)"),
    (np.zeros((1, 1), complex), "holds complex128, not real numbers"),
    (np.array([["a"]]), "holds <U1, not real numbers"),
]
MALFORMED += [("x.npy", npy(array), f"x.npy: {message}") for array, message in ARRAYS]
POSITIONS = [
    ("name,x\na,1\n", "p.csv:1: expected a header with name, x, y or name, longitude, latitude"),
    ("name,x,y\na,1\n", "p.csv:2: 2 fields, expected 3"),
    ("name,x,y\na,1,z\n", "p.csv:2: the coordinates '1', 'z' are not two numbers"),
    ("name,x,y\na,1,inf\n", "p.csv:2: the coordinates '1', 'inf' are not finite"),
    ("name,x,y\nq,1,2\n", "p.csv: names none of the 2 vertices of the network"),
    ("", "p.csv: the file is empty, 0 bytes: write it again, or give another file"),
]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [*MALFORMED, *(("p.csv", text, message) for text, message in POSITIONS)],
    ids=[str(i) for i in range(len(MALFORMED) + len(POSITIONS))],
)
def test_malformed_files_are_named_with_their_line(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    network = sio.Network(np.eye(2), names=("a", "b"))
    with pytest.raises(SemiringError) as raised:
        sio.read(name) if name != "p.csv" else sio.with_positions(network, name)
    assert str(raised.value) == message


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_nothing_is_ever_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = np.empty((1, 1), object)
    bomb[0, 0] = Bomb()
    np.save("x.npy", bomb)
    np.savez("x.npz", matrix=bomb)
    np.savez("names.npz", matrix=np.zeros((1, 1)), names=bomb[0])
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("x.npy", "x.npz", "names.npz"):
        with pytest.raises(FormatError, match="holds Python objects, which are never loaded"):
            sio.read(name)
    for name in ("raw.npy", "raw.npz"):
        with pytest.raises(FormatError, match="not a"):
            sio.read(name)
    assert not os.path.exists("exploded")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv.gz", ".mtx.gz"])
@pytest.mark.parametrize("keep", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_truncated_files(tmp_path, ending, keep):
    path = tmp_path / f"x{ending}"
    sio.write(path, np.arange(400.0).reshape(20, 20), names=None)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(FormatError, match=r"^\S*x\.\w+"):
        sio.read(path)


def test_repeated_or_wrong_names(tmp_path):
    np.savez(tmp_path / "x.npz", matrix=np.zeros((2, 2)), names=np.array(["a", "a"]))
    with pytest.raises(FormatError, match="two vertices have the same name"):
        sio.read(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", matrix=np.zeros((2, 2)), names=np.array(["a"]))
    with pytest.raises(FormatError, match="2 vertices need 2 texts"):
        sio.read(tmp_path / "x.npz")


def test_an_npz_file_keeps_its_names_or_is_not_written(tmp_path):
    for names in (("", "x"), ("\0a", "a\0b"), ("\ud800", "\udfffa"), ("x", "\U0001f6b2")):
        sio.write(tmp_path / "x.npz", np.eye(2), names=names)
        assert sio.read(tmp_path / "x.npz").names == names
    with pytest.raises(FormatError, match="a name ends in a zero character"):
        sio.write(tmp_path / "y.npz", np.eye(2), names=["a", "b\0"])
    assert not (tmp_path / "y.npz").exists()


def test_infinite_weights_are_no_edges_where_they_are_the_zero(tmp_path):
    assert edge_list(tmp_path, "a,b,inf\nb,a,2\n").matrix.tolist() == [[INF, INF], [2, INF]]
    top = np.iinfo(np.int32).max
    assert edge_list(tmp_path, "a,b,inf\nb,a,2\n", dtype="int32").matrix.tolist() == [[top, top], [2, top]]


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.npy.gz", ".csv.zip"])
def test_unknown_endings_are_refused(name):
    with pytest.raises(FormatError, match="the ending names no known format"):
        sio.format_of(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *((more, "for edge lists") for more in ({"header": True}, {"columns": ("a", "b")}, {"weight": "km"})),
        ({"format": "xls"}, "no format is named 'xls'"),
    ],
)
def test_misplaced_options_are_refused(tmp_path, options, message):
    np.save(tmp_path / "x.npy", np.eye(2))
    with pytest.raises(FormatError, match=message):
        sio.read(tmp_path / "x.npy", **options)
    with pytest.raises(FileNotFoundError):
        sio.read(tmp_path / "nothing.csv")


def test_what_is_larger_than_the_memory_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 1 << 28)
    n = 10_000
    (tmp_path / "x.gr").write_text("p sp 100000000 0\n")
    with pytest.raises(TooLargeError, match="a header of 100,000,000 vertices, and 0 edges"):
        sio.read(tmp_path / "x.gr")
    (tmp_path / "big.csv").write_text("from,to,km\n" + "".join(f"v{i},v{i + 1},2\n" for i in range(n - 1)))
    with pytest.raises(TooLargeError, match=r"float64 matrix of 10,000 vertices takes .*: ask the functions of paths"):
        sio.read(tmp_path / "big.csv", sparse=False)
    found = shortest_paths(tmp_path / "big.csv", sources=["v0"], targets=[f"v{n - 1}"])
    assert found.matrix.tolist() == [[2.0 * (n - 1)]]


ONE = np.zeros((1, 1), int)
CONTROL, HALF = "is empty or holds a control character", "holds half a surrogate pair, which UTF-8 does not encode"


@pytest.mark.parametrize(
    ("function", "matrix", "options", "message"),
    [
        *((sio.write, ONE, {"names": [name]}, CONTROL) for name in ("line\nbreak", "", "nul\0", "next\x85line")),
        *((sio.write, ONE, {"names": [name]}, f"the name '.*' {HALF}") for name in ("\ud800", "a\udfffb")),
        *((sio.write_vertices, ONE, {"names": [name]}, f"the name '.*' {HALF}") for name in ("\ud800", "a\udfffb")),
        *((sio.write_vertices, ONE, {"title": title}, f"the title '.*' {HALF}") for title in ("\ud800", "a\udfffb")),
        (sio.write, ONE, {"unit": "k\ud800"}, f"the unit 'k.ud800' {HALF}"),
        (sio.write, ONE, {"unit": "k\nm"}, f"the unit 'k.nm' {CONTROL}"),
        (sio.write, np.eye(2), {"names": ["a"]}, "1 names for 2 vertices"),
        (sio.write, np.eye(2), {"names": ["a", "a"]}, "the name 'a' was given to two vertices"),
        (sio.write, np.zeros((2, 3)), {}, "2 × 3"),
    ],
)
def test_names_that_an_edge_list_cannot_hold(tmp_path, function, matrix, options, message):
    with pytest.raises(FormatError if "holds" in message else ShapeError, match=message):
        function(tmp_path / "x.csv", matrix, **options)
    assert not (tmp_path / "x.csv").exists()


# ------------------------------------------------------------------------------------------------- whole or not at all


class DiskFullError(OSError):
    pass


@pytest.mark.parametrize("ending", ALL)
@pytest.mark.parametrize("existing", [True, False])
def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch, ending, existing):
    path = tmp_path / f"x{ending}"
    if existing:
        path.write_bytes(b"precious")

    def full(descriptor):
        raise DiskFullError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskFullError):
        sio.write(path, AWKWARD)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ([path.name] if existing else [])
    if existing:
        assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("error", [DiskFullError(28, "full"), KeyboardInterrupt(), MemoryError()])
def test_whatever_stops_a_write_midway(tmp_path, error):
    path = tmp_path / "x.bin"
    path.write_bytes(b"precious")

    def write_half():
        with sio.atomic_file(path) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_appears_only_at_the_end(tmp_path):
    path = tmp_path / "x.bin"
    with sio.atomic_file(path) as stream:
        stream.write(b"all")
        stream.flush()
        assert not path.exists()
        assert len(list(tmp_path.iterdir())) == 1, (
            "the new file is made in the same folder, so that replacing is one step"
        )
    assert path.read_bytes() == b"all"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_and_links_are_kept(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("old")
    path.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    sio.write(link, np.eye(2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert path.read_text().startswith("source,target")
    previous = os.umask(0o027)
    try:
        sio.write(tmp_path / "new.csv", np.eye(2))
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "new.csv").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        sio.write(path, np.eye(2))
    assert path.read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="/dev/null")
def test_what_is_no_regular_file_is_written_to_directly():
    sio.write("/dev/null", np.eye(2), format="csv")
    assert not os.path.isfile("/dev/null")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        sio.write(tmp_path / "no" / "x.csv", np.eye(2))
    assert raised.value.filename == str(tmp_path / "no")


def test_equal_content_gives_equal_gzip_bytes(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        sio.write(tmp_path / name, AWKWARD)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"source,target,weight\n")


def test_matrices_of_vertices(tmp_path):
    P = np.array([[-9999, 0, 1], [-9999, -9999, 1], [-9999, -9999, -9999]], np.int32)
    sio.write_vertices(tmp_path / "p.npy", P)
    assert (np.load(tmp_path / "p.npy") == P).all()
    sio.write_vertices(tmp_path / "p.npz", P, names=["a", "b", "c"])
    with np.load(tmp_path / "p.npz") as held:
        assert (held["matrix"] == P).all()
    sio.write_vertices(tmp_path / "p.csv", P, names=["a", "b", "c"])
    assert (tmp_path / "p.csv").read_text() == "source,target,predecessor\na,b,a\na,c,b\nb,c,b\n"
    with pytest.raises(FormatError, match="write a matrix of vertices to"):
        sio.write_vertices(tmp_path / "p.mtx", P)


# ------------------------------------------------------------------------------------------------------- positions


def test_positions_from_tables(tmp_path):
    net = edge_list(tmp_path, "a,b,1\nb,c,1\n")
    (tmp_path / "p.csv").write_text("label,name,y,x\nAlpha,a,1,2\n,b,3,4\nElsewhere,z,9,9\n")
    placed = sio.with_positions(net, tmp_path / "p.csv")
    assert placed.positions[:2].tolist() == [[2, 1], [4, 3]]
    assert np.isnan(placed.positions[2]).all()
    assert placed.labels == ("Alpha", "b", "c")
    assert not placed.geographic
    (tmp_path / "g.tsv").write_text("station\tlat\tlon\na\t50\t7\n")
    assert sio.with_positions(net, tmp_path / "g.tsv").geographic
    numbered = edge_list(tmp_path, "0,1,1\n")
    (tmp_path / "d.co").write_text("c DIMACS\np aux sp co 2\nv 1 -73530767 41085396\nv 2 5 6\n")
    assert sio.with_positions(numbered, tmp_path / "d.co").positions.tolist() == [[-73530767, 41085396], [5, 6]]


# ------------------------------------------------------------------------------------------------ the shipped networks


def test_the_flight_network_is_what_its_documentation_says():
    net = load_network("us-flights")
    names, labels = net.names, dict(zip(net.names, net.labels, strict=True))
    there = np.isfinite(net.matrix)
    assert net.matrix.shape == (352, 352)
    assert there.sum() == 6022
    assert not there.diagonal().any()
    assert (labels["BOS"], labels["GUM"], net.unit, net.geographic) == ("Boston", "Hagåtña", "km", True)
    assert scipy.sparse.csgraph.connected_components(scipy.sparse.csr_array(there), connection="strong")[0] == 1
    # New York to Los Angeles is 3,983 km along the great circle (both directions flown).
    jfk, lax = names.index("JFK"), names.index("LAX")
    assert net.matrix[jfk, lax] == net.matrix[lax, jfk] == pytest.approx(3983, abs=10)
    longitude, latitude = net.positions[names.index("ANC")]
    assert longitude == pytest.approx(-150, abs=0.5)
    assert latitude == pytest.approx(61.2, abs=0.5)


def test_distances_of_the_flight_network_follow_from_the_positions():
    net = load_network("us-flights")
    across, up = np.radians(net.positions).T
    points = np.stack([np.cos(up) * np.cos(across), np.cos(up) * np.sin(across), np.sin(up)], 1)
    angle = np.arccos(np.clip(points @ points.T, -1, 1))
    there = np.isfinite(net.matrix)
    assert np.abs(angle[there] * 6371.0088 - net.matrix[there]).max() < 1.0


def test_networks_over_other_semirings_and_unknown_names():
    assert load_network("us-flights", "max_min", dtype="float32").matrix.dtype == np.float32
    assert load_network("us-flights", "boolean").matrix.sum() == 6022
    with pytest.raises(UnknownNameError, match="us-flights"):
        load_network("eu-flights")
    assert list(NETWORKS) == ["us-flights"]


def test_an_archive_that_is_no_npz(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(FormatError, match=r"x\.npz"):
        sio.read(tmp_path / "x.npz")


def test_a_network_introduces_itself_in_one_line():
    text = repr(load_network("us-flights"))
    assert text == "<Network 'us-flights': 352 vertices with names, labels, positions, float64, in km>"
    assert repr(sio.Network(np.zeros((1, 1)))) == "<Network: 1 vertex, float64>"


def test_a_network_is_no_array():
    network = load_network("us-flights")
    for read in (np.asarray, np.array, lambda given: np.asarray([given])):
        with pytest.raises(TypeError, match=r"a Network is no array: use its \.matrix"):
            read(network)
    with pytest.raises(DTypeError, match="matrix"):
        semiring.matmul(network, network)
