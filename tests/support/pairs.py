"""Choose cases of a parametrised test that cover all pairs of parameter values, by `allpairspy`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

from allpairspy import AllPairs

__all__ = ["LIMIT", "covering_cases"]

#: A test of more cases runs those that cover all pairs, unless the exhaustive tier is selected.
LIMIT = 20


def covering_cases(cases: Sequence[Mapping[str, Hashable]]) -> set[int]:
    """Return the positions of cases that together show every pair of values that some case shows.

    Parameters
    ----------
    cases
        One mapping for each case, from each parameter to its value. All have the same keys. They need not be a full
        product: only cases of this list are chosen.

    Returns
    -------
    set of int
        Positions in ``cases``. With fewer than three parameters these are all of them.
    """
    names = list(cases[0]) if cases else []
    if len(names) < 3:
        return set(range(len(cases)))
    rows = [tuple(case[name] for name in names) for case in cases]
    position = {row: index for index, row in enumerate(rows)}
    beginnings = {row[:length] for row in rows for length in range(1, len(names) + 1)}
    values = [list(dict.fromkeys(row[column] for row in rows)) for column in range(len(names))]
    drawn = AllPairs(values, filter_func=lambda row: tuple(row) in beginnings)
    chosen = {position[tuple(row)] for row in drawn}
    # allpairspy gives up on pairs that it cannot place under the constraint: the first case that shows one is added.
    shown = {pair for index in chosen for pair in _pairs(rows[index])}
    for index, row in enumerate(rows):
        if not shown.issuperset(_pairs(row)):
            chosen.add(index)
            shown.update(_pairs(row))
    return chosen


def _pairs(row: tuple[Hashable, ...]) -> list[tuple[tuple[int, Hashable], tuple[int, Hashable]]]:
    """Return the pairs of values of a case, each value with its column."""
    return list(combinations(enumerate(row), 2))
