"""What one public call of `closure` asks for, before anybody knows what was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from semiring.algebra import Semiring
from semiring.algorithms.predecessors import Inspection
from semiring.closures.call import Options
from semiring.closures.explanation import Explanation
from semiring.distributed.transports import ALONE, Team
from semiring.io.inputs import AS_IT_IS, Reading

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """What a public call asks for. A front end answers it by a request for something simpler, or by a `Call`."""

    given: Any  # a matrix, a graph, a frame, the name of a file
    options: Options
    plus: bool = False  # A⁺ instead of A*
    out: Any = None  # where the caller wants the result
    home: Any = None  # memory that is ours, where the result may be made
    device: Any = None  # where the caller wants it computed
    devices: tuple[int, ...] = ()  # or the GPUs that are to do it together
    memory: int | str | Mapping[str, int | str] | None = None  # how much a matrix that is not all in it may take
    journal: Any = None  # the name of the file that says how far it is
    pivots: Any = None  # the name of the file that the pivots of a matrix in a file go to
    team: Team = ALONE  # the ranks that share the strips of a file
    reading: Reading = AS_IT_IS  # how edges are read
    rounded_to: Any = None  # the dtype whose rounding the entries bring, where it is not theirs
    progress: Callable[[int, int], None] | None = None
    inspect: Inspection | None = None
    explanation: Explanation | None = None  # None where nobody wants to read it
    depth: int = 0  # of the lines of the explanation

    @property
    def semiring(self) -> Semiring:
        return self.options.semiring

    def but(self, given: Any, **changes: Any) -> Request:
        """The request for something else, explained one level deeper."""
        return replace(self, given=given, depth=self.depth + 1, **changes)

    def explain(self, front_end: str, why: str, *, quiet: bool = False) -> None:
        """Tell the explanation what a front end does."""
        if self.explanation is not None:
            self.explanation.say(self.depth, front_end, True, why)
            if not quiet:
                self.explanation.note(why)

    def note(self, reason: str) -> None:
        """Add a reason to the explanation, if somebody wants to read one."""
        if self.explanation is not None:
            self.explanation.note(reason)
