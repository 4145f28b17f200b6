"""How Numba compiles loops: no lock of Python, divisions as the processor's, and no entry that nobody uses.

Numba makes two entries for every function: one for Python, one for C. Each is a function of its own, several times as
long as a short loop's, and all of it is optimised again in every loop that calls the function.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OUTER", "PART"]

#: Of what Python calls.
OUTER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Of what compiled code alone calls: from Python it is no function.
PART: dict[str, Any] = {**OUTER, "no_cpython_wrapper": True}
