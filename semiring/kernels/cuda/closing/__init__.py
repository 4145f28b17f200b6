"""Closures in CUDA C++, compiled by NVRTC through CuPy: blocks in one launch, and whole matrices.

From the bottom up: `printer` turns expressions into CUDA C++, `sources` puts them in front of a ``.cu`` file of this
folder, `modules` compiles, `blocks` is the contract's `close_block`, `barriers` keeps the words by which thread blocks
meet, `stacks` closes many matrices at once, `look_ahead` one in one launch, `limits` says what fits a device. `papers`
has the kernels of other authors.
"""

from __future__ import annotations

from semiring.kernels.cuda.closing.blocks import close_block, fast_rows
from semiring.kernels.cuda.closing.limits import fits
from semiring.kernels.cuda.closing.look_ahead import close
from semiring.kernels.cuda.closing.sources import arithmetic_of

__all__ = ["arithmetic_of", "close", "close_block", "fast_rows", "fits"]
