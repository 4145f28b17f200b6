"""Code as it is shown: without the blank line that ends an example, and with prompts where there are some.

What is printed in columns under a rule has the class ``columns``: on a narrow screen it scrolls, and does not wrap.

The lexer for consoles that Pygments has takes the beginning of any line such as ``(x ⊕ y) ⊕ z`` for a prompt.
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
    """Commands after ``$ ``, and all else is what they print."""

    name = "console of commands and their output"
    tokens = {  # noqa: RUF012  # as Pygments has it
        "root": [(r"^(\$ )(.+\n?)", bygroups(Generic.Prompt, using(BashLexer))), (r".+\n?|\n", Generic.Output)]
    }


class WithoutTrailingBlankLines(SphinxTransform):
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


def barred(body: str) -> str:
    """The digits with a bar, 0̄ and 1̄, with one that is drawn: fonts for code set the combining one beside its digit."""
    parts = re.split(r"(<[^>]*>)", body)
    parts[::2] = [_BARRED.sub(r'<span class="barred">\1</span>', text) for text in parts[::2]]
    return "".join(parts)


_BARRED = re.compile("([01])\u0304")


def draw_bars(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Draw the bars over the digits 0̄ and 1̄ in the body of a page."""
    if "body" in context:
        context["body"] = barred(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("html-page-context", draw_bars)
    app.add_lexer("console", Console)
    app.add_transform(WithoutTrailingBlankLines)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
