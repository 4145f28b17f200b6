"""One public call of a closure: what was asked, and what has been found out on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.execution import Execution
from semiring.algorithms.tropical import is_tropical
from semiring.arrays.entries import check_entries
from semiring.arrays.scans import Scan

__all__ = ["Call", "Explanation"]


@dataclass
class Explanation:
    """What `closure` chose, and why. ``print`` it."""

    semiring: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None where there is no matrix yet
    method: str
    backend: str
    storage: str
    threads: int
    reasons: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        size = " × ".join(map(str, self.shape))
        where = [self.backend, self.storage]
        if self.backend != "cuda":
            where.append(f"{self.threads} thread{'s' if self.threads > 1 else ''}")
        lines = [
            f"closure of a {size} {self.dtype} matrix in {self.semiring}",
            f"  method   {self.method}",
            f"  backend  {', '.join(where)}",
        ]
        return "\n".join([*lines, *(f"  because  {reason}" for reason in self.reasons)])


@dataclass(frozen=True)
class Call:
    """One public call."""

    semiring: Semiring
    execution: Execution
    asked: str  # the method
    reflexive: bool
    check: bool
    explanation: Explanation

    def note(self, reason: str) -> None:
        if reason not in self.explanation.reasons:
            self.explanation.reasons.append(reason)

    def by(self, method: str, *, waits: bool = True) -> Call:
        """The same call with its method chosen, and whether that may wait for a device: where the call may at all."""
        self.explanation.method = method
        execution = self.execution.by(method, self.execution.waits and waits)
        return Call(self.semiring, execution, self.asked, self.reflexive, self.check, self.explanation)

    def look(self, A: Any) -> Scan:
        """What a look at A finds.

        The sign decides about the potentials, and the range of integers about their width; so the host looks whatever
        ``check`` says. A device that must not be waited for is promised weights ≥ 0, and no path near half the range of
        an integer.
        """
        if self.check or (is_tropical(self.semiring) and self.execution.waits):
            return check_entries(A, self.semiring)
        return Scan(0, 0, has_zero=True) if is_tropical(self.semiring) else Scan()

    def part(self, position: int, count: int) -> Call:
        """The call for one matrix of a stack: its progress is a part of the whole."""
        progress: Any = self.execution.progress
        if progress is None or count == 1:
            return self

        def report(done: int, total: int) -> None:
            progress(position * total + done, count * total)

        return replace(self, execution=replace(self.execution, progress=report))
