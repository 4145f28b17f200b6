"""What was decided on the way from a call to its kernels, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from semiring.chain.matrix import Matrix

__all__ = ["Explanation", "Link", "gpu_names"]


def gpu_names(devices: Sequence[int]) -> list[str]:
    """Return the names of the GPUs with these numbers, as ``device=`` takes them."""
    return [f"cuda:{number}" for number in devices]


class Link(NamedTuple):
    """What one step said: that it applies, or why it does not."""

    depth: int
    step: str
    applies: bool
    why: str
    cost: str = ""  # what it costs, and what other ways would; and what it needs the input for

    def __str__(self) -> str:
        cost = f"  [{self.cost}]" if self.cost else ""
        return f"{'  ' * self.depth}{'✓' if self.applies else '·'} {self.step:<12} {self.why}{cost}"


@dataclass
class Explanation:
    """What `closure` chose, and why. ``print`` it; ``chain`` has every step, with those that refused."""

    semiring: str = ""
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None  # None where there is no matrix yet
    method: str = ""
    backend: str = ""
    devices: tuple[int, ...] = ()  # the numbers of the GPUs that close it together
    storage: str = "elements"
    threads: int = 1
    reasons: list[str] = field(default_factory=list)
    chain: list[Link] = field(default_factory=list)
    subject: str = ""  # where it is no closure of the matrix
    told: bool = True  # whether anybody wants to hear what each step said

    def about(self, m: Matrix) -> None:
        """The matrix that the caller gave: the first there is."""
        if self.dtype is None:
            self.shape, self.dtype = m.shape, m.dtype

    def closed_by(self, method: str, backend: str, m: Matrix, devices: tuple[int, ...] = ()) -> None:
        """What closes a matrix: the one that the caller gave, or the first part of it."""
        self.about(m)
        if method != self.method:  # a step found an easier way than the one that was chosen first
            self.reasons = [reason for reason in self.reasons if not self.method or self.method not in reason]
        self.method, self.backend, self.devices = method, backend, devices
        self.storage = "packed bits" if m.storage == "bits" else "elements"

    def note(self, reason: str) -> None:
        """A reason, once, where anybody wants to hear it."""
        if self.told and reason and reason not in self.reasons:
            self.reasons.append(reason)

    def say(self, *link: Any) -> None:
        """What a step said, in its order: a `Link`."""
        self.chain.append(Link(*link))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from semiring.terminal import html_lines

        return html_lines(str(self))

    def __str__(self) -> str:
        size = " × ".join(map(str, self.shape))
        where = [*gpu_names(self.devices)] or [self.backend]
        where.append(self.storage)
        if self.backend != "cuda":
            where.append(f"{self.threads} thread{'s' if self.threads > 1 else ''}")
        lines = [
            f"{self.subject or f'closure of a {size} {self.dtype} matrix'} in {self.semiring}",
            f"  method   {self.method}",
            f"  backend  {', '.join(where)}",
            *(f"  because  {reason}" for reason in self.reasons),
        ]
        return "\n".join([*lines, "  chain", *(f"    {link}" for link in self.chain)] if self.chain else lines)
