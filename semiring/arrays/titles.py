"""Select the columns of sources, targets and weights in a list of edges, by their titles and their values.

Files, frames, lists and graphs follow the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from semiring.advice import quote

__all__ = [
    "SOURCES",
    "TARGETS",
    "WEIGHTS",
    "choose_weight",
    "guess_ends",
    "guess_weight",
    "holds_truth_values",
    "is_row_number_title",
    "parse_title_pair",
    "unit_of",
]

#: The titles of the columns of a list of edges, in any case of letters.
SOURCES = ("source", "from", "src", "tail", "origin", "start", "u")
TARGETS = ("target", "to", "dst", "dest", "head", "destination", "end", "v")
WEIGHTS = ("weight", "w", "distance", "dist", "length", "cost", "value", "capacity", "probability", "time", "latency")

#: The titles of targets that belong to a title of sources.
_PAIRS = {
    **{"source": ("target",), "from": ("to",), "src": ("dst", "dest"), "tail": ("head",)},
    **{"origin": ("destination", "dest"), "start": ("end",), "u": ("v",)},
}
#: Words beside a usual title that name the kind of vertex or of key: from_node_id, SourceAirport.
_KINDS = frozenset(("node", "vertex", "id", "name", "code", "key", "station", "stop", "airport", "city", "place"))


def _main_word(title: str) -> str:
    """Return a title in lower case without words that name the kind of vertex: "from" for From_Station and fromId."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title))
    rest = [word for word in map(str.casefold, words) if word not in _KINDS]
    return rest[0] if len(rest) == 1 else title.casefold()


def guess_ends(titles: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the titles that may be those of sources and of targets: one of each if they are unique.

    They are unique if there is one candidate each. They are also unique if one pair belongs together, such as from and
    to, even if there is a column source too. A usual title has priority over one with a further word, such as from_id.
    """
    texts = [title for title in titles if isinstance(title, str)]

    def find_candidates(usual: Sequence[str]) -> list[Any]:
        exact = [title for title in texts if title.casefold() in usual]
        return exact or [title for title in texts if _main_word(title) in usual]

    tails, heads = find_candidates(SOURCES), find_candidates(TARGETS)
    pairs = [(t, h) for t in tails for h in heads if _main_word(h) in _PAIRS.get(_main_word(t), ())]
    if len(pairs) == 1 and len(tails) + len(heads) > 2:
        tails, heads = [pairs[0][0]], [pairs[0][1]]
    return tails, heads


def parse_title_pair(columns: Any) -> tuple[Any, Any]:
    """Return the two titles of ``columns=``, (source, target). Raises `TypeError` for anything but a pair."""
    pair = tuple(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else ()
    if len(pair) != 2:
        raise TypeError(f"columns are the titles of two columns, (source, target), and not {quote(columns)}")
    return pair[0], pair[1]


def is_row_number_title(title: Any) -> bool:
    """Return whether a column with this title numbers the rows: id, index, no title, or pandas's name for no title."""
    return re.fullmatch(r"id|index|unnamed: \d+|", str(title).casefold()) is not None


def guess_weight(titles: Iterable[Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the title of the weights among the titles of columns of numbers, and (); or None and the candidates.

    It is "weight", else the only title for which `is_row_number_title` is False. Other usual titles have no priority,
    because the choice between a capacity and a latency_ms depends on the problem.
    """
    candidates = [title for title in titles if not is_row_number_title(title)]
    matches = [title for title in candidates if str(title).casefold() == WEIGHTS[0]] or candidates
    return (matches[0], ()) if len(matches) == 1 else (None, tuple(matches))


def choose_weight(columns: Mapping[Any, Any], usual_titles: Sequence[str] = WEIGHTS) -> tuple[Any, tuple[Any, ...]]:
    """Return the title of the weights among columns (title: values), and (); or None and the candidates.

    Candidates are the columns that hold numbers, times, or texts that begin as a number, and `guess_weight` chooses one
    of them. Without such a column it is the column with one of the ``usual_titles``, whose values are then an error. A
    column of truth values is no column of weights: the caller names it if it is.
    """
    numbers = [title for title, values in columns.items() if _holds_numbers(values)]
    texts = [title for title in columns if str(title).casefold() in usual_titles]
    usual = [title for title in texts if not holds_truth_values(columns[title])]
    return guess_weight(numbers or usual)


def _holds_numbers(values: Any) -> bool:
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "fiumM":
        return True
    if kind == "b":
        return False
    present = [value for value in values if value is not None]
    if any(isinstance(value, Number) and not isinstance(value, bool | np.bool_) for value in present):
        return True
    return bool(present) and all(isinstance(x, str) and re.match(r"[-+]?\d", x) is not None for x in present)


def holds_truth_values(values: Any) -> bool:
    """Return whether a column holds truth values, and perhaps missing values."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, bool | np.bool_) for value in present)


def unit_of(title: Any) -> str:
    """Return the unit in a title of weights: km for km, length_km and distance (km); "" if it has none."""
    text = str(title)
    if text.casefold() in WEIGHTS:
        return ""
    parts = re.fullmatch(r"(?:.*[ _])?([^ _()\[\]]+)[ _(\[]+(?!\d)([^ _()\[\]]+)[)\]]?", text)
    return parts[2] if parts is not None and parts[1].casefold() in WEIGHTS else text
