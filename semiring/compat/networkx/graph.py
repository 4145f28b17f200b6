"""Convert a NetworkX graph to arrays, and choose the device that closes its matrix.

The device is that of ``nx.config.backends.semiring.device``, or is chosen by the size of the graph.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.errors import DeviceError

__all__ = ["LEAST_VERTICES", "ConvertedGraph", "EdgeWeights", "device_for"]

Array: TypeAlias = NDArray[Any]

_INTS = {int, bool, np.int64}
_FLOATS = {float, np.float64}


class _Missing:
    """The marker in place of a weight, for an edge without the attribute of the weights."""


_MISSING = _Missing()


@dataclass(frozen=True)
class EdgeWeights:
    """The weights (m,) of all pairs of neighbours, rows → columns, in both directions if the graph is undirected.

    ``kind`` is the type of the sums that Python computes from them: "int", "float", "mixed", or "other", which has no
    values. ``has_hidden``: whether edges of weight None were left out. ``text``: a weight that is text, or None.
    """

    kind: str
    rows: Array
    columns: Array
    values: Array
    has_hidden: bool = False
    text: str | None = None

    def matrix(self, n: int, dtype: Any, none: Any) -> Array:
        """Return a dense matrix (n, n) of the weights, with ``none`` where there is no edge."""
        dense = np.full((n, n), none, dtype)
        dense[self.rows, self.columns] = self.values
        return dense


class ConvertedGraph:
    """The vertices and edges of a NetworkX graph, numbered in its order.

    Vertices, edges and the weights that NetworkX names are read at the conversion. A call of NetworkX with another
    graph converts that graph for this call alone (`_semiring_networkx.interface`), so it sees every change of it.
    """

    __networkx_backend__ = "semiring"

    def __init__(self, source: Any) -> None:
        self.source = source
        self.nodes: list[Any] = list(source)
        self.directed: bool = source.is_directed()
        self.multigraph: bool = source.is_multigraph()
        index = {node: i for i, node in enumerate(self.nodes)}
        ends = [[index[node] for node in each] for each in self._neighbours()]
        counts = [len(each) for each in ends]
        self.columns: Array = np.fromiter(chain.from_iterable(ends), np.intp, sum(counts))
        self.rows: Array = np.repeat(np.arange(len(index)), counts)
        self._weights: dict[Any, tuple[set[type], EdgeWeights]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.nodes)

    def is_directed(self) -> bool:
        """Return whether the edges have a direction."""
        return self.directed

    def is_multigraph(self) -> bool:
        """Return whether there may be several edges between two vertices."""
        return self.multigraph

    @cached_property
    def names(self) -> Array:
        """The vertices as an object array (n,), which arrays can index."""
        names = np.empty(len(self.nodes), object)
        for i, node in enumerate(self.nodes):  # one by one, because NumPy would read a tuple as a row
            names[i] = node
        return names

    def _neighbours(self) -> list[Mapping[Any, Any]]:
        """Return for each vertex its neighbours with the attributes of the edge, or in a multigraph of each key."""
        adjacency = dict(self.source.adjacency())
        return [adjacency[node] for node in self.nodes]

    # ------------------------------------------------------------------------------------------------- weights

    def read(self, attribute: Any) -> None:
        """Read and cache the weights under the name of an attribute; None does nothing."""
        if attribute is not None and attribute not in self._weights:
            kinds, weights = self._read_weights(attribute)
            self._weights[attribute] = kinds, weights

    def weights(self, weight: Any, default_type: type = int) -> EdgeWeights:
        """Return the weights by an attribute's name, or a function (u, v, attributes) → weight; 1 each for None.

        An edge without the attribute has the weight 1, of the type ``default_type``. Edges of weight None are hidden:
        they are left out, and in a multigraph they make the kind "other". Of parallel edges the lightest counts.
        """
        if weight is None:
            return EdgeWeights(default_type.__name__, self.rows, self.columns, np.ones(self.rows.size, np.int64))
        if callable(weight):
            return self._call_weight_function(weight)
        self.read(weight)
        kinds, weights = self._weights[weight]
        if _Missing not in kinds or weights.kind == "other":
            return weights
        kind = default_type.__name__ if kinds == {_Missing} else _sum_type((kinds - {_Missing}) | {default_type})
        return replace(weights, kind=kind)

    def _call_weight_function(self, weight: Callable[[Any, Any, Any], Any]) -> EdgeWeights:
        raw = [
            weight(node, neighbour, attributes)
            for node, neighbours in zip(self.nodes, self._neighbours(), strict=True)
            for neighbour, attributes in neighbours.items()
        ]
        return _as_weights(set(map(type, raw)), raw, self.rows, self.columns)

    def _read_weights(self, attribute: Any) -> tuple[set[type], EdgeWeights]:
        entries: Iterable[Any] = chain.from_iterable(each.values() for each in self._neighbours())
        rows, columns = self.rows, self.columns
        # A view may have different weights in its two directions, so both are read.
        stored = isinstance(getattr(self.source, "_adj", None), dict)
        once_only = not self.directed and stored
        if once_only:
            once = rows <= columns
            entries = compress(entries, once.tolist())
            rows, columns = rows[once], columns[once]
        if self.multigraph:
            raw, starts = _list_parallel_weights(entries, attribute)
        else:
            raw, starts = [attributes.get(attribute, _MISSING) for attributes in entries], None
        kinds = set(map(type, raw))
        numbers = [1 if value is _MISSING else value for value in raw] if _Missing in kinds else raw
        weights = _as_weights(kinds - {_Missing}, numbers, rows, columns, starts)
        if once_only:
            return kinds, _add_reverse_edges(weights)
        if self.directed:
            return kinds, weights
        return kinds, weights if _is_symmetric(weights) else replace(weights, kind="other", values=np.empty(0))


def _list_parallel_weights(entries: Iterable[Any], attribute: Any) -> tuple[list[Any], Array]:
    """Return the weights of all edges of a multigraph, and where those of each pair of neighbours begin."""
    raw: list[Any] = []
    starts: list[int] = []
    for edges in entries:
        starts.append(len(raw))
        raw.extend(attributes.get(attribute, _MISSING) for attributes in edges.values())
    return raw, np.array(starts, np.intp)


def _sum_type(kinds: set[type]) -> str:
    if kinds <= _INTS:
        return "int"
    if kinds <= _FLOATS:
        return "float"
    return "mixed" if kinds <= _INTS | _FLOATS else "other"


def _as_weights(
    kinds: set[type], raw: list[Any], rows: Array, columns: Array, starts: Array | None = None
) -> EdgeWeights:
    """Return the weights of edges; ``starts``: where the weights of each pair begin, if there may be several."""
    hidden = type(None) in kinds and starts is None
    if hidden:
        has_value = np.fromiter((value is not None for value in raw), np.bool_, len(raw))
        rows, columns, raw, kinds = (
            rows[has_value],
            columns[has_value],
            [x for x in raw if x is not None],
            kinds - {type(None)},
        )
    kind = _sum_type(kinds)
    try:
        values = np.fromiter(raw if kind != "other" else [], np.int64 if kind == "int" else np.float64)
    except OverflowError:
        kind, values = "other", np.empty(0)
    if starts is not None and kind != "other" and starts.size:
        values = np.minimum.reduceat(values, starts)
    text = next((value for value in raw if isinstance(value, str)), None) if kind == "other" else None
    return EdgeWeights(kind, rows, columns, values, hidden, text)


def _is_symmetric(weights: EdgeWeights) -> bool:
    """Return whether both directions have equal weights, which an undirected view of a directed graph may not have."""
    if weights.kind == "other":
        return True
    by_row, by_column = np.lexsort((weights.columns, weights.rows)), np.lexsort((weights.rows, weights.columns))
    return np.array_equal(weights.values[by_row], weights.values[by_column])


def _add_reverse_edges(weights: EdgeWeights) -> EdgeWeights:
    if weights.kind == "other":
        return weights
    rows, columns, values = weights.rows, weights.columns, weights.values
    other = rows != columns
    return EdgeWeights(
        weights.kind,
        np.concatenate([rows, columns[other]]),
        np.concatenate([columns, rows[other]]),
        np.concatenate([values, values[other]]),
        weights.has_hidden,
    )


#: The number of vertices from which a GPU closes the matrix, as `benchmarks.gpu.compat` measures it. Distances are
#: faster from 512 vertices on, but by milliseconds, and the start of CUDA takes up to a second, once. Predecessors are
#: searched on the CPU in any case. Reachability of up to 8,192 vertices gains nothing, because Python makes the graph
#: of the result.
LEAST_VERTICES = {"distances": 2048, "predecessors": 2048, "reachability": 32768}

_GPU_LIBRARIES = ("cupy", "jax_cuda12_plugin", "jax_cuda13_plugin")


def device_for(task: str, n: int) -> Any:
    """Return the ``device=`` of a closure of n vertices for a ``task``, a key of `LEAST_VERTICES`; None for the CPU.

    Raises `DeviceError` if the configuration names no device or, for a graph of such a size, a missing GPU.
    """
    import networkx as nx

    setting = nx.config.backends.semiring.device
    names = [str(name) for name in (setting if isinstance(setting, tuple | list) else (setting,))]
    valid = names and all(re.fullmatch(r"cuda(:\d+)?", name) for name in names)
    if setting not in ("auto", "cpu", "cuda:*") and not valid:
        raise DeviceError(
            f"nx.config.backends.semiring.device is {quote(setting)}: set 'auto', 'cpu', 'cuda', 'cuda:1' or 'cuda:*'"
        )
    if setting == "cpu" or n < LEAST_VERTICES[task] or (setting == "auto" and not _has_loaded_gpu_library()):
        return None
    from semiring.arrays.device import check_device

    device = "cuda" if setting == "auto" else setting
    try:
        check_device(device)
    except DeviceError:
        if setting == "auto":
            return None
        raise
    return device


def _has_loaded_gpu_library() -> bool:
    """Return whether the process has loaded a library of GPUs. Scripts without one do not load CUDA."""
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return cuda is not None or any(name in sys.modules for name in _GPU_LIBRARIES)
