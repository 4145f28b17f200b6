"""Print the report of ``explain=True``: what was asked, what was found, how it was read, what ran, and the rivals.

A choice fills in an `Explanation` by its answers. This module alone decides the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiring.advice import advice
from semiring.graphs.graph_structure import NO_STRUCTURE

if TYPE_CHECKING:
    from semiring.closures.choose import Choice
    from semiring.closures.problem import Facts, Problem

__all__ = ["Answer", "Explanation", "gpu_names"]

_RIVALS = 2  # the nearest rivals of the summary

_SIGNS = {
    "clear": "no weight below 0",
    "zero": "no weight below 0",
    "below": "weights below 0, or of unknown sign",
}


def gpu_names(devices: Sequence[int]) -> list[str]:
    """Return the names of the GPUs with these numbers, in the form of ``device=``."""
    return [f"cuda:{number}" for number in devices]


class Answer(NamedTuple):
    """What a front end, an encoding or an algorithm answered: the reason against it, or its cost in pairs."""

    kind: str  # "input", "encoding", "algorithm" or "run"
    name: str
    why: str  # the reason why it does not apply, or what it does
    cost: float | None = None  # None unless it is an algorithm that applies
    applies: bool = False
    depth: int = 0  # the depth of the part that was asked; 0 is the caller's matrix

    def __str__(self) -> str:
        cost = "" if self.cost is None else f"{self.cost:.2g} pairs"
        text = " ".join(filter(None, (cost, self.why)))
        return f"{'  ' * self.depth}{'✓' if self.applies else '·'} {self.name:<24} {text}".rstrip()


@dataclass
class Explanation:
    """The choice of a call and its reasons: a summary of at most eight lines, and in `details` all answers.

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
    facts : list of str
        What scans found out about the entries.
    encodings : list of str
        How the entries were read.
    reasons : list of str
        The properties that were used.
    answers : list of Answer
        What each front end, encoding and algorithm answered.
    subject : str
        The first line, for a call that does not compute the closure of a whole matrix.
    full : bool
        Whether ``str`` prints `details` in place of the summary.
    costs : dict of str to float
        The predicted pairs of the algorithms that apply, by name.
    """

    semiring: str = ""
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None
    method: str = ""
    backend: str = ""
    devices: tuple[int, ...] = ()
    storage: str = "elements"
    threads: int = 1
    facts: list[str] = field(default_factory=list)
    encodings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    subject: str = ""
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
        """Set the method, backend and GPUs that close the caller's matrix.

        Parameters
        ----------
        method, backend : str
            The names of the method and of the backend.
        storage : {"elements", "bits"}
            The storage of the matrix.
        devices : tuple of int
            The numbers of the GPUs that close the matrix together.
        """
        self.method, self.backend, self.devices = method, backend, devices
        self.storage = "packed bits" if storage == "bits" else "elements"

    def note(self, reason: str) -> None:
        """Add a reason, unless it was added before.

        Parameters
        ----------
        reason : str
            The reason. An empty text is no reason.
        """
        if reason and reason not in self.reasons:
            self.reasons.append(reason)

    def add_input(self, name: str, why: str, *, quiet: bool = False) -> None:
        """Add what a front end does with the operand; unless ``quiet``, it is a reason of the summary too.

        Parameters
        ----------
        name : str
            The front end.
        why : str
            What it does.
        quiet : bool
            Whether the summary omits it.
        """
        self.answers.append(Answer("input", name, why, None, True))
        if not quiet:
            self.note(why)

    def add_choice(self, choice: Choice) -> None:
        """Add the answers of a choice. The first one is that of the caller's matrix; later ones are of parts.

        Parameters
        ----------
        choice : Choice
            The choice.
        """
        p, origin, facts = choice.problem, choice.origin, choice.origin.facts
        if origin.place:  # of equal parts the first is explained
            return
        self.answers += [answer._replace(depth=origin.depth) for answer in choice.answers]
        self.note(", ".join(f"{name}={value}" for name, value in origin.options.method_options))
        self.note(choice.algorithm.describe(p))
        if not self.encodings and choice.algorithm.is_encoded:
            self.encodings = _list_encodings(p)
        if self.dtype is None or not self.facts:
            self.set_matrix((*origin.stack, *facts.shape[-2:]) if origin.is_stack else facts.shape, facts.dtype)
            self.facts = _list_facts(choice.problem.facts)
            self.costs = {a.name: a.cost for a in choice.answers if a.applies and a.cost is not None}
        name = choice.method_name
        backend = "cuda" if facts.devices else p.backend.name
        if not choice.algorithm.divides:
            size, where = " × ".join(map(str, facts.shape)), ", ".join(gpu_names(facts.devices)) or backend
            dtype = "bits" if p.is_packed else p.dtype
            self.answers.append(Answer("run", name, f"closes {size} {dtype}, {where}", None, True, origin.depth))
        if not facts.is_part:
            self.set_method(name, backend, p.matrix.storage, facts.devices)

    @property
    def details(self) -> str:
        """The summary, and the answers of all front ends, encodings and algorithms: ✓ if it applies, · if not."""
        kinds = (("input", "input"), ("encoding", "encodings"), ("algorithm", "algorithms"), ("run", "runs"))
        lines = self._format_summary()
        for kind, title in kinds:
            answers = [each for each in self.answers if each.kind == kind]
            lines += [f"  {title}", *(f"    {each}" for each in answers)] if answers else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the text as HTML for a notebook."""
        from semiring.terminal import html_lines

        return html_lines(str(self))

    def __str__(self) -> str:
        if self.full:
            return self.details
        more = advice("print(why.details) lists all answers", "--explain-full lists all answers")
        return "\n".join([*self._format_summary(), *([f"  more     {more}"] if self.answers else [])])

    def _format_summary(self) -> list[str]:
        """Return the lines of the summary, at most seven."""
        size = " × ".join(map(str, self.shape))
        named = {
            "method": f"{self.method}, on the {self._format_device()}{self._format_storage()}",
            "found": "; ".join(self.facts),
            "read": ", ".join(self.encodings),
            "because": "; ".join(self.reasons),
            "cost": self._format_cost(),
        }
        lines = [f"  {name:<8} {text}" for name, text in named.items() if text]
        return [f"{self.subject or f'closure of a {size} {self.dtype} matrix'} in {self.semiring}", *lines]

    def _format_device(self) -> str:
        if self.devices:
            return f"GPUs {', '.join(gpu_names(self.devices))}"
        if self.backend == "cuda":
            return "GPU"
        return f"CPU with {self.threads} thread{'s' * (self.threads > 1)}"

    def _format_storage(self) -> str:
        return f", in {self.storage}" if self.storage != "elements" else ""

    def _format_cost(self) -> str:
        """Return the predicted cost, and those of the nearest rivals."""
        ordered = sorted((cost, name) for name, cost in self.costs.items() if cost)
        if not ordered:
            return ""
        (least, _), rivals = ordered[0], ordered[1 : 1 + _RIVALS]
        others = ", ".join(f"{cost:.2g} by {name}" for cost, name in rivals)
        return f"{least:.2g} pairs of ⊗ and ⊕ predicted{', ' * bool(others)}{others}"


def _list_facts(facts: Facts) -> list[str]:
    """Return the facts that were computed, as text."""
    found, texts = facts.__dict__, []
    if "signs" in found and facts.storage != "bits":
        texts.append(_SIGNS[facts.signs])
    if found.get("structure", NO_STRUCTURE) is not NO_STRUCTURE:
        graph = facts.structure
        texts.append(str(graph) or "not undirected, not of few edges, and not of one weight")
        if "components" in graph.__dict__:
            texts.append(_count_components(len(graph.components)))
    if "components" in found:
        texts.append(_count_components(len(facts.components)))
    if "potentials" in found:
        texts.append("potentials that must be exact" if facts.needs_exact_potentials else "potentials")
    if found.get("factors") is not None:
        texts.append("factors under which no product gains")
    return texts


def _list_encodings(p: Problem) -> list[str]:
    """Return how the entries are read, as text."""
    m, names = p.matrix, {type(map_).__name__ for map_ in p.matrix.maps}
    return [
        *(["in float32, and rounded once"] if p.rounded_result is not None else []),
        *(["as their negatives"] if m.sign < 0 else []),
        *([f"in {m.dtype}"] if m.dtype != m.source else []),
        *(["as packed bits"] if p.is_packed and not m.is_packed else []),
        *(["in the order of floats"] if "OrderedIntegers" in names else []),
        *([f"under {'factors' if 'factors' in p.facts.__dict__ else 'potentials'}"] if "CallMap" in names else []),
    ]


def _count_components(count: int) -> str:
    return f"{count:,} strong component{'s' * (count != 1)}"
