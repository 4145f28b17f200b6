"""Test `semiring.mpi` under a real mpiexec for each number of ranks: each runs tests/support/rank_program.py."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from mpiexec import PROGRAM, run
from tiers import full

import semiring as sr

pytestmark = pytest.mark.full


@pytest.mark.parametrize("size", full(lambda size: size == 4, [1, 2, 3, 4, 6]))
def test_all_of_it_on_ranks(size, tmp_path):
    code, out, errors = run(size, PROGRAM, "everything", tmp_path)
    assert (code, out) == (0, f"everything on {size} ranks\n"), errors


def test_a_communicator_is_not_taken_for_one_that_was_freed(tmp_path):
    code, _, errors = run(3, PROGRAM, "communicators", tmp_path)
    assert code == 0, errors


@pytest.mark.parametrize(
    ("case", "text"),
    full(
        lambda case, _: case != "one_is_killed",  # which mpiexec alone notices
        [
            ("one_fails", "semiring: error: rank 1 of 2: the power of this rank is gone"),
            ("one_fails_outside", "semiring: error: rank 1 of 2: this rank finds no disk"),
            ("one_exits", "semiring: error: rank 1 of 2: it ends while others go on, sys.exit(0)"),
            ("one_is_killed", "signal 9"),
        ],
    ),
)
def test_one_rank_that_fails_ends_all(case, text, tmp_path):
    code, out, errors = run(2, PROGRAM, case, tmp_path)
    assert code != 0
    assert out == ""
    assert errors.count(text) == 1, errors  # how its line ends is mpiexec's, whose own words follow at once


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_text("from,to,weight\na,b,1.5\nb,c,2\nc,a,1\nc,d,7\n")
    return path


@pytest.mark.parametrize(
    ("size", "method"),
    full(
        lambda size, method: (size, method) != (1, None),
        [(1, None), (4, None), (1, "row_broadcast"), (3, "row_broadcast")],
    ),
)
def test_the_command_on_ranks(graph, tmp_path, rng, size, method):
    """The command closes a network, and a file to a file. With one rank, the rows are a method of one process."""
    words, out = ("-m", "semiring", "closure"), tmp_path / "D.npy"
    options = [] if method is None else ["--method", method]
    code, said, errors = run(size, *words, graph, "-o", out, *options, *(["--device", "cpu"] if method else []))
    assert code == 0, errors
    assert said.count("4 vertices, 4 edges") == 1
    np.testing.assert_array_equal(np.load(out), sr.closure(sr.io.read(graph).matrix))
    A = rng.random((300, 300)).astype(np.float32)
    np.save(tmp_path / "A.npy", A)
    code, said, errors = run(size, *words, tmp_path / "A.npy", "-o", out, *options)
    assert code == 0, errors
    assert "300 vertices" in said
    expected = sr.closure(A, method=method or ("auto" if size == 1 else "blocked_floyd_warshall"))
    np.testing.assert_array_equal(np.load(out), expected)
    assert {"A.npy", "D.npy"} == set(os.listdir(tmp_path)) - {"graph.csv"}


def test_the_command_reads_a_file_as_its_options_say(tmp_path):
    path, out = tmp_path / "A.npy", tmp_path / "D.npy"
    np.save(path, np.array([[np.inf, 1, np.inf], [np.inf, np.inf, 2], [np.inf] * 3], np.float32))
    code, _, errors = run(2, "-m", "semiring", "closure", path, "-o", out, "--undirected", "--dtype", "float64")
    assert code == 0, errors
    np.testing.assert_array_equal(np.load(out), [[0.0, 1, 3], [1, 0, 2], [3, 2, 0]])
    assert np.load(out).dtype == np.float64
    journal = ["--journal", tmp_path / "run", "--memory", "64MiB"]
    code, _, errors = run(2, "-m", "semiring", "closure", path, "-o", out, *journal, "--undirected")
    assert code == 2
    assert "--undirected is for networks that are read" in errors
    code, said, errors = run(2, "-m", "semiring", "closure", path, "-o", out, *journal, "--json")
    assert code == 0, errors
    assert json.loads(said)["written"] == [str(out)]


def test_the_command_with_a_journal_that_one_process_began(tmp_path, rng):
    A, path, journal = rng.random((300, 300)), tmp_path / "A.npy", tmp_path / "run"
    np.save(path, A)

    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sr.closure(path, out=path, journal=journal, memory="8 MiB", progress=interrupt)
    code, said, errors = run(2, "-m", "semiring", "closure", path, "-o", path, "--journal", journal)
    assert code == 0, errors
    assert said.count("300 vertices") == 1
    np.testing.assert_array_equal(np.load(path), sr.closure(A, method="blocked_floyd_warshall"))


@pytest.mark.parametrize(
    ("edges", "options", "text"),
    full(
        lambda given, options, _: "-2" in given,
        [
            ("from,to,weight\na,b,1.5\nb,a,-2\n", [], "the cycle a → b → a of 2 edges has the weight -0.5"),
            ("from,to,weight\na,b,none\n", [], "none"),
            ("from,to,weight\na,b,1\n", ["--explain"], "--explain is for one process"),
            (
                *("from,to,weight\na,b,1\n", ["--method", "gaioso"]),
                "no closure method for ranks is named 'gaioso'. Valid names: blocked_floyd_warshall, row_broadcast",
            ),
            ("from,to,weight\na,b,1\n", ["--device", "cuda:1"], "--device of several ranks is cpu, or cuda"),
        ],
    ),
)
def test_the_command_says_once_what_is_wrong(graph, edges, options, text):
    graph.write_text(edges)
    code, _, errors = run(2, "-m", "semiring", "closure", graph, *options)
    assert code == 2
    assert errors.count("semiring: error:") == 1
    assert text in errors
