"""Test the language of the code: names of classes, the glossary, and limits for names, docstrings and comments."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tools import language

ROOT = Path(__file__).parents[2]
PACKAGES = ("semiring", "_semiring_networkx")

#: How many places of each check a folder may have. `python -m tools.language --limits` prints the present numbers.
#: A limit may only fall, and a folder without a limit has none.
LIMITS: dict[str, dict[str, int]] = {
    "summary": {
        "semiring/compat": 1,
        "semiring/kernels/cuda": 1,
        "semiring/paths": 1,
    },
    "word": {
        "benchmarks": 1,
        "docs": 5,
        "semiring/closures": 3,
        "semiring/compat": 1,
        "semiring/kernels/cpu": 3,
        "tools": 1,
    },
    "name": {
        "benchmarks": 5,
        "benchmarks/gpu": 1,
        "semiring": 7,
        "semiring/algebra": 11,
        "semiring/algorithms": 8,
        "semiring/arrays": 1,
        "semiring/autodiff": 1,
        "semiring/closures": 8,
        "semiring/distributed": 11,
        "semiring/io": 1,
        "semiring/kernels": 4,
        "semiring/kernels/cpu": 3,
        "semiring/kernels/cuda": 4,
        "semiring/kernels/machines": 3,
        "semiring/linalg": 1,
        "semiring/sparse": 1,
        "tests/closures": 14,
        "tests/cpu": 4,
        "tests/cuda_without_gpu": 11,
        "tests/factor": 2,
        "tests/gpu": 3,
        "tests/gradients": 2,
        "tests/io": 3,
        "tests/linalg": 1,
        "tests/project": 2,
        "tests/ranks": 3,
        "tests/support": 6,
        "tools": 5,
    },
    "semicolon": {
        "_semiring_networkx": 1,
        "benchmarks": 1,
        "benchmarks/gpu": 9,
        "docs/_extensions": 2,
        "semiring": 15,
        "semiring/algebra": 15,
        "semiring/algorithms": 59,
        "semiring/arrays": 13,
        "semiring/autodiff": 8,
        "semiring/cli": 7,
        "semiring/closures": 57,
        "semiring/compat": 10,
        "semiring/data": 1,
        "semiring/distributed": 7,
        "semiring/graphs": 5,
        "semiring/io": 22,
        "semiring/kernels": 14,
        "semiring/kernels/cpu": 59,
        "semiring/kernels/cuda": 26,
        "semiring/kernels/graphs": 3,
        "semiring/kernels/machines": 5,
        "semiring/linalg": 8,
        "semiring/out_of_core": 2,
        "semiring/paths": 10,
        "semiring/plot": 1,
        "semiring/sparse": 32,
        "semiring/testing": 11,
    },
    "long": {},
}


def repeated_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the class names that occur more than once in these files, underscores aside, with their places."""
    places = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name.strip("_")].append(f"{path.name}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_occurs_once():
    assert repeated_names(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))) == {}


def test_a_second_class_of_the_name_is_found(tmp_path):
    for file, name in (("one.py", "Rows"), ("other.py", "_Rows")):
        (tmp_path / file).write_text(f"def f():\n    class {name}:\n        pass\n")
    found = repeated_names([tmp_path / "one.py", tmp_path / "other.py"])
    assert found == {"Rows": ["one.py:2", "other.py:2"]}


def glossary(page: str) -> dict[str, str]:
    """Return the terms of the glossary of a page, with their definitions."""
    section = re.search(r"^## Glossary\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert section is not None
    rows = re.findall(r"^\| (.+?) \| (.*?) \|$", section[1], re.M)
    return {term: meaning for term, meaning in rows if term not in ("word", "---")}


def test_the_glossary_of_the_code_is_short_and_used():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    terms = glossary(page)
    assert 1 <= len(terms) <= 25, f"{len(terms)} concepts: at most 25"
    assert [term for term, meaning in terms.items() if len(meaning.split()) < 4] == []
    code = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "semiring").rglob("*.py")))
    pages = [
        path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "architecture.md"
    ]
    texts = "\n".join([page.partition("## Glossary")[0], *pages])
    classes = {term.strip("`") for term in terms if term.startswith("`")}
    assert {name for name in classes if not re.search(rf"^class {name}\b", code, re.M)} == set()
    assert {term for term in set(terms) - {f"`{name}`" for name in classes} if term not in texts.lower()} == set()


@pytest.mark.parametrize("name", ["architecture", "planner", "kernels", "subsystems"])
def test_the_pages_for_maintainers_name_what_exists(name):
    """Paths of files, classes, and names that stand before "in `a file`"."""
    page = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    assert len(page.splitlines()) <= 250
    paths = set(re.findall(r"`([\w./]+/(?:\w+\.(?:py|cu|cuh|json))?)`", page))
    assert paths
    assert {path for path in paths if not ((ROOT / path).exists() or (ROOT / "semiring" / path).exists())} == set()
    code = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "semiring").rglob("*.py")))
    names = set(re.findall(r"`((?:[A-Z][a-z]+){2,}|[A-Z][a-z]{3,})(?:\.\w+)?`", page))
    assert {name for name in names if not re.search(rf"^(?:class )?{name}\b", code, re.M)} == set()
    pairs = re.findall(r"((?:`\w+`(?:, | and )?)+) in `([\w./]+\.py)`", page)
    absent = {
        f"{name} in {path}"
        for names, path in pairs
        for name in re.findall(r"`(\w+)`", names)
        if not re.search(rf"^\s*(?:def |class )?{name}\b", _source(path), re.M)
    }
    assert absent == set()
    assert len(pairs) > 15 or name != "architecture"


def _source(path: str) -> str:
    file = ROOT / path
    return (file if file.exists() else ROOT / "semiring" / path).read_text("utf-8")


@pytest.fixture(scope="module")
def present() -> dict[str, dict[str, int]]:
    return language.counts(language.places())


@pytest.mark.full
@pytest.mark.parametrize("check", language.CHECKS)
def test_no_folder_has_more_places_than_its_limit(present, check):
    """The limits may only fall: ``python -m tools.language --list FOLDER`` prints the places."""
    allowed = LIMITS[check]
    assert {folder: n for folder, n in present[check].items() if n > allowed.get(folder, 0)} == {}


@pytest.mark.parametrize(
    ("check", "file", "source"),
    [
        ("summary", "a.py", '"""Of the panel."""'),
        ("summary", "a.py", '"""Whether all rows are given"""'),
        ("summary", "a.py", 'def f():\n    """Return rows."""'),
        ("word", "a.py", '"""Return the rows that nobody reads."""'),
        ("word", "a.py", "x = 1  # nobody reads it"),
        ("word", "a.cu", "int x; // the kernel knows it"),
        ("word", "a.md", "A page that\nnobody reads."),
        ("name", "a.py", "def taken(): pass"),
        ("name", "a.py", "def f(known): pass"),
        ("name", "a.py", "class C:\n    told: bool"),
        ("name", "a.py", "class _Marked: pass"),
        ("name", "a.py", "f = lambda which: 1"),
        ("name", "a.py", "self._before = 1"),
        ("semicolon", "a.py", '"""Return the rows; the columns stay."""'),
        ("semicolon", "a.py", "x = 1  # a row; a column"),
        ("long", "a.md", "word " * 33 + "end."),
    ],
)
def test_each_check_finds_a_place(check, file, source):
    assert [place.check for place in language.places_of(source, f"semiring/{file}")] == [check]


def test_good_language_is_not_reported():
    source = (
        '"""Return the rows of a matrix.\n\nThe code `a; b` is no sentence.\n"""\nvalues: int = 1  # the first row\n'
    )
    assert list(language.places_of(source, "semiring/a.py")) == []
    source = (
        "def seed(expected, directed, left): pass\nclass Need:\n    packed: bool\ntaken: int = 1\nself.pred = taken"
    )
    assert list(language.places_of(source, "semiring/a.py")) == []
    page = "# Nobody\n\n| nobody | x |\n\n```python\nnobody\n```\n\nA line of `nobody`.\n"
    assert list(language.places_of(page, "docs/a.md")) == []


def test_places_are_counted_by_folder():
    files = ("semiring/x.py", "semiring/io/x.py", "semiring/kernels/cpu/product/x.py", "tests/io/x.py")
    places = (place for file in files for place in language.places_of("def taken(): pass", file))
    assert language.counts(places)["name"] == {
        "semiring": 1, "semiring/io": 1, "semiring/kernels/cpu": 1, "tests/io": 1
    }  # fmt: skip
    text = language.limits(language.places_of("def taken(): pass", "tools/x.py"))
    assert '"name": {\n        "tools": 1,\n    }' in text
