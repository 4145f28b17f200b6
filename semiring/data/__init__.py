"""Real networks that come with the library; DATA.md beside this file states their sources and licences."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from typing import Any

from semiring.algebra import Semiring
from semiring.errors import UnknownNameError
from semiring.io import Network, read, with_positions

__all__ = ["NETWORKS", "load_network"]

#: Name and content of each network.
NETWORKS = {
    "us-flights": "352 airports of the United States and the 6,022 flight connections between them in July 2026, in km",
}


def load_network(name: str, semiring: Semiring | str | None = None, *, dtype: Any = None) -> Network:
    """Return a network that comes with the library, with names, labels and positions of its vertices.

    Parameters
    ----------
    name : str
        The name of the network: ``"us-flights"``.
    semiring : Semiring or str, optional
        The semiring, whose zero fills the entries without an edge. The default is min-plus.
    dtype : dtype, optional
        The dtype of the matrix, as in `read`. The default is float64, or the nearest dtype of the semiring.

    Returns
    -------
    Network
        The network, with its unit and its title.

    Raises
    ------
    UnknownNameError
        For another name. The message lists the available networks.
    DTypeError
        If the semiring is not defined on the dtype.

    Examples
    --------
    >>> flights = load_network("us-flights")
    >>> flights.matrix.shape, flights.unit, flights.names[:3], flights.labels[:3]
    ((352, 352), 'km', ('ABE', 'ATL', 'BNA'), ('Allentown/Bethlehem', 'Atlanta', 'Nashville'))
    """
    if not isinstance(name, str) or name not in NETWORKS:
        raise UnknownNameError("network", name, NETWORKS)
    folder = files("semiring.data")
    with as_file(folder / f"{name}.csv") as edges, as_file(folder / f"{name}.positions.csv") as positions:
        return replace(with_positions(read(edges, semiring, dtype=dtype), positions), title=name)
