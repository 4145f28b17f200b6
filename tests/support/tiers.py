"""Choose the cases of a test that belong to the quick tier; its remaining cases are marked ``full``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def quick(chosen: Callable[..., bool], cases: Iterable[Any]) -> list[Any]:
    """Return the cases for ``parametrize``; those for which ``chosen`` is false are marked ``full``."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*values, marks=() if chosen(*values) else pytest.mark.full) for values in rows]
