"""Prepare blocks of code for pages: without the blank line that ends an example, and with prompts of consoles.

Output in columns under a rule gets the class ``columns``. On a narrow screen it scrolls, and does not wrap.

This extension has a lexer of its own for consoles. That of Pygments reads the beginning of any line such as
``(x ⊕ y) ⊕ z`` as a prompt.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers.shell import BashLexer
from pygments.token import Generic
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class Console(RegexLexer):
    """A lexer of commands after ``$ ``, whose other lines are the output of the commands."""

    name = "console of commands and their output"
    tokens = {  # noqa: RUF012  # a class variable, as Pygments requires
        "root": [(r"^(\$ )(.+\n?)", bygroups(Generic.Prompt, using(BashLexer))), (r".+\n?|\n", Generic.Output)]
    }


class TrailingBlankLineRemover(SphinxTransform):
    """Remove the blank line at the end of each block of code."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        for block in self.document.findall(nodes.literal_block):
            text = block.astext()
            if text != text.rstrip():
                block.rawsource = text.rstrip()
                block.children = [nodes.Text(text.rstrip())]
            if _RULE.search(text):
                block["classes"].append("columns")


_RULE = re.compile("^─+ +─", re.MULTILINE)


def mark_barred_digits(body: str) -> str:
    """Mark the digits with a bar, 0̄ and 1̄, so that the style sheet draws the bar.

    Fonts for code set the combining bar beside its digit.
    """
    parts = re.split(r"(<[^>]*>)", body)
    parts[::2] = [_BARRED.sub(r'<span class="barred">\1</span>', text) for text in parts[::2]]
    return "".join(parts)


_BARRED = re.compile("([01])\u0304")


def draw_bars(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Draw the bars over the digits 0̄ and 1̄ in the body of a page."""
    if "body" in context:
        context["body"] = mark_barred_digits(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("html-page-context", draw_bars)
    app.add_lexer("console", Console)
    app.add_transform(TrailingBlankLineRemover)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
