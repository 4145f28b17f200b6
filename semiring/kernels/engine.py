"""A backend bound to a plan, and the in-place products that closures consist of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import check_sum_laws
from semiring.arrays.encoding import inner_zero
from semiring.arrays.zero_conventions import stacklevel_of_caller
from semiring.errors import AlgebraWarning
from semiring.kernels import backend_for
from semiring.kernels.contract import (
    Backend,
    Capabilities,
    Facts,
    KernelPlan,
    Streams,
    has_operation,
    missing_operations,
)
from semiring.namespaces import Array, array_namespace

#: Columns (or rows) of the panel that an in-place product copies: wide enough for the kernels to run at full speed,
#: narrow enough to be small beside the matrix (a recursion's panels are n/2 high: 3 % of the matrix at n = 8192).
PANEL = 512


def make_plan(
    semiring: Semiring,
    dtype: Any,
    *,
    nonnegative: bool = False,
    separate: bool = False,
    storage: Literal["elements", "bits"] = "elements",
    threads: int = 1,
) -> KernelPlan:
    """Return the plan of one public call.

    Raises `DTypeError` if the semiring is not defined on the dtype, and `AlgebraError` if sums depend on their order.

    ``nonnegative`` and ``separate`` are facts about the data, as `Facts` states them.
    """
    return _plan(semiring, np.dtype(dtype), nonnegative, separate, storage, threads).with_semiring(semiring)


@lru_cache(maxsize=1024)
def _plan(
    semiring: Semiring,
    dtype: np.dtype[Any],
    nonnegative: bool,
    separate: bool,
    storage: Literal["elements", "bits"],
    threads: int,
) -> KernelPlan:
    """Return the plan that all calls of one kind share, apart from status and semiring name."""
    semiring.check_dtype(dtype)
    check_sum_laws(semiring)
    _warn_of_failed_annihilation(semiring)
    zero, one = inner_zero(semiring, dtype), semiring.one_for(dtype)
    return KernelPlan(semiring, dtype, zero, one, Facts(nonnegative, separate), storage, threads)


@lru_cache(maxsize=1024)
def _warn_of_failed_annihilation(semiring: Semiring) -> None:
    """Warn once about a semiring whose finite zero does not annihilate, so that products compute ⊗ for zeros, too."""
    failed = semiring.failed_annihilation
    if failed is not None:
        warnings.warn(
            f"{semiring.name} is no semiring: {failed}. Products compute ⊗ for entries that are {semiring.zero} like "
            "for any other, and closures and paths are refused. If the zero stands for no entry, define it as inf or "
            "-inf: such a zero always annihilates",
            AlgebraWarning,
            stacklevel=stacklevel_of_caller(),
        )


def engine_of(plan: KernelPlan, A: Array) -> Engine:
    """Return an engine with the backend for the memory of A."""
    from semiring.kernels.machines import closure_speed  # the import loads logging, which a product does not need

    backend = backend_for(A, plan.semiring, plan.dtype, plan.storage)
    return Engine(backend, plan, closure_speed(backend.name, plan.dtype, plan.storage).panel)


def split_range(start: int, stop: int, width: int) -> Iterator[slice]:
    """Yield ranges of at most ``width`` that cover start … stop - 1.

    If ``width`` is at least 3, no range is a single index, unless start … stop - 1 is one. A product with a single row
    or column may be computed in another order than larger products. If ⊕ rounds, its result would differ. But the
    result must not depend on how a matrix is cut.
    """
    while start < stop:
        end = min(stop, start + width)
        end -= stop - end == 1 and width > 2
        yield slice(start, end)
        start = end


class StreamLanes:
    """A context for concurrent work on several streams.

    A *lane* is one stream, which runs its tasks in order, and the engine of this stream. A lower number means a higher
    priority. All lanes begin after the work that was enqueued before the context. Work that is enqueued after the
    context begins after all lanes have ended.
    """

    def __init__(self, engine: Engine, streams: Streams) -> None:
        self._engine, self._streams = engine, streams

    def __enter__(self) -> StreamLanes:
        self._streams.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._streams.__exit__(*error)

    def reserve(self, number: int, entries: int) -> None:
        """Call `Engine.reserve` for one lane."""
        self._engine.lane(number).reserve(entries)

    def run(self, number: int, task: Callable[[Engine], None], *dependencies: Any) -> Any:
        """Enqueue a task, which receives the engine of its lane.

        It begins after the tasks whose results of `run` are ``dependencies``; a None among them is ignored.
        """
        lane = self._engine.lane(number)
        return self._streams.run(number, lambda: task(lane), dependencies)


class Engine:
    """The kernels of ``backend`` under ``plan``.

    C and W are views of the caller's matrices, written in place. The copies that in-place products need are kept for
    the next product, so one engine serves one thread at a time.
    """

    def __init__(self, backend: Backend, plan: KernelPlan, panel: int = PANEL, *, may_synchronize: bool = True) -> None:
        """Bind a backend to a plan.

        ``may_synchronize``: whether the engine may read data, for which a device must finish its enqueued work.
        """
        self.backend, self.plan, self.panel, self.may_synchronize = backend, plan, panel, may_synchronize
        self._workspace: Array | None = None
        self._reserved_entries = 0
        self._lanes: dict[int, Engine] = {}
        self._has_concurrent_work = False  # whether other engines' work runs concurrently

    @property
    def capabilities(self) -> Capabilities:
        """The operations that the backend provides beyond the contract."""
        return self.backend.capabilities

    def lanes(self) -> StreamLanes | None:
        """Return lanes for concurrent work, or None if the backend executes its work in one order."""
        kernels = self.backend.capabilities.streams
        streams = None if kernels is None else kernels.lanes(self.plan)
        return None if streams is None else StreamLanes(self, streams)

    def lane(self, number: int) -> Engine:
        """Return the engine of a lane.

        Its workspace is the memory of one stream, because an allocator reuses freed memory on the same stream without
        waiting for other streams.
        """
        if number not in self._lanes:
            lane = self._lanes[number] = self.with_backend(self.backend)
            lane._has_concurrent_work = True
        return self._lanes[number]

    # ------------------------------------------------------------------------------------- the contract, plan bound

    def multiply(self, C: Array, A: Array, B: Array) -> None:
        """Compute C ← A ⊗ B without reading C."""
        self.backend.multiply(self.plan, C, A, B)

    def multiply_add(self, C: Array, A: Array, B: Array) -> None:
        """Compute C ← C ⊕ A ⊗ B."""
        self.backend.multiply_add(self.plan, C, A, B)

    def _multiply_upper(self, C: Array, A: Array, B: Array, subdiagonals: int | None, *, is_left: bool) -> None:
        if subdiagonals is None or not has_operation(self.capabilities.products, "multiply_upper"):
            self.multiply(C, A, B)
        else:
            self._multiply_triangular(C, A, B, subdiagonals, is_left=is_left)

    def _multiply_triangular(self, C: Array, A: Array, B: Array, subdiagonals: int, *, is_left: bool) -> None:
        products: Any = self.capabilities.products
        products.multiply_upper(self.plan, C, A, B, subdiagonals, is_left)

    def multiply_add_upper(self, C: Array, A: Array, B: Array) -> None:
        """Compute C ← C ⊕ A ⊗ B on and above the diagonal of C (n, n). Entries below it may be overwritten."""
        products = self.capabilities.products
        multiply = self.backend.multiply_add if products is None else products.multiply_add_upper
        multiply(self.plan, C, A, B)

    def multiply_add_witness(self, C: Array, W: Array, A: Array, B: Array, k0: int = 0) -> None:
        """Compute C ← C ⊕ A ⊗ B. Where C strictly improves, W becomes k0 + the smallest k that attains it."""
        self.backend.multiply_add_witness(self.plan, C, W, A, B, k0)

    def close_block(self, A: Array, start: int = 0) -> None:
        """Compute A ← A* for a block of at most some hundred rows. Its first row is the vertex ``start``."""
        self.plan.status.first_vertex = start
        self.backend.close_block(self.plan, A)

    def can_close(self, n: int) -> bool:
        """Return whether the backend has a fast path for a whole closure of n rows under this plan."""
        closures = self.backend.capabilities.closures
        return closures is not None and closures.can_close(self.plan, n)

    def close(self, A: Array, start: int = 0) -> None:
        """Compute A ← A* by the backend's fast path for whole closures, which `can_close` must allow.

        Raises `DeviceError` if the backend has no such path.
        """
        closures = self.backend.capabilities.closures
        if closures is None or not has_operation(closures, "close"):
            raise missing_operations("this closure", ["close"], self.backend)
        self.plan.status.first_vertex = start
        closures.close(self.plan, A, has_concurrent_work=self._has_concurrent_work)

    def close_as(self, name: str, A: Array, **options: Any) -> None:
        """Compute A ← A* by the kernel of a paper.

        ``name`` is the name of its method, and ``options`` are those of the method. Raises `DeviceError` if the backend
        has no such kernel, and `AlgebraError` if it does not close the semiring.
        """
        closures = self.capabilities.closures
        if closures is None or name not in closures.paper_names():
            raise missing_operations(name, ["close_as"], self.backend)
        self.plan.status.first_vertex = 0
        closures.close_as(self.plan, A, name, **options)

    def with_backend(self, backend: Backend) -> Engine:
        """Return an engine with the same plan and panel, and the kernels of another backend."""
        return Engine(backend, self.plan, self.panel, may_synchronize=self.may_synchronize)

    # ------------------------------------------------------------------------------------------- products in place

    def reserve(self, entries: int) -> None:
        """Announce that the largest panel to be copied has ``entries`` entries.

        Then the first copy allocates one workspace for all copies. A growing workspace would leave memory of every size
        in an allocator.
        """
        self._reserved_entries = max(self._reserved_entries, entries)

    def multiply_left(self, A: Array, B: Array, *, subdiagonals: int | None = None) -> None:
        """Compute B ← A ⊗ B in place, A (m, m), B (m, n).

        If the backend does not accept B as C, column panels of B are copied and multiplied back. A column of the result
        depends on that column of B alone. So the panels are independent for every ⊕, and the result does not depend on
        an order of execution. A and B share no element. Workspace m × `panel`.

        ``subdiagonals``: A[i, k] is 0̄ for k < i - subdiagonals.
        """
        products = self.capabilities.products
        if products is not None and products.can_multiply_in_place(self.plan, *B.shape):
            self._multiply_upper(B, A, B, subdiagonals, is_left=True)
            return
        width = max(1, self.panel // (32 if self.plan.storage == "bits" else 1))  # in elements or words, as B is stored
        for columns in split_range(0, B.shape[1], width):
            panel = self.copy_panel(B[:, columns])
            self._multiply_upper(B[:, columns], A, panel, subdiagonals, is_left=True)

    def multiply_right(self, B: Array, A: Array, *, subdiagonals: int | None = None) -> None:
        """Compute B ← B ⊗ A in place, B (m, n), A (n, n): row panels of B are copied and multiplied back.

        See `multiply_left`. The workspace is `panel` × n. ``subdiagonals``: A[k, j] is 0̄ for k > j + subdiagonals.
        """
        for rows in split_range(0, B.shape[0], self.panel):
            panel = self.copy_panel(B[rows])
            self._multiply_upper(B[rows], panel, A, subdiagonals, is_left=False)

    def can_overlap(self, m: int, n: int, k: int) -> bool:
        """Return whether columns of C (m, n) may be A (m, k) in `multiply_add` if B are rows of closed pivots."""
        products = self.capabilities.products
        return products is not None and products.can_overlap(self.plan, m, n, k)

    def copy_panel(self, view: Array, out: Array | None = None) -> Array:
        """Return a copy in ``out``, or a dense copy in the workspace, which the next such copy overwrites.

        The copy uses the backend's kernel, if there is one, because it has the priority of its stream.
        """
        if out is None:
            out = self._workspace_of(view)
        products, passes = self.capabilities.products, self.capabilities.passes
        if products is not None:
            products.copy_panel(self.plan, view, out)
        elif passes is not None:
            passes.copy(view, out)
        else:
            out[...] = view
        return out

    def _workspace_of(self, view: Array) -> Array:
        """Return memory for a copy of a panel: for the largest panel that was announced, or the largest so far."""
        size = view.shape[0] * view.shape[1]
        if self._workspace is None or self._workspace.size < size:
            self._workspace = None  # free the old memory first
            self._workspace = array_namespace(view).empty(max(size, self._reserved_entries), dtype=view.dtype)
        return self._workspace[:size].reshape(view.shape)
