"""The language of the code: names of classes, the glossary, and limits for names, docstrings and comments."""

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

#: How many places of each check a folder may have; `python -m tools.language --limits` prints the present numbers.
#: A limit may only fall, and a folder without a limit has none.
LIMITS: dict[str, dict[str, int]] = {
    "summary": {
        "_semiring_networkx": 5,
        "benchmarks": 70,
        "benchmarks/gpu": 45,
        "docs": 5,
        "semiring": 25,
        "semiring/algebra": 10,
        "semiring/algorithms": 45,
        "semiring/arrays": 35,
        "semiring/autodiff": 20,
        "semiring/cli": 25,
        "semiring/closures": 70,
        "semiring/compat": 40,
        "semiring/distributed": 45,
        "semiring/kernels/cuda": 80,
        "semiring/linalg": 30,
        "semiring/paths": 20,
        "semiring/plot": 10,
        "semiring/sparse": 50,
        "semiring/testing": 5,
        "semiring/torch": 5,
        "tests/algebra": 10,
        "tests/arrays": 10,
        "tests/closures": 80,
        "tests/compat": 10,
        "tests/cpu": 25,
        "tests/cuda_without_gpu": 40,
        "tests/factor": 10,
        "tests/gpu": 40,
        "tests/gradients": 10,
        "tests/io": 20,
        "tests/linalg": 10,
        "tests/project": 20,
        "tests/ranks": 10,
        "tests/support": 30,
        "tests/testing": 5,
        "tools": 15,
    },
    "word": {
        "_semiring_networkx": 10,
        "benchmarks": 20,
        "benchmarks/gpu": 10,
        "docs": 15,
        "docs/benchmarks": 5,
        "semiring": 20,
        "semiring/algebra": 10,
        "semiring/algorithms": 30,
        "semiring/arrays": 30,
        "semiring/autodiff": 10,
        "semiring/cli": 10,
        "semiring/closures": 75,
        "semiring/compat": 10,
        "semiring/distributed": 30,
        "semiring/kernels": 1,
        "semiring/kernels/cpu": 6,
        "semiring/kernels/cuda": 35,
        "semiring/linalg": 20,
        "semiring/out_of_core": 10,
        "semiring/paths": 10,
        "semiring/plot": 5,
        "semiring/sparse": 15,
        "semiring/torch": 10,
        "tests": 5,
        "tests/algebra": 5,
        "tests/arrays": 5,
        "tests/closures": 30,
        "tests/compat": 5,
        "tests/cpu": 15,
        "tests/cuda_without_gpu": 20,
        "tests/gpu": 10,
        "tests/linalg": 5,
        "tests/project": 10,
        "tests/ranks": 5,
        "tests/support": 10,
        "tools": 10,
    },
    "name": {
        "_semiring_networkx": 5,
        "benchmarks": 35,
        "benchmarks/gpu": 20,
        "docs/_extensions": 5,
        "semiring": 15,
        "semiring/algebra": 10,
        "semiring/algorithms": 40,
        "semiring/arrays": 20,
        "semiring/autodiff": 30,
        "semiring/cli": 15,
        "semiring/closures": 130,
        "semiring/compat": 10,
        "semiring/distributed": 30,
        "semiring/graphs": 5,
        "semiring/io": 20,
        "semiring/kernels": 3,
        "semiring/kernels/cpu": 4,
        "semiring/kernels/cuda": 35,
        "semiring/kernels/machines": 1,
        "semiring/linalg": 25,
        "semiring/out_of_core": 5,
        "semiring/paths": 25,
        "semiring/plot": 10,
        "semiring/sparse": 35,
        "semiring/testing": 5,
        "tests": 5,
        "tests/algebra": 5,
        "tests/arrays": 5,
        "tests/closures": 80,
        "tests/compat": 20,
        "tests/cpu": 20,
        "tests/cuda_without_gpu": 30,
        "tests/factor": 15,
        "tests/gpu": 15,
        "tests/gradients": 5,
        "tests/io": 15,
        "tests/linalg": 10,
        "tests/project": 10,
        "tests/ranks": 10,
        "tests/support": 20,
        "tests/testing": 10,
        "tools": 10,
    },
    "semicolon": {
        "_semiring_networkx": 10,
        "benchmarks": 65,
        "benchmarks/gpu": 60,
        "docs": 5,
        "docs/_extensions": 10,
        "semiring": 50,
        "semiring/algebra": 40,
        "semiring/algorithms": 195,
        "semiring/arrays": 65,
        "semiring/autodiff": 30,
        "semiring/cli": 30,
        "semiring/closures": 140,
        "semiring/compat": 30,
        "semiring/data": 5,
        "semiring/distributed": 55,
        "semiring/graphs": 20,
        "semiring/io": 40,
        "semiring/kernels": 21,
        "semiring/kernels/cpu": 72,
        "semiring/kernels/cuda": 165,
        "semiring/kernels/graphs": 6,
        "semiring/kernels/machines": 6,
        "semiring/linalg": 75,
        "semiring/out_of_core": 30,
        "semiring/paths": 45,
        "semiring/plot": 15,
        "semiring/sparse": 95,
        "semiring/testing": 30,
        "semiring/torch": 15,
        "tests": 10,
        "tests/algebra": 10,
        "tests/arrays": 5,
        "tests/closures": 65,
        "tests/compat": 10,
        "tests/cpu": 20,
        "tests/cuda_without_gpu": 25,
        "tests/factor": 10,
        "tests/gpu": 40,
        "tests/gradients": 10,
        "tests/io": 10,
        "tests/linalg": 10,
        "tests/project": 20,
        "tests/ranks": 10,
        "tests/support": 50,
        "tests/testing": 5,
        "tools": 30,
    },
    "long": {
        "benchmarks": 15,
        "benchmarks/gpu": 15,
        "docs": 10,
        "docs/benchmarks": 5,
        "semiring": 10,
        "semiring/algebra": 5,
        "semiring/algorithms": 45,
        "semiring/arrays": 5,
        "semiring/autodiff": 10,
        "semiring/closures": 20,
        "semiring/compat": 10,
        "semiring/data": 5,
        "semiring/distributed": 10,
        "semiring/kernels/cuda": 30,
        "semiring/linalg": 15,
        "semiring/out_of_core": 5,
        "semiring/paths": 10,
        "semiring/sparse": 20,
        "semiring/testing": 10,
        "semiring/torch": 10,
        "tests/closures": 5,
        "tests/gpu": 5,
        "tests/support": 10,
        "tools": 10,
    },
}


def repeated(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the class names that occur more than once in these files, with their places."""
    places = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.name}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_occurs_once():
    assert repeated(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))) == {}


def test_a_second_class_of_the_name_is_found(tmp_path):
    for name in ("one.py", "other.py"):
        (tmp_path / name).write_text("def f():\n    class Rows:\n        pass\n")
    found = repeated([tmp_path / "one.py", tmp_path / "other.py"])
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
