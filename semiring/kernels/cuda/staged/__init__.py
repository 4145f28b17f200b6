"""Closures in CUDA C++, compiled by NVRTC through CuPy: blocks in one launch, and the staged Floyd-Warshall kernels.

From the bottom up: `printer` turns expressions into CUDA C++, `sources` puts them in front of a ``.cu`` file of this
folder, `modules` compiles, `blocks` is the contract's `close_block`.
"""

from __future__ import annotations

from semiring.kernels.cuda.staged.blocks import close_block

__all__ = ["close_block"]
