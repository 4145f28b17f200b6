"""Run ``semiring info``, which prints versions, devices and caches."""

from __future__ import annotations

import argparse
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from semiring.algebra import DTYPES, Semiring
from semiring.algebra.catalogue import CATALOGUE
from semiring.algorithms.methods import METHODS, methods_for
from semiring.arrays.device import load_cupy
from semiring.cli.common import Report
from semiring.errors import DeviceError, SemiringError
from semiring.kernels import BACKENDS, DEVICE_BACKENDS, get_backend
from semiring.kernels.code_store import cache_folder, refusal
from semiring.thread_counts import get_threads

__all__ = ["run", "version"]

PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "sympy", "matplotlib")
GPU_PACKAGES = ("cupy", "cuda-bindings", "nvidia-cutlass-dsl", "ml_dtypes")
_CUPY = ("cupy", "cupy-cuda13x", "cupy-cuda12x")  # the distributions of CuPy, one for each version of CUDA


def version(package: str) -> str:
    """Return the installed version of a package, or the reason why there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from a source tree" if package == "semiring" else "not installed"


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Print versions, devices, threads, caches, backends, methods, and the dtypes of each semiring."""
    backends = {name: _load_backend(name) for name in (*BACKENDS, *DEVICE_BACKENDS)}
    setting = os.environ.get("NUMBA_NUM_THREADS")
    source = f"NUMBA_NUM_THREADS={setting}" if setting else "the cores this process may use"
    parts = {
        "packages": {
            "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
            **{package: version(package) for package in PACKAGES},
            **{package: _cupy_version() if package == "cupy" else version(package) for package in GPU_PACKAGES},
        },
        "devices": {"CPU": _describe_cpu(), **dict(_describe_gpus())},
        "settings": {
            "threads": f"{get_threads()} ({source})",
            "cache": _describe_cache(),
            "speed data": _describe_speed_data(),
        },
        "backends": {name: state if isinstance(state, str) else "ready" for name, state in backends.items()},
        "libraries": {"jax": _describe_jax()},
    }
    compiled = [backends[name] for name in BACKENDS if name != "reference" and not isinstance(backends[name], str)]
    marks = {
        name: {dtype: _support_mark(semiring, dtype, compiled) for dtype in DTYPES}
        for name, semiring in CATALOGUE.items()
    }
    report.add_facts(semiring=version("semiring"), **parts, methods=list(METHODS))
    report.add_facts(dtypes={name: {dtype: _MARKS[mark] for dtype, mark in row.items()} for name, row in marks.items()})
    report(f"semiring {version('semiring')}")
    for title, rows in parts.items():
        report(*(() if title == "packages" else ("", title)))
        report.table(list(rows.items()))
    report("", "methods of closure")
    report.table(_group_methods())
    report(
        "", "semirings and dtypes (● compiled kernels, ○ NumPy only, · not defined; float16 and bfloat16 as float32)"
    )
    width = max(map(len, CATALOGUE))
    report(f"  {'':<{width}}  {'  '.join(DTYPES)}")
    for name, row in marks.items():
        report(f"  {name:<{width}}  {'  '.join(f'{mark:<{len(dtype)}}' for dtype, mark in row.items())}".rstrip())
    return 0


def _group_methods() -> list[tuple[str, str]]:
    """Return the methods of closure that run on both devices, on a CPU only and on a GPU only."""
    cpu, gpu = set(methods_for("cpu")), set(methods_for("cuda"))
    groups = {"CPU and GPU": cpu & gpu, "CPU only": cpu - gpu, "GPU only": gpu - cpu}
    return [(where, ", ".join(name for name in METHODS if name in group)) for where, group in groups.items()]


def _describe_jax() -> str:
    """Return how JAX calls the library, or that it is not installed."""
    text = version("jax")
    if text == "not installed":
        return text
    from semiring.autodiff.xla import is_available

    return f"{text}, {'called by XLA on CPUs and NVIDIA GPUs' if is_available() else 'by callbacks on the host'}"


def _cupy_version() -> str:
    return next((f"{version(name)} ({name})" for name in _CUPY if version(name) != "not installed"), "not installed")


def _describe_gpus() -> list[tuple[str, str]]:
    """Return each GPU with its memory, compute capability and driver, or the reason why there is none."""
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
    rows = []
    for number in range(runtime.getDeviceCount()):
        properties = runtime.getDeviceProperties(number)
        name, memory = properties["name"].decode(), properties["totalGlobalMem"] / 2**30
        capability = f"sm_{properties['major']}{properties['minor']}"
        rows.append((f"GPU {number}", f"{name}, {memory:.0f} GiB, {capability}, {drivers}"))
    return rows


def _describe_cpu() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = f"{cores} core{'s' * (cores != 1)}"
    try:
        from semiring.kernels.cpu.codegen.target import host

        target = host()
    except ImportError:
        return count
    vectors = f"{8 * target.vector_bytes}-bit vectors"
    return f"{target.cpu or platform.machine()}, {count}, {vectors}"


def _describe_cache() -> str:
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


def _describe_speed_data() -> str:
    """Return the name of the file of speed data in use."""
    try:
        from semiring.kernels.machines import cpu_machine

        machine = cpu_machine()
    except ImportError as error:
        return f"none ({error})"
    return f"{machine} ({machine.source})"


def _load_backend(name: str) -> Any:
    try:
        if name in DEVICE_BACKENDS:
            load_cupy()
        return get_backend(name)
    except (ImportError, SemiringError) as error:
        return f"not available: {error}"


#: The marks in the table of dtypes, with their meanings.
_MARKS = {"●": "compiled kernels", "○": "NumPy only", "·": None}


def _support_mark(semiring: Semiring, dtype: str, compiled_backends: list[Any]) -> str:
    fast = any(backend.supports(semiring, np.dtype(dtype)) for backend in compiled_backends)
    return "·" if dtype not in semiring.dtypes else "●" if fast else "○"
