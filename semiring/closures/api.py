"""`closure`: A* = I ⊕ A ⊕ A² ⊕ …, of dense, packed and sparse matrices, in any semiring with a star.

A front end makes a call on an array of what was given, and the planner finds out how it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.methods import METHODS, matrix_methods, methods_for, takes_edges
from semiring.algorithms.predecessors import Inspection, attach_unbounded
from semiring.algorithms.progress import Progress, as_progress
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.arrays.device import are_disjoint
from semiring.arrays.operands import check_flags, device_of, has_adjacent_elements, memory_of
from semiring.closures.call import Call, Options, is_tropical
from semiring.closures.explanation import Explanation
from semiring.closures.front_ends import close_given, plan_with_warnings
from semiring.closures.request import Request
from semiring.closures.rules import STRUCTURES
from semiring.distributed.several_gpus import closed_stack
from semiring.errors import AlgebraError, DeviceError, DTypeError, UnknownNameError
from semiring.io.inputs import Reading
from semiring.io.network import semiring_of
from semiring.kernels.engine import engine_of, make_plan
from semiring.namespaces import array_namespace, is_device_array
from semiring.threads import checked_threads, get_threads

__all__ = ["METHODS", "Explanation", "closure", "closure_of_rounded", "closure_with_predecessors"]

Array: TypeAlias = Any
_Given: TypeAlias = NDArray[Any] | list[Any]


class _ClosureOptions(TypedDict, total=False):
    """What every overload of `closure` takes, besides A, the semiring and ``explain``."""

    method: str
    reflexive: bool
    out: Any
    progress: Progress | bool | None
    check: bool
    threads: int | None
    device: Any
    memory: int | str | None
    journal: Any
    pivots: Any
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
    A: _Given,
    semiring: Semiring | str | None = ...,
    *,
    explain: Literal[False] = ...,
    **options: Unpack[_ClosureOptions],
) -> NDArray[Any]: ...
@overload
def closure(
    A: _Given,
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
    reflexive: bool = True,
    out: Any = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    memory: int | str | Mapping[str, int | str] | None = None,
    journal: Any = None,
    pivots: Any = None,
    structure: bool | str | Iterable[str] = True,
    compute_dtype: Any = None,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    explain: bool | Literal["full"] = False,
) -> Any:
    """A* = I ⊕ A ⊕ A² ⊕ …; with ``reflexive=False`` A⁺ = A ⊗ A*. In min-plus: all shortest distances.

    Parameters
    ----------
    A
        (..., n, n): A[i, j] is the weight of the edge i → j, the semiring's zero (∞ in min-plus) means no edge, and 0
        is a weight. A NumPy array of any strides, a list, an array of another library in host memory, a SciPy sparse
        matrix (entries it does not store are no edges, stored zeros are weights), or a `BitMatrix` for semirings on
        bool; or an array on an NVIDIA GPU, of any library that speaks DLPack, which is closed there. Also a square
        frame of pandas or Polars, and what lists edges: such a frame, a graph of NetworkX, igraph or rustworkx, a
        `Network`. Also the name of an .npy file, or a `numpy.memmap`; and the name of any other file that
        `semiring.read` reads, such as a list of edges in ``"roads.csv"``, which is closed as its `Network`.
    semiring
        A `Semiring` with a star, or a name of the catalogue, in lower case; by default that of a `Network`, else
        min-plus.
    method
        One of `METHODS`, or of your own (`semiring.extend.register_method`). ``"auto"`` chooses by size, sparsity and
        semiring; ``explain`` says what and why. The algorithms of papers are among them, to compare with. An error for
        an unknown name, or for a method that runs elsewhere, lists the methods for this device.
    out
        Where the result goes; may be A itself. In place the memory beyond the matrix is that of some panels, O(n ·
        1024), and for truth values also an eighth of the matrix. One copy more of the matrix is taken

        - by `squaring`;
        - where ⊕ is not idempotent and ``reflexive`` is False;
        - where neither the entries of a row nor those of a column are adjacent, and for a stack whose rows are not;
        - of float16 and bfloat16, in float32, unless ``compute_dtype`` says otherwise;
        - in float64 while potentials are found, if shortest paths are so long that it takes an elimination.

        ``johnson`` takes the edges, and 32 MiB. For more on a GPU see the page on closures.
        The name of an .npy file is written, and ``numpy.memmap`` of it returned. Without it the closure of a file is
        an array in memory.
    memory
        How much memory the work on a matrix in a file may take, in bytes or as a text such as ``"8 GiB"``: where it
        does not fit, it is closed by strips of rows that are read and written while others are worked on, with the same
        bits. With ``device`` the memory of the GPU, also for an array of the host; a dict such as
        ``{"device": "40 GiB", "host": "1 GiB"}`` bounds both. By default what is free, less an eighth.
    journal
        The name of a file that says how far a closure by strips is. After whatever stopped it, the same call goes on
        from there, and gives the bits that an undisturbed one would; after its end it returns at once. Without one, a
        matrix that is closed in place is lost with the run.
    pivots
        The name of an .npy file (n, n) int32 that is made: of a matrix in a file, the vertices that best paths lead
        over, from which `Paths` of the closure finds a path when it is asked for one. Where ⊕ is selective; costs a
        quarter more computing, and 4 bytes more for each entry that is moved.
    progress
        True draws a bar with the time that is left, on the terminal or in the notebook (tqdm's where that is
        installed). A function ``progress(done, total)`` is called as the work goes on, ``done`` never falling; an
        exception it raises stops it.
    reflexive
        Whether the empty path counts: A*, or A⁺, whose diagonal holds only cycles.
    check
        Whether to look for NaN and entries outside the domain, and to warn of what looks like the "no edge" of another
        convention (`SuspiciousWeightsWarning`). Without the look such entries give any
        result; min_plus and max_plus look in any case, for the signs of the weights decide how they are closed. On a
        GPU a call waits for it after the look and at its end, and in between for large matrices of min_plus and
        max_plus, to see whether whole numbers fit narrower integers; without the look it waits for nothing and raises
        nothing that depends on the data: min_plus weights below 0 (in max_plus above) then make the result NaN, and
        integers must be ≥ 0 and small enough for no path to come near half their range.
    threads
        How many threads; by default `get_threads`. The result does not depend on it.
    device
        ``"cuda"``, or ``"cuda:1"`` for the GPU of that number: move what lives in the memory of the host to the GPU,
        and the result back; by strips of rows where the GPU has no room for all. ``"cpu"``: move what lives on a GPU to
        the memory of the host, and the result back. By default the matrix is closed where it lives. ``("cuda:0",
        "cuda:1")``, or ``"cuda:*"`` for all of the host: several GPUs close it together, each some of its rows,
        wherever it lives, whatever its structure; of a stack each closes some matrices.
    structure
        Whether work may be spared where the graph allows it: True; False; or the name of a rule that may, or several of
        ``"bottleneck"``, ``"hops"``, ``"reachability"``, ``"separators"``, ``"searches"``, ``"components"``,
        ``"undirected"``. The page on structure has the idea and the rounding of each; ``explain`` says what was found.
        With ``method="auto"``, from 1,536 vertices on; hops of a sparse matrix from 256 on.
    compute_dtype
        The dtype of the arithmetic. By default float16 and bfloat16 are computed in float32 and rounded once, with the
        same result on every device. ``"float16"`` closes a float16 matrix on a GPU in float16, in about half the time
        and without the copy in float32, and a float16 file by strips. Then every sum and product along a path is
        rounded, and the result depends on the device and the method.
    weight, directed, columns
        How edges are read, as in `network_of`: the column or attribute of the weights; False for edges in both
        directions, of a matrix in memory too; the titles of the columns where the edges of a frame begin and end.
    explain
        Return ``(result, Explanation)``. An explanation prints the method, what was detected and used, and the
        predicted cost; ``"full"`` also prints the rules that were tried, which its property ``rules`` holds.

    Returns the closure, in A's dtype and library; a `BitMatrix` for a `BitMatrix`, a dense array for a sparse matrix,
    a frame with the labels of rows and columns for a frame, a `Network` for what lists edges and for a file other than
    .npy.

    Raises `NegativeCycleError` with the vertices of a negative (max-plus: positive) cycle, before anything is
    written; a cycle whose weight the rounding of its own entries explains does not count, and neither does one of
    weight 0. `DivergenceError` where another semiring's pivot has no star, `DomainError`, `IntegerOverflowError`,
    `AlgebraError` for a semiring without a star or one whose laws are refuted (`RoundingWarning` where only rounding
    breaks them), `DTypeError`, `ShapeError`. After a `DivergenceError` other than a negative cycle, and after an
    `IntegerOverflowError`, what was closed in place is undefined. Of a stack all matrices are looked at before the
    first is written, and the error says which one it is about: `DivergenceError.matrix`.

    A sum of floats beyond their range is ∞, which is "no path": weights of 10³⁸ need float64.

    An edge of weight -∞ in min-plus (+∞ in max-plus) makes every path over it -∞ (+∞), and a cycle over it is a
    negative one. plus_times gives what elimination without pivoting reaches: (I - A)⁻¹ where no pivot is 1; the sum
    itself converges only where the spectral radius is below 1 (`DivergenceWarning` where the result shows that it is
    not, with ``check``). Costs n³ pairs. Sources: see `semiring.algorithms`.

    >>> import numpy as np
    >>> inf = float("inf")
    >>> closure(np.array([[inf, 3.0, 8.0], [inf, inf, 2.0], [1.0, inf, inf]]))
    array([[0., 3., 5.],
           [3., 0., 2.],
           [1., 4., 0.]])
    """
    if not (reflexive is True is check and explain is False and directed is None):  # small calls feel a microsecond
        full = isinstance(explain, str) and explain == "full"
        check_flags({"reflexive": reflexive, "check": check, "explain": full or explain, "directed": directed})
    semiring, (one, several) = semiring_of(A, semiring), _where(device)
    if several and getattr(A, "ndim", 2) > 2:
        asked = {"method": method, "reflexive": reflexive, "check": check, "threads": threads, "structure": structure}
        asked |= {"directed": directed, "compute_dtype": compute_dtype}
        return _close_by_several(several, A, out, explain, semiring=semiring, **asked)
    options = _options(semiring, method, threads, check, structure, several, compute_dtype, given=(A, device))
    progress = as_progress(progress)
    rare = device, memory, journal, pivots, weight, directed, columns
    plain = not explain and not profiling.active and rare.count(None) == len(rare)
    if plain and _is_plain(A, out, options):
        call = Call.of_array(A, options, not reflexive, progress)
        return plan_with_warnings(call).run(call, out)
    reading = Reading(weight, directed, columns)
    reading.check(A)
    explanation = None
    if explain:
        explanation = Explanation(options.semiring.name, method=method, threads=options.threads, full=explain == "full")
    request = Request(
        A,
        options,
        not reflexive,
        out,
        device=one,
        devices=several,
        memory=memory,
        journal=journal,
        pivots=pivots,
        reading=reading,
        progress=progress,
        explanation=explanation,
    )
    result = _close(request)
    return (result, explanation) if explain else result


def _is_plain(A: Any, out: Any, options: Options) -> bool:
    """Whether no front end has anything to do: an array whose closure goes to a new one, or to one of its kind.

    It lives in the memory of the host or on the current GPU. Raises `DTypeError` and `AlgebraError` as front ends do.
    """
    kind = type(A)
    if kind is not np.ndarray and not (kind.__module__ == "cupy" and _is_on_current_gpu(A)):
        return False
    dtype = A.dtype
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or dtype.kind not in "fiub" or not dtype.isnative:
        return False
    if dtype.kind in "iu" and options.semiring.dtypes == ("bool",):  # which may be truth values
        return False
    check_star(options.semiring, dtype)
    return out is None or _takes_result(out, A)


def _takes_result(out: Any, A: Any) -> bool:
    """Whether the closure of A may be written to ``out`` as it is: A itself, or an array of its kind apart from it."""
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


def _close_by_several(devices: tuple[int, ...], A: Any, out: Any, explain: bool | str, **asked: Any) -> Any:
    """The closure of a stack, each matrix by one of several GPUs."""
    if explain:
        raise DeviceError("explain= is for one matrix, or for a stack on one GPU: leave it out, or name one GPU")
    return closed_stack(devices, A, out, partial(closure, **asked))


def _options(
    semiring: Any,
    method: str,
    threads: int | None,
    check: bool,
    structure: Any,
    several: Any,
    compute_dtype: Any = None,
    given: tuple[Any, Any] = (None, None),
) -> Options:
    """What a call asks for; ``several``: GPUs that are to spread it as it is. Raises where no call can ask for that.

    ``given``: the matrix and the device of the call, for an error to list the methods there.
    """
    algebra, allowed = as_semiring(semiring), allowed_rules(structure)
    if method != "auto" and method not in METHODS:
        raise UnknownNameError("closure method", method, methods_for(_kind_of_device(*given)))
    count = get_threads() if threads is None else checked_threads(threads)
    structures = frozenset() if several else allowed
    return Options(algebra, method, count, bool(check), structures, _compute_dtype(compute_dtype))


def _kind_of_device(A: Any, device: Any) -> str:
    """Return where a matrix is closed, "cpu" or "cuda"."""
    if device is None:
        return "cuda" if is_device_array(memory_of(A)) else "cpu"
    return "cpu" if device == "cpu" else "cuda"


def _compute_dtype(given: Any) -> np.dtype[Any] | None:
    """Return the dtype of ``compute_dtype=``; raise `DTypeError` for one that no closure is computed in on request."""
    if given is None:
        return None
    try:
        found: np.dtype[Any] | None = np.dtype(given)
    except TypeError:
        found = None
    if found != np.float16:
        raise DTypeError(f"compute_dtype is {given!r}, and only 'float16' can be requested: leave it out, or convert A")
    return found


def _close(request: Request) -> Any:
    """What the front ends return for a request."""
    there = device_of((request.given, request.out), None if request.device == "cpu" else request.device)
    with profiling.span("call", "closure", semiring=request.semiring.name), there:
        return close_given(request)


def _where(device: Any) -> tuple[Any, tuple[int, ...]]:
    """The one device, or the GPUs that compute together."""
    if device is None:
        return None, ()
    from semiring.arrays.device import device_numbers, one_device

    return one_device(device), device_numbers(device)


_ALL = frozenset(STRUCTURES)


def allowed_rules(structure: bool | str | Iterable[str]) -> frozenset[str]:
    """The names of the rules that may use the structure of the graph; `UnknownNameError` for another name."""
    if structure is True:
        return _ALL
    names = frozenset([structure] if isinstance(structure, str) else structure or ())
    for name in names - _ALL:
        raise UnknownNameError("rule that uses the structure", str(name), STRUCTURES)
    return names


def closure_of_rounded(
    A: Array,
    semiring: Semiring,
    rounded_to: Any,
    *,
    reflexive: bool = True,
    check: bool = True,
    threads: int | None = None,
) -> Array:
    """`closure` of an array A (..., n, n) whose entries bring the rounding of another dtype, or of their own.

    So halves that the caller has made float32 keep their idea of a negative cycle, and what he computes of the closure
    is rounded once, at its end.
    """
    if rounded_to == A.dtype:
        return closure(A, semiring, reflexive=reflexive, check=check, threads=threads)
    options = _options(semiring, "auto", threads, check, True, None)
    return _close(Request(A, options, not reflexive, rounded_to=rounded_to))


def closure_with_predecessors(
    A: Array,
    semiring: Semiring,
    *,
    check: bool = True,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    method: str = "auto",
    structure: bool | str | Iterable[str] = True,
    device: Any = None,
    rounded_to: Any = None,
) -> tuple[Array, Array]:
    """(A*, predecessors) for a selective ⊕ and an array A (n, n); see `semiring.algorithms.predecessors`.

    Errors as for `closure`; `AlgebraError` where ⊕ is not selective. ``device``: several GPUs, or None.
    ``rounded_to`` as in `closure_of_rounded`.
    """
    progress = as_progress(progress, "paths")
    if not semiring.selective:
        raise AlgebraError(f"predecessors need a selective ⊕, which {semiring.name} does not have: use closure")
    if method not in METHODS or takes_edges(method):
        raise UnknownNameError("closure method with predecessors", method, matrix_methods())
    inspection, several = Inspection(), _where(device)[1]
    options = _options(semiring, method, threads, check, structure, several)
    request = Request(A, options, devices=several, rounded_to=rounded_to, progress=progress, inspect=inspection)
    D = _close(request)
    if inspection.found is None:  # closed as packed bits, or empty
        inspection.look(engine_of(make_plan(semiring, D.dtype, threads=options.threads), D), D, A)
    if is_tropical(semiring) and is_floating(D.dtype):
        attach_unbounded(make_plan(semiring, D.dtype, threads=options.threads), A, D, inspection.found)
    return D, inspection.found
