"""The tests of a GPU name only what exists: no machine without a GPU runs them, so that a rename may break them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from semiring.errors import MissingExtraError

FOLDER = Path(__file__).parents[1] / "gpu"
MISSING = object()


def load(name: str) -> Any:
    """Import a module: `MISSING` if it does not exist, None if it needs a package that is not installed."""
    try:
        return importlib.import_module(name)
    except MissingExtraError:
        return None
    except ModuleNotFoundError as error:
        return MISSING if str(error.name).startswith("semiring") else None


def member(owner: ModuleType | type, name: str) -> Any:
    """Return an attribute or a submodule: None for a field of instances, `MISSING` if there is none."""
    if isinstance(owner, ModuleType):
        try:
            return getattr(owner, name) if hasattr(owner, name) else load(f"{owner.__name__}.{name}")
        except MissingExtraError:
            return None
    return None if name in fields(owner) else getattr(owner, name, MISSING)


def find_imports(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield the names that a module imports from this library, and their values, or `MISSING`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.split(".")[0]
                if package == "semiring":
                    module = load(alias.name)
                    yield alias.asname or package, module if alias.asname or module is MISSING else load(package)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("semiring", "benchmarks"):
            module = load(str(node.module))
            for alias in node.names:
                yield alias.asname or alias.name, member(module, alias.name) if module else module


def resolve(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return the module or class that a chain of attributes names, otherwise None, or raise `AttributeError`."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        if isinstance(owner, ModuleType | type):
            value = member(owner, node.attr)
            if value is MISSING:
                raise AttributeError(f"{owner.__name__}.{node.attr}")
            return value
    return None


def fields(owner: type) -> set[str]:
    """Return the names that a class annotates, which instances alone have."""
    return {name for base in owner.__mro__ for name in vars(base).get("__annotations__", {})}


def unknown_names(tree: ast.Module) -> Iterator[str]:
    """Yield each name that a module takes from this library in vain, with its line."""
    names: dict[str, Any] = {}
    for name, value in find_imports(tree):
        if value is MISSING:
            yield f"import of {name}"
        else:
            names[name] = value
    for node in ast.walk(tree):
        try:
            if isinstance(node, ast.Attribute):
                resolve(node, names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
                check_patch(node.args, names)
        except AttributeError as error:
            yield f"line {node.lineno}: {error}"


def check_patch(arguments: list[ast.expr], names: dict[str, Any]) -> None:
    """Raise `AttributeError` if the target of ``monkeypatch.setattr`` does not exist."""
    target, name = arguments[0], getattr(arguments[1], "value", None)
    owner = resolve(target, names)
    if isinstance(target, ast.Constant) and str(target.value).startswith("semiring."):
        module, _, name = str(target.value).rpartition(".")
        owner = load(module)
    if owner is MISSING or (
        isinstance(owner, ModuleType | type) and isinstance(name, str) and not hasattr(owner, name)
    ):
        raise AttributeError(f"{getattr(owner, '__name__', 'a module')}.{name} is patched")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_names_of_the_library_exist(path):
    assert list(unknown_names(ast.parse(path.read_text("utf-8")))) == []


def test_a_name_that_does_not_exist_is_found():
    text = """
import semiring as sr
from semiring.closures import api, nothing
sr.closure, sr.closures.api.closure, sr.absent
monkeypatch.setattr(api, "absent", 1)
monkeypatch.setattr("semiring.closures.api.absent", 1)
monkeypatch.setattr("semiring.closures.api.closure", 1)
"""
    assert sorted(unknown_names(ast.parse(text))) == [
        "import of nothing",
        "line 4: semiring.absent",
        "line 5: semiring.closures.api.absent is patched",
        "line 6: semiring.closures.api.absent is patched",
    ]
