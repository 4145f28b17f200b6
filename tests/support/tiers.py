"""Which cases of a test belong to the quick tier: the first of a kind, so that its module is seen; the rest is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def quick(chosen: Callable[..., bool], cases: Iterable[Any]) -> list[Any]:
    """The cases; all but those that are ``chosen`` are marked slow."""
    several = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*values, marks=() if chosen(*values) else pytest.mark.slow) for values in several]
