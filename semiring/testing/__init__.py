"""Provide the test tools of this library for tests of your own semirings and algorithms.

* `semiring.testing.graphs`: weight matrices, random with an exact number of edges, or structured around a trap;
* `semiring.testing.strategies`: Hypothesis strategies (extra ``testing``) of semirings, elements and matrices, and
  semirings with properties that the catalogue does not have;
* `semiring.testing.laws`: the laws of elements, products and closures, for your semiring and your functions;
* `semiring.testing.checkers`: checks of products, closures, distances, paths and predecessors.

>>> import semiring as sr
>>> from semiring.testing import check_law, check_shortest_paths, uniform_graph
>>> capped = sr.Semiring("capped", add="min(x, y)", mul="min(x + y, 9)", zero=9, one=0, domain=(0, 9))
>>> for law in ("mul_associative", "left_distributive", "annihilation"):
...     check_law(law, capped, [0, 1, 8], [9, 4, 2], [3, 3, 5])
>>> A = uniform_graph(6, 2, integer=True, seed=7)
>>> check_shortest_paths(A, sr.closure(A))
>>> check_shortest_paths(A, A)
Traceback (most recent call last):
    ...
AssertionError: D[0, 0] = inf is the distance of a vertex from itself, which is 0 (6 entries are wrong)
"""

from semiring.testing.checkers import (
    check_closure,
    check_path,
    check_predecessors,
    check_product,
    check_reachability,
    check_shortest_paths,
)
from semiring.testing.graphs import (
    cycle_graph,
    dag,
    grid_graph,
    height_difference_grid,
    path_graph,
    planted_negative_cycle,
    rmat_graph,
    uniform_graph,
    zero_weight_cycles,
)
from semiring.testing.laws import (
    check_closure_law,
    check_law,
    check_matrix_law,
    closure_laws_of,
    laws_of,
    matrix_laws_of,
)
from semiring.testing.strategies import (
    EXAMPLES,
    LAYOUTS,
    closable_matrices,
    elements,
    exact_elements,
    in_layout,
    matrices,
    semirings,
)

__all__ = [
    "EXAMPLES",
    "LAYOUTS",
    "check_closure",
    "check_closure_law",
    "check_law",
    "check_matrix_law",
    "check_path",
    "check_predecessors",
    "check_product",
    "check_reachability",
    "check_shortest_paths",
    "closable_matrices",
    "closure_laws_of",
    "cycle_graph",
    "dag",
    "elements",
    "exact_elements",
    "grid_graph",
    "height_difference_grid",
    "in_layout",
    "laws_of",
    "matrices",
    "matrix_laws_of",
    "path_graph",
    "planted_negative_cycle",
    "rmat_graph",
    "semirings",
    "uniform_graph",
    "zero_weight_cycles",
]
