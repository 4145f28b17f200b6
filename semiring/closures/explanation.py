"""Print the report of ``explain=True``: the method, what was detected and used, and the predicted cost.

The planner fills in an `Explanation` by its methods. This module alone decides the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from semiring.advice import advice

__all__ = ["Explanation", "Link", "gpu_names"]

#: The names of rules and of predicted alternatives in `Explanation.rules` and in the line of the cost.
_LABELS = {
    "files": "matrix in a file",
    "names": "labels",
    "bits": "packed input",
    "sparse": "sparse input",
    "arrays": "array",
    "half": "half precision",
    "entries": "signs of the entries",
    "gaining": "small matrices that gain",
    "stacks": "stack",
    "edges": "method on edges",
    "minplus": "sign change",
    "narrow": "narrow integers",
    "integers": "integer distances",
    "ordered": "floats as integers",
    "packed": "bit packing",
    "structure": "structure analysis",
    "bottleneck": "spanning tree",
    "hops": "breadth-first search",
    "reachability": "reachability by components",
    "searches": "Dijkstra's algorithm",
    "separators": "nested dissection",
    "signs": "potentials of components",
    "components": "strong components",
    "reweighted": "potentials",
    "scaled": "scaling factors",
    "undirected": "symmetry",
    "plus": "irreflexive closure",
}

#: Rules for another kind of input (a file, a stack, integers, ...). `Explanation.rules` omits the reason why such a
#: rule does not apply, because the first line shows the input.
_OTHER_INPUT = frozenset(
    (
        *("files", "names", "bits", "sparse", "half", "gaining", "stacks", "edges"),
        *("integers", "ordered", "packed", "plus"),
    )
)

#: Rules that apply to every matrix.
_ALWAYS = frozenset(("arrays", "method", "entries"))


def gpu_names(devices: Sequence[int]) -> list[str]:
    """Return the names of the GPUs with these numbers, in the form of ``device=``."""
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


def _label(step: str) -> str:
    """Return the name of a rule or an alternative in an explanation."""
    return _LABELS.get(step, step)


@dataclass
class Explanation:
    """The choices of a call and their reasons: a summary of three to six lines, and in `rules` all rules.

    The parameters are also its attributes.

    Parameters
    ----------
    semiring : str
        The name of the semiring.
    shape : tuple of int
        The shape of the caller's matrix.
    dtype : numpy.dtype or None
        The dtype of the caller's matrix. None means that no matrix was set yet.
    method, backend : str
        The method and the backend that computed the result.
    devices : tuple of int
        The numbers of the GPUs that close the matrix together.
    storage : {"elements", "packed bits"}
        The storage of the matrix.
    threads : int
        The number of threads.
    reasons : list of str
        The structure and properties that were detected and used.
    chain : list of Link
        A `Link` for each rule.
    subject : str
        The first line, for a call that does not compute the closure of a whole matrix.
    is_requested : bool
        Whether the caller requested an explanation.
    full : bool
        Whether ``str`` prints `rules` in place of the summary.
    costs : dict of str to float
        The predicted operations of the alternatives, by name.
    """

    semiring: str = ""
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None
    method: str = ""
    backend: str = ""
    devices: tuple[int, ...] = ()
    storage: str = "elements"
    threads: int = 1
    reasons: list[str] = field(default_factory=list)
    chain: list[Link] = field(default_factory=list)
    subject: str = ""
    is_requested: bool = True
    full: bool = False
    costs: dict[str, float] = field(default_factory=dict)

    def set_matrix(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Set the shape and dtype by the first matrix, which is the caller's.

        Parameters
        ----------
        shape : tuple of int
            The shape.
        dtype : numpy.dtype
            The dtype.
        """
        if self.dtype is None:
            self.shape, self.dtype = shape, dtype

    def set_method(self, method: str, backend: str, storage: str = "elements", devices: tuple[int, ...] = ()) -> None:
        """Set the method, backend and GPUs that close the caller's matrix or its first part.

        Parameters
        ----------
        method, backend : str
            The names of the method and of the backend.
        storage : {"elements", "bits"}
            The storage of the matrix.
        devices : tuple of int
            The numbers of the GPUs that close the matrix together.
        """
        if method != self.method:  # a later rule replaced the method, so the reasons for the first one are wrong
            self.reasons = [reason for reason in self.reasons if not self.method or self.method not in reason]
        self.method, self.backend, self.devices = method, backend, devices
        self.storage = "packed bits" if storage == "bits" else "elements"

    def note(self, reason: str) -> None:
        """Add a reason, unless it was added before or no explanation was requested.

        Parameters
        ----------
        reason : str
            The reason. An empty text is no reason.
        """
        if self.is_requested and reason and reason not in self.reasons:
            self.reasons.append(reason)

    def add_rule(self, *link: Any) -> None:
        """Add the answer of a rule.

        Parameters
        ----------
        *link : object
            The fields of a `Link`.
        """
        self.chain.append(Link(*link))

    def predict(self, costs: Mapping[str, float]) -> None:
        """Set the predicted operations of the alternatives, if they include a dense closure and were not set before.

        Parameters
        ----------
        costs : mapping of str to float
            The operations by the name of the alternative.
        """
        if "dense" in costs and not self.costs:
            self.costs = dict(costs)

    @property
    def rules(self) -> str:
        """The summary, the rules that applied (✓), and the remaining rules (·) grouped by their reasons.

        Rules for another kind of input are listed by name only. ``chain`` has the reason of each rule.
        """
        applied = [link for link in self.chain if link.applies and link.step not in _ALWAYS and link.why != "min-plus"]
        reasons: dict[str, list[str]] = {}
        without_reason: list[str] = []
        for link in self.chain:
            if link.applies or link.step in _ALWAYS or any(link.step == other.step for other in applied):
                continue
            labels = without_reason if link.step in _OTHER_INPUT else reasons.setdefault(link.why, [])
            if (label := _label(link.step)) not in labels:
                labels.append(label)
        lines = [f"✓ {_label(link.step)}: {link.why}{self._format_link_cost(link)}" for link in applied]
        lines += [f"· {', '.join(labels)}: {why}" for why, labels in reasons.items()]
        lines += [f"· for other input: {', '.join(without_reason)}"] if without_reason else []
        below = {link.why for link in applied} | set(reasons)
        because = [reason for reason in self.reasons if reason not in below]
        return "\n".join([*self._format_summary(because), "  rules", *(f"    {line}" for line in lines)])

    def _repr_html_(self) -> str:
        """Return the text as HTML for a notebook."""
        from semiring.terminal import html_lines

        return html_lines(str(self))

    def __str__(self) -> str:
        if self.full:
            return self.rules
        more = advice("print(why.rules) lists the rules", "--explain-full lists the rules")
        return "\n".join([*self._format_summary(self.reasons), *([f"  more     {more}"] if self.chain else [])])

    def _format_summary(self, reasons: Sequence[str]) -> list[str]:
        """Return the lines of the summary with these reasons, at most five lines."""
        size = " × ".join(map(str, self.shape))
        first, rest = reasons[:1], reasons[1:]
        return [
            f"{self.subject or f'closure of a {size} {self.dtype} matrix'} in {self.semiring}",
            f"  method   {self.method}, on the {self._format_device()}{self._format_storage()}",
            *(f"  because  {reason}" for reason in (*first, "; ".join(rest)) if reason),
            *([f"  cost     {self._format_cost()}"] if self.costs else []),
        ]

    def _format_link_cost(self, link: Link) -> str:
        """Return the cost of a link in brackets, with labels, without the costs that the line of the cost shows."""
        has_few_costs = len(self.costs) <= 2
        parts = [part for part in link.cost.split("; ") if part and not (has_few_costs and part.endswith(" pairs"))]
        return f"  [{re.sub(r'[a-z]+(?= [0-9])', lambda name: _label(name[0]), '; '.join(parts))}]" if parts else ""

    def _format_device(self) -> str:
        if self.devices:
            return f"GPUs {', '.join(gpu_names(self.devices))}"
        if self.backend == "cuda":
            return "GPU"
        return f"CPU with {self.threads} thread{'s' * (self.threads > 1)}"

    def _format_storage(self) -> str:
        return f", in {self.storage}" if self.storage != "elements" else ""

    def _format_cost(self) -> str:
        dense, least = self.costs["dense"], min(self.costs.values())
        unit = "pairs of ⊗ and ⊕ predicted"
        if least < dense:
            return f"{least:.2g} {unit}, {dense:.2g} for a dense matrix without structure"
        rivals = ", ".join(f"{cost:.2g} by {_label(name)}" for name, cost in self.costs.items() if name != "dense")
        if rivals:
            return f"{dense:.2g} {unit} by the dense method and its passes over the matrix, {rivals}"
        return f"{dense:.2g} {unit}, as for every dense matrix of this size"
