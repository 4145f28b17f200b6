"""Provide the functions and the conversions that NetworkX loads when it first dispatches to this backend.

A function is loaded when it is first called, because NetworkX inspects the functions before every call.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from _semiring_networkx import FUNCTIONS
from _semiring_networkx.choice import can_run, should_run

if TYPE_CHECKING:
    from semiring.compat.networkx.graph import ConvertedGraph

__all__ = ["MODULES", "can_run", "convert_from_nx", "convert_to_nx", "should_run", *FUNCTIONS]

#: The module of each function in `semiring.compat.networkx`.
MODULES = {
    **dict.fromkeys(FUNCTIONS, "all_pairs"),
    **dict.fromkeys(
        [
            "all_pairs_all_shortest_paths",
            "all_shortest_paths",
            "shortest_simple_paths",
            "single_source_all_shortest_paths",
        ],
        "listed_paths",
    ),
    **dict.fromkeys(
        [
            "average_shortest_path_length",
            "barycenter",
            "betweenness_centrality",
            "center",
            "closeness_centrality",
            "diameter",
            "eccentricity",
            "edge_betweenness_centrality",
            "global_efficiency",
            "harmonic_centrality",
            "harmonic_diameter",
            "periphery",
            "radius",
            "wiener_index",
        ],
        "measures",
    ),
}


def _discard_cached_graphs(arguments: tuple[Any, ...]) -> None:
    """Remove converted graphs from NetworkX's cache, which does not notice changes through a graph's dictionaries.

    NetworkX stores a converted graph before it calls a function of the backend. Comparing all edges with the stored
    ones would take about as long as another conversion, O(n + m), and a closure takes longer than both.
    """
    for graph in arguments:
        if getattr(graph, "__networkx_backend__", None) == "semiring":
            cache = getattr(graph.source, "__networkx_cache__", None) or {}
            cache.get("backends", {}).pop("semiring", None)


def _is_required() -> bool:
    """Return whether the call of a function of this backend came with ``backend="semiring"``.

    NetworkX then replaces the message of a `NotImplementedError` by one without the reason. Its functions that call
    backends hold that message in ``extra_message``, and None where NetworkX computes what the backend does not.
    """
    return sys._getframe(2).f_locals.get("extra_message") is not None


def _lazy_function(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        served = getattr(import_module(f"semiring.compat.networkx.{MODULES[name]}"), name)
        _discard_cached_graphs((*args, *kwargs.values()))
        try:
            return served(*args, **kwargs)
        except NotImplementedError as error:
            reason = error
        except TypeError:
            from inspect import signature

            try:
                signature(served).bind(*args, **kwargs)
            except TypeError as error:
                reason = NotImplementedError(f"a parameter that came with a later NetworkX: {error}")
            else:
                raise
        if not _is_required():
            raise reason  # NetworkX computes the result
        from networkx import NetworkXNotImplemented

        raise NetworkXNotImplemented(
            f"the backend 'semiring' does not compute {name} for these arguments: {reason}. Without backend='semiring' "
            "NetworkX computes it"
        ) from reason

    function.__name__ = function.__qualname__ = name
    return function


globals().update({name: _lazy_function(name) for name in FUNCTIONS})


def convert_from_nx(
    graph: Any,
    *,
    edge_attrs: dict[str, Any] | None = None,
    node_attrs: dict[str, Any] | None = None,
    preserve_edge_attrs: bool = False,
    preserve_node_attrs: bool = False,
    preserve_graph_attrs: bool = False,
    name: str | None = None,
    graph_name: str | None = None,
) -> ConvertedGraph:
    """Return vertices, edges and the weights ``edge_attrs`` of a NetworkX graph as arrays, in O(n + m) in Python."""
    from semiring.compat.networkx.graph import ConvertedGraph

    if isinstance(graph, ConvertedGraph):
        return graph
    if not hasattr(graph, "adjacency"):
        raise NotImplementedError(f"{type(graph).__name__} is no graph")
    converted = ConvertedGraph(graph)
    for attribute in edge_attrs or ():
        converted.read(attribute)
    return converted


def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
    """Return the NetworkX graph from which a graph was converted. Other results are those of NetworkX already."""
    return result.source if getattr(result, "__networkx_backend__", None) == "semiring" else result
