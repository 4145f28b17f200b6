"""Compute the closure A* = I ⊕ A ⊕ A² ⊕ … of dense, packed and sparse matrices, in any semiring with a star.

A front end converts the operand to a problem of an array, and the cheapest algorithm closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from semiring import profiling
from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algorithms.methods import METHODS, check_method_options, matrix_methods, methods_by_device, takes_edges
from semiring.algorithms.predecessors import PredecessorSearch
from semiring.algorithms.stars import check_star
from semiring.arguments import check_flags, is_one_of
from semiring.arrays.bits import BitMatrix
from semiring.arrays.device import are_disjoint
from semiring.arrays.operands import device_context, has_adjacent_elements
from semiring.closures.explain import Explanation
from semiring.closures.front_ends import close_array, close_request
from semiring.closures.problem import STRUCTURES, Options
from semiring.closures.request import Request
from semiring.closures.run import PLAIN, close_plainly
from semiring.errors import AlgebraError, DeviceError, DTypeError, UnknownNameError
from semiring.io.inputs import Reading
from semiring.io.network import semiring_of
from semiring.kernels.engine import engine_of, make_plan
from semiring.namespaces import Array, array_namespace
from semiring.progress import Progress, open_progress
from semiring.thread_counts import check_threads, get_threads

__all__ = ["METHODS", "Explanation", "closure", "closure_of_rounded", "closure_with_predecessors"]

_ArrayOrList: TypeAlias = NDArray[Any] | list[Any]


class _ClosureOptions(TypedDict, total=False):
    """The options of every overload of `closure`, in addition to A, the semiring and ``explain``."""

    method: str
    method_options: Mapping[str, Any] | None
    reflexive: bool
    out: Any
    progress: Progress | bool | None
    check: bool
    threads: int | None
    device: Any
    memory: int | str | None
    journal: Any
    structure: bool | str | Iterable[str]
    compute_dtype: Any
    weight: str | Callable[[Any], Any] | None
    directed: bool | None
    columns: tuple[str, str] | None


@overload
def closure(
    A: BitMatrix,
    semiring: Semiring | str | None = ...,
    *,
    explain: Literal[False] = ...,
    **options: Unpack[_ClosureOptions],
) -> BitMatrix: ...
@overload
def closure(
    A: _ArrayOrList,
    semiring: Semiring | str | None = ...,
    *,
    explain: Literal[False] = ...,
    **options: Unpack[_ClosureOptions],
) -> NDArray[Any]: ...
@overload
def closure(
    A: _ArrayOrList,
    semiring: Semiring | str | None = ...,
    *,
    explain: Literal[True, "full"],
    **options: Unpack[_ClosureOptions],
) -> tuple[NDArray[Any], Explanation]: ...
@overload
def closure(
    A: Any,
    semiring: Semiring | str | None = ...,
    *,
    explain: bool | Literal["full"] = ...,
    **options: Unpack[_ClosureOptions],
) -> Any: ...
def closure(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    method: str = "auto",
    method_options: Mapping[str, Any] | None = None,
    reflexive: bool = True,
    out: Any = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    memory: int | str | Mapping[str, int | str] | None = None,
    journal: Any = None,
    structure: bool | str | Iterable[str] = True,
    compute_dtype: Any = None,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    explain: bool | Literal["full"] = False,
) -> Any:
    """Return the closure A* = I ⊕ A ⊕ A² ⊕ … of a matrix, which in min-plus holds all shortest distances.

    With ``reflexive=False`` the closure is A⁺ = A ⊗ A*.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        A[i, j] is the weight of the edge i → j. The semiring's zero (∞ in min-plus) means no edge, and 0 is a weight.
        An array is a NumPy array of any strides, a list, an array of another library in host memory, or a SciPy sparse
        matrix. A `BitMatrix` is closed in semirings on bool. Entries that a sparse matrix does not store are no edges,
        and stored zeros are weights. An array on an NVIDIA GPU, of any library with DLPack, is closed there. A square
        frame of pandas or Polars, a frame that lists edges, a graph of NetworkX, igraph or rustworkx, and a `Network`
        have named vertices. The name of an .npy file, or a `numpy.memmap`, is closed as an array. Any other file that
        `semiring.read` reads, such as a list of edges in ``"roads.csv"``, is closed as its `Network`.
    semiring : Semiring or str, optional
        A `Semiring` with a star, or a name of the catalogue, in lower case. The default is that of a `Network`, else
        min-plus.
    method : str, default "auto"
        One of `METHODS`, or a method of your own (`semiring.extend.register_method`). ``"auto"`` chooses by size,
        sparsity and semiring. ``explain`` prints the choice and the reason. The algorithms of papers are there for
        comparison. The error for an unknown name, or for a method of another device, lists the methods for this device.
    method_options : dict, optional
        Options of the named method, such as ``{"threads": 256}`` for ``"gaioso"``. The error for an unknown option or
        value lists the valid ones, and the error for a method without options lists the methods that have some.
    reflexive : bool, default True
        Whether the empty path counts: A*, or A⁺, whose diagonal holds only cycles.
    out : array, shape (..., n, n), or str, optional
        The memory for the result, which may be A itself. In place the memory beyond the matrix is that of some panels,
        O(n·1024), and for truth values also an eighth of the matrix. One copy more of the matrix is made

        - by `squaring`,
        - if ⊕ is not idempotent and ``reflexive`` is False,
        - if neither the entries of a row nor those of a column are adjacent, and for a stack whose rows are not,
        - of float16 and bfloat16, in float32, unless ``compute_dtype`` says otherwise,
        - in float64 during the search for potentials, if shortest paths are so long that it takes an elimination.

        ``johnson`` needs memory for the edges, and 32 MiB. The page on closures has the memory on a GPU. If ``out`` is
        the name of an .npy file, the result is written there, and a `numpy.memmap` of it is returned. Without it the
        closure of a file is an array in memory.
    progress : callable or bool, optional
        True draws a bar of tqdm with the remaining time, on a terminal or in a notebook, and nothing elsewhere.
        A function is called as ``progress(done, total)`` during the work, and ``done`` never decreases. An exception
        that it raises stops the work.
    check : bool, default True
        Whether to validate the entries, and to warn of the "no edge" of another convention
        (`SuspiciousWeightsWarning`). Without validation, NaN and entries outside the domain give an arbitrary result.
        min_plus and max_plus scan the entries in any case, because the signs of the weights decide the method. On a GPU
        a call with validation waits for the scan and for the result. For large matrices of min_plus and max_plus it
        also waits to learn whether whole numbers fit narrower integers. A call without validation waits for nothing,
        and raises nothing that depends on the data. Then min_plus weights below 0 (max_plus weights above 0) make the
        result NaN. Integers must then be ≥ 0, and so small that no path comes near half their range.
    threads : int, optional
        The number of threads, by default that of `get_threads`. The result does not depend on it.
    device : str or tuple of str, optional
        By default the matrix is closed where it is. ``"cuda"``, or ``"cuda:1"`` for the GPU of that number: an array of
        the host is copied to the GPU, and the result back. It is closed by strips of rows if the GPU's memory is too
        small. ``"cpu"``: an array of a GPU is copied to the host, and the result back. With ``("cuda:0", "cuda:1")``,
        or ``"cuda:*"`` for all GPUs of the host, several GPUs close an array of the host or of a GPU together. Each GPU
        closes some rows, without structure analysis, or some matrices of a stack.
    memory : int, str or dict, optional
        The largest memory of a closure of a file, in bytes or as a text such as ``"8 GiB"``. A matrix that does not fit
        is closed by strips of rows, which are read and written during the work on other strips. The result is bitwise
        identical. With ``device`` it bounds the memory of the GPU, also for an array of the host. A dict such as
        ``{"device": "40 GiB", "host": "1 GiB"}`` bounds both. The default is the free memory, less an eighth.
    journal : str or path-like, optional
        The name of a file that records the progress of a closure by strips. If the run stops for any reason, the same
        call continues it, with a bitwise identical result. After the end of the run the call returns at once. Without a
        journal, a matrix that is closed in place is lost if the run stops.
    structure : bool, str or iterable of str, default True
        Whether the structure of the graph may reduce the work: True, False, or the names of structures:
        ``"bottleneck"``, ``"hops"``, ``"reachability"``, ``"separators"``, ``"searches"``, ``"components"`` and
        ``"undirected"``. The page on structure has the idea and the rounding of each. ``explain`` prints the detected
        structure. It applies with ``method="auto"`` to 1,536 or more vertices, and hops of a sparse matrix to 256 or
        more.
    compute_dtype : dtype, optional
        The dtype of the arithmetic. By default float16 and bfloat16 are computed in float32 and rounded once, with the
        same result on every device. ``"float16"`` closes a float16 matrix on a GPU in float16, in about half the time
        and without the copy in float32. It also closes a float16 file by strips. Then every sum and product along a
        path is rounded, and the result depends on the device and the method.
    weight : str or callable, optional
        The column or attribute of the weights, as in `as_network`.
    directed : bool, optional
        False adds the reverse of each edge, also for a matrix in memory. The default is the direction of the graph.
    columns : tuple of str, optional
        The titles of the two columns in which a frame or a file lists the ends of edges.
    explain : bool or "full", default False
        Return ``(result, Explanation)``. An explanation prints the method, what was detected and used, and the
        predicted cost. ``"full"`` also prints all answers, which its property ``details`` holds.

    Returns
    -------
    array, BitMatrix, frame or Network, shape (..., n, n)
        The closure, in A's dtype and library. It is a `BitMatrix` for a `BitMatrix`, and a dense array for a sparse
        matrix. A frame gives a frame with the labels of rows and columns. A graph, a list of edges and a file other
        than .npy give a `Network`. With ``explain`` the result and its `Explanation` are returned.

    Raises
    ------
    NegativeCycleError
        With the vertices of a negative (max-plus: positive) cycle, before anything is written. A cycle of weight 0 does
        not count, and neither does a cycle that is negative only because of the rounding of its entries.
    DivergenceError
        If a pivot of another semiring has no star. Then a matrix that is closed in place is undefined. For a stack,
        ``error.matrix`` is the index of the matrix. All matrices are scanned before the first one is written.
    IntegerOverflowError
        If a distance does not fit the integers. Then a matrix that is closed in place is undefined.
    DomainError, DTypeError, ShapeError
        For NaN, entries outside the domain, and an edge of unbounded gain (-∞ in min-plus, ∞ in max-plus). For other
        dtypes, and for a matrix that is not square.
    AlgebraError
        For a semiring without a star, or one whose laws are refuted (`RoundingWarning` if only rounding breaks them).
        For a method whose conditions the semiring or the graph does not meet.
    MethodError, ValueError
        For ``method_options`` of a method without options, and for another value of an option.
    UnknownNameError
        For an unknown semiring, method, option of the method, or structure.
    DeviceError
        If there is no such GPU, or if ``out`` is in another memory than A.
    TooLargeError
        If the result does not fit into memory.
    StorageError, FormatError, OSError
        For files: if options do not fit together, a file is damaged, or it cannot be read or written.

    Notes
    -----
    A sum of floats beyond their range is ∞, which is "no path": weights of 10³⁸ need float64.

    Integers of plus_times count the paths of an acyclic graph exactly. In floats the result is that of elimination
    without pivoting: (I - A)⁻¹ if no pivot is 1. The sum itself converges only if the spectral radius is below 1. With
    ``check``, a `DivergenceWarning` follows if the result shows that it is not. Costs n³ pairs. Sources: see
    `semiring.algorithms`.

    Examples
    --------
    >>> import numpy as np
    >>> inf = float("inf")
    >>> closure(np.array([[inf, 3.0, 8.0], [inf, inf, 2.0], [1.0, inf, inf]]))
    array([[0., 3., 5.],
           [3., 0., 2.],
           [1., 4., 0.]])
    """
    is_local = device is None and memory is None and journal is None and progress is None
    is_local = is_local and weight is None and directed is None and columns is None  # no front end is needed
    has_defaults = is_local and compute_dtype is None and method_options is None and explain is False
    has_defaults = has_defaults and isinstance(method, str) and method == "auto" and reflexive is True
    has_defaults = has_defaults and isinstance(check, bool) and isinstance(structure, bool)
    if has_defaults and type(A) is np.ndarray and A.size <= PLAIN and not profiling.active:
        is_new = out is None or _may_write_to(out, A)
        D = close_plainly(A, semiring, check=check, threads=threads, out=out) if is_new else None
        if D is not None:
            return D
    if not (reflexive is True is check and explain is False and directed is None):  # saves a microsecond
        full = isinstance(explain, str) and explain == "full"
        check_flags({"reflexive": reflexive, "check": check, "explain": full or explain, "directed": directed})
    given = semiring_of(A, None) if semiring is None and type(A) is not np.ndarray else semiring
    algebra, (one, several) = as_semiring(given), (None, ()) if device is None else _split_device(device)
    if several and getattr(A, "ndim", 2) > 2:
        shared = {"method": method, "reflexive": reflexive, "check": check, "threads": threads, "structure": structure}
        shared |= {"directed": directed, "compute_dtype": compute_dtype, "method_options": method_options}
        return _close_stack_by_gpus(several, A, out, explain, semiring=algebra, **shared)
    options = _make_options(algebra, method, threads, check, structure, several, compute_dtype, method_options)
    if is_local and not (explain or profiling.active) and _is_plain(A, out, options):
        return close_array(A, options, out, plus=not reflexive)
    reading = Reading(weight, directed, columns)
    reading.check(A)
    explanation = None
    if explain:
        explanation = Explanation(options.semiring.name, method=method, threads=options.threads, full=explain == "full")
    request = Request(
        operand=A,
        options=options,
        plus=not reflexive,
        out=out,
        device=one,
        devices=several,
        memory=memory,
        journal=journal,
        reading=reading,
        explanation=explanation,
    )
    result = _close(request, progress)
    return (result, explanation) if explain else result


def _is_plain(A: Any, out: Any, options: Options) -> bool:
    """Return whether a call needs no front end: A is an array, and the result is new or such an array too.

    The arrays are in host memory or on the current GPU. Raises `DTypeError` and `AlgebraError` as front ends do.
    """
    kind = type(A)
    if kind is not np.ndarray and not (kind.__module__ == "cupy" and _is_on_current_gpu(A)):
        return False
    dtype = A.dtype
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or dtype.kind not in "fiub" or not dtype.isnative:
        return False
    if dtype.kind in "iu" and options.semiring.dtypes == ("bool",):  # integers that may be truth values
        return False
    if dtype.kind == "b" and not options.semiring.supports(dtype):  # truth values that become weights
        return False
    check_star(options.semiring, dtype, may_count=True)
    return out is None or _may_write_to(out, A)


def _may_write_to(out: Any, A: Any) -> bool:
    """Return whether the closure of A may be written to ``out``.

    It may if ``out`` is A, or an array of the same type, dtype and shape that does not overlap A.
    """
    if out is not A and (type(out) is not type(A) or out.dtype != A.dtype or out.shape != A.shape):
        return False
    if type(A) is np.ndarray:
        is_usable = out.flags.writeable and has_adjacent_elements(out)
        return bool(is_usable and (out is A or not np.may_share_memory(out, A)))
    if out is A:
        return has_adjacent_elements(A)
    return bool(out.flags.c_contiguous and out.device == A.device and are_disjoint(out, A))


def _is_on_current_gpu(A: Any) -> bool:
    current: int = array_namespace(A).cuda.runtime.getDevice()
    return type(A).__name__ == "ndarray" and bool(A.device.id == current)


def _close_stack_by_gpus(devices: tuple[int, ...], A: Any, out: Any, explain: bool | str, **options: Any) -> Any:
    """Close a stack by several GPUs, each matrix by one GPU."""
    if explain:
        raise DeviceError("explain= is for one matrix, or for a stack on one GPU: leave it out, or name one GPU")
    from semiring.distributed.several_gpus import close_stack_on_devices

    return close_stack_on_devices(devices, A, out, partial(closure, **options))


def _make_options(
    semiring: Semiring,
    method: str,
    threads: int | None,
    check: bool,
    structure: Any,
    devices: Any,
    compute_dtype: Any = None,
    method_options: Mapping[str, Any] | None = None,
) -> Options:
    """Return the validated options of a call; ``devices``: the GPUs that close it together, without its structure.

    Raises `UnknownNameError` for a method, its options or a structure, and `DTypeError` for a dtype of the arithmetic.
    """
    allowed = select_structures(structure)
    if not (type(method) is str and method == "auto") and not is_one_of(method, METHODS):
        raise UnknownNameError("closure method", method, METHODS, methods_by_device(METHODS))
    count = get_threads() if threads is None else check_threads(threads)
    structures = frozenset() if devices else allowed
    own = () if method_options is None else check_method_options(method, method_options)
    dtype = None if compute_dtype is None else _parse_compute_dtype(compute_dtype)
    return Options(semiring, method, count, bool(check), structures, dtype, own)


def _parse_compute_dtype(name: Any) -> np.dtype[Any]:
    """Return the dtype of ``compute_dtype=``; raise `DTypeError` for a dtype that cannot be requested."""
    try:
        dtype: np.dtype[Any] | None = np.dtype(name)
    except (TypeError, ValueError):
        dtype = None
    if dtype != np.float16:
        raise DTypeError(
            f"compute_dtype is {quote(name)}, and only 'float16' can be requested: leave it out, or convert A"
        )
    return dtype


def _close(request: Request, progress: Progress | bool | None = None, label: str = "closure") -> Any:
    """Run the front ends on the device of a request, in a span of a profile, and report to ``progress``."""
    device = device_context((request.operand, request.out), None if request.device == "cpu" else request.device)
    with profiling.span("call", "closure", semiring=request.semiring.name), device:
        if progress is None:
            return close_request(request)
        with open_progress(progress, label) as callback:
            return close_request(replace(request, progress=callback))


def _split_device(device: Any) -> tuple[Any, tuple[int, ...]]:
    """Split ``device=`` into one device, or the numbers of several GPUs that compute together."""
    if device is None:
        return None, ()
    from semiring.arrays.device import device_numbers, single_device

    if hasattr(device, "shape"):  # an array has no truth value to compare with names
        raise TypeError(f"device is a text such as 'cuda', or a tuple of texts, not {quote(device)}")
    return single_device(device), device_numbers(device)


_ALL_STRUCTURES = frozenset(STRUCTURES)


def select_structures(structure: bool | str | Iterable[str]) -> frozenset[str]:
    """Return the names of the structures that ``structure=`` allows. Raises `UnknownNameError` for another name."""
    if isinstance(structure, bool):
        return _ALL_STRUCTURES if structure else frozenset()
    if not isinstance(structure, str | Iterable) or hasattr(structure, "dtype"):
        raise TypeError(
            f"structure is {quote(structure)}: give True, False, or the names of structures, such as {STRUCTURES[0]!r}"
        )
    names = [structure] if isinstance(structure, str) else list(structure)
    for name in names:
        if not isinstance(name, str) or name not in _ALL_STRUCTURES:
            raise UnknownNameError("structure of the graph", name, STRUCTURES)
    return frozenset(names)


def closure_of_rounded(
    A: Array,
    semiring: Semiring,
    rounded_to: Any,
    *,
    reflexive: bool = True,
    check: bool = True,
    threads: int | None = None,
) -> Any:
    """Return the closure of an array A (..., n, n) whose entries were rounded to the dtype ``rounded_to``.

    A caller that has converted float16 or bfloat16 to float32 gets the same test for negative cycles as `closure` of
    the original array. It can compute with the closure in float32, and round once at the end.
    """
    if rounded_to == A.dtype:
        return closure(A, semiring, reflexive=reflexive, check=check, threads=threads)
    options = _make_options(semiring, "auto", threads, check, True, None)
    return _close(Request(operand=A, options=options, plus=not reflexive, rounded_to=rounded_to))


def closure_with_predecessors(
    A: Any,
    semiring: Semiring,
    *,
    check: bool = True,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    method: str = "auto",
    method_options: Mapping[str, Any] | None = None,
    structure: bool | str | Iterable[str] = True,
    device: Any = None,
    rounded_to: Any = None,
    explanation: Explanation | None = None,
) -> tuple[Any, Any]:
    """Return A* and the predecessors of an array A (..., n, n), for a selective ⊕, both of the shape of A.

    ``device``: several GPUs, or None. ``rounded_to`` as in `closure_of_rounded`. Raises the errors of `closure`, and
    `AlgebraError` if ⊕ is not selective. The choice is added to the ``explanation``.

    Source: `semiring.algorithms.predecessors`.
    """
    rare = progress, rounded_to, explanation, device, method_options
    has_defaults = (
        not [x for x in rare if x is not None]
        and isinstance(method, str)
        and method == "auto"
        and isinstance(structure, bool)
    )
    if has_defaults and isinstance(check, bool) and not profiling.active:
        found = close_plainly(A, semiring, check=check, threads=threads, search=True)
        if found is not None:
            return found  # type: ignore[no-any-return]
    if not semiring.selective:
        raise AlgebraError(f"predecessors need a selective ⊕, which {semiring.name} does not have: use closure")
    if not is_one_of(method, METHODS) or takes_edges(method):
        names = matrix_methods()
        raise UnknownNameError("closure method with predecessors", method, names, methods_by_device(names))
    several = _split_device(device)[1]
    if several and A.ndim > 2:
        raise DeviceError("one GPU finds the paths of a stack: name one in device=")
    inspection = PredecessorSearch()
    if several:
        from semiring.distributed.predecessor_rows import predecessors_on_devices

        inspection = PredecessorSearch(partial(predecessors_on_devices, several))
    options = _make_options(semiring, method, threads, check, structure, several, None, method_options)
    request = Request(
        operand=A,
        options=options,
        devices=several,
        rounded_to=rounded_to,
        inspection=inspection,
        explanation=explanation,
    )
    D = _close(request, progress, "paths")
    if inspection.predecessors is None:  # closed as packed bits, or empty
        inspection.find(engine_of(make_plan(semiring, D.dtype, threads=options.threads), D), D, A)
    return D, inspection.predecessors.reshape(D.shape)
