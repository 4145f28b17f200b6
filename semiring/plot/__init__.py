"""Plot a network with a path, a closure as a heat map, or the fill of a factor. Needs the extra ``plot``."""

from semiring.plot.drawing import layout, plot_network
from semiring.plot.heat_map import plot_fill, plot_matrix
from semiring.plot.style import save

__all__ = ["layout", "plot_fill", "plot_matrix", "plot_network", "save"]
