"""Test errors that newcomers met: what they say, and what works instead."""

from __future__ import annotations

import io
import logging
import pickle
import re
import sys
import types
from functools import partialmethod
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from tqdm import tqdm

import semiring as sr
from semiring import terminal
from semiring.errors import MissingExtraError, NegativeCycleError, PositiveCycleError
from semiring.logs import Compilation

INF = np.inf


@pytest.mark.full
def test_a_cycle_of_max_plus_is_called_positive():
    A = [[-INF, 3, -INF], [-INF, -INF, 2], [1, -INF, -INF]]
    for call in (sr.longest_paths, lambda A: sr.closure(A, "max_plus"), lambda A: sr.longest_paths(A, names="abc")):
        with pytest.raises(PositiveCycleError, match="has the weight 6, above 0") as caught:
            call(A)
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), PositiveCycleError)
        assert set(caught.value.cycle) == {0, 1, 2}
    with pytest.raises(NegativeCycleError) as below:
        sr.closure([[INF, -3], [1, INF]])
    assert not isinstance(below.value, PositiveCycleError)


def test_what_is_missing_is_installed_from_a_clone():
    advice = "pip install '.[cuda]' in a clone of the repository"
    assert str(MissingExtraError("CuPy", "cuda", "computing on a GPU")).endswith(f"not installed: {advice}")
    assert str(MissingExtraError("pandas", "", "to_frame")).endswith("not installed: pip install pandas")


@pytest.mark.full
def test_reachability_finds_no_predecessors_unless_asked_to():
    A = np.triu(np.ones((50, 50), bool), 1)
    P = sr.transitive_closure(A)
    assert P.predecessors is None
    assert P.path(3, 9)[0] == 3
    found = sr.transitive_closure(A, predecessors=True)
    assert found.predecessors is not None
    np.testing.assert_array_equal(found.matrix, P.matrix)
    cycle = sr.transitive_closure(np.roll(np.eye(5, dtype=bool), 1, axis=1), reflexive=False)
    assert cycle.path(2, 2) == [2, 3, 4, 0, 1, 2]


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self):
        return True


@pytest.fixture
def _draw_at_once(monkeypatch):
    monkeypatch.setattr(terminal, "PATIENCE", 0)
    monkeypatch.setattr("tqdm.std.tqdm.__init__", partialmethod(tqdm.__init__, mininterval=0))


@pytest.mark.usefixtures("_draw_at_once")
def test_progress_true_is_a_bar_that_is_erased(monkeypatch, rng):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    A = rng.random((300, 300))
    expected = sr.closure(A)
    assert "%" not in screen.getvalue()
    np.testing.assert_array_equal(sr.closure(A, progress=True), expected)
    assert re.search(r"\rclosure [#\d]+ +\d+ %  \d\d:\d\d left", screen.getvalue())
    assert screen.getvalue().endswith("\r")
    sr.shortest_paths(A, progress=True)
    assert "paths #" in screen.getvalue()
    assert np.array_equal(sr.closure(A, progress=False), expected)
    with pytest.raises(TypeError, match="progress is 'yes': say True for a bar, or give a function"):
        sr.closure(A, progress="yes")


@pytest.mark.usefixtures("_draw_at_once")
@pytest.mark.parametrize("screen", [io.StringIO(), None, object()], ids=["a file", "none", "no stream"])
def test_a_bar_is_written_to_no_file(screen, monkeypatch, rng, tmp_path):
    """A bar that nobody sees would fill a redirected file, and it need not be computed."""
    monkeypatch.setattr("sys.stderr", screen)
    A = rng.random((300, 300))
    monkeypatch.setattr(terminal.ProgressBar, "__call__", None)  # work reports nothing
    sr.closure(A, progress=True)
    sr.write(tmp_path / "A.csv", A, progress=True)
    assert not isinstance(screen, io.StringIO) or screen.getvalue() == ""


@pytest.mark.usefixtures("_draw_at_once")
def test_a_notebook_shows_the_bar(monkeypatch, rng):
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setitem(sys.modules, "ipykernel", types.SimpleNamespace())
    sr.closure(rng.random((300, 300)), progress=True)
    assert "closure #" in screen.getvalue()


@pytest.mark.usefixtures("_draw_at_once")
def test_a_bar_is_erased_after_an_error_and_goes_on_where_a_run_goes_on(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)

    def fail():
        with terminal.ProgressBar("x") as progress:
            progress(0, 0)
            progress(80, 100)
            progress(90, 100)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert " 90 % " in screen.getvalue()
    assert screen.getvalue().endswith("\r")


def test_short_work_shows_no_bar(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with terminal.ProgressBar("x") as progress:
        for done in range(101):
            progress(done, 100)
    assert screen.getvalue() == ""


def test_compilations_are_announced_where_somebody_sees_it(monkeypatch):
    line = "semiring: compiling the tile for this machine, once"

    def output_of(screen, seconds):
        monkeypatch.setattr("sys.stderr", screen)
        under_way = Compilation("the tile")
        under_way._start -= seconds
        under_way.finish()
        return screen.getvalue()

    assert output_of(Screen(), 2.1) == f"\r{line} …\x1b[K\r{line}: 2.1 s\x1b[K\n"
    assert output_of(Screen(), 0.0) == f"\r{line} …\x1b[K\r\x1b[K", "what takes no time leaves no line"
    assert output_of(io.StringIO(), 2.1) == "", "nobody watches"
    monkeypatch.setitem(sys.modules, "ipykernel", types.SimpleNamespace())
    assert line in output_of(io.StringIO(), 2.1), "a notebook"
    logger = logging.getLogger("semiring")
    try:
        logger.setLevel(logging.WARNING)
        assert output_of(Screen(), 2.1) == "", "who sets the level wants silence, or listens"
    finally:
        logger.setLevel(logging.NOTSET)


SETS = np.array([[{1}, {2}], [{3}, {4}]], object)
SCALARS = r"A\[0, 0\] is \{1\}, .*elements are scalars; for sets see docs/tutorials/own.md#sets-as-bits"
EYE = csr_array(np.eye(2))
ROADS = pd.DataFrame({"from": ["a"], "to": ["b"], "miles": [1]})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: sr.Semiring("cost", "min(x, y)", "x + y", zero=0, one=INF),
            *(sr.AlgebraError, r"zero and one of cost are swapped: 0 is not neutral for ⊕, .*zero='inf', one"),
        ),
        (
            lambda: sr.Semiring("odds", "max(x, y)", "x * y", zero=1, one=0, domain=(0, 1)),
            *(sr.AlgebraError, "swapped: 1 is not neutral"),
        ),
        (lambda: sr.pack(EYE), sr.DTypeError, r"the entries are float64, and truth values .*A != 0 or A < inf"),
        (lambda: sr.closure(SETS), sr.DTypeError, SCALARS),
        (lambda: sr.matmul(SETS, SETS), sr.DTypeError, SCALARS),
        (lambda: sr.closure([EYE, EYE]), sr.DTypeError, r"A\[0\] is a sparse matrix, .* call the function for each"),
        (lambda: sr.shortest_paths(ROADS, weight="MILES"), sr.UnknownNameError, r"'MILES'\. Did you mean 'miles'\?"),
        (
            lambda: sr.shortest_paths([[0.0]], device="cpu"),
            ValueError,
            "without device= .* are, NumPy arrays on the CPU",
        ),
        (lambda: sr.min_plus.check_axioms("float99"), sr.UnknownNameError, r"'float99'.* Valid names: .*float32"),
        (lambda: sr.closure([[0.0]], explain="no"), TypeError, "explain is True, False or 'full', not 'no'"),
        (lambda: sr.matmul([[0.0]], [0.0], check=1), TypeError, "check is True or False, not 1"),
        (lambda: sr.add([[0.0]], [0.0], check=1), TypeError, "check is True or False, not 1"),
        (lambda: sr.blas.gemv([[0.0]], [0.0], check=1), TypeError, "check is True or False, not 1"),
        (lambda: sr.reduce([[0.0]], keepdims="no"), TypeError, "keepdims is True or False, not 'no'"),
        (lambda: sr.transitive_closure([[True]], reflexive=None), TypeError, "reflexive is True or False, not None"),
    ],
)
def test_what_is_given_in_vain_is_named_with_the_remedy(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_flags_are_checked():
    flags = {sr.closure: ("reflexive", "check", "directed"), sr.shortest_paths: ("predecessors", "check", "directed")}
    for function, flag in ((function, flag) for function, names in flags.items() for flag in names):
        with pytest.raises(TypeError, match=f"{flag} is True or False, not 'no'"):
            function([[0.0]], **{flag: "no"})
    assert sr.closure([[0.0]], check=np.False_, directed=None, reflexive=np.True_).tolist() == [[0.0]]
    assert sr.transitive_closure([[True]], predecessors=None).predecessors is None


def test_no_advice_installs_by_a_name_that_is_not_published():
    root = Path(__file__).resolve().parents[2]
    files = [file for ending in ("*.py", "*.md", "*.toml", "*.ipynb") for file in root.rglob(ending)]
    files = [file for file in files if not {".venv", ".git", "build", "dist"} & set(file.relative_to(root).parts)]
    assert len(files) > 500
    advice = re.compile(r"pip install [^\n`]*?['\" ]semiring(\[|\b(?![\w./-]))")
    assert [str(file) for file in files if advice.search(file.read_text("utf-8")) and file != Path(__file__)] == []
