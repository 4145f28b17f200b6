"""Compute closures in CUDA C++, compiled by NVRTC through CuPy: blocks in one launch, and whole matrices.

The modules build on each other. `printer` prints expressions as CUDA C++, `sources` inserts them into a ``.cu`` file of
this folder, and `modules` compiles it. `blocks` is the contract's `close_block`. `barriers` provides the words of grid
barriers. `stacks` closes many matrices together, `look_ahead` closes one in one launch, and `limits` compares their
shared memory with that of a device. `paper_kernels` has the kernels of other authors.
"""

from __future__ import annotations

from semiring.kernels.cuda.closing.blocks import close_block, fast_rows
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.limits import fits
from semiring.kernels.cuda.closing.look_ahead import close

__all__ = ["arithmetic_of", "close", "close_block", "fast_rows", "fits"]
