"""Compute potentials, numbers for all vertices under which no weight is below 0, or a cycle that forbids potentials.

With w[i, j] + h[i] - h[j] in place of w[i, j], all paths from i to j change by the same amount, and every cycle keeps
its weight (Johnson 1977). A matrix with weights of both signs is therefore closed under potentials, and its distances
are shifted back.

`reweighting` chooses the potentials of a matrix: those of one elimination (`small_matrices`), or those of the `sweeps`
of Bellman-Ford. Both read its `weights`. `rounding` computes whether rounding under potentials could drown a weight. In
that case `exact_arithmetic` computes them. `scales` are potentials for products, in max-times and min-times.
"""
