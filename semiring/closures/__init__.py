"""Closures: `closure` and what stands behind it.

`front_ends` make a `Call` on an array of what was given. The `planner` asks questions about it and finds its `Plan`, by
the `rules`. A plan reads the entries through maps (`matrix`), runs a method (`method_run`) and undoes the maps.
"""

from semiring.closures.api import METHODS, closure, closure_of_rounded, closure_with_predecessors
from semiring.closures.explanation import Explanation

__all__ = ["METHODS", "Explanation", "closure", "closure_of_rounded", "closure_with_predecessors"]
