"""Run ``semiring precompile``, which compiles kernels before they are needed."""

from __future__ import annotations

import argparse
from time import perf_counter

from semiring.cli.common import Report, defined_semiring
from semiring.errors import SemiringError
from semiring.kernels import code_store
from semiring.precompilation import precompile

__all__ = ["run"]


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Compile the kernels of the named semirings, or of the definition."""
    own = defined_semiring(arguments, "custom")
    semirings = [*arguments.names, *([] if own is None else [own])]
    try:  # nothing is compiled that cannot be stored
        code_store.reserve("precompile", "a test", 0.0)
    except OSError as error:
        folder = code_store.cache_folder()
        raise SemiringError(
            f"kernels cannot be stored in {folder}: {error}; set SEMIRING_CACHE_DIR to another folder"
        ) from None
    code_store.release("precompile", "a test")
    start = perf_counter()
    precompile(*semirings, dtype=tuple(arguments.dtype), calls=tuple(arguments.calls))
    seconds = perf_counter() - start
    report(f"compiled in {seconds:.1f} s; the kernels are in {code_store.cache_folder()}")
    report.add_facts(seconds=seconds, folder=str(code_store.cache_folder()))
    return 0
