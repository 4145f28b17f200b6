"""Define aliases for renamed modules and classes, which warn with `DeprecationWarning`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["forward", "forward_names"]


def forward(old: str, new: str) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a module that moved from ``old`` to ``new``.

    Parameters
    ----------
    old, new
        Dotted names of modules. The module ``new`` is imported when a name is first read.

    Returns
    -------
    callable
        It takes a name and returns the object of that name in ``new``. It warns of each name with `DeprecationWarning`,
        and raises `AttributeError` for names that begin with two underscores or that ``new`` does not have.
    """

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        text = f"{old}.{name} is {new}.{name} now; the old name goes in the version after this one"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return value

    return find


def forward_names(module: str, names: Mapping[str, str], stacklevel: int = 2) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a module in which some names have changed.

    Parameters
    ----------
    module
        The dotted name of the module.
    names
        The new name in the module for each former name, such as ``"ops.where"`` for a name in a submodule.
    stacklevel
        The argument of `warnings.warn`: 3 if the ``__getattr__`` of the module calls the function.

    Returns
    -------
    callable
        It takes a former name and returns the object of the new name in ``module``. It warns of each former name with
        `DeprecationWarning`, and raises `AttributeError` for all other names.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is {module}.{names[name]} now; the old name goes in the version after this one"
        warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
        submodule, _, new = names[name].rpartition(".")
        return getattr(import_module(f"{module}.{submodule}" if submodule else module), new)

    return find
