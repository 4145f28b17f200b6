"""Call the callbacks that clear caches when a method or a rule is registered or removed."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["notify", "register_callback"]

_callbacks: list[Callable[[], None]] = []


def register_callback(callback: Callable[[], None]) -> Callable[[], None]:
    """Call ``callback()`` after every later change. Return it, so that this function can be a decorator."""
    _callbacks.append(callback)
    return callback


def notify() -> None:
    """Call all callbacks, after a method or a rule was registered or removed."""
    for callback in _callbacks:
        callback()
