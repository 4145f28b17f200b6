"""Test what the sources of the benchmarks may use, and what their command lines say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

import pytest
import table_checks

from benchmarks.packages import OPTIONAL

ROOT = table_checks.FOLDER.parent
SOURCES = sorted(table_checks.FOLDER.rglob("*.py"))
MODULES = [*table_checks.scripts(), *table_checks.scripts(table_checks.FOLDER / "gpu")]

#: Names that begin with an underscore and are public: of named tuples, and of PyTorch, which has no others for them.
DOCUMENTED = {"_asdict", "_replace", "_int_mm", "_scaled_mm"}

#: Distributions by the module that is imported, where the names differ.
DISTRIBUTIONS = {"graphblas": "python-graphblas", "tropical_gemm": "tropical-gemm", "cutlass": "nvidia-cutlass-dsl"}


def modules_of(tree):
    """Return the names that imports bind to modules or their contents, except for the benchmarks themselves."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in ("benchmarks", "tools"):
            bound |= {alias.asname or alias.name for alias in node.names}
    return bound


def root_of(node):
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def root_of_text(call):
    """Return the first part of the module that a call of import_module names, or None if it is no text."""
    name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
    return str(name).partition(".")[0]


def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__")) and name not in DOCUMENTED


def offences(tree):
    """Return the lines on which a source uses what is private to the library, or changes it."""
    bound = modules_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = getattr(node, "module", None) or ""
            names = [alias.name for alias in node.names]
            parts = [part for name in (module, *names) for part in name.split(".")]
            if any(map(is_private, parts)) or "mock" in parts or "pytest" in parts:
                yield node.lineno, f"imports {', '.join(names)}"
        elif isinstance(node, ast.Attribute):
            if is_private(node.attr) and root_of(node.value) not in ("self", "cls"):
                yield node.lineno, f"reads {node.attr}"
            if isinstance(node.ctx, ast.Store | ast.Del) and root_of(node) in bound:
                yield node.lineno, f"assigns {ast.unparse(node)}"
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if isinstance(node.value, ast.Attribute) and root_of(node) in bound - {"os"}:
                yield node.lineno, f"assigns {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else ""
            if node.func.id in ("setattr", "delattr", "vars"):
                yield node.lineno, f"calls {node.func.id}"
            elif node.func.id == "getattr" and is_private(str(given)):
                yield node.lineno, f"reads {given}"
            elif node.func.id == "import_module" and root_of_text(node) == "semiring":
                yield node.lineno, "imports a module of the library by a text"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_benchmark_uses_and_changes_nothing_private(path):
    assert list(offences(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "source",
    [
        "from semiring.kernels.cuda.product.bit_products import _Panel",
        "from semiring.distributed import _hidden",
        "from unittest.mock import patch",
        "import semiring as sr\nF = sr.factor(A)\nF._analysis.order",
        "from semiring.kernels.cpu import first_calls\nfirst_calls.SECONDS = 0.0",
        "from semiring.closures.plan import Plan\nPlan.run = print",
        "from semiring import mpi\nmpi.METHODS['x'] = print",
        "from semiring.kernels.cuda import streams\ndel streams.recordings",
        "setattr(x, 'y', 1)",
        "getattr(x, '_y', 1)",
        "from importlib import import_module\nimport_module('semiring.closures.files').SYSTEM",
    ],
)
def test_what_is_private_is_seen(source):
    assert list(offences(ast.parse(source)))


def imported_packages():
    """Yield the packages that the sources import, except Python's own and those of this repository."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield (node.module or "").partition(".")[0]


def installed_by(extra, project):
    """Return the distributions of an extra, including those of the extras that it names."""
    for requirement in project["optional-dependencies"][extra]:
        name = re.match(r"[\w.-]+", requirement)[0]
        if name == project["name"]:
            for inner in re.search(r"\[(.*?)\]", requirement)[1].split(","):
                yield from installed_by(inner, project)
        else:
            yield name.lower()


def test_packages_that_dev_does_not_install_are_listed_with_the_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dependencies = {re.match(r"[\w.-]+", each)[0].lower() for each in project["dependencies"]}
    dev = dependencies | set(installed_by("dev", project)) | {"llvmlite"}  # which Numba brings
    own = {"benchmarks", "semiring", "tools", "cupyx", *sys.stdlib_module_names}
    needed = set(imported_packages()) - own
    named = {module: DISTRIBUTIONS.get(module, module) for module in needed}
    assert {module for module, name in named.items() if name not in dev} <= set(OPTIONAL)
    assert not {module for module in OPTIONAL if DISTRIBUTIONS.get(module, module) in dev}
    assert all(package.reason and package.install for package in OPTIONAL.values())


HELP = """
import contextlib, io, sys
from importlib import import_module
from importlib.machinery import PathFinder

REQUIRED = {"benchmarks", "llvmlite", "mpmath", "numba", "numpy", "platformdirs", "scipy", "semiring", "sympy", "tools"}

class OnlyRequired(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.partition(".")[0]
        known = top in REQUIRED or top in sys.stdlib_module_names or top.startswith("_")
        return super().find_spec(name, path, target) if known else None

sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not PathFinder] + [OnlyRequired]
for module in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            import_module(module).main(["--help"])
        except SystemExit as ended:
            assert ended.code == 0, module
    print("\x1d" + module + "\x1e" + printed.getvalue())
"""


def test_help_describes_every_benchmark_and_its_tables_without_optional_packages():
    command = [sys.executable, "-c", HELP, *MODULES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = dict(part.split("\x1e") for part in done.stdout.split("\x1d")[1:])
    assert list(said) == MODULES
    for module, text in said.items():
        assert text.startswith(f"usage: python -m {module} "), module
        described, _, arguments = text.partition("positional arguments:")
        assert len(described.partition("\n\n")[2].split()) > 10, f"{module} is not described"
        named = re.search(r"TABLE\s+of ([\w\s,-]+);\s+without\s+one", arguments)
        assert named, module
        assert all(name.strip() for name in named[1].split(",")), module


@pytest.mark.full
@pytest.mark.parametrize("module", ["benchmarks.classical", "benchmarks.mpi"])
def test_help_by_the_command(module):
    done = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m {module}")
