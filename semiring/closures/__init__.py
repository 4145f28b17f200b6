"""Compute closures: the function `closure`, its front ends, and the choice of an algorithm.

`front_ends` convert the operand to a `Problem`. `choose` reads it, and finds the cheapest of the algorithms in
`semiring.algorithms`: each says when it applies, and what it costs. `run` reads the entries through maps (`encodings`),
runs the algorithm and undoes the maps. `explain` prints the cost of each algorithm, or the reason against it.
"""

from semiring.closures.api import METHODS, closure, closure_of_rounded, closure_with_predecessors
from semiring.closures.explain import Explanation

__all__ = ["METHODS", "Explanation", "closure", "closure_of_rounded", "closure_with_predecessors"]
