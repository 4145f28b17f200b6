"""Link names in docstrings, such as `NegativeCycleError` or `closure`, to their places in the reference."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def find(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Node) -> nodes.Node | None:
    """Return a link to the outermost object of that last name, or None if there is no such object or several.

    None leaves the name without a link.
    """
    if node.get("refdomain") != "py" or node["reftype"] != "obj":
        return None
    library, dot, _ = node["reftarget"].partition(".")
    if dot and library.islower():
        return None  # the name of another library, such as torch.matmul
    found = [
        (name.count("."), entry)
        for name, entry in env.domains.python_domain.objects.items()
        if name == node["reftarget"] or name.endswith("." + node["reftarget"])
    ]
    nearest = [entry for depth, entry in found if depth == min(depth for depth, _ in found)]
    if len({(entry.docname, entry.node_id) for entry in nearest}) != 1:
        return None
    return make_refnode(app.builder, node["refdoc"], nearest[0].docname, nearest[0].node_id, [content])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("missing-reference", find)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
