"""Hold the arguments of one public call of `closure`, before a front end has converted its operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from semiring.algebra import Semiring
from semiring.algorithms.predecessors import PredecessorSearch
from semiring.closures.explain import Explanation
from semiring.closures.problem import Options
from semiring.distributed.transports import SINGLE_RANK, Communicator
from semiring.io.inputs import DEFAULT_READING, Reading

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """The arguments of a public call. A front end replaces it by a simpler request, or by a `Problem`."""

    operand: Any  # a matrix, a graph, a frame, the name of a file
    options: Options
    plus: bool = False  # A⁺ instead of A*
    out: Any = None  # the caller's ``out=``: an array, or the name of a file
    out_buffer: Any = None  # memory of the library into which the result may be written
    device: Any = None  # the caller's ``device=``, if it names one device
    devices: tuple[int, ...] = ()  # the GPUs that close the matrix together
    memory: int | str | Mapping[str, int | str] | None = None  # the bound of the memory for a closure by strips
    journal: Any = None  # the name of the file that records the progress of a closure by strips
    communicator: Communicator = SINGLE_RANK  # the ranks that share the strips of a file
    reading: Reading = DEFAULT_READING  # how edges are read
    rounded_to: Any = None  # the dtype to which the entries were rounded, if it differs from their own
    progress: Callable[[int, int], None] | None = None
    inspection: PredecessorSearch | None = None  # finds predecessors from the closed matrix, before it is decoded
    explanation: Explanation | None = None  # None: no explanation was requested

    @property
    def semiring(self) -> Semiring:
        return self.options.semiring

    def with_operand(self, operand: Any, **changes: Any) -> Request:
        """Return the request for another operand."""
        return replace(self, operand=operand, **changes)

    def explain(self, front_end: str, reason: str, *, quiet: bool = False) -> None:
        """Add what a front end does to the explanation, if one was requested; ``quiet``: the summary omits it."""
        if self.explanation is not None:
            self.explanation.add_input(front_end, reason, quiet=quiet)

    def note(self, reason: str) -> None:
        """Add a reason to the explanation, if one was requested."""
        if self.explanation is not None:
            self.explanation.note(reason)
