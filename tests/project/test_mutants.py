"""Test the mutants: each differs from the module in one place, here and in later revisions."""

from __future__ import annotations

import ast
import difflib
import subprocess

import pytest

from tools import mutants
from tools.mutants import Mutant, MutantError

MODULE = '''"""A module: a < b, of -1."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 1 - 2


def first(x: "a[1:2]", n: int = -1) -> int:\r
    """Return min(x)."""
    assert n < 3
    if n <= 0 or "é" == x[1:n]:  # a comment, n < 0
        raise ValueError(f"{n - 1} is -1", n - 1)
    return min(x) + max(n, (
        2)) - -n


class Second:
    def first(self, m):
        for i in range(2, m):
            m += i
        return m % 2 if self == -3 else m | 4

    def __repr__(self):
        return str(1 - 2)
'''


def changes():
    return [(each.line, each.before, each.after) for each in mutants.mutants_of("semiring/io/a.py", MODULE)]


def test_comparisons_signs_extremes_and_bounds_are_mutated():
    assert changes() == [
        *[(9, "-", ""), (12, "<=", "<"), (12, "<=", ">"), (12, "==", "!="), (12, "1", "2"), (12, "n", "n - 1")],
        *[(14, "min", "max"), (14, "+", "-"), (14, "max", "min"), (15, "-", "+"), (15, "-", "")],
        *[(20, "2", "3"), (20, "m", "m - 1"), (21, "+=", "-="), (22, "==", "!="), (22, "-", "")],
    ]


@pytest.mark.parametrize("mutant", mutants.mutants_of("semiring/io/a.py", MODULE), ids=str)
def test_a_mutant_differs_in_one_place(mutant):
    changed = mutants.apply(mutant, MODULE)
    ast.parse(changed)
    old, new = MODULE.splitlines(keepends=True), changed.splitlines(keepends=True)
    assert [i for i, lines in enumerate(zip(old, new, strict=True), 1) if lines[0] != lines[1]] == [mutant.line]
    line, start = old[mutant.line - 1], mutant.column - 1
    assert line[start:].startswith(mutant.before)
    assert new[mutant.line - 1] == line[:start] + mutant.after + line[start + len(mutant.before) :]


def test_a_mutant_applies_where_its_lines_moved():
    later = MODULE.replace('"""A module', '"""A module\n\n').replace(
        "class Second", "m = range(2, 3)\n\n\nclass Second"
    )
    for mutant in mutants.mutants_of("semiring/io/a.py", MODULE):
        difference = difflib.ndiff(MODULE.splitlines(), mutants.apply(mutant, MODULE).splitlines())
        moved = difflib.ndiff(later.splitlines(), mutants.apply(mutant, later).splitlines())
        assert [line for line in moved if line[0] in "+-"] == [line for line in difference if line[0] in "+-"]


def test_equal_lines_are_told_apart():
    text = "def f(x):\n    x = x - 1\n    x = x - 1\n\n\ndef g(x):\n    x = x - 1\n"
    found = mutants.mutants_of("semiring/io/a.py", text)
    assert [(each.scope, each.occurrence) for each in found] == [("f", 0), ("f", 1), ("g", 0)]
    without_first = text.partition("x = x - 1\n")[2]
    assert mutants.apply(found[2], f"def f(x):\n{without_first}").endswith("x = x + 1\n")
    with pytest.raises(MutantError, match="has 2 lines of f: x = x - 1"):
        mutants.apply(found[1], f"def f(x):\n{without_first}")


@pytest.mark.full
def test_the_draw_is_spread_and_excluded_mutants_are_replaced(tmp_path, monkeypatch):
    folders = ("paths", "autodiff", "io")
    monkeypatch.setattr(mutants, "FOLDERS", folders)
    drawn = mutants.draw(mutants.ROOT, 7, 5)
    assert [sum(each.folder == folder for each in drawn) for folder in folders] == [3, 2, 2]
    assert drawn == mutants.draw(mutants.ROOT, 7, 5)
    mutants.save(tmp_path / "list.json", [Mutant(**{**vars(drawn[0]), "excluded": "speed"}), *drawn[1:]])
    again = mutants.draw(mutants.ROOT, 7, 5, mutants.load(tmp_path / "list.json"))
    assert len(again) == 8
    assert set(drawn[1:]) < set(again)


def test_a_mutant_whose_code_is_gone_is_replaced(monkeypatch):
    monkeypatch.setattr(mutants, "FOLDERS", ("io",))
    (drawn,) = mutants.draw(mutants.ROOT, 1, 5)
    gone = [
        Mutant(**{**vars(drawn), **change}) for change in ({"source": "x = 1 - 2"}, {"file": "semiring/io/none.py"})
    ]
    assert mutants.draw(mutants.ROOT, 1, 5, gone) == [drawn]


KEPT = mutants.load(mutants.ROOT / "tools" / "mutants.json")


@pytest.mark.parametrize("mutant", KEPT, ids=str)
def test_a_mutant_of_the_list_applies(mutant):
    text = (mutants.ROOT / mutant.file).read_text("utf-8")
    changed = mutants.apply(mutant, text)
    ast.parse(changed)
    lines = zip(text.splitlines(), changed.splitlines(), strict=True)
    assert sum(old != new for old, new in lines) == 1


def test_a_mutant_whose_column_has_other_text_does_not_apply():
    (mutant, *_) = mutants.mutants_of("semiring/io/a.py", "def f(x):\n    return x - 1\n")
    with pytest.raises(MutantError, match=r"a\.py:2 has no '-' in column 11: return x - 1"):
        mutants.apply(Mutant(**{**vars(mutant), "column": 11}), "def f(x):\n    return x - 1\n")


def test_every_folder_has_its_tests():
    assert {each.folder for each in KEPT if not each.excluded} == set(mutants.FOLDERS)
    for folder in mutants.FOLDERS:
        assert (mutants.ROOT / "semiring" / folder).is_dir()
        assert mutants.tests_for(f"semiring/{folder}/a.py", mutants.ROOT)
    for name in {name for names in mutants.TESTS.values() for name in names}:
        assert (mutants.ROOT / "tests" / name).exists(), f"{name} is gone: remove it from TESTS in tools/mutants.py"


def test_the_files_of_the_longest_prefix_come_first():
    found = mutants.tests_for("semiring/arrays/bits.py", mutants.ROOT)
    assert found[:3] == [
        "tests/arrays/test_bits.py",
        "tests/linalg/test_linalg_packed.py",
        "tests/arrays/test_arrays.py",
    ]
    assert len(set(found)) == len(found)
    assert set(mutants.tests_for("semiring/arrays/a.py", mutants.ROOT)) <= set(found)


@pytest.mark.parametrize(
    ("output", "test"),
    [
        ("tests/a.py::test_b[x y] PASSED [ 1%]\ntests/a.py::test_c[FAILED - z] FAILED   [ 2%]\n", "test_c[FAILED - z]"),
        ("tests/a.py::test_b PASSED [ 1%]\ntests/a.py::test_c[1] \n", "test_c[1]"),
        ("[gw0] [ 3%] PASSED tests/a.py::test_b \n[gw1] [ 4%] FAILED tests/a.py::test_c[x] \n", "test_c[x]"),
        ("=== summary ===\nERROR tests/a.py - ImportError: no\n", None),
    ],
)
def test_the_test_that_failed_is_read(output, test):
    assert mutants.read_verdict(output) == (f"tests/a.py::{test}" if test else "tests/a.py")


CODE = "def least(x):\n    return min(x)\n\n\ndef last(x):\n    return x[-1]\n"
TESTS = """
from semiring.io.a import least

def test_least():
    assert least([1, 2, 3]) == 1
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it starts in half the time
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for folder in ("semiring/io", "tests/io"):
        (tmp_path / folder).mkdir(parents=True)
    for file, content in {"__init__.py": "", "io/__init__.py": "", "io/a.py": CODE}.items():
        (tmp_path / "semiring" / file).write_text(content)
    (tmp_path / "tests" / "io" / "test_io.py").write_text(TESTS)
    return tmp_path


@pytest.mark.full
def test_a_run_says_which_tests_detect_what(project, capsys):
    least, last = mutants.mutants_of("semiring/io/a.py", CODE)
    gone = Mutant("semiring/io/b.py", 1, 1, "-", "+", "1 - 1", "f")
    outcomes = mutants.run([least, last, gone], ["-q"], tree=project, jobs=2, out=project / "out.txt")
    assert [outcome.kind for outcome in outcomes] == ["detected", "survived", "unusable"]
    assert outcomes[0].test == "tests/io/test_io.py::test_least"
    assert (project / "semiring/io/a.py").read_text() == CODE
    assert (project / "out.txt").read_text() == capsys.readouterr().out


@pytest.mark.full
def test_a_test_that_fails_without_the_mutant_detects_nothing(project):
    with (project / "tests" / "io" / "test_io.py").open("a") as file:
        file.write("\ndef test_none():\n    assert False\n")
    outcomes = mutants.run(mutants.mutants_of("semiring/io/a.py", CODE), ["-q"], tree=project)
    assert [outcome.kind for outcome in outcomes] == ["detected", "unusable"]
    assert outcomes[1].test == "tests/io/test_io.py::test_none fails without the mutant, too"


@pytest.mark.full
def test_a_run_that_takes_too_long_is_stopped(project):
    (project / "tests" / "io" / "test_io.py").write_text("import time\n\ndef test_long():\n    time.sleep(100)\n")
    (outcome,) = mutants.run(mutants.mutants_of("semiring/io/a.py", CODE)[:1], ["-q"], tree=project, seconds=0.5)
    assert outcome.kind == "timeout"
