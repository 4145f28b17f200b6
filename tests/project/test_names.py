"""Test that names in texts exist: names that tests of a GPU patch, which no machine without a GPU runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def defined_in(module: str) -> set[str] | None:
    """Return the names that a module of this library binds, without importing it; None if there is no such file."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return None
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return bound | {alias.asname or alias.name for alias in nodes if isinstance(alias, ast.alias)}


def missing_patches(tree: ast.Module) -> Iterator[str]:
    """Yield each target of ``monkeypatch.setattr`` in a module that does not exist. mypy checks all other names."""
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".setattr")):
            continue
        owner, name = node.args[:2]
        target = getattr(name, "value", None)
        if isinstance(owner, ast.Constant):
            module, _, target = str(owner.value).rpartition(".")
        elif isinstance(owner, ast.Call) and ast.unparse(owner.func) == "import_module":
            module = getattr(owner.args[0], "value", "")
        else:
            module = modules.get(ast.unparse(owner), "")
        if isinstance(target, str) and (bound := defined_in(module)) is not None and target not in bound:
            yield f"line {node.lineno}: {module}.{target}"


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "gpu").glob("*.py")), ids=lambda path: path.stem)
def test_patched_names_exist(path):
    assert list(missing_patches(ast.parse(path.read_text("utf-8")))) == []


def test_a_patched_name_that_does_not_exist_is_found():
    text = """
def test(monkeypatch):
    from semiring.closures import api
    monkeypatch.setattr(api, "absent", 1)
    monkeypatch.setattr(api, "closure", 1)
    monkeypatch.setattr("semiring.closures.api.absent", 1)
    monkeypatch.setattr("semiring.closures.api.closure", 1)
"""
    assert list(missing_patches(ast.parse(text))) == [
        "line 4: semiring.closures.api.absent",
        "line 6: semiring.closures.api.absent",
    ]
