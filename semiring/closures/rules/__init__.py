"""The rules, one a file, in the order in which they are asked.

The order matters where errors and memory do: all that can fail on the data fails in a scan, before the first write. The
reason for the place of each rule stands beside it in `RULES`. Rules of your own are put between them by
`register_rule`.
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
from semiring.closures.rules.unbounded import unbounded
from semiring.closures.rules.undirected import undirected
from semiring.errors import MethodError, UnknownNameError

__all__ = ["RULES", "STRUCTURES", "register_rule", "rules_in_order", "unregister_rule"]

#: The rules of the library. A rule stands behind those whose work it reads, and before those that it spares any.
RULES: tuple[Rule, ...] = (
    # Stored edges may be closed as they are; if not, the dense matrix is a call of its own.
    sparse,
    # Blind to the entries: the dtype and the method. The scan comes after them, in float32 where halves came in.
    *(half, method),
    # One pass for the signs, which decide about most of what follows.
    entries,
    # Few vertices, for which the rules that follow would take longer than the closure.
    gaining,
    # One matrix of a stack is a call of its own; what follows knows (n, n), or a stack that is closed together.
    stacks,
    # Dijkstra's algorithm reads the weights as they are: before any map.
    edges,
    # The sign. What follows knows min-plus alone, and weights whose sign the maps turn.
    minplus,
    # Edges of -∞, which have no potentials.
    unbounded,
    # The width: `integers` does what `narrow` could not prove to fit fewer bits, and what is below 0.
    *(narrow, integers),
    # The storage: components are joined by products of what they are stored as.
    *(ordered, packed),
    # The graph: first what takes n² pairs. What follows `signs` knows one component, where that matters: floats below
    # 0 have potentials of their own in each, under which they are `reweighted`; `scaled` is the same for products.
    *(structure, bottleneck, hops, reachability, searches, separators),
    *(signs, components, reweighted, scaled, undirected),
    # A⁺ of the matrix as the method will see it, so that the diagonal is kept in its dtype and under its maps.
    plus,
)
set_rules(RULES)

#: The rules that use the structure of the graph, by their names: what ``structure=`` takes.
STRUCTURES = tuple(each.name for each in RULES if each.structure)


def register_rule(
    rule: Rule | Callable[..., Any], *, before: str | None = None, reads_entries: bool = False
) -> Rule | Callable[..., Any]:
    """Let a rule of your own be asked about every closure: in `closure`, the functions of paths and the command.

    Parameters
    ----------
    rule
        ``rule(recorder, draft)``, a function that returns `NotApplicable`, with the reason, or a `Rewrite` of the draft
        (`semiring.closures.plan`); its name is the function's, with spaces for underscores. Or a `Rule`, which
        `semiring.closures.planner.rule` makes. It may raise, and writes nothing. It must be a function of the kind of
        the call and of the answers to the questions that it asks: one of your own is made by
        `semiring.closures.planner.question`. What its draft states must be true: nobody scans again.
    before
        The name of the rule that it comes before, as ``explain`` prints it; by default it is the last one.
    reads_entries
        Whether it is called as ``rule(recorder, draft, call)``, and looks at the entries ``call.A`` itself. Then no
        plan is kept while it is registered, and every call takes some 0.1 ms more.

    Returns ``rule``, so that it may stand as a decorator. Raises `MethodError` where a rule has its name already, or it
    cannot be called, and `UnknownNameError` where none is called ``before``.

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
    made = rule if isinstance(rule, Rule) else Rule(rule, _name_of(rule))
    if reads_entries:
        made = replace(made, reads_entries=True)
    rules = rules_in_order()
    names = [each.name for each in rules]
    if made.name in names:
        raise MethodError(f"{made.name!r} is a rule already: choose another name")
    if before is not None and before not in names:
        raise UnknownNameError("rule", before, names)
    place = len(names) if before is None else names.index(before)
    set_rules((*rules[:place], made, *rules[place:]))
    return rule


def unregister_rule(name: str) -> None:
    """Forget a rule that was registered. Raises `MethodError` for one that the library brings, and for others."""
    rules = rules_in_order()
    rest = tuple(each for each in rules if each in RULES or each.name != name)
    if len(rest) == len(rules):
        raise MethodError(f"{name!r} is not a registered rule")
    set_rules(RULES if len(rest) == len(RULES) else rest)


def _name_of(rule: Any) -> str:
    return str(getattr(rule, "__name__", type(rule).__name__)).replace("_", " ")
