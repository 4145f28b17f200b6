"""Plot a network with a path, a closure as a heat map, or the fill of a factor. Needs the extra ``plot``."""

from semiring.plot.fill import plot_fill
from semiring.plot.heat_map import plot_matrix
from semiring.plot.layout import layout
from semiring.plot.network import plot_network
from semiring.plot.style import save

__all__ = ["layout", "plot_fill", "plot_matrix", "plot_network", "save"]
