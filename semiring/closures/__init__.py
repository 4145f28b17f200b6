"""Compute closures: the function `closure`, its front ends, its planner and the rules.

`front_ends` convert the operand to a `Call` on an array. The `planner` asks questions about the entries, and finds the
`Plan` by the `rules`. A plan reads the entries through maps (`matrix`), runs a method (`method_run`) and undoes the
maps.
"""

from semiring.closures.api import METHODS, closure, closure_of_rounded, closure_with_predecessors
from semiring.closures.explanation import Explanation

__all__ = ["METHODS", "Explanation", "closure", "closure_of_rounded", "closure_with_predecessors"]
