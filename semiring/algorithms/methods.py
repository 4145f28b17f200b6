"""List the algorithms for closures by their names in the literature, and register those of a user.

`ALGORITHMS` is the list from which every closure is chosen. `register_method` adds an algorithm of your own, and so
does an entry point of an installed package::

    [project.entry-points."semiring.methods"]
    series = "package.module:series"

The entry point is a function, or an `Algorithm`. It is imported when its name is first used. So it does not compete
with the algorithms of the library: equal calls would differ before and after. It cannot replace a method that is
registered already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import quote
from semiring.algorithms.algorithm import AUTO, Algorithm, Method, MethodOptions, bind_options, check_backend
from semiring.algorithms.breadth_first_search import BreadthFirstSearch
from semiring.algorithms.components import Components, ComponentsUnderPotentials, ExactPotentials
from semiring.algorithms.dense import DENSE_METHODS, Dense
from semiring.algorithms.johnson import Johnson
from semiring.algorithms.purdom import Purdom
from semiring.algorithms.spanning_tree import SpanningTree
from semiring.algorithms.stacks import OneByOne, SmallLoop, StackTogether
from semiring.algorithms.supernodal import Supernodal
from semiring.algorithms.triangular import Triangular
from semiring.algorithms.undirected import Undirected
from semiring.errors import AlgebraError, MethodError, UnknownNameError
from semiring.kernels.contract import Backend
from semiring.registrations import notify

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ALGORITHMS",
    "METHODS",
    "MethodNames",
    "candidates_in_order",
    "check_method",
    "check_method_options",
    "is_structural",
    "matrix_methods",
    "may_choose",
    "method_named",
    "methods_by_device",
    "methods_for",
    "register_method",
    "takes_edges",
    "unregister_method",
]

_GROUP = "semiring.methods"  # the group of entry points

#: The candidates for every closure. Where costs are equal, the first one is taken.
ALGORITHMS: tuple[Algorithm, ...] = (
    *(SmallLoop(), StackTogether(), OneByOne()),
    *(SpanningTree(), BreadthFirstSearch(), Purdom(), Triangular(), Johnson(), Supernodal()),
    *(ComponentsUnderPotentials(), Components(), Undirected(), ExactPotentials(), Dense()),
)
_NAMES = (
    *("dense", "johnson", "components", "undirected", "spanning_tree", "breadth_first_search", "supernodal"),
    *("purdom", "triangular"),
)
#: The algorithms that a caller may name. Those of stacks and of weights that gain are not named.
_BUILT_IN: tuple[Algorithm, ...] = (
    *DENSE_METHODS,
    *(next(each for each in ALGORITHMS[::-1] if each.name == name) for name in _NAMES),
)
_methods: dict[str, Algorithm] = {
    method.name: method for method in _BUILT_IN
}  # registered and loaded methods are added


_loaded: set[str] = set()  # the names of methods of entry points, which only callers choose


class MethodNames(Collection[str]):
    """The values that ``method=`` accepts: ``"auto"``, and the names of all registered methods."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name == AUTO or name in _methods or name in _find_installed())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((AUTO, *_methods, *_find_installed())))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(tuple(self))


#: The values that ``method=`` accepts.
METHODS = MethodNames()


def register_method(name: str, method: Algorithm | Callable[..., object], **traits: Any) -> Algorithm:
    """Register a closure method of your own, for ``method=name`` in `closure`, the path functions and the command.

    Parameters
    ----------
    name : str
        A name that no method has.
    method : Algorithm or callable
        An `Algorithm`, which then competes with those of the library: it says when it applies and what it costs. Or
        ``close(engine, A)``, a function that closes a matrix A (n, n) in place by the operations of an
        `semiring.kernels.engine.Engine`, for callers who name it. The caller of the method handles names, signs, "no
        path" of integers, stacks, A⁺ and predecessors. The method may raise `AlgebraError` for a semiring that it does
        not close.
    **traits : object
        For a function those of `Method`: ``storages``, ``recorded``, ``apart``, ``needs``, ``options``, ``pairs``,
        ``devices``.

    Returns
    -------
    Algorithm
        The registered method: a function is registered as a `Method`.

    Raises
    ------
    MethodError
        If a method has the name already, ``method`` is no function, or a trait is unknown.

    Examples
    --------
    >>> from semiring.algorithms.rkleene import rkleene
    >>> register_method("mine", lambda engine, A: rkleene(engine, A))
    Method(name='mine', storages=('elements',), recorded=False, needs=())
    >>> "mine" in METHODS
    True
    >>> unregister_method("mine")
    """
    new_method = _make_method(name, method, traits)
    if name in METHODS:
        raise MethodError(f"{name!r} is a closure method already: choose another name")
    _methods[name] = new_method
    notify()
    return new_method


def unregister_method(name: str) -> None:
    """Remove a registered closure method.

    Parameters
    ----------
    name : str
        The name of the method.

    Raises
    ------
    MethodError
        If the method is built in, or the name is unknown.
    """
    if name not in _methods or any(method.name == name for method in _BUILT_IN):
        raise MethodError(f"{name!r} is not a registered closure method")
    del _methods[name]
    _loaded.discard(name)
    notify()


def method_named(name: str, options: MethodOptions = ()) -> Algorithm:
    """Return the algorithm with this name; a `Method` with these options, which it receives when it runs.

    Raises `UnknownNameError`, which lists the valid names, and `MethodError` where an entry point cannot be imported or
    is no method.
    """
    method = _methods.get(name) or _load_method(name)
    return bind_options(method, options) if options and isinstance(method, Method) else method


def check_method_options(name: str, given: Mapping[str, Any] | None) -> MethodOptions:
    """Return the validated ``method_options=`` of the method with this name.

    Raises `TypeError` for anything but a mapping, `MethodError` for options without a method that has some,
    `UnknownNameError` for another option, and `ValueError` for another value.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError(f"method_options is {quote(given)}: give a dict, such as {{'threads': 256}}")
    valid = method_named(name).options if name != AUTO and name in METHODS else {}
    if given and not valid:
        named = {method.name: ", ".join(method.options) for method in _methods.values() if method.options}
        described = "; ".join(f"{method} ({options})" for method, options in named.items())
        raise MethodError(
            f"method={name!r} has no options, and method_options names some: leave them out, or name a "
            f"method that has options: {described}"
        )
    for option in given:
        if option not in valid:
            raise UnknownNameError(f"option of {name}", option, valid)
    return tuple((option, _check_value(name, option, given[option], valid[option])) for option in sorted(given))


def _check_value(name: str, option: str, value: Any, values: Collection[Any]) -> Any:
    """Return the value of an option, as one of its valid values. Raises `ValueError` for another value."""
    own = value.item() if isinstance(value, np.generic) else value
    if isinstance(own, bool | int | str) and own in values and type(own) is type(next(iter(values))):
        return own
    if isinstance(values, range):
        step = f" in steps of {values.step}" if values.step != 1 else ""
        described = f"an integer from {values[0]:,} to {values[-1]:,}{step}"
    else:
        described = " or ".join(map(repr, values))
    raise ValueError(f"the option {option!r} of {name} is {quote(value)}: give {described}")


def candidates_in_order(name: str, options: MethodOptions = ()) -> list[Algorithm]:
    """Return the algorithms that may close a problem of a caller who named a method with options, or "auto".

    The named method comes first. `Algorithm.reason_by_options` excludes others.
    """
    own = [each for name, each in _methods.items() if name not in _loaded and each not in _BUILT_IN]
    registered = [each for each in own if not isinstance(each, Method)]
    named = [] if name == AUTO else [method_named(name, options)]
    return [*named, *(each for each in (*registered, *ALGORITHMS) if each not in named)]


def takes_edges(name: str) -> bool:
    """Return whether the method with this name takes edges; ``"auto"`` does not."""
    return name != AUTO and method_named(name).reads_edges


def is_structural(name: str) -> bool:
    """Return whether the method with this name closes only matrices of graphs with some structure."""
    return name != AUTO and bool(method_named(name).requires)


def may_choose(name: str) -> bool:
    """Return whether a caller of this method leaves the dense method to the library."""
    return name == AUTO or name == Dense.name or is_structural(name)


def matrix_methods() -> list[str]:
    """Return the names of `METHODS`, except methods known to take edges or to need a structure of the graph."""
    entries = [(name, _methods.get(name)) for name in METHODS]
    return [name for name, method in entries if method is None or not (method.reads_edges or method.requires)]


def check_method(name: str, backend: Backend, storage: str) -> None:
    """Raise an error unless the method with this name can run on this backend and storage.

    Raises `DeviceError` if it runs on another device, or the backend lacks an operation that it needs, and
    `AlgebraError` if it needs another storage.
    """
    method = method_named(name)
    check_backend(method, backend, methods_for)
    if storage not in method.storages:
        others = [each.name for each in DENSE_METHODS if storage in each.storages]
        stored = "packed bits" if storage == "bits" else "matrices with one element for each entry"
        raise AlgebraError(f"{name} does not close {stored}: use {', '.join(others[:-1])} or {others[-1]}")


def methods_for(device: str) -> list[str]:
    """Return the names of `METHODS` that run on a device, "cpu" or "cuda", including methods not yet loaded."""
    entries = [(name, _methods.get(name)) for name in METHODS]
    return [name for name, method in entries if method is None or device in method.devices]


def methods_by_device(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names of methods by the devices on which they run, as `UnknownNameError` lists them."""
    names = set(names)
    return {where: sorted(names & set(methods_for(device))) for where, device in _DEVICE_NAMES.items()}


_DEVICE_NAMES = {"on the CPU": "cpu", "on a GPU": "cuda"}


def _make_method(name: str, method: Any, traits: dict[str, Any]) -> Algorithm:
    names = [field.name for field in fields(Method)[2:]]
    unknown = sorted(set(traits) - set(names))
    if unknown:
        raise MethodError(f"a closure method has no trait {', '.join(unknown)}: its traits are {', '.join(names)}")
    if isinstance(method, Method):
        return replace(method, name=name, **traits)
    if isinstance(method, Algorithm):
        if traits or method.name != name:
            raise MethodError(f"an Algorithm has its own traits and name: define them in {type(method).__name__}")
        return method
    return Method(name, method, **traits)


@cache
def _find_installed() -> dict[str, EntryPoint]:
    """Return the entry points of methods of installed packages, by name.

    The search takes some milliseconds, so it runs only for a name that is not registered.
    """
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def _load_method(name: str) -> Algorithm:
    """Load the method of another package, and register it."""
    if name not in _find_installed():
        raise UnknownNameError("closure method", name, METHODS, methods_by_device(METHODS))
    entry = _find_installed()[name]
    try:
        loaded = _methods[name] = _make_method(name, entry.load(), {})
    except Exception as error:  # the code of another package may raise any exception
        raise MethodError(f"the closure method {name!r} cannot be loaded from {entry.value}: {error}") from error
    _loaded.add(name)
    notify()
    return loaded
