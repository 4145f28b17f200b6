"""Convert the operand of `closure` to a problem of an array, and the result to the caller's form.

There are front ends for a matrix in a file, names of vertices, packed truth values, stored edges, and arrays of other
libraries and devices. The result is bitwise identical to that of the array.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from semiring.advice import fewer_paths_advice
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import may_name_vertices
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import (
    as_array,
    as_output,
    empty_like,
    has_adjacent_elements,
    is_same_memory,
    memory_of,
    operands,
    result_converter,
    store,
)
from semiring.arrays.sparse import check_sparse, is_sparse
from semiring.closures.choose import choose_with_warnings
from semiring.closures.encodings import stays_float16
from semiring.closures.problem import Facts, Options, Problem
from semiring.closures.request import Request
from semiring.errors import DivergenceError, DomainError, ShapeError, square_error
from semiring.io.files import is_npy_name, names_file
from semiring.io.inputs import DEFAULT_READING, convert_input
from semiring.kernels import can_pack
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array, array_namespace, is_device_array

__all__ = ["close", "close_array", "close_request", "problem_of"]


def close_request(request: Request) -> Any:
    """Return the closure for a request in the caller's form, or ``out`` if it is an array.

    Raises `OSError`, `FormatError` and `StorageError` for files, `ShapeError`, `DTypeError` and `DeviceError` for
    arrays, and the errors of the closure.
    """
    result, out = _close(request), request.out
    return result if out is None or is_npy_name(out) else out


def _close(request: Request) -> Any:
    from semiring.closures.files import close_file, needs_files, reject_file_options

    if request.device == "cpu":
        return _close_on_host(request)
    if names_file(request.operand) and not is_npy_name(request.operand):
        reject_file_options(request)
        network = request.reading.read_network_file(request.operand, request.semiring)
        return _close(replace(request, operand=network, reading=DEFAULT_READING))
    if needs_files(request):
        return close_file(request, close_request)
    if not request.reading.is_default or may_name_vertices(request.operand):
        return _close_named(request)
    if _is_packed_for_gpu(request):
        return _close_packed_on_gpu(request)
    if isinstance(request.operand, BitMatrix):
        return _close_bits(request, request.operand, request.out)
    if request.device is None and is_sparse(request.operand):
        return _close_sparse(request)
    return _close_any_array(request)


def close(p: Problem, out_buffer: Any = None) -> Any:
    """Return the closure of a problem, in ``out_buffer`` or in a new array.

    Warn if edges look like the "no edge" of another convention.
    """
    return choose_with_warnings(p).run(out_buffer)


def close_array(A: Array, options: Options, out_buffer: Any = None, **fields: Any) -> Any:
    """Return the closure of an array (..., n, n) of a dtype of the semiring, in ``out_buffer`` or in a new array.

    ``out_buffer`` is A, or shares no memory with it. ``fields`` are those of `problem_of`. For a result with adjacent
    columns the transpose is closed, which has adjacent rows: (Aᵀ)* = (A*)ᵀ where ⊗ commutes.
    """
    columns = (
        out_buffer is not None
        and out_buffer.ndim == 2
        and not has_adjacent_elements(out_buffer)
        and has_adjacent_elements(out_buffer.T)
    )
    if (
        columns
        and options.semiring.commutative
        and (not is_half(A.dtype) or (is_device_array(A) and stays_float16(A.dtype, options)))  # not copied
    ):
        close(problem_of(A.T, options, is_transposed=True, **fields), out_buffer.T)
        return out_buffer
    if A.ndim > 3:  # a stack of several axes is a stack of one axis
        return _close_flat(A, options, out_buffer, fields)
    return choose_with_warnings(problem_of(A, options, **fields)).run(out_buffer)


def _close_flat(A: Array, options: Options, out_buffer: Any, fields: dict[str, Any]) -> Any:
    """Close a stack of several axes as a stack of one axis."""
    D = empty_like(A) if out_buffer is None else out_buffer
    shape = (prod(A.shape[:-2]), *A.shape[-2:])
    flat = D.reshape(shape)
    operand = flat if out_buffer is A else A.reshape(shape)
    try:
        close(problem_of(operand, options, stack=A.shape[:-2], **fields), flat)
    except DomainError as error:
        if len(error.position) == 3:
            raise error.at(*map(int, np.unravel_index(error.position[0], A.shape[:-2])), *error.position[1:]) from None
        raise
    if not array_namespace(flat).may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D


def problem_of(
    A: Any, options: Options, *, rounded_to: Any = None, is_transposed: bool = False, devices: Any = (), **fields: Any
) -> Problem:
    """Return the problem of an operand; ``fields`` are those of `Problem`."""
    facts = Facts(A, options, rounded_to=rounded_to, is_transposed=is_transposed, devices=devices)
    fields.setdefault("stack", facts.shape[:-2])
    return Problem(facts, **fields)


def _problem_fields(request: Request) -> dict[str, Any]:
    fields = {
        "plus": request.plus,
        "predecessors": request.inspection,
        "progress": request.progress,
        "rounded_to": request.rounded_to,
        "explanation": request.explanation,
    }
    if request.devices:
        from semiring.distributed.several_gpus import method_on_devices

        fields |= {"devices": request.devices, "dense_method": method_on_devices(request.devices)}
    return fields


# ------------------------------------------------------------------------------------------------- names of vertices


def _close_named(request: Request) -> Any:
    """Close the matrix of a frame, a graph or a network, and label the result with its names."""
    labelled_matrix = convert_input(request.operand, request.semiring, request.reading)
    request.explain("names", "a matrix, whose vertices have names", quiet=True)
    try:
        closed = close_request(request.with_operand(labelled_matrix.matrix, reading=DEFAULT_READING))
    except (DivergenceError, DomainError) as error:
        raise error.named(labelled_matrix.names) from None
    return labelled_matrix.restore(closed) if request.out is None else closed


# ------------------------------------------------------------------------------------------------- the host by name


def _close_on_host(request: Request) -> Any:
    """Close an array of a GPU in host memory, and copy the result back. Close any other operand where it is."""
    A, out = request.operand, request.out
    if not is_device_array(memory_of(A)):
        return close_request(replace(request, device=None))
    from semiring.arrays.device import as_cupy, to_host

    request.explain("arrays", "moved to the memory of the host", quiet=True)
    packed = isinstance(A, BitMatrix)
    copy = BitMatrix(to_host(A.words), A.shape) if packed else to_host(as_cupy(A))
    closed = close_request(request.with_operand(copy, device=None, out=None))
    if packed:
        result = BitMatrix.empty(A.shape, A) if out is None else out
        result.words[...] = array_namespace(result.words).asarray(closed.words)
        return result
    if out is not None and not is_device_array(out):
        as_output(out, closed.shape, closed.dtype)[...] = closed
        return out
    on_gpu = array_namespace(as_cupy(A)).asarray(closed)
    if out is None:
        return result_converter(A)(on_gpu)
    as_output(out, on_gpu.shape, on_gpu.dtype, like=on_gpu)[...] = on_gpu
    return out


# ------------------------------------------------------------------------------------------------------ truth values


def _close_bits(request: Request, A: BitMatrix, out: Any) -> Any:
    """Close a `BitMatrix` in its packed storage. Cost: n³ bit pairs."""
    if A.shape[0] != A.shape[1]:
        raise square_error(A.shape)
    check_star(request.semiring, A.dtype)
    if out is not None and (not isinstance(out, BitMatrix) or out.shape != A.shape):
        raise ShapeError(f"out must be a BitMatrix of shape {A.shape}, or None")
    if request.device is not None and not A.on_device:
        closed = _close_bits(request, A.to_device(), None).to_host()
        if out is None:
            return closed
        out.words[...] = closed.words
        return out
    request.explain("bits", "a BitMatrix stays packed")
    out_buffer = BitMatrix.empty(A.shape, A) if out is None else out
    return close(problem_of(A, request.options, **_problem_fields(request)), out_buffer)


def _is_packed_for_gpu(request: Request) -> bool:
    """Return whether a bool matrix of the host is to be closed on one GPU, where it would be packed."""
    A, options = request.operand, request.options
    if request.device is None or request.devices or type(A) is not np.ndarray or A.dtype != np.bool_:
        return False
    if A.ndim != 2 or A.shape[0] != A.shape[1] or type(request.out) not in (type(None), np.ndarray):
        return False
    may_pack = options.method == "auto" and request.inspection is None and options.semiring.supports(A.dtype)
    may_pack = may_pack and len(A) >= closure_speed("cuda", A.dtype).pack
    return may_pack and can_pack(options.semiring, on_device=True)


def _close_packed_on_gpu(request: Request) -> Any:
    """Pack a bool matrix of the host while it is copied to a GPU, which then holds n²/8 bytes instead of n²."""
    from semiring.kernels.cuda.entries.packing import pack_from_host, unpack_to_host

    A, out = request.operand, request.out
    check_star(request.semiring, A.dtype)
    result = np.empty(A.shape, A.dtype) if out is None else as_output(out, A.shape, A.dtype)
    request.explain("bits", "truth values, packed on the way to the GPU")
    words = BitMatrix(pack_from_host(A), A.shape)
    closed = close(problem_of(words, request.options, **_problem_fields(request)), words)
    unpack_to_host(closed.words, result)
    return result


# ------------------------------------------------------------------------------------------------------ stored edges


def _close_sparse(request: Request) -> Any:
    """Close a SciPy sparse matrix: entries that it does not store are no edges, and a stored 0 is a weight.

    Raises `ShapeError`, `DTypeError`, and `TooLargeError` if the closure does not fit the memory.
    """
    A, options = request.operand, request.options
    check_sparse(A)
    if A.shape[0] != A.shape[1]:
        raise square_error(A.shape)
    n, dtype, out_buffer = A.shape[0], np.dtype(A.dtype), None
    if request.out is None:
        demand_memory(n * n * dtype.itemsize, f"the closure of {n:,} vertices", fewer_paths_advice())
    else:
        out_buffer = as_output(request.out, A.shape, dtype)
    if not options.semiring.supports(dtype):  # the entries become numbers of another dtype, as those of an array
        array = as_array(A, options.semiring)
        return close_array(array, options, array if out_buffer is None else out_buffer, **_problem_fields(request))
    check_star(options.semiring, dtype, may_count=True)
    return close(problem_of(A, options, **_problem_fields(request)), out_buffer)


# ----------------------------------------------------------------------------------------------------------- arrays


def _close_any_array(request: Request) -> Any:
    """Close an array of any library on the requested device, and return the result in the caller's library.

    Lists and arrays of other libraries are read without a copy where possible. With ``device`` an array of the host is
    copied to the GPU, and the copy is closed in place. (A copy of integers is kept, because they may be read again, in
    a wider dtype.)

    Raises `ShapeError`, `DTypeError`, `DeviceError`, and `AlgebraError` for a semiring without a star.
    """
    A, out, options, semiring = request.operand, request.out, request.options, request.semiring
    (array,) = operands(semiring, device=request.device, check=options.check, A=A)
    on_device = is_device_array(array)
    to_gpu = on_device and not is_device_array(A)
    out_buffer, back = array if to_gpu and array.dtype.kind != "i" else request.out_buffer, None
    if out is None:
        back = result_converter(A)
    elif on_device and request.device is not None and not is_device_array(out):
        back = partial(store, as_output(out, array.shape, array.dtype))
    else:
        out_buffer = out
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise square_error(array.shape)
    check_star(semiring, array.dtype, may_count=True)
    xp = array_namespace(array)
    if out_buffer is None:
        out_buffer = xp.empty(array.shape, array.dtype)
    else:
        out_buffer = as_output(out_buffer, array.shape, array.dtype, like=array)
        if is_same_memory(out_buffer, array):
            array = out_buffer
        elif xp.may_share_memory(out_buffer, array):
            array = array.copy()
    request.explain("arrays", "moved to the GPU" if to_gpu else "an array", quiet=True)
    closed = close_array(array, options, out_buffer, **_problem_fields(request))
    return closed if back is None else back(closed)
