"""The language of the code: each class has a name of its own."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("semiring", "_semiring_networkx")


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
