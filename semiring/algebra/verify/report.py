"""Results of the checks: a verdict for each law, and the report that `check_axioms` returns."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from semiring.advice import advice, option
from semiring.algebra.verify.statements import SUM_LAWS, Law
from semiring.errors import AlgebraError, UnknownNameError

__all__ = ["AxiomReport", "Counterexample", "Rounding", "Verdict"]

Outcome = Literal["proved", "refuted", "sampled"]


@dataclass(frozen=True)
class Counterexample:
    """Elements on which a law fails, and the values of both sides there.

    Parameters
    ----------
    values : mapping of str to object
        The element for each of the variables x, y and z.
    statement : str
        The statement that fails.
    left : str
        The value of its left side.
    right : tuple of str
        The values that the left side may have. It is empty if the left side must be in the domain.
    text : str
        The elements as text, such as ``"x = 1, y = 1/2"``.
    """

    values: Mapping[str, Any]
    statement: str
    left: str
    right: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        location = f" at {self.text}" if self.text else ""
        sides = self.statement.split(" = ")
        if not self.right:
            return f"{sides[0].replace(' in the domain', '')} is {self.left}, outside the domain,{location}".rstrip(",")
        if len(self.right) > 1:
            return f"{sides[0]} is {self.left}{location}"
        if sides[1] == self.right[0] or sides[1] in self.values:
            return f"{sides[0]} is {self.left}, not {sides[1]},{location}".rstrip(",")
        return f"{sides[0]} is {self.left}, but {sides[1]} is {self.right[0]},{location}".rstrip(",")


@dataclass(frozen=True)
class Rounding:
    """The deviations from an exact law in the arithmetic of a dtype.

    Parameters
    ----------
    dtype : str
        The name of the dtype.
    samples : int
        The number of random tuples of elements.
    ulp : float
        The largest deviation in the samples, in units in the last place of the largest operand or result.
    overflow : str
        The description of a result outside the range of the dtype, or "" without one.
    """

    dtype: str
    samples: int
    ulp: float = 0.0
    overflow: str = ""

    def __str__(self) -> str:
        if self.overflow:
            return f"overflow: {self.overflow}"
        return "exact" if self.ulp == 0 else f"up to {self.ulp:.3g} ulp"


@dataclass(frozen=True)
class Verdict:
    """The outcome of the check of a law, and the method. A verdict is true in a condition unless the law is refuted.

    Parameters
    ----------
    law : Law
        The law.
    outcome : {"proved", "refuted", "sampled"}
        A sampled law was tried on samples without a counterexample.
    how : str
        The method, such as ``"case splits"``.
    counterexample : Counterexample or None
        The counterexample of a refuted law.
    rounding : Rounding or None
        The deviations that rounding causes. None means that they were not measured.
    note : str
        A remark for the report, or "".
    """

    law: Law
    outcome: Outcome
    how: str
    counterexample: Counterexample | None = None
    rounding: Rounding | None = None
    note: str = ""

    def __bool__(self) -> bool:
        return self.outcome != "refuted"

    @property
    def proved(self) -> bool:
        """Whether the law is proved, and not only tried on samples."""
        return self.outcome == "proved"

    def __str__(self) -> str:
        if self.counterexample is not None:
            return f"{self.law.text} fails: {self.counterexample}"
        verb = "holds, proved by" if self.proved else "is not proved; no counterexample among"
        rounding = ""
        if self.rounding is not None and str(self.rounding) != "exact":
            rounding = f"; in {self.rounding.dtype} rounding breaks it by {self.rounding}"
            if self.rounding.overflow:
                rounding = f"; {self.rounding.dtype} breaks it by {self.rounding}"
        return f"{self.law.text} {verb} {self.how}{rounding}{'; ' if self.note else ''}{self.note}"


def _join_choices(names: Sequence[str]) -> str:
    """Return the names as a choice in words: a, b or c."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


@dataclass(frozen=True)
class AxiomReport:
    """The verdicts on the laws of a semiring, which print as a table.

    A report is true in a condition if no law is refuted.

    Parameters
    ----------
    name, definition : str
        The name and the `repr` of the semiring.
    domain : str
        The description of the elements.
    dtype : str
        The name of the dtype whose rounding was measured.
    verdicts : tuple of Verdict
        One verdict for each law.
    suggested : str
        A domain on which all of these laws are proved, or "" if none was found.
    star : str
        A star with which the laws are proved, or "".
    is_starless : bool
        Whether the definition has no star on the suggested domain. Closures need one.
    """

    name: str
    definition: str
    domain: str
    dtype: str
    verdicts: tuple[Verdict, ...]
    suggested: str = ""
    star: str = ""
    is_starless: bool = False

    @property
    def hint(self) -> str:
        """The sentence that suggests this domain and star, or "" if none was found."""
        star = option("star", self.star) if self.star else ""
        if not self.suggested:
            return f"A star is nan where it does not exist: give {star}." if star else ""
        which = "every law is" if len(self.verdicts) > len(SUM_LAWS) else "the laws of sums are"
        sentence = f"On {self.suggested} {which} proved: give {option('domain', self.suggested)}"
        if self.is_starless:
            return (
                f"{sentence}, and for closures {star or option('star') + ', the value of a* = 1 ⊕ a ⊕ a² ⊕ …, or nan'}."
            )
        return f"{sentence}{star and ', '}{star}."

    @property
    def laws(self) -> dict[str, Verdict]:
        """The verdicts by the key of their law."""
        return {verdict.law.key: verdict for verdict in self.verdicts}

    @property
    def proved(self) -> bool:
        """Whether every law is proved."""
        return all(verdict.proved for verdict in self.verdicts)

    @property
    def unrefuted(self) -> bool:
        """Whether no law is refuted: each is proved, or was tried on samples without a counterexample."""
        return all(self.verdicts)

    @property
    def refuted(self) -> tuple[Verdict, ...]:
        """The verdicts of the laws that fail."""
        return tuple(verdict for verdict in self.verdicts if not verdict)

    @property
    def counterexample(self) -> Counterexample | None:
        """The first counterexample, or None if no law is refuted."""
        return self.refuted[0].counterexample if self.refuted else None

    def __bool__(self) -> bool:
        return self.unrefuted

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __getitem__(self, key: str) -> Verdict:
        try:
            return self.laws[key]
        except KeyError:
            raise UnknownNameError("law", key, self.laws) from None

    def raise_if_refuted(self) -> None:
        """Raise an error if a law fails.

        Raises
        ------
        AlgebraError
            If a law is refuted, with every counterexample and the hint.
        """
        if self.refuted:
            failures = "; ".join(str(verdict) for verdict in self.refuted)
            raise AlgebraError(f"{self.name} is no semiring on {self.domain}: {failures}. {self.hint}".rstrip())

    def refusal(self, name: str, failure: Verdict, consequence: str) -> AlgebraError:
        """Return the error for a law that fails, for a semiring of any name that equals the checked one.

        Parameters
        ----------
        name : str
            The name of the semiring for the message.
        failure : Verdict
            The verdict on the law that fails.
        consequence : str
            What the caller cannot compute, as a clause of the message.

        Returns
        -------
        AlgebraError
            The error, which is not raised.
        """
        defined = f", defined by {option('add')}, {option('mul')}, {option('zero')} and {option('one')},"
        hint = self.hint or advice("", f"Change {_join_choices([option(key) for key in failure.law.arguments])}.")
        message = f"{name}{advice('', defined)} is no semiring on {self.domain}, so {consequence}: {failure}. {hint}"
        return AlgebraError(f"{message.rstrip()} See {advice(f'{name}.check_axioms()', 'semiring check')}")

    @property
    def summary(self) -> str:
        """A line with the numbers of laws that are proved, tried on samples without a counterexample, or refuted."""
        if self.proved:
            return f"{self.name} is a semiring on {self.domain}: every law is proved"
        counts = [
            (sum(verdict.outcome == "refuted" for verdict in self), "refuted"),
            (sum(verdict.outcome == "proved" for verdict in self), "proved"),
            (sum(verdict.outcome == "sampled" for verdict in self), "tried without a counterexample"),
        ]
        tally = ", ".join(f"{count} {word}" for count, word in counts if count)
        start = "is no semiring" if self.refuted else "contradicts no law of a semiring"
        return f"{self.name} {start} on {self.domain}: of {len(self.verdicts)} laws {tally}"

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        head: tuple[str, ...] = ("law", "verdict", "how", f"in {self.dtype}")
        rows: list[tuple[str, ...]] = [
            (
                verdict.law.text,
                str(verdict.outcome),
                str(verdict.counterexample or verdict.how),
                str(verdict.rounding or ""),
            )
            for verdict in self.verdicts
        ]
        return head, rows

    def __str__(self) -> str:
        head, rows = self._table()
        widths = [max(map(_display_width, column)) for column in zip(head, *rows, strict=True)]
        lines = [self.summary, self.definition, ""]
        lines += [
            "  ".join(cell + " " * (w - _display_width(cell)) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in (head, tuple("─" * width for width in widths), *rows)
        ]
        return "\n".join([*lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Return the notes, each once with the laws it belongs to, and the hint."""
        notes: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            if verdict.note:
                notes.setdefault(verdict.note, []).append(verdict.law.text)
        lines = [note if len(laws) > 1 else f"{laws[0]}: {note}" for note, laws in notes.items()]
        return [*lines, *([self.hint] if self.hint else [])]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, rows = self._table()

        def line(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(row, "td") for row in rows)
        remarks = "".join(f"<p>{html.escape(remark)}</p>" for remark in self._remarks())
        return f"<p>{html.escape(self.summary)}</p><table>{line(head, 'th')}{body}</table>{remarks}"


def _display_width(text: str) -> int:
    """Return the columns of a text on a terminal, where the bars of 0̄ and 1̄ combine with the digits."""
    return len(text) - text.count("\u0304")
