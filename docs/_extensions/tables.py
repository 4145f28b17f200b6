"""Prepare tables for narrow screens: a row of prose becomes a block, with the title of its column above each cell.

Tables of numbers stay tables, and scroll if they are too wide. Tables of prose have the class ``stacks``.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_PROSE = 16  # the number of letters from which a cell is prose, and not a number, a mark or a name
_LONG = 36  # the number of letters from which a single column of prose is too wide beside other columns


class StackProse(SphinxTransform):
    """Give tables of prose the class by which a narrow screen stacks their cells."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        for table in self.document.findall(nodes.table):
            rows = [list(row.findall(nodes.entry)) for body in table.findall(nodes.tbody) for row in body]
            titles = [entry.astext() for head in table.findall(nodes.thead) for entry in head.findall(nodes.entry)]
            for cells in rows:
                for cell in cells:
                    if len(cell.astext()) >= _PROSE:
                        cell["classes"].append("prose")
            longest = [
                max(map(len, (cell.astext() for cell in column)), default=0) for column in zip(*rows, strict=True)
            ]
            if max(longest, default=0) >= _LONG or sum(length >= _PROSE for length in longest) > 1:
                table["classes"].append("stacks")
                for cells in rows if titles else ():
                    for title, cell in list(zip(titles, cells, strict=True))[1:]:
                        if title and cell.astext():
                            cell[0].insert(0, nodes.inline("", title, classes=["column"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.add_transform(StackProse)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
