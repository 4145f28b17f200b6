"""Who keeps something that a registered method or rule may change is told when one is registered or forgotten."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["changed", "on_change"]

_told: list[Callable[[], None]] = []


def on_change(forget: Callable[[], None]) -> Callable[[], None]:
    """Call ``forget()`` at every change from now on. Returns it, so that it may stand as a decorator."""
    _told.append(forget)
    return forget


def changed() -> None:
    """Tell everybody that a method or a rule was registered or forgotten."""
    for forget in _told:
        forget()
