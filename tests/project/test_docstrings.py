"""Test docstrings of the public names: the sections of numpydoc, and the errors that a function raises itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tiers import quick

import semiring
from semiring.errors import DTypeError, SemiringError, ShapeError, no_star

docscrape = pytest.importorskip("numpydoc.docscrape")  # the extra ``dev``
validation = pytest.importorskip("numpydoc.validate")

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

#: The pages that show functions and classes.
PAGES = sorted(path.stem for path in REFERENCE.glob("*.rst") if path.stem != "index")

#: What numpydoc must not find. Its remaining codes are about style.
CODES = {
    "GL08",  # a name without a docstring
    "SS06",  # a first sentence of several lines
    *("PR01", "PR02", "PR03"),  # parameters that are absent, unknown or in another order
    *("PR04", "PR07", "PR10"),  # a parameter without a type or a description, or with a colon at its name
    *("RT01", "RT03", "YD01"),  # a result without a section or a description, yielded values without a section
}

#: Pages of the reference whose modules need these libraries, which take seconds to import.
LIBRARIES = {"gradients": ("torch", "jax")}

_DIRECTIVES = re.compile(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)\n((?:   .*\n)*)", re.M)
_PROPERTIES = (property, cached_property)


def shown_on(page: str) -> Iterator[tuple[str, Any]]:
    """Yield the names that a page of the reference shows, and what they name."""
    current = "semiring"
    for directive, name, options in _DIRECTIVES.findall((REFERENCE / f"{page}.rst").read_text("utf-8")):
        if directive in ("currentmodule", "automodule"):
            current = name
            if directive == "automodule" and ":no-members:" not in options:
                yield from exported_names(name)
        else:
            module, _, key = (name if name.startswith("semiring.") else f"{current}.{name}").rpartition(".")
            yield f"{module}.{key}", getattr(importlib.import_module(module), key)


def exported_names(module: str) -> Iterator[tuple[str, Any]]:
    """Yield the names in ``__all__`` of a module, and what they name."""
    found = importlib.import_module(module)
    for key in getattr(found, "__all__", ()):
        yield f"{module}.{key}", getattr(found, key)


def with_members(names: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of this library among the names, and the public members of the classes."""
    for name, value in names:
        if not callable(value) or not str(getattr(value, "__module__", "")).startswith("semiring"):
            continue  # data, and functions of other libraries
        # A cache holds the function whose source numpydoc reads. A function may have the signature of its wrapper.
        yield name, value if inspect.isfunction(value) or inspect.isclass(value) else inspect.unwrap(value)
        for member, held in vars(value).items() if inspect.isclass(value) else ():
            held = held.__func__ if isinstance(held, classmethod | staticmethod) else held
            if not member.startswith("_") and (inspect.isfunction(held) or isinstance(held, _PROPERTIES)):
                yield f"{name}.{member}", held


@cache
def document(value: Any) -> Any:
    """Return the docstring of a function, class or property as numpydoc parses it."""
    return docscrape.get_doc_object(value)


def findings(value: Any) -> list[str]:
    """Return what numpydoc finds in a docstring, by the codes of this test."""
    return [f"{code} {text}" for code, text in validation.validate(document(value))["errors"] if code in CODES]


def raised_in(function: Callable[..., Any]) -> set[str]:
    """Return the names of this library's error classes that the statements of a function raise.

    A call of a function counts as the error class that its annotation names. Nested functions are left out.
    """
    function = inspect.unwrap(function)
    names, waiting = set(), list(ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and (error := _error_class(raised.id, function)) is not None:
                names.add(error.__name__)
    return names


def _error_class(name: str, function: Callable[..., Any]) -> type[SemiringError] | None:
    found = function.__globals__.get(name)
    if inspect.isfunction(found):
        found = found.__globals__.get(str(found.__annotations__.get("return")))
    return found if inspect.isclass(found) and issubclass(found, SemiringError) else None


def unnamed_errors(value: Any) -> set[str]:
    """Return the errors that a function, or the constructor of a class, raises itself and its docstring does not name.

    A property has one sentence and no sections.
    """
    if isinstance(value, _PROPERTIES):
        return set()
    bodies = [value]
    if inspect.isclass(value):
        held = [vars(value).get(name) for name in ("__init__", "__post_init__")]
        bodies = [body for body in held if inspect.isfunction(body) and body.__code__.co_filename != "<string>"]
    raised = {name for body in bodies for name in raised_in(body)}
    return raised - {name for entry in document(value)["Raises"] for name in entry.type.split(", ")}


def has_libraries(page: str) -> bool:
    """Return whether the libraries that the modules of a page need are installed."""
    return all(find_spec(library) is not None for library in LIBRARIES.get(page, ()))


@pytest.mark.parametrize("page", quick(lambda page: page not in LIBRARIES, PAGES))
def test_public_docstrings_have_all_sections(page):
    if not has_libraries(page):
        pytest.skip(f"not all of {', '.join(LIBRARIES[page])} are installed")
    names = dict(with_members(shown_on(page)))
    wrong = [f"{name}: {each}" for name, value in names.items() for each in findings(value)]
    wrong += [f"{name}: Raises names no {each}" for name, value in names.items() for each in unnamed_errors(value)]
    assert names
    assert not wrong, "\n".join(wrong)


@pytest.mark.full  # imports PyTorch and JAX
def test_the_reference_shows_what_the_modules_export():
    """A name that a public module exports is on a page, there or where it is defined, so the test above reads it."""
    shown = {value for page in PAGES if has_libraries(page) for _, value in with_members(shown_on(page))}
    modules = ["semiring", *(f"semiring.{name}" for name in dir(semiring) if inspect.ismodule(getattr(semiring, name)))]
    assert len(modules) > 6
    assert [
        name for module in modules for name, value in with_members(exported_names(module)) if value not in shown
    ] == []


def test_findings_of_numpydoc_are_reported():
    def without_sections(A):
        """Return the same matrix."""
        return A

    def without_docstring(A):
        return A

    def complete(A):
        """Return the same matrix.

        Parameters
        ----------
        A : array, shape (n, n)
            The matrix.

        Returns
        -------
        array
            The argument.
        """
        return A

    codes = [[each.split()[0] for each in findings(f)] for f in (without_sections, without_docstring, complete)]
    assert codes == [["PR01", "RT01"], ["GL08"], []]


def test_errors_that_a_body_raises_are_found():
    def check(x):
        """Check the range of a number."""
        if x > 1:
            raise ShapeError("large")
        if x < 0:
            raise no_star("R")
        if x == 0:
            raise ValueError("zero")

        def inner():
            raise DTypeError("not of check itself")

        return inner

    assert raised_in(check) == {"AlgebraError", "ShapeError"}
    assert unnamed_errors(check) == {"AlgebraError", "ShapeError"}
    check.__doc__ = (
        "Check the range of a number.\n\nRaises\n------\nShapeError, AlgebraError\n    If it is no number.\n"
    )
    document.cache_clear()
    assert unnamed_errors(check) == set()
