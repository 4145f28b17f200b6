"""List the rules of the planner, one in each file, and the order in which they run.

The order matters for errors and memory: every error in the data is raised by a scan, before the first write. `RULES`
has the reason for the place of each rule. `register_rule` adds rules of your own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from semiring.closures.planner import Rule, rules_in_order, set_rules
from semiring.closures.rules.bottleneck import bottleneck
from semiring.closures.rules.components import components
from semiring.closures.rules.edges import edges
from semiring.closures.rules.entries import entries
from semiring.closures.rules.gaining import gaining
from semiring.closures.rules.half import half
from semiring.closures.rules.hops import hops
from semiring.closures.rules.integers import integers
from semiring.closures.rules.method import method
from semiring.closures.rules.minplus import minplus
from semiring.closures.rules.narrow import narrow
from semiring.closures.rules.ordered import ordered
from semiring.closures.rules.packed import packed
from semiring.closures.rules.plus import plus
from semiring.closures.rules.reachability import reachability
from semiring.closures.rules.reweighted import reweighted
from semiring.closures.rules.scaled import scaled
from semiring.closures.rules.searches import searches
from semiring.closures.rules.separators import separators
from semiring.closures.rules.signs import signs
from semiring.closures.rules.sparse import sparse
from semiring.closures.rules.stacks import stacks
from semiring.closures.rules.structure import structure
from semiring.closures.rules.undirected import undirected
from semiring.errors import MethodError, UnknownNameError

__all__ = ["RULES", "STRUCTURES", "register_rule", "rules_in_order", "unregister_rule"]

#: The rules of the library. A rule stands behind the rules whose results it reads, and before those that it replaces.
RULES: tuple[Rule, ...] = (
    # A sparse matrix is closed by its stored edges, or its dense matrix becomes another call.
    sparse,
    # The dtype and the method need no scan. The scan follows, in float32 for float16 and bfloat16.
    *(half, method),
    # One pass for the signs, on which most of the later rules depend.
    entries,
    # For few vertices the later rules would take longer than the closure.
    gaining,
    # Each matrix of a stack becomes another call, so later rules receive (n, n), or a stack that is closed together.
    stacks,
    # Dijkstra's algorithm reads the caller's weights, so it precedes all maps.
    edges,
    # Later rules receive min-plus in place of max-plus, and weights whose sign the maps change.
    minplus,
    # `integers` closes the integers that `narrow` could not prove to fit fewer bits, and weights below 0.
    *(narrow, integers),
    # The storage precedes the graph, because components are joined by products in this storage.
    *(ordered, packed),
    # First the rules of n² pairs. `signs` gives floats below 0 potentials for each component, so the rules behind it
    # receive one component. There such floats are `reweighted`, and products that gain are `scaled`.
    *(structure, bottleneck, hops, reachability, searches, separators),
    *(signs, components, reweighted, scaled, undirected),
    # A⁺ needs the diagonal in the dtype and under the maps of the method.
    plus,
)
set_rules(RULES)

#: The names of the rules that use the structure of the graph: the values of ``structure=``.
STRUCTURES = tuple(each.name for each in RULES if each.structure)


def register_rule(
    rule: Rule | Callable[..., Any], *, before: str | None = None, reads_entries: bool = False
) -> Rule | Callable[..., Any]:
    """Add a rule of your own to the planner, for `closure`, the functions of paths and the command.

    Parameters
    ----------
    rule : callable or Rule
        ``rule(recorder, draft)``, a function that returns `NotApplicable`, with the reason, or a `Rewrite` of the draft
        (`semiring.closures.plan`). Its name is the function's, with spaces for underscores. Or a `Rule`, which
        `semiring.closures.planner.rule` makes. It may raise, and must not write. It must be a function of the kind of
        the call and of the answers to its questions. `semiring.closures.planner.question` makes a question of your own.
        The statements of its draft must be true, because no later scan validates them.
    before : str or None
        The name of the rule that it comes before, as ``explain`` prints it; by default it is the last one.
    reads_entries : bool
        Whether it is called as ``rule(recorder, draft, call)``, and reads the entries ``call.A`` itself. Then no plan
        is cached while it is registered, and every call takes about 0.1 ms more.

    Returns
    -------
    callable or Rule
        The argument ``rule``, so that this function can be a decorator.

    Raises
    ------
    MethodError
        If another rule has the name, or ``rule`` is not callable.
    UnknownNameError
        If there is no rule ``before``.

    Examples
    --------
    >>> from semiring.closures.plan import NotApplicable, Rewrite
    >>> @register_rule
    ... def stars_only(recorder, draft):
    ...     return Rewrite("A⁺", draft) if draft.plus else NotApplicable("a star")
    >>> import numpy as np, semiring as sr
    >>> _, explanation = sr.closure(np.ones((2, 2)), explain=True)
    >>> print(*(link for link in explanation.chain if link.step == "stars only"))
      · stars only   a star
    >>> unregister_rule("stars only")
    """
    if not isinstance(rule, Rule) and not callable(rule):
        raise MethodError(f"a rule is a function of a recorder and a draft, not {rule!r}")
    new = rule if isinstance(rule, Rule) else Rule(rule, _name_of(rule))
    if reads_entries:
        new = replace(new, reads_entries=True)
    rules = rules_in_order()
    names = [each.name for each in rules]
    if new.name in names:
        raise MethodError(f"{new.name!r} is a rule already: choose another name")
    if before is not None and before not in names:
        raise UnknownNameError("rule", before, names)
    place = len(names) if before is None else names.index(before)
    set_rules((*rules[:place], new, *rules[place:]))
    return rule


def unregister_rule(name: str) -> None:
    """Remove a registered rule.

    Parameters
    ----------
    name : str
        The name of the rule, as ``explain`` prints it.

    Raises
    ------
    MethodError
        If the rule is one of the library, or the name is unknown.
    """
    rules = rules_in_order()
    rest = tuple(each for each in rules if each in RULES or each.name != name)
    if len(rest) == len(rules):
        raise MethodError(f"{name!r} is not a registered rule")
    set_rules(RULES if len(rest) == len(RULES) else rest)


def _name_of(rule: Any) -> str:
    return str(getattr(rule, "__name__", type(rule).__name__)).replace("_", " ")
