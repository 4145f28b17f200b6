"""``semiring info``."""

from __future__ import annotations

import argparse
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from semiring.algebra import DTYPES
from semiring.algebra.catalogue import CATALOGUE
from semiring.algorithms.methods import METHODS
from semiring.arrays.device.memory import load_cupy
from semiring.cli.common import Report
from semiring.errors import DeviceError, SemiringError
from semiring.kernels import BACKENDS, DEVICE_BACKENDS, get_backend
from semiring.kernels.disk import cache_folder, refusal
from semiring.threads import get_threads

__all__ = ["run", "version"]

PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "sympy", "matplotlib")
GPU_PACKAGES = ("cupy", "cuda-bindings", "nvidia-cutlass-dsl", "ml_dtypes")
_CUPY = ("cupy", "cupy-cuda13x", "cupy-cuda12x")  # its distributions: one for each version of CUDA


def version(package: str) -> str:
    """The installed version of a package, or why there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from a source tree" if package == "semiring" else "not installed"


def run(arguments: argparse.Namespace) -> int:
    """Print versions, devices, threads, caches, backends, methods, and which semiring is defined on which dtype."""
    report = Report(None)
    report(f"semiring {version('semiring')}")
    report.table(
        [
            ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
            *((package, version(package)) for package in PACKAGES),
            *((package, _cupy() if package == "cupy" else version(package)) for package in GPU_PACKAGES),
        ]
    )
    report("", "devices")
    report.table([("CPU", _cpu()), *_gpus()])
    report("", "settings")
    given = os.environ.get("NUMBA_NUM_THREADS")
    source = f"NUMBA_NUM_THREADS={given}" if given else "the cores this process may use"
    report.table([("threads", f"{get_threads()} ({source})"), ("cache", _cache()), ("speed data", _machine())])
    report("", "backends")
    backends = {name: _backend(name) for name in (*BACKENDS, *DEVICE_BACKENDS)}
    report.table([(name, "ready" if not isinstance(found, str) else found) for name, found in backends.items()])
    report("", "methods of closure", f"  {', '.join(METHODS)}")
    report(
        "", "semirings and dtypes (● compiled kernels, ○ NumPy only, · not defined; a GPU adds float16 and bfloat16)"
    )
    compiled = [name for name in BACKENDS if name != "reference"]
    _matrix(report, [backends[name] for name in compiled if not isinstance(backends[name], str)])
    return 0


def _cupy() -> str:
    return next((f"{version(name)} ({name})" for name in _CUPY if version(name) != "not installed"), "not installed")


def _gpus() -> list[tuple[str, str]]:
    """Each GPU with its memory, compute capability and driver; or why there is none."""
    try:
        runtime = load_cupy().cuda.runtime
    except DeviceError as error:
        return [("GPU", f"none ({error})")]
    driver = runtime.driverGetVersion()
    drivers = f"driver for CUDA {driver // 1000}.{driver % 1000 // 10}"
    try:
        text = Path("/proc/driver/nvidia/version").read_text("ascii")
        drivers = (
            f"driver {next(word for word in text.split() if word[:1].isdigit())} ({drivers.removeprefix('driver ')})"
        )
    except (OSError, StopIteration, UnicodeDecodeError):
        pass
    found = []
    for number in range(runtime.getDeviceCount()):
        properties = runtime.getDeviceProperties(number)
        name, memory = properties["name"].decode(), properties["totalGlobalMem"] / 2**30
        capability = f"sm_{properties['major']}{properties['minor']}"
        found.append((f"GPU {number}", f"{name}, {memory:.0f} GiB, {capability}, {drivers}"))
    return found


def _cpu() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = f"{cores} core{'s' * (cores != 1)}"
    try:
        from semiring.kernels.cpu.codegen.target import host

        target = host()
    except ImportError:
        return count
    vectors = f"{8 * target.vector_bytes}-bit vectors"
    return f"{target.cpu or platform.machine()}, {count}, {vectors}"


def _cache() -> str:
    try:
        folder = cache_folder()
    except RuntimeError as error:
        return f"none ({error})"
    if folder is None:
        return "none (SEMIRING_CACHE_DIR is empty)"
    try:
        if folder.exists() and (reason := refusal(folder)):
            return f"{folder} (refused: {reason})"
        sizes = [entry.stat().st_size for entry in folder.glob("*.kernel")]
    except OSError as error:
        return f"{folder} ({error.strerror})"
    return f"{folder} ({len(sizes)} kernels, {sum(sizes) / 2**20:.1f} MiB)"


def _machine() -> str:
    """Which file of speed data is in use."""
    try:
        from semiring.kernels.machines import cpu_machine

        machine = cpu_machine()
    except ImportError as error:
        return f"none ({error})"
    return f"{machine.name}, measured {machine.measured} ({machine.source})"


def _backend(name: str) -> Any:
    try:
        if name in DEVICE_BACKENDS:
            load_cupy()
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
