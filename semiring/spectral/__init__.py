"""Spectral theory of matrices over a semiring: cycle means, eigenvectors, powers, and residuation.

In max-plus the powers of an irreducible matrix grow by λ a step, the greatest mean weight of a cycle. λ is its only
eigenvalue. The critical graph, of the cycles of mean λ, has the eigenvectors and the period of the powers.

Sources: F. Baccelli, G. Cohen, G. J. Olsder, J.-P. Quadrat, "Synchronization and Linearity", 1992; P. Butkovič,
"Max-linear Systems", 2010.
"""

from semiring.spectral.cycle_means import cycle_mean, cycle_ratio
from semiring.spectral.eigenvectors import asymptotics, eigen
from semiring.spectral.residuation import residuate, solve_inequality

__all__ = ["asymptotics", "cycle_mean", "cycle_ratio", "eigen", "residuate", "solve_inequality"]
