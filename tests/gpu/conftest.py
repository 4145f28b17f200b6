"""Provide CuPy to the tests on a GPU."""

from __future__ import annotations

import pytest


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")
