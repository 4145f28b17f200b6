"""Run the passes of `kernels.cuda.entries.entry_passes` in NumPy, for tests on stand-ins of arrays on a device."""

from __future__ import annotations

import numpy as np


def replace_beyond(x, bound, replacement, out, *, is_least=True, sign=1):
    assert x.dtype == out.dtype
    beyond = x >= bound if is_least else x <= bound
    with np.errstate(over="ignore"):
        out[...] = np.where(beyond, x.dtype.type(replacement), x.dtype.type(sign) * x)


def negate(x, out):
    assert x.dtype == out.dtype
    np.subtract(x.dtype.type(0), x, out=out)


def clear_zeros(x, out):
    assert x.dtype == out.dtype
    np.add(x, x.dtype.type(0), out=out)


PASSES = (replace_beyond, negate, clear_zeros)


def install(patch, unwrap):
    """Replace the kernels by these functions. ``unwrap`` returns the NumPy array in a stand-in."""
    from semiring.kernels.cuda.entries import entry_passes as kernels

    def on_host(function):
        def call(*arguments, **options):
            function(*map(unwrap, arguments), **options)

        return call

    for function in PASSES:
        patch.setattr(kernels, function.__name__, on_host(function))
