"""Modules under their former names: each name is found in the new module, with a `DeprecationWarning`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["forward"]


def forward(old: str, new: str) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a module that moved from ``old`` to ``new``.

    Parameters
    ----------
    old, new
        Dotted names of modules. The module ``new`` is imported when a name is first read.

    Returns
    -------
    callable
        It takes a name and returns what ``new`` has under it. It warns of each name with `DeprecationWarning`, and
        raises `AttributeError` for names that begin with two underscores or that ``new`` does not have.
    """

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        text = f"{old}.{name} is {new}.{name} now; the old name goes in the version after this one"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return value

    return find
