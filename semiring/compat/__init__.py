"""Look-alikes of other libraries: change one line, or none, and keep the script.

`semiring.compat.csgraph` stands in for `scipy.sparse.csgraph`, `semiring.compat.networkx` is a backend that NetworkX
dispatches to. Here the conventions are theirs: 0 in a dense array of csgraph is no edge.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semiring.compat import csgraph, networkx

__all__ = ["csgraph", "networkx"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
