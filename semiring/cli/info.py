"""``semiring info``."""

from __future__ import annotations

import argparse
import os
import platform
from importlib import metadata
from typing import Any

import numpy as np

from semiring.algebra import DTYPES
from semiring.catalogue import CATALOGUE
from semiring.cli.common import Report
from semiring.errors import SemiringError
from semiring.kernels import BACKENDS, get_backend
from semiring.threads import get_threads

__all__ = ["run", "version"]

PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "sympy", "matplotlib")


def version(package: str) -> str:
    """The installed version of a package, or why there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from a source tree" if package == "semiring" else "not installed"


def run(arguments: argparse.Namespace) -> int:
    """Print versions, devices, threads, caches, backends, and which semiring is defined on which dtype."""
    report = Report(None)
    report(f"semiring {version('semiring')}")
    report.table(
        [
            ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
            *((package, version(package)) for package in PACKAGES),
        ]
    )
    report("", "devices")
    report.table([("CPU", _cpu()), ("GPU", "none")])
    report("", "settings")
    given = os.environ.get("NUMBA_NUM_THREADS")
    source = f"NUMBA_NUM_THREADS={given}" if given else "the cores this process may use"
    report.table([("threads", f"{get_threads()} ({source})"), ("cache", _cache())])
    report("", "backends")
    backends = {name: _backend(name) for name in BACKENDS}
    report.table([(name, "ready" if not isinstance(found, str) else found) for name, found in backends.items()])
    report("", "semirings and dtypes (● compiled kernels, ○ NumPy only, · not defined)")
    _matrix(report, [found for name, found in backends.items() if name != "reference" and not isinstance(found, str)])
    return 0


def _cpu() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = f"{cores} core{'s' * (cores != 1)}"
    try:
        from semiring.kernels.cpu.target import host

        target = host()
    except ImportError:
        return count
    vectors = f"{8 * target.vector_bytes}-bit vectors"
    return f"{target.cpu or platform.machine()}, {count}, {vectors}"


def _cache() -> str:
    try:
        from semiring.kernels.cpu.cache import cache_folder

        folder = cache_folder()
    except (ImportError, RuntimeError) as error:
        return f"none ({error})"
    if folder is None:
        return "none (SEMIRING_CACHE_DIR is empty)"
    try:
        sizes = [entry.stat().st_size for entry in folder.glob("*.kernel")]
    except OSError as error:
        return f"{folder} ({error.strerror})"
    return f"{folder} ({len(sizes)} kernels, {sum(sizes) / 2**20:.1f} MiB)"


def _backend(name: str) -> Any:
    try:
        return get_backend(name)
    except (ImportError, SemiringError) as error:
        return f"not available: {error}"


def _matrix(report: Report, compiled: list[Any]) -> None:
    width = max(map(len, CATALOGUE))
    report(f"  {'':<{width}}  {'  '.join(DTYPES)}")
    for name, semiring in CATALOGUE.items():
        marks = []
        for dtype in DTYPES:
            fast = any(backend.supports(semiring, np.dtype(dtype)) for backend in compiled)
            mark = "·" if dtype not in semiring.dtypes else "●" if fast else "○"
            marks.append(f"{mark:<{len(dtype)}}")
        report(f"  {name:<{width}}  {'  '.join(marks)}".rstrip())
