"""Test the choice of cases that cover all pairs of values: a case that is left out by mistake would never be missed."""

from __future__ import annotations

import itertools

import pytest
from pairs import covering_cases


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_pairs_are_covered_by_cases_that_exist(step):
    rows = list(itertools.product(range(4), range(3), range(5), range(2)))[::step]
    chosen = covering_cases([dict(zip("abcd", row, strict=True)) for row in rows])
    for one, other in itertools.combinations(range(4), 2):
        assert {(rows[c][one], rows[c][other]) for c in chosen} == {(row[one], row[other]) for row in rows}
    assert len(chosen) < len(rows) or step > 1


def test_cases_of_two_parameters_all_run():
    assert covering_cases([{"a": a, "b": b} for a in range(9) for b in range(9)]) == set(range(81))
    assert covering_cases([]) == set()
