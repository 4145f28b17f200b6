"""Dense linear algebra over any semiring: products, closures and shortest paths at the speed of the machine.

>>> import semiring as sr
>>> inf = float("inf")
>>> sr.closure([[0, 3, 8], [inf, 0, 4], [2, inf, 0]], sr.min_plus)
array([[0., 3., 7.],
       [6., 0., 4.],
       [2., 5., 0.]])
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from semiring import errors as errors
from semiring.algebra import Semiring
from semiring.algebra.catalogue import (
    CATALOGUE,
    as_semiring,
    boolean,
    log_plus,
    lukasiewicz,
    max_min,
    max_plus,
    max_times,
    min_max,
    min_plus,
    min_times,
    plus_times,
    xor_and,
)
from semiring.arrays.bits import BitMatrix, pack

# All errors and warnings are attributes of the package. They are not in __all__.
from semiring.errors import *  # noqa: F403
from semiring.linalg import (
    add,
    identity,
    matmul,
    multi_dot,
    multiply,
    power,
    reduce,
    scan,
    zeros,
)
from semiring.profiling import profile
from semiring.threads import get_threads, set_threads, threads

if TYPE_CHECKING:
    from semiring import blas as blas
    from semiring import compat as compat
    from semiring import data as data
    from semiring import extend as extend
    from semiring import jax as jax
    from semiring import mpi as mpi
    from semiring import plot as plot
    from semiring import spectral as spectral
    from semiring import testing as testing
    from semiring import torch as torch
    from semiring.algorithms.methods import METHODS
    from semiring.closures import closure
    from semiring.graphs.condensation import condensation
    from semiring.io import Network, as_network, read, write
    from semiring.linalg.contraction import einsum, einsum_path
    from semiring.paths import (
        Paths,
        best_paths,
        longest_paths,
        most_reliable_paths,
        shortest_paths,
        transitive_closure,
        transitive_reduction,
        widest_paths,
    )
    from semiring.sparse.factorization import factor
    from semiring.sparse.least_solution import fixed_point

__version__ = "0.3.0"

# These names are loaded when they are first read, so that an import for products alone stays short.
_LAZY = {
    "METHODS": "semiring.algorithms.methods",
    "closure": "semiring.closures",
    "factor": "semiring.sparse.factorization",
    "fixed_point": "semiring.sparse.least_solution",
    "condensation": "semiring.graphs.condensation",
    "einsum": "semiring.linalg.contraction",
    "einsum_path": "semiring.linalg.contraction",
    "Paths": "semiring.paths",
    "best_paths": "semiring.paths",
    "longest_paths": "semiring.paths",
    "most_reliable_paths": "semiring.paths",
    "shortest_paths": "semiring.paths",
    "transitive_closure": "semiring.paths",
    "transitive_reduction": "semiring.paths",
    "widest_paths": "semiring.paths",
    "Network": "semiring.io",
    "as_network": "semiring.io",
    "read": "semiring.io",
    "write": "semiring.io",
}


# Modules that are loaded when first read. They are not in __all__: `from semiring import *` would load them all.
_MODULES = ("blas", "compat", "data", "extend", "jax", "mpi", "plot", "spectral", "testing", "torch")
#: Packages that are no attributes before another call loads them, and what to read in their place.
_INTERNAL = {
    "io": "call semiring.read, semiring.write and semiring.as_network",
    "graphs": "call semiring.condensation",
    "paths": "call semiring.shortest_paths",
    "closures": "call semiring.closure",
    "sparse": "call semiring.factor",
}
_NAMED_AFTER_EXTRAS = ("jax", "torch")


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            # Without its extra, torch or jax raises `MissingExtraError`, from hasattr too: False would hide the remedy.
            return import_module(f"{__name__}.{name}")
        if name in _INTERNAL:
            raise AttributeError(
                f"semiring.{name} is not public: {_INTERNAL[name]}", name=name, obj=import_module(__name__)
            )
        if name not in _LAZY:
            # With name= and obj= the interpreter suggests a near name.
            raise AttributeError(f"module 'semiring' has no attribute {name!r}", name=name, obj=import_module(__name__))
        value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value


def __dir__() -> list[str]:
    # Every listed name can be read, as help() and inspect.getmembers() do.
    modules = [name for name in _MODULES if name not in _NAMED_AFTER_EXTRAS or find_spec(name) is not None]
    return sorted([*__all__, *errors.__all__, *modules])


__all__ = [
    "CATALOGUE",
    "METHODS",
    "BitMatrix",
    "Network",
    "Paths",
    "Semiring",
    "add",
    "as_network",
    "as_semiring",
    "best_paths",
    "boolean",
    "closure",
    "condensation",
    "einsum",
    "einsum_path",
    "factor",
    "fixed_point",
    "get_threads",
    "identity",
    "log_plus",
    "longest_paths",
    "lukasiewicz",
    "matmul",
    "max_min",
    "max_plus",
    "max_times",
    "min_max",
    "min_plus",
    "min_times",
    "most_reliable_paths",
    "multi_dot",
    "multiply",
    "pack",
    "plus_times",
    "power",
    "profile",
    "read",
    "reduce",
    "scan",
    "set_threads",
    "shortest_paths",
    "threads",
    "transitive_closure",
    "transitive_reduction",
    "widest_paths",
    "write",
    "xor_and",
    "zeros",
]
