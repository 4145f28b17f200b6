"""Test the modules in the keys of compiled kernels: an edited comment changes no key, an edited operation does."""

from __future__ import annotations

import ast
import inspect
import math
import os
import pkgutil
import shutil
import sys
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import llvmlite.ir as ir
import pytest
import tiers
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import builtin_registry
from numba.extending import _Intrinsic

import semiring as sr
from semiring.kernels import code_store, sources
from semiring.kernels.cpu import loops
from semiring.kernels.cpu.closing.pivot_loops import build_eliminate
from semiring.kernels.cpu.codegen import jit, native, scalars
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.elimination.gathered_rows import build_fold
from semiring.kernels.cpu.product import macro_kernel
from semiring.kernels.cpu.product.matvec import build_dots, build_updates
from semiring.kernels.cpu.product.micro_kernel import build_find, build_tile
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan
from semiring.kernels.machines.speed_data import TileShape

FOLDER = Path(sr.__file__).parent
PACKAGES = ("semiring.kernels.cpu", "semiring.kernels.graphs")

#: Modules that the code of kernels names, and that no kernel is made of: errors, and what binds and reports kernels.
NOT_COMPILED = {
    *("semiring.advice", "semiring.errors", "semiring.logs", "semiring.kernels.code_store", "semiring.kernels.sources"),
    "semiring.kernels.cpu.loops",
}


def modules_of_loops():
    """Return every module that holds compiled loops."""
    names = ["semiring.autodiff.path_trees"]
    for package in PACKAGES:
        found = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
        names += [package, *(module.name for module in found)]
    return [import_module(name) for name in names]


def builders():
    """Return the functions that build native code, with arguments of small kernels."""
    target = host()
    for name, dtype in (("min_plus", "float32"), ("log_plus", "float64"), ("boolean", "bool"), ("plus_times", "int64")):
        plan = make_plan(sr.CATALOGUE[name], dtype)
        definition, closing = define(plan), define(plan, closing=name != "plus_times")
        shape = TileShape(2, 2, target.vector_bytes)
        yield from ((build_tile, (definition, target, shape), {"has_marks": has_marks}) for has_marks in (False, True))
        yield from ((build, (definition, target), {"vector_first": True}) for build in (build_dots, build_updates))
        yield build_fold, (definition, target), {"vector_first": False}
        yield build_find, (definition, target), {}
        if closing.star is not None:
            yield build_eliminate, (closing, target, 2), {}


@cache
def kernels():
    """Return the function of each kernel, and the modules in its cache key."""
    found = {}
    for module in modules_of_loops():
        for value in vars(module).values():
            value = value.compiled if isinstance(value, loops.Loop) else value
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__:
                cached = isinstance(value._cache, jit.KernelCache)
                # the remaining ones are called by loops, or kept by `compile_entry_point`
                own = value._cache if cached else jit.KernelCache("", module.__name__)
                found[value.py_func] = own.modules
    for function in (macro_kernel.copy_block, macro_kernel.block_product):
        found[function] = jit.KernelCache("", function.__module__).modules
    for build, arguments, options in builders():
        found[build] = native._identify(build, arguments, options)[0]
    return found


# -------------------------------------------------------------------------- what a kernel is made of, from its objects


@cache
def overloads():
    """Return the functions that Numba compiles in the place of a Python function."""
    found = {}
    for function, kind in builtin_registry.globals:
        if str(getattr(function, "__module__", "")).startswith("semiring."):
            made = [getattr(template, "_overload_func", None) for template in kind.templates]
            found[function] = [each for each in made if each is not None]
    return found


def names_in(code: CodeType):
    """Return the names of global variables and attributes in a code object, and in those inside it."""
    inside = (names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inside)


@cache
def bindings(module):
    """Return where the global names of a module come from: a pair of a module and a name, or the names of a value."""
    found = {}
    for node in ast.walk(ast.parse(Path(import_module(module).__file__).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            values = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
            found.update(
                {name: found.get(name, set()) | values for name in names if not isinstance(found.get(name), tuple)}
            )
        elif isinstance(node, ast.FunctionDef):
            decorators = [
                name.id for each in node.decorator_list for name in ast.walk(each) if isinstance(name, ast.Name)
            ]
            found.setdefault(node.name, set(decorators))
    return found


class Parts:
    """The modules whose code or constants are in a kernel, found by walking its functions, classes and globals."""

    def __init__(self, function):
        self.modules, self.constants, self.visited_ids, self.used_names = set(), set(), set(), set()
        self.value(function)

    def value(self, value, names=frozenset()):
        if value is loops.better or value is loops.times:
            value = getattr(scalars, value.__name__)
        if getattr(value, "__module__", None) in NOT_COMPILED:
            return
        if isinstance(value, ModuleType):
            if value.__name__.startswith("semiring") and value.__name__ not in NOT_COMPILED:
                for name in names & set(vars(value)):
                    self.name(value.__name__, name, names)
            return
        if id(value) in self.visited_ids:
            return
        self.visited_ids.add(id(value))
        if isinstance(value, Dispatcher | loops.Loop):
            self.value(value.py_func)
        elif isinstance(value, _Intrinsic):
            self.value(value._defn)
        elif isinstance(value, FunctionType) and value.__module__.startswith("semiring"):
            self.function(value)
        elif isinstance(value, property):
            self.value(value.fget)
        elif isinstance(value, cached_property):
            self.value(value.func)
        elif isinstance(value, classmethod | staticmethod):
            self.value(value.__func__)
        elif inspect.isclass(value) and value.__module__.startswith("semiring"):
            self.modules.add(value.__module__)
            for each in (*value.__bases__, *vars(value).values()):
                self.value(each)
        elif isinstance(value, dict | list | tuple):
            for each in value.values() if isinstance(value, dict) else value:
                self.value(each)

    def function(self, function):
        self.modules.add(function.__module__)
        for cell in function.__closure__ or ():
            self.value(cell.cell_contents)
        self.name(function.__module__, function.__name__)  # its decorators hold the options of the compiler
        for overload in overloads().get(function, ()):
            self.value(overload)
        names = names_in(function.__code__)
        for name in names & set(function.__globals__):
            self.name(function.__module__, name, names)

    def name(self, module, name, names=frozenset()):
        """Follow a global name of a module to its value, and to the modules that its value came from."""
        if (module, name) in self.used_names:
            return
        self.used_names.add((module, name))
        origin = bindings(module).get(name)
        if isinstance(origin, tuple) and origin[0].startswith("semiring"):
            value = getattr(import_module(module), name, None)
            if value is None:  # a function imports it
                value = getattr(import_module(origin[0]), origin[1])
            if sources.is_constant(value):
                self.constants.add(origin)
            elif not isinstance(value, ModuleType) and origin[0] not in NOT_COMPILED:
                self.modules.add(origin[0])
        elif isinstance(origin, set):
            for each in origin - {name}:
                self.name(module, each)
        self.value(getattr(import_module(module), name, None), names)


@cache
def parts():
    return {function: Parts(function) for function in kernels()}


def ran(call):
    """Return the modules of the library whose functions a call runs."""
    found = set()
    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: found.add(frame.f_globals.get("__name__", "")))
    try:
        call()
    finally:
        sys.settrace(before)
    return {name for name in found if name.startswith("semiring")}


@pytest.mark.full
def test_every_module_with_kernels_is_walked():
    """The cache keys cover loops of most folders, native functions, and the modules that they share."""
    assert len(kernels()) > 150
    found = set().union(*(each.modules for each in parts().values()))
    for name in (
        "codegen.memory_intrinsics",
        "codegen.exponential_sums",
        "codegen.lowering",
        "codegen.scalars",
    ):
        assert f"semiring.kernels.cpu.{name}" in found
    assert {"semiring.algebra.expressions.tree", "semiring.kernels.graphs.vector_intrinsics"} <= found
    assert ("semiring.kernels.contract", "NO_PREDECESSOR") in set().union(
        *(each.constants for each in parts().values())
    )


@pytest.mark.full
def test_a_key_holds_all_that_a_kernel_is_made_of():
    for function, modules in kernels().items():
        found = sources.find_sources(modules)
        name = f"{function.__module__}.{function.__qualname__}"
        assert parts()[function].modules - NOT_COMPILED <= set(found), name
        by_value = {(module, constant) for module, constant, _ in sources.constants(found)}
        outside = {pair for pair in parts()[function].constants if pair[0] not in found}
        assert outside <= by_value, name


@pytest.mark.full
def test_a_key_holds_the_modules_that_run_while_native_code_is_built():
    for build, arguments, options in builders():
        modules = native._identify(build, arguments, options)[0]
        called = ran(lambda: build(ir.Module(), "function", *arguments, **options))  # noqa: B023
        assert called - NOT_COMPILED <= set(sources.find_sources(modules)), build
        assert build.__module__ in called


def test_a_loop_that_an_inner_function_makes_is_refused():
    from numba import njit

    constant = len(sys.argv)
    with pytest.raises(AssertionError, match="variables of an enclosing function"):
        jit.cache_on_disk(njit(lambda x: x + constant))
    with pytest.raises(AssertionError, match="variables of an enclosing function"):
        native.compile_native(lambda module, name: constant)


# ------------------------------------------------------------------------------------------------- edited sources


def forget():
    for each in (sources._digest, sources._source, sources._is_module):
        each.cache_clear()


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return a copy of the package, whose sources count in place of those that run."""
    folder = tmp_path / "semiring"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__", "*.csv"))
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "_FOLDER", folder)
    monkeypatch.setattr(sources, "LOAD_TIME", math.inf)
    forget()
    yield folder
    forget()


def fingerprints():
    forget()
    roots = set(kernels().values()) | {("semiring.kernels.cuda.product.cubins",)}
    return {modules: sources.fingerprint(modules, "versions") for modules in roots}


def with_other_comments(text: str) -> str:
    """Return a source with every docstring and line number changed, and a comment before every statement."""
    lines = text.splitlines()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                at = first.lineno - 1
                lines[at] = lines[at].replace('"""', '"""Edited. ', 1)
            elif not isinstance(node, ast.Module):
                lines[node.body[0].lineno - 1] += "  # edited"
    for node in reversed(tree.body):
        decorators = getattr(node, "decorator_list", [])
        lines.insert(min([node.lineno, *(each.lineno for each in decorators)]) - 1, "# edited")
    return "\n".join([*lines, "# edited", ""])


def with_another_operation(text: str) -> str:
    """Return a source with one operation of its code changed, or a new one where it has none."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp | ast.Compare):
            left, right = node.left, node.right if isinstance(node, ast.BinOp) else node.comparators[0]
            if left.end_lineno == right.lineno:
                line, start, end = lines[left.end_lineno - 1].encode(), left.end_col_offset, right.col_offset
                between = line[start:end].decode()
                operator = between.strip("() ")
                if operator in _OTHER:
                    between = between.replace(operator, _OTHER[operator])
                    lines[left.end_lineno - 1] = (line[:start] + between.encode() + line[end:]).decode()
                    return "\n".join([*lines, ""])
    return f"{text}\nedited = 1 + 1\n"


_OTHER = {"+": "-", "-": "+", "*": "+", "<": "<=", ">": ">=", "==": "!=", ">>": "<<", "<<": ">>", "//": "*", "|": "&"}
_OTHER |= {
    "&": "|",
    "<=": "<",
    ">=": ">",
    "!=": "==",
    "%": "//",
    "/": "*",
    "is not": "is",
    "is": "is not",
    "in": "not in",
}


def is_of_kernels(path):
    module = ".".join(["semiring", *path.with_suffix("").parts]).removesuffix(".__init__")
    return module.startswith(sources.KERNELS)


@pytest.mark.full
def test_comments_and_docstrings_change_no_key(copy):
    before = fingerprints()
    assert None not in before.values()
    edited = 0
    for path in copy.rglob("*.py"):
        text = path.read_text("utf-8")
        path.write_text(with_other_comments(text), "utf-8")
        edited += path.read_text("utf-8") != text
    assert edited > 100
    assert fingerprints() == before


@pytest.mark.full
def test_an_edited_operation_changes_the_keys_of_all_that_are_made_of_it_alone(copy):
    before = fingerprints()
    made_of = {modules: set(sources.find_sources(modules)) for modules in before}
    needed = {modules: set() for modules in before}
    for function, modules in kernels().items():
        needed[modules] |= parts()[function].modules - NOT_COMPILED
    edited = sorted(set().union(*needed.values(), *made_of.values()))
    assert len(edited) > 60
    for module in edited if tiers.selected_tier == "exhaustive" else edited[::3]:
        path = copy / Path(import_module("semiring").__file__).parent.joinpath(*module.split(".")[1:]).relative_to(
            FOLDER
        )
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = path.read_text("utf-8")
        path.write_text(with_another_operation(text), "utf-8")
        assert path.read_text("utf-8") != text, module
        after = fingerprints()
        for modules, found in after.items():
            assert found is not None
            if module in needed[modules]:
                assert found != before[modules], f"{module} is part of {modules}"
            assert (found != before[modules]) == (module in made_of[modules]), (module, modules)
        path.write_text(text, "utf-8")
    assert fingerprints() == before


def test_a_constant_of_a_module_outside_changes_the_keys_that_hold_it(copy, monkeypatch):
    before = fingerprints()
    monkeypatch.setattr("semiring.kernels.contract.NO_PREDECESSOR", -7)
    changed = {modules[0] for modules, found in fingerprints().items() if found != before[modules]}
    assert {"semiring.kernels.cpu.direct_edges", "semiring.kernels.cpu.predecessor_trees"} <= changed
    assert "semiring.kernels.cpu.product.micro_kernel" not in changed


def test_versions_and_the_processor_are_part_of_keys(copy, monkeypatch):
    modules = ("semiring.kernels.cpu.product.macro_kernel",)
    before = jit.fingerprint(modules)
    monkeypatch.setattr(jit, "_versions", lambda: ("another",))
    assert jit.fingerprint(modules) != before


def test_a_source_that_is_newer_than_the_code_that_runs_has_no_key(copy, monkeypatch):
    edited = copy / "kernels" / "cpu" / "codegen" / "lowering.py"
    modules, other = ("semiring.kernels.cpu.product.micro_kernel",), ("semiring.kernels.cpu.product.macro_kernel",)
    monkeypatch.setattr(sources, "LOAD_TIME", os.stat(edited).st_ctime + 5)
    assert jit.fingerprint(modules)
    os.utime(edited, (sources.LOAD_TIME + 1,) * 2)
    forget()
    assert jit.fingerprint(modules) is None
    assert jit.fingerprint(other)
    jit.save_entry(modules, "key", 1)
    assert jit.load_entry(modules, "key", int) is None


def test_a_source_that_cannot_be_read_has_no_key(copy):
    (copy / "kernels" / "cpu" / "codegen" / "lowering.py").write_text("not Python(")
    forget()
    assert jit.fingerprint(("semiring.kernels.cpu.product.micro_kernel",)) is None
    assert jit.fingerprint(("no_such_module_anywhere",)) is None


def test_nothing_is_read_where_nothing_is_kept(copy, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", "")
    assert jit.fingerprint(("semiring.kernels.cpu.product.micro_kernel",)) is None
    assert sources._source.cache_info().currsize == 0


@pytest.mark.full
def test_digests_of_sources_are_kept_by_their_content(copy, tmp_path, monkeypatch):
    sources._known_sources.cache_clear()
    before = fingerprints()
    (entry,) = (tmp_path / "cache").glob(f"*.{code_store.DIGESTS}")
    sources._known_sources.cache_clear()
    parsed = []
    original = sources.parse
    monkeypatch.setattr(sources, "parse", lambda content, package: parsed.append(package) or original(content, package))
    assert fingerprints() == before
    assert parsed == []
    macro_file = copy / "kernels" / "cpu" / "product" / "macro_kernel.py"
    macro_file.write_text(with_other_comments(macro_file.read_text("utf-8")), "utf-8")
    assert fingerprints() == before
    assert parsed == ["semiring.kernels.cpu.product"]
    entry.write_bytes(b"nonsense")
    sources._known_sources.cache_clear()
    assert fingerprints() == before
    sources._known_sources.cache_clear()
