"""The report of ``explain=True``: the method, what was detected and used, and the predicted cost.

The planner fills in an `Explanation` by its methods; how the text reads is decided here alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from semiring.advice import advice
from semiring.chain.matrix import Matrix

__all__ = ["Explanation", "Link", "gpu_names"]


def gpu_names(devices: Sequence[int]) -> list[str]:
    """Return the names of the GPUs with these numbers, as ``device=`` takes them."""
    return [f"cuda:{number}" for number in devices]


class Link(NamedTuple):
    """The answer of one rule: whether it applies to a problem, and why."""

    depth: int
    step: str
    applies: bool
    why: str
    cost: str = ""  # the predicted operations of the alternatives, and whether the input is kept

    def __str__(self) -> str:
        cost = f"  [{self.cost}]" if self.cost else ""
        return f"{'  ' * self.depth}{'✓' if self.applies else '·'} {self.step:<12} {self.why}{cost}"


@dataclass
class Explanation:
    """What a call chose, and why: printed, in three to six lines; in `rules`, with the answer of every rule.

    ``method``, ``backend``, ``storage`` and ``threads`` name what computed the result, ``reasons`` what was detected
    and used, ``costs`` the predicted operations of the alternatives, and ``chain`` holds a `Link` for each rule.
    ``full`` prints `rules` in place of the summary.
    """

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
    subject: str = ""  # of a call that computes other than the closure of the matrix
    told: bool = True  # whether the caller requested an explanation
    full: bool = False
    costs: dict[str, float] = field(default_factory=dict)

    def about(self, m: Matrix) -> None:
        """Keep the shape and dtype of the first matrix: the one that the caller gave."""
        if self.dtype is None:
            self.shape, self.dtype = m.shape, m.dtype

    def closed_by(self, method: str, backend: str, m: Matrix, devices: tuple[int, ...] = ()) -> None:
        """Keep the method, backend and GPUs that close a matrix: the one that the caller gave, or its first part."""
        self.about(m)
        if method != self.method:  # a step found an easier way than the one that was chosen first
            self.reasons = [reason for reason in self.reasons if not self.method or self.method not in reason]
        self.method, self.backend, self.devices = method, backend, devices
        self.storage = "packed bits" if m.storage == "bits" else "elements"

    def note(self, reason: str) -> None:
        """Add a reason, unless it is there already or no explanation was requested."""
        if self.told and reason and reason not in self.reasons:
            self.reasons.append(reason)

    def say(self, *link: Any) -> None:
        """Add the answer of a rule: the fields of a `Link`."""
        self.chain.append(Link(*link))

    def predict(self, costs: Mapping[str, float]) -> None:
        """Keep the predicted operations of the alternatives, if a dense closure is one of them and none are known."""
        if "dense" in costs and not self.costs:
            self.costs = dict(costs)

    @property
    def rules(self) -> str:
        """The summary, and below it a line for each rule: ✓ where it applied, else the reason why it did not."""
        return "\n".join([*self._summary(), "  rules", *(f"    {link}" for link in self.chain)])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from semiring.terminal import html_lines

        return html_lines(str(self))

    def __str__(self) -> str:
        if self.full:
            return self.rules
        more = advice("print(why.rules) lists every rule", "--explain-full lists every rule")
        return "\n".join([*self._summary(), *([f"  more     {more}"] if self.chain else [])])

    def _summary(self) -> list[str]:
        """The lines without the rules: at most five."""
        size = " × ".join(map(str, self.shape))
        first, rest = self.reasons[:1], self.reasons[1:]
        return [
            f"{self.subject or f'closure of a {size} {self.dtype} matrix'} in {self.semiring}",
            f"  method   {self.method}, on the {self._device()}{self._storage()}",
            *(f"  because  {reason}" for reason in (*first, "; ".join(rest)) if reason),
            *([f"  cost     {self._cost()}"] if self.costs else []),
        ]

    def _device(self) -> str:
        if self.devices:
            return f"GPUs {', '.join(gpu_names(self.devices))}"
        if self.backend == "cuda":
            return "GPU"
        return f"CPU with {self.threads} thread{'s' * (self.threads > 1)}"

    def _storage(self) -> str:
        return f", in {self.storage}" if self.storage != "elements" else ""

    def _cost(self) -> str:
        dense, least = self.costs["dense"], min(self.costs.values())
        unit = "pairs of ⊗ and ⊕ predicted"
        if least < dense:
            return f"{least:.2g} {unit}, {dense:.2g} for a dense matrix without structure"
        return f"{dense:.2g} {unit}, as for every dense matrix of this size"
