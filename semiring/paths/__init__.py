"""Find best paths between all pairs of vertices: shortest, widest, most reliable, longest, or of any own semiring.

Each function closes a matrix of edge weights and returns `Paths`: the distances, and the predecessor of each vertex on
a best path. The paths are simple, and their weights add up to the distance. The sum is exact for integers, for truth
values, and if ⊗ only selects. In floats it is within n·ε of the distance, or within 4 n·ε of the largest distance for
weights of both signs.
"""

from semiring.paths.functions import (
    best_paths,
    longest_paths,
    most_reliable_paths,
    shortest_paths,
    transitive_closure,
    widest_paths,
)
from semiring.paths.reduction import transitive_reduction
from semiring.paths.result import Paths

__all__ = [
    "Paths",
    "best_paths",
    "longest_paths",
    "most_reliable_paths",
    "shortest_paths",
    "transitive_closure",
    "transitive_reduction",
    "widest_paths",
]
