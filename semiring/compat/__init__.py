"""Replace functions of other libraries in scripts with one changed line, or none.

`semiring.compat.csgraph` replaces `scipy.sparse.csgraph`, and `semiring.compat.networkx` is a backend to which NetworkX
dispatches. Both use the conventions of these libraries: 0 in a dense array of csgraph is no edge.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semiring.compat import csgraph, networkx

__all__ = ["csgraph", "networkx"]


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
