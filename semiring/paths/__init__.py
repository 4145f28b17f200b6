"""Best paths between all pairs of vertices: shortest, widest, most reliable, longest, or of a semiring of one's own.

Each function closes a matrix of edge weights and returns `Paths`: the distances, the vertex before each on a best path,
and what follows from them. The paths are simple, and their weights add up to the distance: exactly on integers and
truths and where ⊗ only selects, within n·ε of it in floats (4 n·ε of the largest distance where signs are mixed).
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
