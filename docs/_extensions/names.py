"""Names in docstrings, `NegativeCycleError` or `closure`: links to wherever the reference documents them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def find(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Node) -> nodes.Node | None:
    """A link to the only object of that last name; None leaves the name as it is."""
    if node.get("refdomain") != "py" or node["reftype"] != "obj":
        return None
    objects = env.domains.python_domain.objects
    places = {
        (entry.docname, entry.node_id)
        for name, entry in objects.items()
        if name == node["reftarget"] or name.endswith("." + node["reftarget"])
    }
    if len(places) != 1:
        return None
    page, anchor = places.pop()
    return make_refnode(app.builder, node["refdoc"], page, anchor, [shown])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("missing-reference", find)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
