"""Front ends: what was given becomes a call on an array, and its result becomes what the caller gets.

A matrix in a file, names of vertices, words of truth values, stored edges, arrays of other libraries and of other
devices: each is taken apart here, and the planner sees a `Call`. The bits are those of the array.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import fewer_paths
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import names_vertices
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import (
    as_output,
    as_result,
    has_adjacent_elements,
    memory_of,
    operands,
    same_memory,
    store,
)
from semiring.arrays.sparse import check_sparse, is_sparse
from semiring.arrays.zero_conventions import warn_of_other_zeros, warn_of_other_zeros_on_device
from semiring.closures.call import Call, Options
from semiring.closures.plan import Plan
from semiring.closures.planner import plan_of
from semiring.closures.request import Request
from semiring.closures.rules.half import stays_float16
from semiring.errors import DivergenceError, DomainError, SemiringError, ShapeError
from semiring.io.inputs import AS_IT_IS, names_file, take
from semiring.kernels import packs
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array
from semiring.out_of_core.stored_matrix import is_npy_name

__all__ = ["close", "close_array", "close_given", "plan_with_warnings"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array


def close_given(request: Request) -> Any:
    """What the caller gets for a request: ``out`` where he gave an array for it.

    Raises `OSError`, `FormatError`, `StorageError` for files; `ShapeError`, `DTypeError`, `DeviceError`; and what the
    closure of the matrix raises.
    """
    result, out = _close(request), request.out
    return result if out is None or is_npy_name(out) else out


def _close(request: Request) -> Any:
    from semiring.closures.files import close_file, refuse_options_of_files, wants_files

    if request.device == "cpu":
        return _close_on_the_host(request)
    if names_file(request.given):
        refuse_options_of_files(request)
        network = request.reading.network_in_file(request.given, request.semiring)
        return _close(replace(request, given=network, reading=AS_IT_IS))
    if wants_files(request):
        return close_file(request, close_given)
    if request.reading != AS_IT_IS or names_vertices(request.given):
        return _close_named(request)
    if _goes_to_a_gpu(request):
        return _close_packed_on_the_way(request)
    if isinstance(request.given, BitMatrix):
        return _close_bits(request, request.given, request.out)
    if request.device is None and is_sparse(request.given):
        return _close_sparse(request)
    return _close_any_array(request)


def plan_with_warnings(call: Call) -> Plan:
    """Return the plan of a call. Warn where edges look as if they were meant to be none."""
    warns = call.kind.options.check and call.kind.storage == "elements"
    try:
        plan = plan_of(call)
    except SemiringError:
        if warns:  # the error alone may not say what was meant
            _warn(call)
        raise
    if warns:
        _warn(call)
    return plan


def close(call: Call, home: Any = None) -> Any:
    """Return the closure of a call's matrix, in ``home`` or in a new array. Warn as `plan_with_warnings` does."""
    return plan_with_warnings(call).run(call, home)


def _warn(call: Call) -> None:
    known = call.__dict__
    if call.kind.device is not None:
        if "scan" in known:  # of halves the copy in float32 was scanned
            warn_of_other_zeros_on_device(call.A, call.semiring, call.scan)
    elif (least := known.get("least")) is None or not least > 0:  # else there is no 0, and no ∞ of an edge
        warn_of_other_zeros(call.A, call.semiring)


def close_array(A: Array, options: Options, home: Any = None, **wanted: Any) -> Any:
    """The closure of an array (..., n, n) of a dtype of the semiring, in ``home`` or in a new array.

    Home may be A; else it shares no memory with it. ``wanted``: as `Call.of`. A result whose columns are adjacent is
    that of the transpose, whose rows are: (Aᵀ)* = (A*)ᵀ where ⊗ commutes.
    """
    columns = home is not None and home.ndim == 2 and not has_adjacent_elements(home) and has_adjacent_elements(home.T)
    copied = is_half(A.dtype) and not (is_device_array(A) and stays_float16(A.dtype, options))
    if columns and options.semiring.commutative and not copied:
        close(Call.of(A.T, options, turned=True, **wanted), home.T)
        return home
    return close(Call.of(A, options, **wanted), home)


def _wanted(request: Request) -> dict[str, Any]:
    wanted = {
        "plus": request.plus,
        "inspect": request.inspect,
        "progress": request.progress,
        "rounded_to": request.rounded_to,
        "explanation": request.explanation,
        "depth": request.depth,
    }
    if request.devices:
        from semiring.distributed.several_gpus import by_devices

        wanted |= {"devices": request.devices, "spread": by_devices(request.devices)}
    return wanted


# ------------------------------------------------------------------------------------------------- names of vertices


def _close_named(request: Request) -> Any:
    """A frame, a graph or a network is its matrix; the result gets the names back."""
    taken = take(request.given, request.semiring, request.reading)
    request.explain("names", "a matrix, whose vertices have names", quiet=True)
    try:
        closed = close_given(request.but(taken.matrix, reading=AS_IT_IS))
    except (DivergenceError, DomainError) as error:
        raise error.named(taken.names) from None
    return taken.restore(closed) if request.out is None else closed


# ------------------------------------------------------------------------------------------------- the host by name


def _close_on_the_host(request: Request) -> Any:
    """What lives on a GPU is closed in the memory of the host, and the result goes back; anything else as it is."""
    A, out = request.given, request.out
    if not is_device_array(memory_of(A)):
        return close_given(replace(request, device=None))
    from semiring.arrays.device import as_cupy, to_host

    request.explain("arrays", "moved to the memory of the host", quiet=True)
    packed = isinstance(A, BitMatrix)
    here = BitMatrix(to_host(A.words), A.shape) if packed else to_host(as_cupy(A))
    closed = close_given(request.but(here, device=None, out=None))
    if packed:
        home = BitMatrix.empty(A.shape, A) if out is None else out
        home.words[...] = array_namespace(home.words).asarray(closed.words)
        return home
    if out is not None and not is_device_array(out):
        as_output(out, closed.shape, closed.dtype)[...] = closed
        return out
    there = array_namespace(as_cupy(A)).asarray(closed)
    if out is None:
        return as_result(A)(there)
    as_output(out, there.shape, there.dtype, like=there)[...] = there
    return out


# ------------------------------------------------------------------------------------------------------ truth values


def _close_bits(request: Request, A: BitMatrix, out: Any) -> Any:
    """A `BitMatrix` is closed as it is stored. Cost: n³ bit pairs."""
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    check_star(request.semiring, A.dtype)
    if out is not None and (not isinstance(out, BitMatrix) or out.shape != A.shape):
        raise ShapeError(f"out must be a BitMatrix of shape {A.shape}, or None")
    request.explain("bits", "a BitMatrix stays packed")
    home = BitMatrix.empty(A.shape, A) if out is None else out
    call = Call.of(A, request.options, **_wanted(request))
    call.depth += request.explanation is not None
    return close(call, home)


def _goes_to_a_gpu(request: Request) -> bool:
    """Whether it is a matrix of truth values of the host, to be closed on one GPU, which would pack it there."""
    A, options = request.given, request.options
    if request.device is None or request.devices or type(A) is not np.ndarray or A.dtype != np.bool_:
        return False
    if A.ndim != 2 or A.shape[0] != A.shape[1] or type(request.out) not in (type(None), np.ndarray):
        return False
    wanted = options.method == "auto" and request.inspect is None and options.semiring.supports(A.dtype)
    large = wanted and len(A) >= closure_speed("cuda", A.dtype).pack
    return large and packs(options.semiring, on_device=True)


def _close_packed_on_the_way(request: Request) -> Any:
    """Truth values of the host are packed on their way to a GPU: it holds n²/8 bytes, not n²."""
    from semiring.kernels.cuda.entries.packing import pack_moved, unpack_moved

    A, out = request.given, request.out
    check_star(request.semiring, A.dtype)
    there = np.empty(A.shape, A.dtype) if out is None else as_output(out, A.shape, A.dtype)
    request.explain("bits", "truth values, packed on the way to the GPU")
    words = BitMatrix(pack_moved(A), A.shape)
    call = Call.of(words, request.options, **_wanted(request))
    call.depth += request.explanation is not None
    closed = close(call, words)
    unpack_moved(closed.words, there)
    return there


# ------------------------------------------------------------------------------------------------------ stored edges


def _close_sparse(request: Request) -> Any:
    """A SciPy sparse matrix: what it does not store is no edge, and a stored 0 is a weight.

    Raises `ShapeError`, `DTypeError` for complex numbers, and `TooLargeError` if the closure does not fit the memory.
    """
    A, options = request.given, request.options
    check_sparse(A)
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    n, dtype, home = A.shape[0], np.dtype(A.dtype), None
    if dtype.kind == "c":  # no semiring has them, and the planner would look for their "no path"
        options.semiring.check_dtype(dtype)
    if request.out is None:
        demand_memory(n * n * dtype.itemsize, f"the closure of {n:,} vertices", fewer_paths())
    else:
        home = as_output(request.out, A.shape, dtype)
    call = Call.of(A, options, storage="sparse", **_wanted(request))
    return close(call, home)


# ----------------------------------------------------------------------------------------------------------- arrays


def _close_any_array(request: Request) -> Any:
    """What was given, as an array of one dtype where it is to be computed; and the result in the caller's library.

    Lists and arrays of other libraries are read without a copy where that can be. With ``device`` an array of the host
    is moved to the GPU, and closed there in place: what was moved is ours. (Integers are not, for they may have to
    begin again in a wider dtype.)

    Raises `ShapeError`, `DTypeError`, `DeviceError`, and `AlgebraError` for a semiring without a star.
    """
    A, out, options, semiring = request.given, request.out, request.options, request.semiring
    (array,) = operands(semiring, device=request.device, check=options.check, A=A)
    on_device = is_device_array(array)
    moved = on_device and not is_device_array(A)
    home, back = array if moved and array.dtype.kind != "i" else request.home, None
    if out is None:
        back = as_result(A)
    elif on_device and request.device is not None and not is_device_array(out):
        back = partial(store, as_output(out, array.shape, array.dtype))
    else:
        home = out
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"A is {array.shape}: a closure needs square matrices, shape (n, n) or (..., n, n)")
    check_star(semiring, array.dtype)
    xp = array_namespace(array)
    if home is None:
        home = xp.empty(array.shape, array.dtype)
    else:
        home = as_output(home, array.shape, array.dtype, like=array)
        if same_memory(home, array):
            array = home
        elif xp.may_share_memory(home, array):
            array = array.copy()
    request.explain("arrays", "moved to the GPU" if moved else "an array", quiet=True)
    wanted = _wanted(request)
    if request.explanation is not None:
        wanted["depth"] += 1
    closed = close_array(array, options, home, **wanted)
    return closed if back is None else back(closed)
