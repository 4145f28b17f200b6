"""Test the command lines of the benchmarks: their help needs no optional package, and describes every table."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import table_checks

ROOT = table_checks.FOLDER.parent
MODULES = [*table_checks.scripts(), *table_checks.scripts(table_checks.FOLDER / "gpu")]

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
