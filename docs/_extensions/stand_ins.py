"""Provide stand-ins for PyTorch and JAX if they are not installed: the site is built without their two gigabytes.

The modules that need these libraries are imported for their docstrings alone. So an attribute, a call and a decorated
function (the public functions are not decorated) are all the same class.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Any(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls


class Anything(metaclass=_Any):
    """The stand-in for every object of a missing module."""


Anything.__module__, Anything.__name__ = "typing", "Any"  # signatures show this name


class _Module(ModuleType):
    __path__: list[str] = []  # noqa: RUF012  # a package, so that its submodules can be imported

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.names else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install(*names: str) -> None:
    """Provide a stand-in for each of these modules that is missing."""
    if missing := {name for name in names if find_spec(name) is None}:
        sys.meta_path.append(_Finder(missing))
