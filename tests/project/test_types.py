"""Test what an editor shows: public names, and functions whose results are not of type Any."""

from __future__ import annotations

import inspect
import operator
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import semiring as sr
from semiring import errors
from semiring.closures import closure
from semiring.kernels import code_store
from semiring.linalg.products import matmul

PROGRAM = """
from typing import assert_type
import numpy as np
from numpy.typing import NDArray
from typing import Any
import semiring as sr
from semiring.closures.explain import Explanation
from semiring.linalg.contraction.plans import ContractionPlan
from semiring.linalg.product_explanation import ProductExplanation
from semiring.sparse.factorization import FactorExplanation
from semiring.sparse.factorization import Factor

A = np.zeros((3, 3))
assert_type(sr.closure(A), NDArray[Any])
assert_type(sr.closure([[0.0, 1.0], [2.0, 0.0]], "max_min", threads=1), NDArray[Any])
assert_type(sr.closure(A, explain=True), tuple[NDArray[Any], Explanation])
assert_type(sr.closure(sr.pack(A > 0), sr.boolean), sr.BitMatrix)
assert_type(sr.matmul(A, A), NDArray[Any])
assert_type(sr.matmul(A, A, return_witness=True), tuple[NDArray[Any], NDArray[Any]])
assert_type(sr.matmul(sr.pack(A > 0), sr.pack(A > 0), "boolean"), sr.BitMatrix)
assert_type(sr.matmul(A, A, explain=True), tuple[Any, ProductExplanation])
assert_type(sr.multi_dot(A, explain=True), tuple[Any, ProductExplanation])
assert_type(sr.einsum("ii", A, explain=True), tuple[Any, ContractionPlan])
assert_type(sr.factor(A), Factor)
assert_type(sr.factor(A, explain=True), tuple[Factor, FactorExplanation])
assert_type(sr.shortest_paths(A), sr.Paths)
assert_type(sr.shortest_paths(A, explain=True), tuple[sr.Paths, Explanation])
assert_type(sr.best_paths(A, "max_min", explain="full"), tuple[sr.Paths, Explanation])
assert_type(sr.transitive_closure(A > 0, reflexive=False), sr.Paths)
assert_type(sr.transitive_closure(A > 0, explain=True), tuple[sr.Paths, Explanation])
"""


REAL = np.ones((2, 2))
BITS = np.array([[False, True], [False, False]])

#: The names of the package, without the semirings of the catalogue.
PUBLIC = """
CATALOGUE METHODS BitMatrix Network Paths Semiring add as_network as_semiring best_paths closure condensation
einsum einsum_path factor fixed_point get_threads identity k_shortest_paths longest_paths matmul most_reliable_paths
multi_dot multiply pack power precompile profile read reduce scan set_threads shortest_paths threads transitive_closure
transitive_reduction update widest_paths write zeros
"""


def test_the_public_names_are_these():
    assert sorted(sr.__all__) == sorted([*PUBLIC.split(), *sr.CATALOGUE])
    assert all(getattr(sr, name) is getattr(errors, name) for name in errors.__all__)


#: A call of each function that computes.
COMPUTING = {
    "add": (REAL, REAL),
    "best_paths": (BITS, "boolean"),
    "closure": (BITS, "boolean"),
    "einsum": ("ij,jk", REAL, REAL),
    "factor": (BITS, "boolean"),
    "fixed_point": (BITS, BITS, "boolean"),
    "longest_paths": (np.full((2, 2), -np.inf),),
    "matmul": (BITS, BITS, "boolean"),
    "most_reliable_paths": (np.zeros((2, 2)),),
    "multi_dot": (REAL[None],),
    "multiply": (REAL, REAL),
    "power": (BITS, 2, "boolean"),
    "reduce": (BITS, "boolean"),
    "scan": (REAL[None],),
    "shortest_paths": (REAL,),
    "condensation": (BITS,),
    "transitive_closure": (BITS,),
    "transitive_reduction": (BITS,),
    "update": (np.zeros((2, 2)), np.zeros((2, 2)), 0, 1, 0.0),
    "widest_paths": (REAL,),
    "blas.axpy": (1.0, REAL, REAL),
    "blas.dot": (REAL[0], REAL[0]),
    "blas.gemm": (REAL, REAL),
    "blas.gemv": (REAL, REAL[0]),
    "blas.ger": (REAL[0], REAL[0]),
}
NOT_COMPUTING = """
CATALOGUE METHODS BitMatrix Network Paths Semiring as_network as_semiring
einsum_path get_threads identity pack
precompile profile read set_threads threads write zeros
"""
ITERATORS = {"k_shortest_paths"}  # one thread of the host computes each item when it is requested


@pytest.mark.parametrize("name", COMPUTING)
def test_every_function_that_computes_takes_the_common_options(name):
    """It accepts ``threads``, ``check`` and ``device``, and refuses values that they cannot have."""
    function, arguments = operator.attrgetter(name)(sr), COMPUTING[name]
    function(*arguments, threads=1, check=True, device=None)
    for option, wrong in (("threads", 0), ("check", "no"), ("device", "no such GPU")):
        with pytest.raises((TypeError, ValueError, sr.SemiringError), match=f"{option}|no such GPU|GPU"):
            function(*arguments, **{option: wrong})


def test_no_function_that_computes_is_missing():
    assert {*PUBLIC.split(), *(f"blas.{name}" for name in sr.blas.__all__)} == {
        *COMPUTING,
        *NOT_COMPUTING.split(),
        *ITERATORS,
    }


def test_only_public_names_are_listed():
    modules = {"blas", "centrality", "compat", "data", "extend", "jax", "mpi", "plot", "spectral", "testing", "torch"}
    assert set(dir(sr)) - set(sr.__all__) - set(errors.__all__) <= modules
    assert set(sr.__all__) <= set(dir(sr))
    for name in ("Any", "TYPE_CHECKING", "scatter", "entries", "import_module"):
        assert name not in dir(sr)


@pytest.mark.parametrize("heavy", [False, pytest.param(True, marks=pytest.mark.full)], ids=["small", "torch and jax"])
def test_what_is_listed_is_there(heavy):
    libraries = {"torch", "jax"} & set(dir(sr))  # they take seconds to import
    for name in libraries if heavy else set(dir(sr)) - libraries:
        assert getattr(sr, name) is not None


@pytest.mark.parametrize(("function", "options"), [(closure, "_ClosureOptions"), (matmul, "_ProductOptions")])
def test_results_are_overloaded(function, options):
    original = inspect.unwrap(function)
    names = set(inspect.signature(original).parameters)
    overloads = typing.get_overloads(original)
    assert {"BitMatrix", "NDArray[Any]"} <= {each.__annotations__["return"] for each in overloads}
    taken = getattr(sys.modules[original.__module__], options).__annotations__
    assert set(taken) == names - {"A", "B", "semiring", "return_witness", "explain"}, (
        "the overloads take what the function takes"
    )


@pytest.mark.full
def test_a_type_checker_knows_what_comes_out(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        f"--cache-dir={(code_store.cache_folder() or tmp_path) / 'mypy'}",
        "--follow-imports=silent",
        str(tmp_path / "program.py"),
    ]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
