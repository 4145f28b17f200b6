"""Test that the table of the documentation says which semiring is defined on which dtype."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import semiring as sr
from semiring.algebra import DTYPES

PAGE = (Path(__file__).parents[2] / "docs" / "semirings.md").read_text()
TABLE = PAGE[PAGE.index("<!-- validity matrix") :]
HEADER = [cell.strip() for cell in re.search(r"^\| semiring \|(.*)\|$", TABLE, re.M)[1].split("|")]
ROWS = {
    name: [dtype for dtype, cell in zip(HEADER, cells.split("|"), strict=False) if cell.strip()]
    for name, cells in re.findall(r"^\| `(\w+)` \|(.*)\|$", TABLE, re.M)
}


def test_the_table_has_every_semiring_and_every_dtype():
    assert set(ROWS) == set(sr.CATALOGUE)
    assert tuple(HEADER) == DTYPES


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_says_where_the_semiring_is_defined(name):
    assert tuple(ROWS[name]) == sr.CATALOGUE[name].dtypes
    for dtype in DTYPES:
        assert sr.CATALOGUE[name].supports(dtype) == (dtype in ROWS[name])


def test_the_table_of_zeros_and_ones_is_right():
    words = {"∞": float("inf"), "−∞": float("-inf"), "False": False, "True": True, "0": 0, "1": 1}
    rows = re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\|[^|]*\| ([^|]*) \| ([^|]*) \|", PAGE[: PAGE.index("<!--")], re.M)
    assert {name for name, _, _ in rows} == set(sr.CATALOGUE)
    for name, zero, one in rows:
        semiring = sr.CATALOGUE[name]
        assert semiring.zero.leaf == words[zero], name
        assert one == "all bits" if name == "xor_and" else semiring.one.leaf == words[one], name
