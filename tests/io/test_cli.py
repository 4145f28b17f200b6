"""Test the command: what it prints, what it writes, how it fails. Mostly by `main`, a few times as a process."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partialmethod
from pathlib import Path

import numpy as np
import oracles
import pytest
import scipy.sparse.csgraph
from tiers import full, missing_gpu, quick
from tqdm import tqdm

import semiring
from semiring import cli
from semiring.advice import ANY, fewer_paths_advice, option, use_spelling
from semiring.cli.common import format_number
from semiring.cli.parser import COMMANDS, build_parser
from semiring.data import load_network
from semiring.errors import NegativeCycleError, no_star
from semiring.io import read, write
from semiring.logs import Compilation
from semiring.terminal import ProgressBar

INF = float("inf")
ROOT = os.path.dirname(os.path.dirname(semiring.__file__))
TOWNS = """from,to,km
Köln,Bonn,4
Bonn,Aachen,3
Aachen,Köln,1
Köln,Trier,9
Trier,Mainz,2
Aachen,Mainz,7.5
Bern,Zürich,1
"""
PLACES = """name,x,y
Köln,0,0
Bonn,0,-1
Aachen,-1,0
Trier,-1,-3
Mainz,1,-2
Bern,0,-6
Zürich,1,-6
"""


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and returns the exit code, the output and the errors."""

    def command(*words):
        code = cli.main([str(word) for word in words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.fixture
def towns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "towns.csv").write_text(TOWNS, encoding="utf-8")
    return tmp_path


def process(*words, stdin="", **options):
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8", **options.pop("env", {})}
    command = [sys.executable, "-m", "semiring", *words]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, encoding="utf-8", env=environment, timeout=120, **options
    )


def failure(run, *words):
    code, out, err = run(*words)
    assert code == 2, out
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1, err
    return err.removeprefix("semiring: error: ").rstrip("\n")


# --------------------------------------------------------------------------------------------------------- closure


def test_closure_of_a_small_network_prints_its_matrix(run, towns):
    code, out, err = run("closure", "towns.csv")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "towns: 7 vertices, 7 edges, min_plus float64"
    assert lines[1] == "  entries  21 of 49 pairs are not ∞"
    assert lines[2] == "  range    0 … 13 km"
    assert lines[4].split() == ["Köln", "Bonn", "Aachen", "Trier", "Mainz", "Bern", "Zürich"]
    assert lines[5].split() == ["Köln", "0", "4", "7", "9", "11", "·", "·"]
    assert len({len(line) for line in lines[4:]}) == 1, "aligned"


HOPS = "a,b,9\nb,c,4\na,c,3\n"
SQUARE = "a,b\nb,d\na,c\nc,d\n"  # acyclic: with each vertex itself 4 + 4 + 1 pairs
BUSES = "branch,from_bus,to_bus,x\n1,1,2,5\n2,2,3,6\n3,1,3,20\n"
BARE = "1,1,2,5\n2,2,3,6\n3,1,3,20\n"
AROUND = "a,b,1\nb,c,-2\nc,b,1\nx,y,3\n"
BOTH_WAYS = "a,b,1\nb,a,2\nb,c,1\n"

#: The text of x.csv, the words of a command, its exit code, and what it prints.
PRINTED = [
    (SQUARE, "closure x.csv -s boolean --dtype bool", 0, "\n  entries  9 of 16 pairs are connected\n"),
    (SQUARE, "closure x.csv -s xor_and --dtype bool", 0, "\n  entries  8 of 16 pairs are true\n"),
    (HOPS, "paths x.csv --kind widest --from a --to c", 0, "\na → c: capacity 4, 2 edges\n"),
    (HOPS, "paths x.csv --kind longest --from a --to c", 0, "\na → c: length 13, 2 edges\n"),
    (HOPS, "paths x.csv --kind shortest --from a --to c", 0, "\na → c: distance 3, 1 edge\n"),
    (
        "a,b,0.5\nb,c,0.5\na,c,0.2\n",
        "paths x.csv --kind reliable --from a --to c",
        0,
        "\na → c: reliability 0.25, 2 edges",
    ),
    ("a,a,5\n", "paths x.csv --from a --to a --plot one.png", 0, "a → a: distance 0, 0 edges"),
    ("a,a,5\n", "paths x.csv --from a --to a -o d.npy", 0, "reachable  0 of 0 pairs"),
    # edges that are left out
    (HOPS, "paths x.csv --from a --to c --without a c --undirected", 0, "x without a ↔ c: "),
    (BOTH_WAYS, "paths x.csv --from b --to c --without a b --without b a", 0, "x without a → b, b → a: "),
    (BOTH_WAYS, "paths x.csv --from b --to a --without a b", 0, "\nb → a: distance 2, 1 edge\n"),
    (BOTH_WAYS, "paths x.csv --from b --to a --without a b -o d.npy", 0, "\nb → a: distance 2, 1 edge\n"),
    (BOTH_WAYS, "paths x.csv --from a --to b --without a b", 1, "no path leads from a to b"),
    (BOTH_WAYS, "paths x.csv --from a --to b --without a b -o d.npy", 1, "no path leads from a to b"),
    (AROUND, "paths x.csv --from x --to y", 0, "x → y: distance 3"),
    (AROUND, "paths x.csv --from a --to c", 2, "the cycle b → c → b"),
    (AROUND, "paths x.csv --from a --to c --on-cycle unbounded", 1, "a → c: distance -∞, walks improve without end"),
    (BOTH_WAYS, "paths x.csv --from a --without c a", 2, "no edge leads from c to a"),
    (BOTH_WAYS, "paths x.csv --from a --without c a -o d.npy", 2, "no edge leads from c to a"),
    # columns
    (BUSES, "paths x.csv --weight x --from 1 --to 3", 2, "titled like no source"),
    (BUSES, "paths x.csv --weight x --from 1 --to 3", 2, "--columns SOURCE TARGET"),
    (BUSES, "paths x.csv --columns from_bus to_bus --weight x --from 1 --to 3", 0, "\n1 → 3: distance 11 x, 2 edges\n"),
    (BARE, "paths x.csv --no-header --columns 2 3 --weight 4 --from 1 --to 3", 0, "\n1 → 3: distance 11, 2 edges\n"),
    (BARE, "paths x.csv", 2, "pass --no-header, --columns 1 2, --weight 3"),
    # encodings and decimal commas
    (b"Ulm;K\xf6ln;3,5\n", "paths x.csv --encoding latin-1 --decimal , --from Ulm", 0, "Köln  3.5"),
    (b"Ulm;K\xf6ln;3,5\n", "paths x.csv", 2, "pass --encoding latin-1"),
    ("Ulm;Bonn;3,5\n", "paths x.csv", 2, "pass --decimal ,"),
    # rankings
    ("S,A,1\nA,T,1\nS,B,1\n", "paths x.csv --kind widest --dtype bool --from S", 0, "\n  A  yes\n  T  yes\n  B  yes\n"),
    (
        "S,A,10\nA,T,7\nS,B,200\n",
        "paths x.csv --kind widest --dtype uint8 --from S",
        0,
        "\n  B  200\n  A   10\n  T    7\n",
    ),
    (
        "S,A,10\nA,T,7\n",
        "paths x.csv --kind widest --dtype bool --from S",
        2,
        "x.csv:1: 10 is not a truth value, 0 or 1",
    ),
]


@pytest.mark.parametrize(("text", "words", "code", "printed"), PRINTED, ids=map(str, range(len(PRINTED))))
def test_what_a_command_prints(run, towns, text, words, code, printed):
    (towns / "x.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    if code == 2:
        assert printed in failure(run, *shlex.split(words))
        return
    found, out, err = run(*shlex.split(words))
    assert (found, printed in f"\n{out}") == (code, True), out
    assert not err.startswith("semiring: error")


def test_reachability_of_edges_that_are_listed_takes_bits(run, towns):
    code, out, _ = run("closure", "towns.csv", "-s", "boolean", "--explain", "-o", "reach.npy")
    assert code == 0
    assert "a BitMatrix stays packed" in out
    reached = oracles.reachable(read("towns.csv", "boolean").matrix)
    assert f"{np.count_nonzero(reached)} of 49 pairs are connected" in out
    np.testing.assert_array_equal(np.load("reach.npy"), reached)
    run("closure", "towns.csv", "-s", "boolean", "-o", "packed.csv")
    run("closure", "towns.csv", "-s", "boolean", "--method", "rkleene", "-o", "entries.csv")
    assert (towns / "packed.csv").read_bytes() == (towns / "entries.csv").read_bytes()


@pytest.mark.parametrize("name", ["min_plus", "max_min", "min_max", "boolean"])
@pytest.mark.parametrize("irreflexive", [False, True])
def test_closures_are_right(run, towns, rng, name, irreflexive):
    n = 13
    matrix = np.full((n, n), oracles.zero(name, np.dtype(float)) if name != "boolean" else False)
    chosen = rng.random((n, n)) < 0.2
    matrix[chosen] = True if name == "boolean" else rng.integers(1, 50, chosen.sum())
    np.save("a.npy", matrix)
    options = ["--irreflexive"] if irreflexive else []
    assert run("closure", "a.npy", "-s", name, "-o", "out.npy", *options)[0] == 0
    assert (np.load("out.npy") == oracles.closure(matrix, name, reflexive=not irreflexive)).all()


def test_a_semiring_of_the_users_own(run, towns):
    (towns / "p.csv").write_text("a,b,0.5\nb,c,0.5\na,c,0.2\n")
    definition = ["--add", "max(x, y)", "--mul", "x * y", "--zero", "0", "--one", "1", "--domain", "[0, 1]"]
    code, out, _ = run("closure", "p.csv", *definition, "-s", "mine", "-o", "d.npy")
    assert code == 0
    assert "mine float64" in out
    assert np.load("d.npy").tolist() == [[1, 0.5, 0.25], [0, 1, 0.5], [0, 0, 1]]
    for name in ("min_plus", "tropical"):
        assert failure(run, "closure", "p.csv", *definition, "-s", name).startswith(
            f"{name} is a semiring of the library: give your own another name"
        )
    assert failure(run, "closure", "p.csv", "--add", "max(x, y)") == (
        "a semiring of your own also needs --mul, --zero, --one"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--one": "one"}, r"^--one: 'one': unknown name; .*number.*inf"),
        ({"--mul": "x * z"}, r"^--mul: 'z' in .*: unknown name; .*x, y and inf.*min.*exp"),
        ({"--star": "1 / (1 - x"}, r"^--star: .*not an expression"),
        ({"--domain": "[0; 1]"}, r"^--domain: .*'\[0; 1\]'.*interval"),
        ({"--add": "x - y"}, r"^custom, defined by --add.* fails.*Change --add\."),
        ({"--zero": "1", "--one": "1"}, r"^custom is defined on no dtype: --add .*--mul .*--zero 1.*--one 1"),
        ({"--zero": "1", "--one": "0"}, r"^custom, defined by --add.* fails.*Change --add or --zero\."),
        ({"--domain": "[0, 0.25]"}, r"p.csv:1: the weight 0.5 .*custom.*--domain"),
    ],
)
def test_errors_about_a_semiring_of_the_users_own_name_its_options(run, towns, changes, message):
    (towns / "p.csv").write_text("a,b,0.5\n")
    own = {"--add": "max(x, y)", "--mul": "x * y", "--zero": "0", "--one": "1"} | changes
    assert re.search(message, failure(run, "closure", "p.csv", *(word for option in own.items() for word in option)))


@pytest.mark.parametrize("dtype", ["float32", "int16", "int32", "int64"])
def test_dtypes_and_output_formats(run, towns, dtype):
    """The command writes distances beyond half the range of int16, as `semiring.closure` returns them if it does not
    close in place."""
    (towns / "i.csv").write_text("0,1,10000\n1,2,10000\n")
    none = INF if dtype == "float32" else np.iinfo(dtype).max
    assert run("closure", "i.csv", "--dtype", dtype, "--threads", "2", "-o", "o.npy")[0] == 0
    found = np.load("o.npy")
    assert found.dtype == dtype
    assert found.tolist() == [[0, 10_000, 20_000], [none, 0, 10_000], [none, none, 0]]
    assert run("closure", "i.csv", "--dtype", dtype, "-o", "o.csv")[0] == 0
    expected = "source,target,weight\n0,0,0\n0,1,10000\n0,2,20000\n1,1,0\n1,2,10000\n2,2,0\n"
    assert (towns / "o.csv").read_text() == expected
    assert run("closure", "o.npy", "-o", "o.npy")[0] == 0
    assert np.load("o.npy").tolist() == found.tolist(), "the closure of a matrix takes its place"


def test_output_to_standard_output_is_only_data(run, towns):
    code, out, err = run("closure", "towns.csv", "-o", "-", "--plot", "c.svg")
    assert code == 0
    assert out.splitlines()[:2] == ["source,target,km", "Köln,Köln,0"]
    assert "7 vertices" in err
    assert b"<svg" in (towns / "c.svg").read_bytes()
    (towns / "w.csv").write_text("from,to,km,minutes\na,b,3,60\n")
    assert run("closure", "w.csv", "--weight", "minutes", "--undirected", "-o", "o.npz")[0] == 0
    assert np.load("o.npz")["matrix"].tolist() == [[0, 60], [60, 0]]


def test_names_that_a_format_cannot_hold_are_noted(run, towns):
    _, _, err = run("closure", "towns.csv", "-o", "d.npy")
    assert err == "semiring: note: d.npy holds no names of vertices: write .npz, .csv or .json to keep them\n"


def test_a_negative_cycle_is_named(run, towns):
    (towns / "n.csv").write_text("a,b,2\nb,c,-3\nc,a,0\nd,a,1\n")
    for command in ("closure", "paths"):
        message = failure(run, command, "n.csv", "-o", "out.npy")
        assert re.search(r"a → b → c → a|b → c → a → b|c → a → b → c", message)
        assert "-1" in message
        assert bool(re.search("no shortest path", message)) == (command == "paths")
        assert ("closure" in message) == (command == "closure")
        assert not (towns / "out.npy").exists()


def test_a_cycle_that_gains_is_named(run, towns):
    (towns / "g.csv").write_text("a,b,2\nb,a,0.75\n")
    named = "a cycle through vertex b, .* a product above 1, gains with every round: a → b → a, with the product 1.5"
    assert re.search(rf"{named}$", failure(run, "paths", "g.csv", "--kind", "reliable", "--no-check"))
    assert re.search(rf"{named} \(probabilities lie in .*\)$", failure(run, "closure", "g.csv", "-s", "max_times"))
    assert "probabilities" not in failure(run, "closure", "g.csv", "-s", "max_times", "--no-check")


def test_long_cycles_are_shortened():
    from semiring.cli.common import name_cycle_vertices
    from semiring.io import Network

    net = Network(np.zeros((30, 30)), names=tuple(f"v{i}" for i in range(30)))
    with (
        pytest.raises(NegativeCycleError, match=r"v0 → v1 → .* → v11 → … → v0") as raised,
        name_cycle_vertices(net.names),
    ):
        raise NegativeCycleError("a cycle", range(30))
    assert raised.value.cycle == tuple(range(30))


# ----------------------------------------------------------------------------------------------------------- paths


def test_a_path_with_names_and_its_length(run, towns):
    code, out, err = run("paths", "towns.csv", "--from", "Köln", "--to", "mainz")
    assert (code, err) == (0, "")
    headline = "Köln → Mainz: distance 11 km, 2 edges"
    assert out.splitlines()[2:6] == [headline, "  Köln", "  Trier  9 km", "  Mainz  2 km"]


def test_the_ranking_from_and_to_a_vertex(run, towns):
    _, out, _ = run("paths", "towns.csv", "--from", "Aachen")
    lines = out.splitlines()[2:8]
    assert lines[0] == "distance from Aachen"
    assert [line.split() for line in lines[1:5]] == [
        ["Köln", "1", "km"],
        ["Bonn", "5", "km"],
        ["Mainz", "7.5", "km"],
        ["Trier", "10", "km"],
    ]
    assert lines[5] == "  2 without a path"
    _, out, _ = run("paths", "towns.csv", "--to", "Zürich")
    assert "distance to Zürich\n  Bern  1 km\n  5 without a path\n" in out


def test_summary_facts(run, towns):
    _, out, _ = run("paths", "towns.csv")
    assert "  reachable  14 of 42 pairs" in out
    assert "diameter" not in out, "not every pair is connected"
    (towns / "one.csv").write_text("a,b,3\nc,a,3\nc,b,3\n")
    _, out, _ = run("paths", "one.csv")
    assert "  farthest   3, a → b\n" in out, "where all distances are equal, a path all the same"
    (towns / "ring.csv").write_text("a,b,1\nb,c,2\nc,a,3\n")
    _, out, _ = run("paths", "ring.csv")
    facts = dict(line.strip().split(None, 1) for line in out.split("all pairs\n")[1].splitlines())
    assert facts == {
        "reachable": "6 of 6 pairs",
        "farthest": "5, b → a",
        "mean": "3",
        "diameter": "5",
        "radius": "3",
        "center": "a",
    }


@pytest.mark.parametrize(
    "form", quick(lambda form: form == "csv", full(lambda form: form != "gr", ["csv", "gr", "mtx"]))
)
def test_from_and_to_make_no_matrix_of_all_pairs(run, towns, form):
    """A chain of a million vertices needs no matrix, which would take 8 TB."""
    n = 1_000_000
    header = {"csv": "", "gr": f"p sp {n} 4\n", "mtx": f"%%MatrixMarket matrix coordinate real general\n{n} {n} 4\n"}
    first = 0 if form == "csv" else 1
    edges = [(0, 5, 2.0), (5, 7, 3.0), (5, 7, 9.0), (7, n - 1, 4.0)]
    line = {"csv": "{},{},{}\n", "gr": "a {} {} {:.0f}\n", "mtx": "{} {} {}\n"}[form]
    text = "".join(line.format(i + first, j + first, w) for i, j, w in edges)
    (towns / f"far.{form}").write_text(header[form] + text)
    a, b, c, d = (str(vertex + first) for vertex in (0, 5, 7, n - 1))
    code, out, _ = run("paths", f"far.{form}", "--from", a, "--to", d, "--undirected")
    assert code == 0
    width = len(d)
    assert out.splitlines()[2:] == [
        f"{a} → {d}: distance 9, 3 edges",
        f"  {a}",
        f"  {b:<{width}}  2",
        f"  {c:<{width}}  3",
        f"  {d}  4",
    ]
    code, out, _ = run("paths", f"far.{form}", "--to", c)
    others = n if form != "csv" else 4  # a list of edges has the vertices that it names
    assert out.splitlines()[2:] == [f"distance to {c}", f"  {b}  3", f"  {a}  5", f"  {others - 3:,} without a path"]


UNDIRECTED = {
    "g.json": """{"directed": false, "nodes": [{"id": "0"}, {"id": "1"}, {"id": "2"}], "edges": [
        {"source": "0", "target": "1", "weight": 0}, {"source": "1", "target": "2", "weight": 4},
        {"source": "0", "target": "2", "weight": 9}, {"source": "2", "target": "2", "weight": 9}]}""",
    "g.mtx": "%%MatrixMarket matrix coordinate real symmetric\n4 4 4\n2 1 0\n3 2 4\n3 1 9\n3 3 9\n",
    "g.csv": "0,1,0\n1,2,4\n0,2,9\n2,2,9\n",
}


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.parametrize("name", UNDIRECTED)
@pytest.mark.parametrize("arguments", [[], ["-o", "d.npy"]], ids=["edges", "a matrix"])
def test_an_undirected_edge_goes_in_both_directions(run, towns, name, arguments):
    (towns / name).write_text(UNDIRECTED[name])
    arguments = [*arguments, "--undirected"] if name == "g.csv" else arguments
    a, b, c = "123" if name == "g.mtx" else "012"
    for ends in ((a, c), (c, a)):
        asked = ("paths", name, "--from", ends[0], "--to", ends[1], *arguments)
        for without, distance, edges in (((a, b), 9, "1 edge"), ((a, c), 4, "2 edges"), ((c, c), 4, "2 e")):
            code, out, _ = run(*asked, "--without", *without)
            assert code == 0
            assert f"{ends[0]} → {ends[1]}: distance {distance}, {edges}" in out
    twice = run(*asked, "--without", a, b, "--without", b, a, "--without", a, b)
    assert twice == run(*asked, "--without", a, b)


@pytest.mark.full
def test_without_makes_no_matrix_of_all_pairs(run, towns):
    n = 1_000_000
    (towns / "far.gr").write_text(f"p sp {n} 4\na 1 6 2\na 6 8 3\na 1 8 1\na 8 {n} 4\n")
    code, out, _ = run("paths", "far.gr", "--from", "1", "--to", str(n), "--without", "1", "8")
    assert (code, out.splitlines()[2]) == (0, f"1 → {n}: distance 9, 3 edges")
    assert "all pairs" not in out


def test_no_path_is_exit_code_1(run, towns):
    code, out, err = run("paths", "towns.csv", "--from", "Mainz", "--to", "Bern", "-o", "d.npz")
    assert code == 1
    assert err == ""
    assert "no path leads from Mainz to Bern\n" in out
    assert "reachable" in out
    assert (towns / "d.npz").exists()


@pytest.mark.parametrize("arguments", [[], ["-o", "d.npz"]])
def test_no_path_names_the_option_if_a_path_leads_back(run, towns, arguments):
    (towns / "way.csv").write_text("a,b,3\nb,c,2\nb,d,1\n")
    code, out, _ = run("paths", "way.csv", "--from", "c", "--to", "a", *arguments)
    assert code == 1
    assert "--undirected takes each edge in both directions\n" in out
    for words in (["--from", "c", "--to", "d"], ["--from", "a", "--to", "c"], ["--from", "c"], []):
        assert "--undirected" not in run("paths", "way.csv", *words, *arguments)[1]


def test_the_ends_of_the_longest_path_are_named(run, towns):
    (towns / "plan.csv").write_text("a,b,3\nb,c,2\na,d,1\n")
    assert re.search(r"^  farthest +5, a → c$", run("paths", "plan.csv", "--kind", "longest")[1], re.MULTILINE)
    facts = json.loads(run("paths", "plan.csv", "--kind", "longest", "--json")[1])
    assert facts["farthest"] == {"from": "a", "to": "c", "value": 5}
    assert "farthest" not in run("paths", "plan.csv", "--kind", "widest")[1]


def test_distances_and_predecessors_are_written(run, towns):
    assert run("paths", "towns.csv", "-o", "d.csv", "--predecessors", "p.csv")[0] == 0
    assert "Köln,Mainz,11" in (towns / "d.csv").read_text(encoding="utf-8").splitlines()
    assert "Köln,Mainz,Trier" in (towns / "p.csv").read_text(encoding="utf-8").splitlines()
    assert run("paths", "towns.csv", "--predecessors", "p.npy")[0] == 0
    assert np.load("p.npy")[0].tolist() == [-9999, 0, 1, 0, 3, -9999, -9999]


@pytest.mark.full
def test_the_flights(run, towns):
    net = load_network("us-flights")
    expected = scipy.sparse.csgraph.shortest_path(net.matrix, method="D")
    code, out, _ = run("paths", "us-flights", "--from", "Adak", "--to", "STX", "-o", "d.npz", "--plot", "p.png")
    assert code == 0
    with np.load("d.npz") as held:
        assert (held["matrix"] == expected).all()
    ends = [net.names.index(name) for name in ("ADK", "STX")]
    assert f"ADK (Adak) → STX (Christiansted): distance {expected[*ends]:,.0f} km" in out
    legs = [int(text.replace(",", "")) for text in re.findall(r"^  [A-Z]{3} .* ([\d,]+) km$", out, re.M)]
    assert sum(legs) == expected[*ends]
    assert f"diameter   {expected.max():,.0f} km" in out
    assert (towns / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    full(
        lambda options: "--from" not in options or "--to" in options,
        [["--from", "Köln", "--to", "Mainz"], ["--from", "Köln"], ["--to", "Bern"], []],
    ),
)
def test_pictures_of_paths(run, towns, options):
    (towns / "at.csv").write_text(PLACES, encoding="utf-8")
    for extra in ([], ["--positions", "at.csv"]):
        code, out, _ = run("paths", "towns.csv", *options, *extra, "--plot", "p.png")
        assert code == 0
        assert out.endswith("drew p.png\n")
        assert (towns / "p.png").stat().st_size > 5000


def test_vertices_without_a_position_are_told(run, towns):
    (towns / "at.csv").write_text("name,x,y\nKöln,0,0\nBonn,0,-1\n", encoding="utf-8")
    words = ["paths", "towns.csv", "--from", "Köln", "--to", "Mainz", "--positions", "at.csv"]
    code, _, err = run(*words, "--plot", "p.svg")
    named = "Trier, Mainz, Aachen, Bern, Zürich"
    assert (code, err) == (0, f"semiring: note: not drawn, as they have no position: {named}\n")
    assert run(*words)[2] == ""


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_picture_of_a_path_between_vertices_that_integers_name(run, towns, ending):
    A = np.full((4, 4), np.inf)
    A[0, 1], A[1, 2], A[2, 3] = 5, 7, 1
    write(f"n.{ending}", A, names=[1, 2, 3, 40])
    code, out, _ = run("paths", f"n.{ending}", "--from", "1", "--to", "40", "--plot", "p.svg")
    assert code == 0
    assert "1 → 40: distance 13, 3 edges" in out
    assert b"<svg" in (towns / "p.svg").read_bytes()


# ------------------------------------------------------------------------------------------------- check and info


def json_of(run, *words, code=0):
    """Return the one object in one line that ``--json`` prints."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    found, out, err = run(*words, "--json")
    assert found == code, err
    assert len(out.splitlines()) == 1
    return json.loads(out, parse_constant=refuse)


def test_json_of_a_path(run, towns):
    found = json_of(run, "paths", "towns.csv", "--from", "Köln", "--to", "Mainz")
    size = {"title": "towns", "vertices": 7, "edges": 7, "semiring": "min_plus", "dtype": "float64", "unit": "km"}
    assert found == {
        "network": size,
        "kind": "shortest",
        "from": "Köln",
        "to": "Mainz",
        "path": ["Köln", "Trier", "Mainz"],
        "weights": [9, 2],
        "value": 11,
    }
    found = json_of(run, "paths", "towns.csv", "--from", "Mainz", "--to", "Bern", code=1)
    assert (found["path"], found["weights"], found["value"]) == (None, None, None)


def test_json_of_rankings_and_of_all_pairs(run, towns):
    found = json_of(run, "paths", "towns.csv", "--to", "Trier")
    assert (found["from"], found["to"]) == (None, "Trier")
    assert found["values"] == {"Aachen": 10, "Köln": 9, "Bonn": 13, "Mainz": None, "Bern": None, "Zürich": None}
    found = json_of(run, "paths", "towns.csv", "-o", "d.json", "--predecessors", "p.csv")
    D = oracles.closure(read("towns.csv").matrix, "min_plus")
    proper = D[(D != INF) & ~np.eye(7, dtype=bool)]
    assert (found["reachable"], found["pairs"], found["mean"]) == (proper.size, 42, pytest.approx(proper.mean()))
    assert found["farthest"] == {"from": "Bonn", "to": "Trier", "value": proper.max()}
    assert found["written"] == ["d.json", "p.csv"]
    assert read("d.json").matrix.tobytes() == semiring.closure(read("towns.csv").matrix).tobytes()
    (towns / "ring.csv").write_text("0,1,2\n1,0,3\n")
    found = json_of(run, "paths", "ring.csv")
    assert (found["diameter"], found["radius"], found["center"]) == (3, 2, [0])
    found = json_of(run, "paths", "towns.csv", "--kind", "widest")
    assert (found["least"], found["greatest"]) == (1, 9)


def test_json_of_all_pairs_has_its_keys_where_there_is_none_of_them(run, towns):
    (towns / "empty.csv").write_text("source,target,weight\n")
    for name, there in (("towns.csv", {"farthest", "mean"}), ("empty.csv", set())):
        found = json_of(run, "paths", name)
        assert {key: found[key] is not None for key in ("farthest", "mean", "diameter", "radius", "center")} == {
            **dict.fromkeys(("farthest", "mean", "diameter", "radius", "center"), False),
            **dict.fromkeys(there, True),
        }
    found = json_of(run, "paths", "empty.csv", "--kind", "widest")
    assert (found["least"], found["greatest"]) == (None, None)


def test_sums_beyond_float64_are_told(run, towns):
    (towns / "n.csv").write_text("a,b,1e308\nb,c,1e308\nc,d,1e308\na,e,-1e308\ne,d,1e308\n")
    found = json_of(run, "closure", "n.csv", "-s", "plus_times")
    assert (found["matrix"][0][3], found["greatest"]) == ("NaN", "NaN")
    assert "NaN" in run("closure", "n.csv", "-s", "plus_times")[1]


def test_json_of_a_closure(run, towns):
    (towns / "w.csv").write_text("a,b,5\n")
    found = json_of(run, "closure", "w.csv", "-s", "max_min")
    assert found["names"] == ["a", "b"]
    assert found["matrix"] == [["Infinity", 5], [None, "Infinity"]]
    assert (found["entries"], found["pairs"], found["least"], found["greatest"]) == (3, 4, 5, "Infinity")
    assert found["method"] == "rkleene"
    found = json_of(run, "closure", "w.csv", "-s", "boolean")
    assert (found["matrix"], found["least"]) == ([[True, True], [None, True]], None)
    np.save("A.npy", np.ones((300, 300)))
    found = json_of(run, "closure", "A.npy", "-o", "D.npy", "--memory", "8MiB")
    assert (found["network"]["vertices"], found["written"]) == (300, ["D.npy"])
    assert failure(run, "closure", "w.csv", "--json", "-o", "-").startswith("--json and -o - both write to standard")


@pytest.mark.full
def test_json_of_the_other_commands(run):
    found = json_of(run, "check", "min_plus")
    assert (found["proved"], found["refuted"]) == (True, False)
    assert {law["outcome"] for law in found["laws"]} == {"proved"}
    found = json_of(run, "check", "--add", "min(x, y)", "--mul", "x - y", "--zero", "inf", "--one", "0", code=1)
    assert (found["proved"], found["refuted"]) == (False, True)
    assert any(law["counterexample"] for law in found["laws"] if law["outcome"] == "refuted")
    found = json_of(run, "info")
    assert found["dtypes"]["min_plus"]["float32"] == "compiled kernels"
    assert found["dtypes"]["boolean"]["float32"] is None
    assert "rkleene" in found["methods"]


@pytest.mark.parametrize("command", ["check", "info"])
def test_the_page_of_the_command_lists_the_keys_of_json(run, command):
    page = (Path(ROOT) / "docs" / "command.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| {command} \| (`semiring`.*?)(?::.*)? \|$", page, re.MULTILINE)
    words = ("max_plus",) if command != "info" else ()
    assert re.findall(r"`(\w+)`", row) == list(json_of(run, command, *words))


def test_every_command_has_json():
    commands = build_parser()._subparsers._group_actions[0].choices
    assert len(commands) == 6
    assert all("--json" in command.format_help() for command in commands.values())


def test_check_proves_and_refutes(run):
    code, out, _ = run("check", "min_plus")
    assert code == 0
    assert out.startswith("min_plus is a semiring")
    definition = ["--add", "max(x, y)", "--mul", "x * y", "--zero", "0", "--one", "1"]
    code, out, _ = run("check", *definition)
    assert code == 1
    assert "refuted" in out
    code, out, _ = run("check", "mine", *definition, "--domain", "[0, 1]", "--dtype", "float32")
    assert code == 0
    assert out.startswith("mine is a semiring on [0, 1]")
    star = ["--star", "where(x >= 0, 0, nan)"]
    assert run("check", "--add", "min(x,y)", "--mul", "x+y", "--zero=inf", "--one=0", *star)[0] == 0
    assert run("check", "--add", "max(x, y)", "--mul", "min(x, y)", "--zero", "-inf", "--one", "inf")[0] == 0


def test_info(run):
    code, out, _ = run("info")
    assert code == 0
    for word in ("numpy", "numba", "cupy", "nvidia-cutlass-dsl", "threads", "cache", "CPU", "GPU", "backends", "cuda"):
        assert word in out
    row = next(line for line in out.splitlines() if line.split()[:1] == ["boolean"])
    assert row.split()[1:] == ["·"] * 6 + ["●"]
    head = next(line for line in out.splitlines() if line.split()[:1] == ["float32"])
    assert tuple(head.split()) == semiring.algebra.DTYPES


def test_version_and_help(run):
    assert run("--version")[:2][0] == 0
    for words in (["--help"], ["closure", "--help"], ["paths", "-h"], ["check", "-h"], ["info", "-h"]):
        code, out, _ = run(*words)
        assert code == 0
        assert out.startswith("usage: semiring")


def test_a_mistyped_weight_in_the_first_line(run, towns):
    (towns / "net.csv").write_text("A,B,O.5\nC,D,3\n")
    message = "net.csv:1: the weight 'O.5' is not a number, in column 3. If the line names the columns, pass --header"
    for words in (["closure", "net.csv"], ["paths", "net.csv", "--from", "C"]):
        assert failure(run, *words) == message
        assert failure(run, *words, "--no-header") == "net.csv:1: the weight 'O.5' is not a number, in column 3"
        code, out, _ = run(*words, "--header")
        assert (code, out.splitlines()[0]) == (0, "net: 2 vertices, 1 edge, min_plus float64")


def test_the_size_of_a_large_file_is_told_before_it_is_written(run, towns, monkeypatch):
    monkeypatch.setattr("semiring.cli.common._LARGE", 200)
    for name, more in (("d.csv", r", \d+ entries; .npy takes 0.0 GB"), ("d.npy", "")):
        code, _, err = run("closure", "towns.csv", "-o", name)
        assert code == 0
        assert re.search(rf"semiring: note: {name} will take up to 0.0 GB{more}\n", err)
    monkeypatch.undo()
    assert "note" not in run("closure", "towns.csv", "-o", "d.csv")[2]


@pytest.mark.parametrize(
    ("name", "own_option", "other_option"), [("paths", "--kind", "--memory"), ("closure", "--memory", "--kind")]
)
def test_the_help_of_no_check_names_options_of_its_command(run, name, own_option, other_option):
    text = run(name, "--help")[1].rpartition("--no-check")[2].partition("\n  --")[0]
    assert own_option in text
    assert other_option not in text


def test_messages_advise_options_of_the_command():
    """A message that advises an option spells it as the caller passes it."""
    command = build_parser().read(["closure", "x.csv"]).command
    spellings = {
        ("check", False): ("check=False", "--no-check"),
        ("directed", False): ("directed=False", "--undirected"),
        ("reflexive", False): ("reflexive=False", "--irreflexive"),
        ("header", True): ("header=True", "--header"),
        ("header", False): ("header=False", "--no-header"),
        ("memory", "8 GiB"): ("memory='8 GiB'", "--memory '8 GiB'"),
        ("columns", ("a b", "c")): ("columns=('a b', 'c')", "--columns 'a b' c"),
        ("zero", "-inf"): ("zero='-inf'", "--zero=-inf"),
        ("weight", ANY): ("weight=", "--weight"),
        ("sources", 1): ("sources=1", "sources=1"),  # the command has no such option
    }
    assert {given: option(*given) for given in spellings} == {given: python for given, (python, _) in spellings.items()}
    assert "sources=" in fewer_paths_advice()
    with use_spelling(command.spelling):
        assert {given: option(*given) for given in spellings} == {
            given: typed for given, (_, typed) in spellings.items()
        }
        assert "semiring paths FILE --from A" in fewer_paths_advice()
        assert str(no_star("s")) == "s has no star: give one, --star"
    assert "Semiring(..., star=...)" in str(no_star("s"))


# ------------------------------------------------------------------------------------------------------- failures


OWN = "--add 'min(x, y)' --mul 'x + y'"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("closure nothing.csv", "nothing.csv: no such file, and no network of the library has that name"),
        ("closure .", ". is a folder: give a file that ends in .npy, "),
        ("closure nothing.csv -o x.docx", "x.docx: the ending names no known format"),  # before the file is read
        ("closure towns.csv -o no/x.npy", "no: no such folder"),
        ("closure towns.csv --plot x.docx", "x.docx: a picture goes to a file that ends in .png, .svg"),
        ("closure towns.csv -s min_puls", "Did you mean 'min_plus'?"),
        ("closure towns.csv -s MIN_PLUS", "Did you mean 'min_plus'"),
        ("paths towns.csv -s max_min", "did you mean --kind shortest|longest|widest|reliable? In other"),
        ("closure square.csv", "A text file is a list of edges: give a matrix as .npy, by numpy.save"),
        ("paths towns.csv --predecessors -", "-: write predecessors to an .npy or .npz file, or to an edge list"),
        ("paths towns.csv --predecessors p.mtx", "write predecessors to"),
        ("paths towns.csv --weight kms", "there are from, to, km. Did you mean 'km'?"),
        ("closure towns.csv --method magic", "no closure method is named 'magic'"),
        ("closure towns.csv --method gaioso", "gaioso runs on a GPU, and this matrix is closed on the"),
        ("closure towns.csv --method katz_kider", "pass --device cuda, or use one of auto, bertoldi_openmp"),
        ("closure towns.csv --device tpu", "argument --device: tpu is not cpu, cuda, cuda:1, cuda:0,cuda:1"),
        ("paths towns.csv --device cuda,cuda:1", "names a GPU twice or without its number: give cuda:0,"),
        ("closure towns.csv --dtype float16", "argument --dtype: invalid choice: 'float16'"),
        ("closure towns.csv --dtype int32", "towns.csv:7: the weight 7.5 is not an int32"),
        ("closure towns.csv --threads 0", "argument --threads: 0 is not a number of threads"),
        ("closure towns.csv --threads x", "argument --threads: x is not a number of threads"),
        ("closure towns.csv -s boolean --dtype float64", "boolean is not defined on float64"),
        ("closure us-flights --header", "--header, --weight, --columns, --encoding, --decimal are for files"),
        ("closure towns.csv --weight money", "towns.csv:1: no column is named 'money': there are from"),
        ("closure", "the following arguments are required: INPUT"),
        ("clozure", "invalid choice: 'clozure'"),
        ("", "the following arguments are required: COMMAND"),
        ("paths towns.csv --form Köln", "arguments: --form Köln: did you mean --from? (try semiring paths --help)"),
        ("closure towns.csv --kind widest", "(try semiring closure --help)"),
        ("paths towns.csv --from Kölln", "no vertex is named 'Kölln': did you mean 'Köln'?"),
        ("paths towns.csv --to Xyz123", "no vertex is named 'Xyz123': they are "),
        ("paths towns.csv --to achen", "no vertex is named 'achen': did you mean 'Aachen'?"),
        ("paths us-flights --to HONOLULU", "no vertex is named 'HONOLULU': did you mean 'Honolulu, Oahu'?"),
        ("paths us-flights --from portland", "'portland' may be PDX, PWM: give one of these names"),
        ("paths numbers.csv --from 2", "no vertex is named '2': they are 0 … 1"),
        ("paths empty.csv --from 0", "holds no edges and no vertices: is it the right file?"),
        ("paths towns.csv --from Bonn --from Bern", "--from: takes one vertex, and was given twice"),
        ("paths towns.csv --to Bonn --from Bern --to Köln", "run the command for each vertex"),
        ("paths towns.csv --positions none.csv", "none.csv: No such file or directory"),
        ("paths towns.csv --kind best", "invalid choice: 'best'"),
        ("closure towns.csv --method fw", "Did you mean 'floyd_warshall'?"),
        ("closure two.csv", "two.csv:1: the weights may be any of the columns 'km', 'min': name one by --weight"),
        ("closure apart.csv", "may name the columns, or be an edge: pass --header or --no-header"),
        ("closure bad.csv", "bad.csv:2: the weight 'x' is not a number"),
        ("closure gains.csv -s max_times", "a product above 1"),
        (f"closure towns.csv {OWN} --zero 0 --one=inf", "Give --zero inf, --one 0"),
        ("closure towns.csv --add 'min(x, y)' --mul 'x + 2 * y' --zero=inf --one 0 --star 0", "semiring check"),
        ("check", "give the name of a semiring, or --add, --mul, --zero and --one"),
        ("check min_puls", "no semiring is named 'min_puls'. Did you mean 'min_plus'?"),
        (f"check {OWN}", "a semiring of your own also needs --zero, --one"),
        ("check --add \"__import__('os')\" --mul x*y --zero 0 --one 1", "the functions are"),
        (f"check {OWN} --zero 0 --one 1 --domain '[1, 0]'", "empty"),
        # closures of matrices that stay in their files
        ("closure none.npy -o x.npy --memory 1GiB", "none.npy: no such file"),
        ("closure us-flights -o D.npy --memory 1KiB", "for a matrix in an .npy file"),
        ("closure towns.csv -o D.npy --memory 1GiB", "for a matrix in an .npy file"),
        ("closure A.npy --memory 1GiB", "for a matrix in an .npy file"),
        ("closure A.npy -o D.csv --journal run", "for a matrix in an .npy file"),
        ("closure A.npy -o D.npy --journal run --dtype int32", "--dtype is for networks"),
        ("closure A.npy -o D.npy --memory 1GiB --columns a b", "--columns is for networks that are read"),
        ("closure A.npy -o D.npy --memory 1kB", "too small"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, towns, words, message):
    (towns / "numbers.csv").write_text("0,1,3\n")
    (towns / "square.csv").write_text("0,1,2,3\n1,0,5,6\n2,5,0,1\n3,6,1,0\n")
    (towns / "two.csv").write_text("from,to,km,min\na,b,1,2\n")
    (towns / "apart.csv").write_text("package,needs\na,b\nb,c\n")
    (towns / "empty.csv").write_text("source,target,weight\n")
    (towns / "bad.csv").write_text("a,b,1\nb,c,x\n")
    (towns / "gains.csv").write_text("a,b,2\nb,a,3\n")
    np.save("A.npy", np.ones((300, 300)))
    assert message in failure(run, *shlex.split(words))
    assert not os.path.exists("D.npy")
    if words.startswith("paths"):
        assert "--json" not in failure(run, *shlex.split(words), "--json")


@pytest.mark.full
@pytest.mark.parametrize("text", ["from,to,km\n", "# nothing\nfrom,to,km\n"])
def test_the_empty_network(run, towns, text):
    (towns / "e.csv").write_text(text)
    for words in (["closure"], ["paths"], ["closure", "-s", "boolean"]):
        code, out, err = run(words[0], "e.csv", *words[1:], "--plot", "e.png", "-o", "e.npy")
        assert code == 0
        assert "semiring: note: e holds no edges and no vertices: is it the right file?" in err
        assert out.startswith("e: 0 vertices, 0 edges")
        assert np.load("e.npy").shape == (0, 0)


def test_an_interrupt_is_130(run, towns, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("semiring.cli.closure.closure", interrupt)
    assert run("closure", "towns.csv", "-o", "x.npy") == (
        130,
        "towns: 7 vertices, 7 edges, min_plus float64\n",
        "semiring: error: interrupted\n",
    )
    assert not (towns / "x.npy").exists()


def test_running_out_of_memory_is_one_line(run, towns, monkeypatch):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr("semiring.cli.closure.closure", full)
    assert failure(run, "closure", "towns.csv") == "not enough memory: Unable to allocate 3 TiB"


# ------------------------------------------------------------------------------------------------- as a process


@pytest.mark.full
def test_the_process(tmp_path):
    done = process("closure", "-", "-o", "-", stdin="a b 1\r\nb c 2\r\n", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "source,target,weight\na,a,0\na,b,1\na,c,3\nb,b,0\nb,c,2\nc,c,0\n"
    assert "\r" not in done.stderr, "no progress bar where nobody watches"


def test_a_process_fails_in_one_line(tmp_path):
    done = process("closure", "-", stdin="a,b,1\nb,c,oops\n", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "semiring: error: <stdin>:2: the weight 'oops' is not a number, in column 3\n"


@pytest.mark.full
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full device of Linux")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--help >/dev/full", 2, "No space left"),
        ("--help 2>&- >&-", 0, ""),
        ("check min_plus 2>&- >&-", 0, ""),
        ("oops 2>&-", 2, ""),
        ("paths - <&-", 2, "semiring: error: standard input is closed\n"),
        ("paths us-flights >&-", 0, ""),
    ],
)
def test_closed_and_full_streams(words, code, message):
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(
        f"'{sys.executable}' -m semiring {words}", shell=True, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code
    assert message in done.stderr
    assert bool(message) == bool(done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_closed_pipe_is_survived(tmp_path):
    edges = "".join(f"{i} {i + 1} 1\n" for i in range(300))
    command = [sys.executable, "-m", "semiring", "closure", "-", "-o", "-"]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes) as child:
        child.stdin.write(edges.encode())
        child.stdin.close()
        assert child.stdout.readline() == b"source,target,weight\n"
        child.stdout.close()  # 45,000 lines are still to come, more than a pipe holds
        message = child.stderr.read().decode()
        assert child.wait(timeout=60) == 0, message
    assert "Traceback" not in message
    assert "Broken" not in message


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_the_process_with_130(tmp_path):
    command = [sys.executable, "-m", "semiring", "closure", "-"]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A process started in the background of a shell inherits that the signal is ignored.
    listen = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{listen}; from semiring import cli; print('ready', flush=True); sys.exit(cli.main({command[3:]!r}))"
    with subprocess.Popen([sys.executable, "-c", script], env=environment, cwd=tmp_path, **pipes) as child:
        assert child.stdout.readline() == b"ready\n"
        time.sleep(1.0)  # it now waits for its input
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130
        assert child.stderr.read() == b"semiring: error: interrupted\n"


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_closed_pipe_keeps_no_file_from_being_written(tmp_path):
    (tmp_path / "chain.csv").write_text("".join(f"{i},{i + 1},1\n" for i in range(300)))
    command = [sys.executable, "-u", "-m", "semiring", "paths", "chain.csv", "--from", "0", "-o", "d.npy"]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": ROOT}, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.close()
        message = child.stderr.read().decode()
        assert (child.wait(timeout=60), message) == (0, "")
    assert np.load(tmp_path / "d.npy")[0, 300] == 300


def test_undirected_edges_are_counted_once(run, towns):
    (towns / "two.csv").write_text("source,target,weight\na,b,1\nb,c,2\n")
    for words in (["--undirected"], ["--undirected", "--from", "a"], ["--undirected", "--plot", "two.svg"], []):
        assert run("paths", "two.csv", *words)[1].startswith("two: 3 vertices, 2 edges")
    assert "3 vertices, 2 edges" in (towns / "two.svg").read_text()


def test_names_do_not_command_the_terminal(run, towns):
    (towns / "escape.csv").write_text("\x1b[31mred,b\x9b2J,5\n", encoding="utf-8")
    code, out, _ = run("closure", "escape.csv")
    assert code == 0
    assert r"\x1b[31mred" in out
    assert not {"\x1b", "\x9b"} & set(out)
    assert "\x1b" not in failure(run, "paths", "escape.csv", "--from", "x\x1b[31m")


def test_names_that_no_text_can_hold(run, towns):
    write("half.npz", np.array([[0.0, 1.0], [np.inf, 0.0]]), names=["\ud800", "b"])
    for words in (["closure", "half.npz"], ["paths", "half.npz"], ["paths", "half.npz", "--to", "b"]):
        code, out, _ = run(*words)
        assert code == 0
        assert r"\ud800" in out
    code, out, err = run("paths", "half.npz", "--from", "b", "--to", "\ud800")
    assert (code, err) == (1, "")
    assert "no path leads from b to \\ud800\n" in out
    for output in ("-", "out.csv"):
        code, _, err = run("closure", "half.npz", "-o", output)
        assert code == 2
        assert err.splitlines()[-1].startswith("semiring: error: the name '\\ud800' holds half a surrogate pair")
    assert run("closure", "half.npz", "-o", "out.npz")[0] == 0
    assert read("out.npz").names == ("\ud800", "b")


@pytest.mark.full
def test_a_terminal_that_knows_only_ascii(tmp_path):
    done = process("closure", "-", stdin="a b 1\n", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "pairs are not ?" in done.stdout


@pytest.mark.full
def test_the_examples_of_the_help_run(run, tmp_path, monkeypatch):
    """The examples of `semiring --help`, a line for each command, run, and those below the help of each command."""
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("--help")
    assert code == 0
    listed = [line for line in out.splitlines() if " semiring " in line and line.startswith("  ")]
    commands = [line.split()[0] for line in listed]
    assert commands == [name for group in COMMANDS.values() for name, *_ in group]
    assert max(map(len, out.splitlines())) <= 110
    examples = [line[line.rindex(" semiring ") + 1 :] for line in listed]
    for command in commands:
        examples += [" ".join(run(command, "--help")[1].partition("example: ")[2].split())]
    for example in dict.fromkeys(examples):
        if "--as asm" in example:
            pytest.importorskip("llvmlite")
        if "tune" in example or "precompile" in example:  # takes a minute
            assert build_parser().read(shlex.split(example)[1:]).command.prog.split()[1] in example
            continue
        code, out, err = run(*shlex.split(example)[1:])
        assert (code, err) == (0, ""), example
        assert out


# ------------------------------------------------------------------------------------------------- files


def test_a_matrix_that_stays_in_its_file(run, tmp_path):
    A = np.random.default_rng(0).random((600, 600), np.float32)
    source, out, journal = tmp_path / "big.npy", tmp_path / "closed.npy", tmp_path / "run"
    np.save(source, A)
    words = ["closure", source, "-o", out, "--memory", "6MiB", "--journal", journal]
    code, printed, err = run(*words)
    assert code == 0, err
    assert "KiB read and written in 1 round\n" in printed
    assert f"wrote {out}" in printed
    expected = semiring.closure(A, method="blocked_floyd_warshall")
    assert np.array_equal(np.load(out), expected)
    assert "a run that has finished" in run(*words)[1]
    assert run("closure", source, "-o", source, "--memory", "6 MiB", "--explain")[0] == 0
    assert np.array_equal(np.load(source), expected)


def test_files_that_cannot_stay_where_they_are(run, towns):
    np.save("A.npy", np.ones((300, 300)))
    for more in ([], ["-o", "D.npy"]):
        assert re.search(r"--memory is 'much': .*4GiB", failure(run, "closure", "A.npy", *more, "--memory", "much"))
    np.save("bytes.npy", np.ones((300, 300), np.uint8))
    refused = failure(run, "closure", "bytes.npy", "-o", "D.npy", "--memory", "1GiB")
    assert re.search(r"bytes.npy: .*not defined on uint8.*one of float32.*numpy.save", refused)
    assert "--dtype" not in refused
    assert not os.path.exists("D.npy")


def test_an_interrupted_closure_says_how_it_goes_on(run, tmp_path, monkeypatch):
    source, out, journal = tmp_path / "big.npy", tmp_path / "closed.npy", tmp_path / "run"
    A = np.random.default_rng(0).random((600, 600), np.float32)
    np.save(source, A)
    words = ["closure", source, "-o", out, "--memory", "6MiB", "--journal", journal]

    def interrupt(self, done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "__enter__", lambda self: self)
        patch.setattr(ProgressBar, "__call__", interrupt)
        code, _, err = run(*words)
    assert code == 130
    assert f"run the same command again to continue from {journal}" in err
    code, printed, _ = run(*words)
    assert code == 0
    assert "going on in round" in printed
    assert np.array_equal(np.load(out), semiring.closure(A, method="blocked_floyd_warshall"))


# ------------------------------------------------------------------------------------------------- details


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_command_announces_what_it_compiles(towns, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("semiring.cli.closure.closure", lambda *_, **__: Compilation("the tile").finish() or fail_now())

    def fail_now():
        raise MemoryError

    assert cli.main(["closure", "towns.csv"]) == 2
    assert screen.getvalue().startswith("\rsemiring: compiling the tile for this machine, once …")


def test_a_closure_feeds_the_progress_bar(towns, monkeypatch):
    monkeypatch.setattr("semiring.terminal.PATIENCE", 0)
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    n = 300
    np.save("a.npy", np.random.default_rng(1).random((n, n)))
    with monkeypatch.context() as patch:
        patch.setattr("tqdm.std.tqdm.__init__", partialmethod(tqdm.__init__, mininterval=0))
        assert cli.main(["closure", "a.npy"]) == 0
    shares = [int(share) for share in re.findall(r"(\d+) %", screen.getvalue())]
    assert shares == sorted(shares)
    assert shares[-1] == 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8443.0, "8,443"),
        (np.float32(0.1), "0.1"),
        (1234567.25, "1,234,567"),
        (1234.5678, "1,234.57"),
        (-0.5, "-0.5"),
        (1e-7, "1e-07"),
        (INF, "∞"),
        (-INF, "-∞"),
        (np.int32(-7), "-7"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (1e300, "1e+300"),
        (0.125, "0.125"),
    ],
)
def test_numbers_for_people(value, text):
    assert format_number(value) == text


def test_ids_of_json_are_named_as_texts_and_told_as_they_are(run, towns):
    nodes, ends = '[{"id": 10}, {"id": "x"}, {"id": [1, "q"]}]', '"source": 10, "target": "x", "weight": 3'
    (towns / "g.json").write_text(f'{{"directed": true, "nodes": {nodes}, "edges": [{{{ends}}}]}}')
    found = json_of(run, "paths", "g.json", "--from", "10", "--to", "x")
    assert (found["from"], found["path"]) == (10, [10, "x"])
    assert json_of(run, "closure", "g.json", "-o", "closed.json")["written"] == ["closed.json"]
    assert [node["id"] for node in json.loads((towns / "closed.json").read_text())["nodes"]] == [10, "x", [1, "q"]]
    code, out, _ = run("closure", "g.json")
    assert code == 0
    assert "(1, 'q')" in out
    code, out, _ = run("closure", "g.json", "-o", "-")
    assert "10,x,3" in out
    (towns / "g.json").write_text('{"nodes": [{"id": 1}, {"id": "1"}], "edges": []}')
    assert "the same name" in failure(run, "closure", "g.json")


@pytest.mark.filterwarnings("default")
def test_warnings_name_no_line_of_the_command(run, towns):
    np.save("z.npy", [[0.0, 5, 0], [5, 0, 3], [0, 3, 0]])
    np.savez("z.npz", matrix=np.load("z.npy"))
    (towns / "z.csv").write_text("a,b,5\na,c,0\nb,a,5\nb,c,3\nc,a,0\nc,b,3\n")
    for name, entry in (("z.npy", r"entry \(0, 2\)"), ("z.npz", r"entry \(0, 2\)"), ("z.csv", "the edge a → c")):
        code, _, error = run("closure", name)
        assert code == 0
        assert re.search(rf"^semiring: warning: .*{name}.* are 0.*--no-check.*{entry}$", error.rstrip())
        assert len(error.splitlines()) == 1


def test_weights_that_are_no_probabilities_are_refused(run, towns):
    """A weight above 1 raises, also a percentage, and also if the product of the path is below 1."""
    (towns / "p.csv").write_text("from,to,p\na,b,0.5\nb,c,1.5\n")
    words = ["paths", "p.csv", "--kind", "reliable"]
    for more in ([], ["--from", "a", "--to", "c"], ["-o", "d.npy"]):
        refused = failure(run, *words, *more)
        assert re.search(r"p.csv:3: .*1\.5.*\[0, 1\].*divide .* by 100.*--no-check", refused)
    code, out, err = run(*words, "--from", "a", "--to", "c", "--no-check")
    assert (code, err, "reliability 0.75" in out) == (0, "", True)
    (towns / "p.csv").write_text("a,b,nan\n")
    assert "not a number" in failure(run, *words)


def test_advice_about_dtypes_and_methods_names_options_of_the_command(run, towns):
    message = failure(run, "closure", "towns.csv", "--dtype", "uint8")
    assert re.search(r"not defined on uint8.*float32, .*--dtype.*int16", message)
    assert not re.search(r"astype|dtypes=|\bA\b", message)
    message = failure(run, "closure", "towns.csv", "-s", "max_min", "--method", "johnson")
    assert re.search(r"closes min_plus and max_plus in .*For max_min .*--method auto, .*squaring", message)
    assert "squaring" not in failure(run, "closure", "towns.csv", "-s", "plus_times", "--method", "johnson")


def test_the_help_lists_every_name_of_a_semiring(run, towns):
    listed = failure(run, "closure", "towns.csv", "-s", "nosuch").partition("Valid names: ")[2].split(", ")
    assert len(listed) > len(semiring.algebra.catalogue.CATALOGUE)
    for command in ("closure", "check"):
        words = re.findall(r"\w+", re.sub(r"\s+", " ", run(command, "--help")[1]))
        assert set(listed) <= set(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["closure", "towns.csv", "-o", "towns.csv"], "towns.csv is the input: name another file for --output"),
        (["closure", "towns.csv", "-o", "./link.csv"], "link.csv is the input"),
        (["paths", "towns.csv", "--predecessors", "towns.csv"], "the input: name another file for --predecessors"),
        (["paths", "A.npy", "-o", "A.npy"], "A.npy is the input"),
        (["paths", "A.npy", "--predecessors", "A.npy"], "A.npy is the input"),
        (["paths", "towns.csv", "--positions", "p.csv", "-o", "p.csv"], "p.csv is also given for --positions"),
        (["paths", "towns.csv", "-o", "x.npy", "--predecessors", "./x.npy"], "./x.npy is also given for --output"),
        (["closure", "A.npy", "-o", "D.npy", "--journal", "D.npy"], "D.npy is also given for --output"),
        (["closure", "A.npy", "-o", "D.npy", "--journal", "A.npy"], "A.npy is the input"),
    ],
)
def test_no_file_is_written_that_is_read(run, towns, words, message):
    np.save("A.npy", np.ones((3, 3)))
    (towns / "link.csv").symlink_to(towns / "towns.csv")
    (towns / "p.csv").write_text("name,x,y\nBonn,1,2\n")
    before = {path.name: path.read_bytes() for path in towns.iterdir()}
    assert message in failure(run, *words)
    assert {path.name: path.read_bytes() for path in towns.iterdir()} == before


def test_the_diagonal_of_a_matrix_of_distances_is_no_edge(run, towns):
    np.save(towns / "d.npy", np.where(np.eye(3), 0.0, 7.0))
    assert run("paths", "d.npy")[1].startswith("d: 3 vertices, 6 edges, ")


@pytest.mark.parametrize(
    "method",
    [
        *("rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring", "johnson"),
        *("bertoldi_openmp", "bertoldi_openmp_static", "row_broadcast", "rkleene_plain"),
    ],
)
def test_methods(run, towns, method):
    code, out, err = run("closure", "towns.csv", "--method", method, "--device", "cpu", "--explain", "-o", "d.npz")
    assert code == 0, err
    assert f"  method   {method}, on the CPU" in out
    with np.load("d.npz") as held:
        assert held["names"].tolist()[:3] == ["Köln", "Bonn", "Aachen"]
        assert held["matrix"][0].tolist() == [0, 4, 7, 9, 11, INF, INF]
    assert run("paths", "towns.csv", "--device", "cpu") == run("paths", "towns.csv")


def test_a_device_that_is_not_there(run, towns):
    if missing_gpu() is None:
        pytest.skip("there is a GPU")
    for command in ("closure", "paths"):
        assert re.search("CuPy|an NVIDIA GPU", failure(run, command, "towns.csv", "--device", "cuda"))


@pytest.mark.filterwarnings("always")
def test_a_warning_is_printed_once(run, towns):
    A = np.zeros((5, 5))
    A[0, 1] = 3
    np.save(towns / "zeros.npy", A)
    for words in (["--from", "0", "--to", "2"], []):
        _, _, err = run("paths", "zeros.npy", *words)
        assert err.count("semiring: warning:") == 1


def test_one_process_of_mpiexec_prints_paths(run, towns, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    for rank, printed in (("0", True), ("1", False)):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
        code, out, _ = run("paths", "us-flights", "--from", "ADK", "--to", "STX")
        assert (code, bool(out)) == (0, printed)
