"""Test damaged or inconsistent files: an error names the file, and no number differs silently."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from tiers import full

import semiring as sr
from semiring.errors import FormatError, TooLargeError

INF = np.inf
PROGRAM = Path(__file__).parents[1] / "support" / "damaged_files.py"
KINDS = ["npy", "npz", "mtx", "gr", "json", "csv", "tsv", "txt", "csv.gz", "mtx.gz", "graphml", "gml", "positions"]
BIG = 2**53 + 1  # no float64


def survives(kind, count, seed, folder):
    """Read so many damaged files in a child process, which must end, without a failure."""
    path = os.pathsep.join([str(PROGRAM.parents[2]), *sys.path])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind, str(count), str(seed)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"died of {folder}/damaged.{kind}: {done.returncode} {done.stderr[-3000:]}"
    found = json.loads(done.stdout)
    assert not found["failed"], "\n".join(found["failures"])
    assert sum(found["outcomes"].values()) == count
    assert found["outcomes"].get("read"), found
    assert found["outcomes"]["FormatError"] > 1, found


@pytest.mark.full
@pytest.mark.parametrize("kind", full(lambda kind: kind in ("npz", "mtx", "gr", "json", "csv", "csv.gz"), KINDS))
def test_readers_survive_damaged_files(kind, tmp_path):
    survives(kind, 300, 0, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [*KINDS, "gr.gz", "json.gz"])
def test_readers_survive_three_thousand_damaged_files(kind, tmp_path):
    survives(kind, 3_000, 1, tmp_path)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as written:
        for name, held in members.items():
            written.writestr(f"{name}.npy", held if isinstance(held, bytes) else npy(held))
    return stream.getvalue()


def check_refused(folder, name, content, message, error=FormatError, **options):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=message) as raised:
        sr.read(path, **options)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("shape", ["(1, 1)", "(999999999, 999999999)", "(3, 3)", "(-2, -2)", "(-1, -1)"])
def test_the_header_of_an_npy_file_is_compared_with_its_size(shape, tmp_path):
    whole = npy(np.zeros((2, 2)))
    header = re.sub(rb"\(2, 2\), \} *", b"%s, }" % shape.encode(), whole)
    content = header.replace(b"\n", b" " * (len(whole) - len(header)) + b"\n", 1)
    assert len(content) == len(whole)
    check_refused(tmp_path, "A.npy", content, r"damaged: has the header of a float64 array .* bytes, and 32 follow it")
    check_refused(
        tmp_path, "A.npz", archive(matrix=content), r"damaged: the array 'matrix' has the header of a float64"
    )
    check_refused(tmp_path, "B.npy", whole + b"x", "33 follow it")
    check_refused(tmp_path, "B.npy", whole[:-1], "31 follow it")


def test_headers_that_python_cannot_read(tmp_path):
    for text in (b"(" * 9000, b"-" * 9000, b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)", b"[]"):
        content = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text
        check_refused(
            tmp_path, "A.npy", content, "damaged: its header is not one that NumPy writes|damaged: [^(]*$|dictionary"
        )
    check_refused(tmp_path, "A.npy", b"\x93NUMPY\x09\x00" + bytes(8), r"version \(9, 0\)")


CSR = {
    "format": np.array(b"csr"),
    "shape": np.array([2, 2]),
    "indptr": np.array([0, 1, 2], np.int32),
    "indices": np.array([1, 0], np.int32),
    "data": np.array([1.0, 2.0]),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": np.array([0, 100_000, 1], np.int32)}, r"the matrix\.indptr\[1\] is 100000, beyond"),
        ({"indptr": np.array([0, 5, 1], np.int32)}, r"the matrix\.indptr\[1\] is 5, beyond"),
        ({"indptr": np.array([0, -1, 2], np.int32)}, r"the matrix\.indptr\[1\] is -1, less than"),
        ({"indices": np.array([1, 2])}, r"the matrix\.indices\[1\] is 2, outside"),
        ({"indices": np.array([1, -1])}, r"the matrix\.indices\[1\] is -1, outside"),
        ({"indices": np.array([0.5, 1.0])}, r"'indices' is float64 \(2,\), and a list of indices is expected"),
        ({"indices": np.array([2**63, 1], np.uint64)}, "'indices' is uint64"),
        ({"indptr": np.array([[0, 1, 2]])}, r"'indptr' is int64 \(1, 3\)"),
        ({"data": np.array(["a", "b"])}, "holds <U1, not real numbers"),
        ({"data": np.zeros(3)}, "damaged"),
        ({"shape": np.array([2**20, 2**20])}, "damaged|indptr"),
        ({"shape": np.array([2, -2])}, "'shape' is int64 .*, and two numbers"),
        ({"shape": np.array([2.0, 2.0])}, "'shape' is float64"),
        ({"format": np.array(b"xyz")}, "the sparse format is 'xyz', and known are csr"),
        ({"format": np.array(b"coo")}, "holds no array 'row'"),
        ({"format": np.zeros((3, 3))}, "the sparse format is"),
    ],
)
def test_a_sparse_npz_file_is_validated(changes, message, tmp_path):
    check_refused(tmp_path, "A.npz", archive(**{**CSR, **changes}), message)


def test_archives_with_other_members(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as written:
        written.writestr("matrix.npy", npy(np.zeros((2, 2))))
        with pytest.warns(UserWarning, match="Duplicate"):
            written.writestr("matrix.npy", npy(np.ones((2, 2))))
    check_refused(tmp_path, "A.npz", stream.getvalue(), "holds two arrays 'matrix'")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as written:  # whose decoder may take 4 GiB
        written.writestr("matrix.npy", npy(np.zeros((2, 2))))
    check_refused(tmp_path, "A.npz", stream.getvalue(), "another method")
    damaged = bytearray(archive(matrix=np.zeros((2, 2))))
    damaged[damaged.index(bytes(32))] ^= 1
    check_refused(tmp_path, "A.npz", bytes(damaged), "damaged: .*CRC-32.*write it again")


def test_a_sparse_file_of_any_format_reads_back(tmp_path):
    A = sp.csr_array(np.array([[0, 2.0, 0], [0, 0, 3.0], [1.0, 0, 0]]))
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        sp.save_npz(tmp_path / "A.npz", A.asformat(form))
        assert sr.read(tmp_path / "A.npz").matrix.tolist() == [[INF, 2, INF], [INF, INF, 3], [1, INF, INF]]


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        ("coordinate integer", "1 2 3.7", r":4: '1 2 3\.7', and a row, a column, and a number are expected"),
        ("coordinate integer", "1 2 3e5", r":4: '1 2 3e5'"),
        ("coordinate real", "1 2 3,5", r":4: '1 2 3,5'"),
        ("coordinate real", "1 2 3.5abc", r":4: '1 2 3\.5abc'"),
        ("coordinate real", "1 2 3.5 7", r":4: '1 2 3\.5 7'"),
        ("coordinate real", "1 2", r":4: '1 2'"),
        ("coordinate pattern", "1 2 7", r":4: '1 2 7', and a row, a column are expected"),
        ("coordinate real", "1 2 1e999", r"entry \(1, 2\): the weight, or another one, is beyond the range of float64"),
        ("coordinate real", f"1 2 {'9' * 400}", r"entry \(1, 2\): .* is beyond the range of float64"),
    ],
)
def test_lines_of_matrix_market_files_are_read_to_their_end(header, line, message, tmp_path):
    check_refused(tmp_path, "A.mtx", f"%%MatrixMarket matrix {header} general\n% comment\n2 2 1\n{line}\n", message)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_integers_that_a_float_dtype_does_not_hold(dtype, tmp_path):
    whole = BIG if dtype == "float64" else 2**24 + 1
    matrix = np.array([[0, whole], [3, 0]])
    np.save(tmp_path / "A.npy", matrix)
    np.savez(tmp_path / "A.npz", matrix)
    sr.write(tmp_path / "A.mtx", matrix)
    sr.write(tmp_path / "A.gr", matrix)
    sr.write(tmp_path / "A.csv", matrix)
    sr.write(tmp_path / "A.json", matrix)
    for name in ("A.npy", "A.npz", "A.mtx", "A.gr", "A.csv", "A.json"):
        with pytest.raises(FormatError, match=f"the weight {whole} is not exact in {dtype}: pass dtype='int64'"):
            sr.read(tmp_path / name, dtype=dtype)
        assert sr.read(tmp_path / name, dtype="int64").matrix[0, 1] == whole
    np.save(tmp_path / "A.npy", np.array([[0, 2**62], [np.iinfo(np.int64).max, 0]]))
    assert sr.read(tmp_path / "A.npy", dtype=dtype).matrix.tolist() == [[0, 2.0**62], [INF, 0]]
    np.save(tmp_path / "A.npy", np.array([[0, 70_000], [1, 0]]))
    with pytest.raises(FormatError, match="the weight 70000 is not exact in float16"):
        sr.read(tmp_path / "A.npy", dtype="float16")


def test_the_integer_that_means_no_edge_in_arrays_is_a_number_in_text(tmp_path):
    largest = 2**63 - 1
    files = {
        "A.gr": f"p sp 2 1\na 1 2 {largest}\n",
        "A.csv": f"source,target,weight\n0,1,{largest}\n",
        "A.mtx": f"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 {largest}\n",
        "A.json": node_link([largest]),
    }
    for name, content in files.items():
        check_refused(tmp_path, name, content, f"the weight {largest} is not exact in float64", dtype="float64")
        check_refused(tmp_path, name, content, f"the weight {largest} means “no edge” in int64", dtype="int64")
    sp.save_npz(tmp_path / "A.npz", sp.coo_array(([largest, 3], ([0, 1], [1, 0])), shape=(2, 2)))
    assert sr.read(tmp_path / "A.npz", dtype="float64").matrix.tolist() == [[INF, INF], [3, INF]]


def test_an_integer_beside_floats_keeps_its_value(tmp_path):
    message = f"the weight {BIG} is not exact in float64, which other weights need"
    check_refused(tmp_path, "A.csv", f"source,target,weight\n0,1,{BIG}\n1,0,0.5\n", f"A.csv:2: {message}")
    check_refused(tmp_path, "A.gr", f"p sp 2 2\na 1 2 0.5\na 2 1 {BIG}\n", f"A.gr:3: {message}")
    edges = [{"source": 0, "target": 1, "weight": BIG}, {"source": 1, "target": 0, "weight": 0.5}]
    check_refused(tmp_path, "A.json", json.dumps({"nodes": [{"id": 0}, {"id": 1}], "edges": edges}), message)
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, BIG), (1, 2, 0.5)])
    with pytest.raises(FormatError, match=message):
        sr.as_network(graph)


def node_link(weights=(1.0,), **attributes):
    nodes = [{"id": vertex} for vertex in range(len(weights) + 1)]
    edges = [{"source": i, "target": i + 1, "weight": weight} for i, weight in enumerate(weights)]
    return json.dumps({"directed": True, "nodes": nodes, "edges": edges, **attributes})


def test_json_that_says_a_thing_twice(tmp_path):
    check_refused(tmp_path, "A.json", node_link(links=[]), "holds both 'edges' and 'links': remove the list")
    twice = node_link().replace('"weight": 1.0', '"weight": 1.0, "weight": 2.0')
    check_refused(tmp_path, "A.json", twice, "an object has the key 'weight' twice")
    check_refused(
        tmp_path, "A.json", node_link().replace("{", '{"directed": false, ', 1), "has the key 'directed' twice"
    )


def test_a_weight_of_null_is_not_1(tmp_path):
    message = "the edge 0 → 1 has no weight 'weight': give each edge one"
    check_refused(tmp_path, "A.json", node_link([None, None]), message)
    check_refused(tmp_path, "A.json", node_link([None, None]), message, weight="weight")
    check_refused(
        tmp_path, "A.json", node_link([None, 3]), "the edge 0 → 1 has no weight 'weight', and other edges have one"
    )
    (tmp_path / "A.json").write_text(node_link([None, None]))
    assert sr.read(tmp_path / "A.json", "boolean").matrix.sum() == 2  # over truths every edge is one
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight=None)
    with pytest.raises(FormatError, match="the edge a → b has no weight 'weight': give each edge one"):
        sr.as_network(graph)
    (tmp_path / "A.json").write_text(node_link([7]).replace(', "weight": 7', ""))
    assert sr.read(tmp_path / "A.json").matrix[0, 1] == 1


def test_ids_that_are_nested_too_deeply(tmp_path):
    for depth in (300, *range(800, 1000, 5), 100_000):
        for start, end in (("[", "]"), ('{"a":', "}")):
            deep = start * depth + "1" + end * depth
            (tmp_path / "A.json").write_text(f'{{"directed": true, "nodes": [{{"id": {deep}}}], "edges": []}}')
            try:
                assert len(sr.read(tmp_path / "A.json").names) == 1
            except FormatError as error:
                assert "nested too deeply" in str(error)  # noqa: PT017


def test_an_archive_of_a_huge_matrix_takes_no_memory(tmp_path):
    members = {"row": np.zeros(1, int), "col": np.zeros(1, int), "data": np.ones(1)}
    (tmp_path / "A.npz").write_bytes(archive(format=np.array(b"coo"), shape=np.array([2**40, 2**40]), **members))
    with pytest.raises(TooLargeError):
        sr.read(tmp_path / "A.npz")


def test_long_lines_take_no_longer_than_their_length(tmp_path):
    """Reading takes time linear in the length of a line, where some regular expressions would take quadratic time."""
    n = 200_000
    for line in ('"a"' + " " * n + '"b', " {" * n + "}" * n + "x", '"a",' + " " * n + "x"):
        (tmp_path / "A.csv").write_text(f"{line}\nb,c\n")
        with pytest.raises(FormatError):
            sr.read(tmp_path / "A.csv")


def test_a_truncated_archive_and_an_empty_file_are_named_as_such(tmp_path):
    whole = archive(matrix=np.random.default_rng(0).random((20, 20)))
    check_refused(tmp_path, "A.npz", whole[: len(whole) // 2], "damaged: the file is truncated.*(copy|download).*again")
    check_refused(tmp_path, "A.npz", b"other", "not a .npz file.*numpy.savez")
    for ending in ("npy", "npz", "mtx", "gr", "json"):
        check_refused(tmp_path, f"A.{ending}", b"", f"A.{ending}: the file is empty")
