"""Potentials: a number for every vertex under which no weight is below 0, or a cycle that forbids them.

With w[i, j] + h[i] - h[j] in place of w[i, j] every path from i to j changes by the same, and every cycle keeps its
weight (Johnson 1977). So a matrix with weights of both signs is closed under potentials, and its distances are shifted
back. `reweighting` says which ones a matrix takes: those of one elimination where it is `small`, else those of the
`sweeps` of Bellman-Ford, both over its `weights`. `rounding` says whether rounding under them could drown a weight;
where it could, they are `exact`. `scales` are the same for products, in max-times and min-times.
"""
