"""List the kernels of papers with the options of their methods that change what is compiled."""

from __future__ import annotations

from semiring.kernels.cuda.closing.paper_kernels import KERNELS, PaperKernel

__all__ = ["ALL_STEPS", "VARIANTS", "kernel_with"]

#: The changes from staged load to the look-ahead kernel.
ALL_STEPS = {"slice": 16, "asynchronous": True, "wide": True, "paired": True}

#: Methods with options. Every method occurs without options too.
VARIANTS = (
    *((name, {}) for name in KERNELS),
    *(("bertoldi_cuda", {"threads": threads}) for threads in (32, 1024)),
    *(("katz_kider", options) for options in ({"constants": True}, {"constants": True, "threads": 1024})),
    *(("lund_smith", {name: True}) for name in ("reread", "paired", "asynchronous", "wide")),
    *(("lund_smith", options) for options in ({"slice": 16}, {"cyclic": False}, {"wide": True, "paired": True})),
    ("lund_smith", ALL_STEPS),
    *(("lund_smith_registers", {"staged": True, "cyclic": cyclic}) for cyclic in (False, True)),
    ("gaioso", {"threads": 256}),
)


def kernel_with(variant) -> PaperKernel:
    """Return the kernel of a method with options."""
    name, options = variant
    return KERNELS[name].with_options(**options)
