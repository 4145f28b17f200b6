"""Dense linear algebra over any semiring: products, closures and shortest paths at the speed of the machine.

>>> import semiring as sr
>>> inf = float("inf")
>>> sr.closure([[0, 3, 8], [inf, 0, 4], [2, inf, 0]], sr.min_plus)
array([[0., 3., 7.],
       [6., 0., 4.],
       [2., 5., 0.]])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semiring import algebra as algebra
    from semiring import blas as blas
    from semiring import centrality as centrality
    from semiring import compat as compat
    from semiring import data as data
    from semiring import errors as errors
    from semiring import extend as extend
    from semiring import jax as jax
    from semiring import mpi as mpi
    from semiring import plot as plot
    from semiring import spectral as spectral
    from semiring import testing as testing
    from semiring import torch as torch
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
    from semiring.algorithms.methods import METHODS
    from semiring.arrays.bits import BitMatrix, pack
    from semiring.closures import closure
    from semiring.errors import *  # noqa: F403
    from semiring.graphs.condensation import condensation
    from semiring.io import Network, as_network, read, write
    from semiring.linalg import add, identity, matmul, multi_dot, multiply, power, reduce, scan, zeros
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
    from semiring.paths.k_shortest import k_shortest_paths
    from semiring.paths.updates import update
    from semiring.precompilation import precompile
    from semiring.profiling import profile
    from semiring.sparse.factorization import factor
    from semiring.sparse.least_solution import fixed_point
    from semiring.thread_counts import get_threads, set_threads, threads

__version__ = "0.3.0"

# Every public name is loaded when it is first read. So an import takes a millisecond, and a call loads what it needs.
_NAMES_BY_MODULE = {
    "semiring.algebra": ("Semiring",),
    "semiring.algebra.catalogue": (
        *("CATALOGUE", "as_semiring", "boolean", "log_plus", "lukasiewicz", "max_min", "max_plus", "max_times"),
        *("min_max", "min_plus", "min_times", "plus_times", "xor_and"),
    ),
    "semiring.algorithms.methods": ("METHODS",),
    "semiring.arrays.bits": ("BitMatrix", "pack"),
    "semiring.closures": ("closure",),
    "semiring.graphs.condensation": ("condensation",),
    "semiring.io": ("Network", "as_network", "read", "write"),
    "semiring.linalg.contraction": ("einsum", "einsum_path"),
    "semiring.linalg.elementwise": ("add", "identity", "multiply", "reduce", "zeros"),
    "semiring.linalg.products": ("matmul", "power"),
    "semiring.linalg.sequences": ("multi_dot", "scan"),
    "semiring.paths.updates": ("update",),
    "semiring.paths": (
        *("Paths", "best_paths", "longest_paths", "most_reliable_paths", "shortest_paths", "transitive_closure"),
        *("transitive_reduction", "widest_paths"),
    ),
    "semiring.paths.k_shortest": ("k_shortest_paths",),
    "semiring.precompilation": ("precompile",),
    "semiring.profiling": ("profile",),
    "semiring.sparse.factorization": ("factor",),
    "semiring.sparse.least_solution": ("fixed_point",),
    "semiring.thread_counts": ("get_threads", "set_threads", "threads"),
}
_MODULES_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

# They are not in __all__: `from semiring import *` would load them all.
_MODULES = ("blas", "centrality", "compat", "data", "extend", "jax", "mpi", "plot", "spectral", "testing", "torch")
_UNLISTED_MODULES = ("algebra", "errors")
#: Packages that are no attributes before another call loads them, and what to read in their place.
_INTERNAL = {
    "io": "call semiring.read, semiring.write and semiring.as_network",
    "graphs": "call semiring.condensation",
    "paths": "call semiring.shortest_paths",
    "closures": "call semiring.closure",
    "linalg": "call semiring.matmul",
    "sparse": "call semiring.factor",
}
_NAMED_AFTER_EXTRAS = ("jax", "torch")


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES or name in _UNLISTED_MODULES:
            # Without its extra, torch or jax raises `MissingExtraError`, from hasattr too: False would hide the remedy.
            return import_module(f"{__name__}.{name}")
        if name in _INTERNAL:
            raise AttributeError(
                f"semiring.{name} is not public: {_INTERNAL[name]}", name=name, obj=import_module(__name__)
            )
        module = _MODULES_BY_NAME.get(name)
        # All errors and warnings are attributes of the package. They are not in __all__.
        if module is None and name.endswith(("Error", "Warning")) and name in _error_names():
            module = "semiring.errors"
        if module is None:
            # With name= and obj= the interpreter suggests a near name.
            raise AttributeError(f"module 'semiring' has no attribute {name!r}", name=name, obj=import_module(__name__))
        value = globals()[name] = getattr(import_module(module), name)
        return value


def _error_names() -> list[str]:
    names: list[str] = import_module("semiring.errors").__all__
    return names


def __dir__() -> list[str]:
    from importlib.util import find_spec

    # Every listed name can be read, as help() and inspect.getmembers() do.
    modules = [name for name in _MODULES if name not in _NAMED_AFTER_EXTRAS or find_spec(name) is not None]
    return sorted([*__all__, *_error_names(), *modules])


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
    "k_shortest_paths",
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
    "precompile",
    "profile",
    "read",
    "reduce",
    "scan",
    "set_threads",
    "shortest_paths",
    "threads",
    "transitive_closure",
    "transitive_reduction",
    "update",
    "widest_paths",
    "write",
    "xor_and",
    "zeros",
]
