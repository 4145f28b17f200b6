"""Test the sources and the formats that `semiring.read` reads, beside round trips and malformed files."""

from __future__ import annotations

import gzip
import io
import time

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import semiring as sr
from semiring.errors import FormatError, TooLargeError

INF = np.inf
EDGES = "from,to,km\nUlm,Köln,7\nKöln,Jena,2.5\n"


def read(tmp_path, content, name="x.csv", **options):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return sr.read(tmp_path / name, **options)


def edges_of(network):
    names = network.names or range(network.matrix.shape[0])
    return {(names[i], names[j]): weight for (i, j), weight in np.ndenumerate(network.matrix) if weight != INF}


EXPECTED = {("Ulm", "Köln"): 7, ("Köln", "Jena"): 2.5}


def test_open_files_streams_and_bytes_are_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(EDGES)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(EDGES.encode()))
    sources = [io.StringIO(EDGES), io.BytesIO(EDGES.encode()), EDGES.encode(), bytearray(EDGES.encode())]
    for source in sources:
        assert edges_of(sr.read(source)) == EXPECTED
    for mode in ("r", "rb"):
        with path.open(mode) as stream:
            network = sr.read(stream)
        assert (edges_of(network), network.title) == (EXPECTED, "x")
    with (tmp_path / "x.csv.gz").open("rb") as packed, gzip.open(tmp_path / "x.csv.gz") as stream:
        assert edges_of(sr.read(packed)) == edges_of(sr.read(stream)) == EXPECTED
    array = io.BytesIO()
    np.save(array, np.eye(2))
    assert sr.read(array.getvalue(), format="npy").matrix.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(FormatError, match=r"<stream>:2: the weight 'x' is not a number"):
        sr.read(io.StringIO("a b 1\nb c x\n"))
    for wrong in (7, None, sr.Network(np.eye(2))):
        with pytest.raises(TypeError, match="read takes the name of a file, an open file, io"):
            sr.read(wrong)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "cp1252", "utf-32-le"])
def test_text_of_other_encodings(tmp_path, encoding):
    assert edges_of(read(tmp_path, EDGES.encode(encoding), encoding=encoding)) == EXPECTED
    if encoding == "latin-1":
        with pytest.raises(FormatError, match=r"x\.csv:2: not UTF-8 text: pass encoding='latin-1'"):
            read(tmp_path, EDGES.encode(encoding))
        with pytest.raises(FormatError, match="Python knows no encoding of this name"):
            read(tmp_path, EDGES, encoding="latin-99")
        with pytest.raises(FormatError, match="encoding= is for"):
            read(tmp_path, "x", "x.mtx", encoding=encoding)


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "edges", "edgelist"])
@pytest.mark.parametrize("mark", [",", "\t", ";", " "])
def test_the_first_line_decides_the_delimiter(tmp_path, ending, mark):
    assert edges_of(read(tmp_path, EDGES.replace(",", mark), f"x.{ending}")) == EXPECTED


KINDS = ["Directed", "Undirected", "directed"]


def test_the_types_of_gephi(tmp_path):
    def table(*kinds):
        return "Source,Target,Type,Id,Label,timeset,Weight\n" + "".join(
            f"{i},{i + 1},{kind},{i},,,{i + 2.0}\n" for i, kind in enumerate(kinds)
        )

    for kinds in (KINDS, KINDS[1:2] * 3, KINDS[:1]):
        frame = pd.read_csv(io.StringIO(table(*kinds)))
        assert edges_of(sr.as_network(frame)) == edges_of(read(tmp_path, table(*kinds)))
    mixed = read(tmp_path, table(*KINDS))
    assert edges_of(mixed) == {(0, 1): 2, (1, 2): 3, (2, 1): 3, (2, 3): 4}
    assert mixed.directed
    undirected = read(tmp_path, table("Undirected", "undirected"))
    assert edges_of(undirected) == {(0, 1): 2, (1, 0): 2, (1, 2): 3, (2, 1): 3}
    assert not undirected.directed
    assert edges_of(read(tmp_path, table("Directed", "Directed"))) == {(0, 1): 2, (1, 2): 3}
    with pytest.raises(FormatError, match=r"x\.csv:\d+: the type is 'x', not Directed or Undirected"):
        read(tmp_path, table(*["Undirected"] * 80, "x"))
    assert read(tmp_path, "from,to,type,km\na,b,road,3\n").matrix[0, 1] == 3, "another column of this title"


def test_lines_and_contents_that_are_too_long(tmp_path):
    long = b"a,b," + b"1" * (2 << 20)
    for name, content in (("x.csv", long), ("x.csv.gz", gzip.compress(long)), ("x.gr.gz", gzip.compress(long))):
        with pytest.raises(TooLargeError, match=r"1: a line of more than 1,048,576 bytes lists no edge"):
            read(tmp_path, content, name)


def test_the_older_json_of_d3(tmp_path):
    text = '{"nodes":[{"name":"%s","group":1},{"name":"b"},{"name":"c"}],"links":[{"source":1,"target":0,"value":8}]}'
    assert edges_of(read(tmp_path, text % "a", "x.json")) == {("a", "b"): 8, ("b", "a"): 8}
    assert read(tmp_path, text % "b", "x.json").names is None, "names that are equal name no vertices"
    with pytest.raises(FormatError, match="edge 0: its target 3 is the id of no node"):
        read(tmp_path, (text % "a").replace('"target":0', '"target":3'), "x.json")


def test_json_of_repeated_keys_takes_linear_time(tmp_path):
    n = 60_000
    keys = "".join(f'"k{i}":0,' for i in range(n)) + f'"k{n - 1}":0'
    start = time.perf_counter()
    with pytest.raises(FormatError, match=f"an object has the key 'k{n - 1}' twice"):
        read(tmp_path, f'{{"nodes":[{{"id":1,{keys}}}],"links":[]}}', "x.json")
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("ending", ["graphml", "gml", "gexf", "graphml.gz"])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_files_that_networkx_reads(tmp_path, ending, kind):
    graph = kind()
    graph.add_weighted_edges_from([("a", "b", 2.5), ("b", "c", 4.0)])
    getattr(nx, f"write_{ending.removesuffix('.gz')}")(graph, tmp_path / f"x.{ending}")
    network = sr.read(tmp_path / f"x.{ending}")
    assert network.title == "x"
    assert edges_of(network) == edges_of(sr.as_network(graph))
    assert sr.shortest_paths(tmp_path / f"x.{ending}", weight="weight").distance("a", "c") == 6.5
    with pytest.raises(FormatError, match="NetworkX cannot read it"):
        read(tmp_path, "no graph <", f"y.{ending.removesuffix('.gz')}")


@pytest.mark.parametrize("function", [sr.read, sr.closure, sr.shortest_paths, sr.factor, sr.condensation])
@pytest.mark.parametrize(
    "header", [b"(" * 300, b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2", b"[]", b"'a\nb", b"\xff" * 9]
)
def test_a_damaged_header_is_the_error_of_the_library_everywhere(tmp_path, function, header):
    path = tmp_path / "A.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(FormatError, match=r"A\.npy"):
        function(path)


@pytest.mark.parametrize("letter", ["x", "\u202e", "\x1b"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "from,to,km\na,b,{}\n"),
        ("x.csv", "from,to,{}\n{},b,3,4\n"),
        ("x.csv", "from,to,{},km\na,b,1,2\n"),
        ("x.csv", "{},{}b,c\n"),
        ("x.txt", "a b\nc d{} 1\n"),
        ("x.gr", "{}\n"),
        ("x.json", '{{"{}": 1, "{}": 2}}'),
        ("x.json", '{{"nodes": [{{"id": "{}"}}, {{"id": "{}"}}], "edges": []}}'),
        ("x.gml", "graph [ {} ]"),
    ],
)
def test_quotations_of_files_are_short_and_printable(tmp_path, name, text, letter):
    with pytest.raises(FormatError) as caught:
        read(tmp_path, text.replace("{}", letter * 50_000).replace("{{", "{").replace("}}", "}"), name)
    message = str(caught.value).removeprefix(str(tmp_path))
    assert len(message) < 1000
    assert message.isprintable()
