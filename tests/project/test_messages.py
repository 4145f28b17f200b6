"""Test that every argument of a wrong kind is refused by this library, in a short and printable message."""

from __future__ import annotations

import ast
import functools
import inspect
import traceback
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import semiring as sr
from semiring.advice import quote

REAL = np.array([[0.0, 2.0], [3.0, 0.0]])
BITS = np.array([[False, True], [False, False]])
LONG = "x\u202e\x1b[31m" + "x" * 3000

WRONG = {
    **{"number": 1, "negative": -1, "fraction": 1.5, "large": 10**12, "immense": 10**5000, "text": "ab", "long": LONG},
    **{"list": [], "pair": (1, 7), "mapping": {}, "ragged": [[1, 2], [3]], "deep": np.zeros((1,) * 33)},
    **{
        "array": REAL,
        "truths": BITS,
        "frame": sr.as_network([("a", "b", 1.0)]),
        "object": object(),
        "complex": 1j,
        "bytes": b"x",
        "texts": ["a", "b"],
        "fractions": [1.0, 2.0],
    },
}

#: A call of public functions whose arguments are replaced, one at a time.
CALLS = {
    **dict.fromkeys(("add", "matmul", "multiply", "fixed_point", "blas.axpy", "blas.gemm"), (REAL, REAL)),
    **dict.fromkeys(("blas.dot", "blas.ger"), (REAL[0], REAL[0])),
    **dict.fromkeys(("closure", "factor", "reduce", "shortest_paths", "widest_paths", "pack", "Paths"), (REAL,)),
    **dict.fromkeys(("transitive_closure", "condensation", "transitive_reduction"), (BITS,)),
    **dict.fromkeys(("multi_dot", "scan"), (REAL[None],)),
    **{
        "blas.axpy": (1.0, REAL, REAL),
        "blas.gemv": (REAL, REAL[0]),
        "power": (REAL, 2),
        "Paths": (REAL, "min_plus"),
        "einsum": ("ij,jk", REAL, REAL),
    },
    **{"zeros": ((2, 2),), "identity": (2,), "as_semiring": ("min_plus",), "as_network": ([(0, 1, 2.0)],)},
    **{"Semiring": ("s", "min(x, y)", "x + y", "inf", 0), "set_threads": (1,), "data.load_network": ("metro",)},
    **{"min_plus.check_dtype": ("float64",), "min_plus.zero_for": ("float64",), "BitMatrix.identity": (2,)},
    **{
        "plot.layout": (BITS,),
        "plot.plot_fill": (sr.factor(REAL),),
        "plot.plot_network": (REAL,),
        "plot.plot_matrix": (REAL,),
    },
    **{"best_paths": (REAL,), "spectral.eigen": (REAL,)},
    **{"update": (np.ones((2, 2)), np.ones((2, 2)), 0, 1, 2.0)},
    **{"centrality.edge_betweenness": (REAL,), "centrality.closeness": (REAL,)},
    **{"spectral.cycle_mean": (REAL,), "spectral.residuate": (REAL, REAL), "testing.check_path": (REAL, [0, 1])},
    **{
        "testing.uniform_graph": (4, 1),
        "testing.path_graph": (3,),
        "testing.dag": (4, 1),
        "testing.grid_graph": (2, 2),
    },
    **{"testing.check_closure": (REAL, REAL), "testing.closable_matrices": ("min_plus",)},
}
# A callback may raise what it likes, and the truth of these flags is never in doubt.
UNCHECKED = {
    "progress",
    "integer",
    "sparse",
    "shuffle",
    "seconds",
    "rtol",
    "layouts",
    "distance",
    "source",
    "target",
}


@functools.cache
def raising_lines(file: str) -> set[int]:
    tree = ast.parse(Path(file).read_text())
    raises = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return {line for node in raises for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_messages_for_wrong_arguments_are_ours(name):
    """The error comes from a ``raise`` of this package, and its message is short and printable."""
    function, given = attrgetter(name)(sr), CALLS[name]
    places = list(inspect.signature(function).parameters.values())
    for place, parameter in enumerate(places):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in UNCHECKED:
            continue
        for wrong, value in WRONG.items():
            arguments = (*given[:place], value, *given[place + 1 :]) if place < len(given) else given
            options = {} if place < len(given) else {parameter.name: value}
            try:
                function(*arguments, **options)
            except Exception as error:
                where, message = traceback.extract_tb(error.__traceback__)[-1], str(error)
                call = f"{name}({parameter.name}={wrong}): {message[:200]!r}"
                assert where.lineno in raising_lines(where.filename), call
                assert Path(sr.__file__).parent in Path(where.filename).parents, call
                assert message.replace("\n", "").isprintable(), call
                assert len(message) < 1200, call
    sr.set_threads(None)


def test_quotations_are_short_and_printable():
    for x in (LONG, [LONG] * 500, np.zeros((50, 50)), 10**5000, {LONG: LONG}, object()):
        assert quote(x).isprintable()
        assert len(quote(x)) < 400


@pytest.mark.parametrize(
    "call",
    [
        lambda: sr.scan(REAL, steps=10**12),
        lambda: sr.zeros((10**7, 10**7)),
        lambda: sr.identity(10**12),
        lambda: sr.matmul(np.zeros((10**7, 1)), np.zeros((1, 10**7))),
        lambda: sr.add(np.zeros((10**7, 1)), np.zeros((1, 10**7))),
        lambda: sr.blas.ger(np.zeros(10**7), np.zeros(10**7)),
        lambda: sr.matmul(np.zeros((10**7, 1)), np.zeros((1, 10**7)), return_witness=True),
    ],
)
def test_results_larger_than_memory_are_refused_before_the_work(call):
    with pytest.raises(sr.TooLargeError, match=r"TiB|GiB"):
        call()


@pytest.mark.parametrize(("sizes", "largest"), [(3, 3), ((1, 7), 7)])
def test_the_sizes_of_closable_matrices_are_a_number_or_a_range(sizes, largest):
    from hypothesis import find

    matrix = find(sr.testing.closable_matrices("min_plus", sizes=sizes), lambda A: len(A) == largest)
    assert matrix.shape == (largest, largest)


@pytest.mark.parametrize("package", ["io", "graphs", "paths", "closures", "sparse"])
def test_packages_that_are_not_public_name_what_is(package):
    """An attribute that exists only after another call would work in one script, and fail in the next."""
    with pytest.raises(AttributeError, match=rf"semiring\.{package} is not public: call semiring\.\w+"):
        sr.__getattr__(package)
